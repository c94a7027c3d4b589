//! Who is next: the highest priority of all shards, then the share whose turn it is, then the longest wait.

use proptest::prelude::*;
use punctual_core::command::{Command, Submit};
use punctual_core::ids::{RunId, ShardId};
use punctual_core::job::{Definition, Overlap, Share};
use punctual_core::run::Status;
use punctual_core::task::Task;
use punctual_core::workflow::{Step, Work, Workflow};
use punctual_engine::Settings;

use crate::support::{Rig, made, manual, span, submit};

/// Two shards over one pool, and one slot that is taken.
fn busy() -> (Rig, RunId) {
    let mut rig = Rig::with(2, 1, Settings::default());
    let first = rig.submit(manual());
    (rig, first)
}

fn submit_to(rig: &mut Rig, shard: u16, priority: u8) -> RunId {
    let definition = Definition { priority, ..manual() };
    let asks = (0..).map(|spread| Command::Submit(Submit { spread, ..submit(definition.clone()) }));
    let ask = asks.into_iter().find(|ask| ask.shard(2) == ShardId(shard)).expect("a spread of that shard");
    made(rig.ask(ask))
}

/// Ends whatever runs until nothing does; the order in which runs were given to the worker.
fn drain(rig: &mut Rig) -> Vec<RunId> {
    while !rig.running().is_empty() {
        assert_eq!(rig.running().len(), 1, "one slot");
        rig.succeed_all();
    }
    rig.assigned()
}

#[test]
fn the_highest_priority_of_all_shards_goes_first() {
    let (mut rig, first) = busy();
    let low = submit_to(&mut rig, 0, 2);
    let high = submit_to(&mut rig, 1, 9);
    let middle = submit_to(&mut rig, 0, 5);
    assert_eq!(drain(&mut rig), [first, high, middle, low]);
}

#[test]
fn among_equals_the_longest_wait_goes_first_whatever_its_shard() {
    let (mut rig, first) = busy();
    let mut order = vec![first];
    for shard in [1, 0, 0, 1, 0] {
        rig.advance("1ms");
        order.push(submit_to(&mut rig, shard, 5));
    }
    assert_eq!(drain(&mut rig), order);
}

#[test]
fn a_run_that_is_no_longer_ready_is_not_assigned() {
    let (mut rig, first) = busy();
    let (gone, stays) = (submit_to(&mut rig, 1, 9), submit_to(&mut rig, 0, 1));
    rig.ask(crate::support::cancel(gone)).expect("cancelled");
    assert_eq!(drain(&mut rig), [first, stays]);
}

#[test]
fn a_reloaded_run_keeps_its_place() {
    let (mut rig, first) = busy();
    let mut order = vec![first];
    for (shard, wait) in [(1, "1ms"), (0, "1ms"), (1, "1ms")] {
        rig.advance(wait);
        order.push(submit_to(&mut rig, shard, 5));
    }
    rig.reload();
    drain(&mut rig);
    let mut given = rig.assigned();
    given.dedup();
    assert_eq!(given, order, "the first one was offered again, under its own token");
}

fn submit_in(rig: &mut Rig, namespace: &str, definition: Definition) -> RunId {
    let namespace = namespace.parse().expect("a namespace");
    made(rig.ask(Command::Submit(Submit { namespace, ..submit(definition) })))
}

fn shared(key: &str, weight: u32) -> Definition {
    Definition { share: Some(Share { key: key.to_owned(), weight }), overlap: Overlap::Allow, ..manual() }
}

/// How many of the first assignments went to each of two groups of runs.
fn counts(assigned: &[RunId], first: usize, groups: [&[RunId]; 2]) -> [usize; 2] {
    groups.map(|group| assigned.iter().take(first).filter(|run| group.contains(run)).count())
}

#[test]
fn a_flood_of_one_namespace_lets_the_others_take_turns() {
    let (mut rig, _) = busy();
    let flood: Vec<RunId> = (0..50).map(|_| submit_in(&mut rig, "flood", manual())).collect();
    rig.advance("1ms");
    let small: Vec<RunId> = (0..5).map(|_| submit_in(&mut rig, "small", manual())).collect();
    let assigned = drain(&mut rig);
    assert_eq!(counts(&assigned, 11, [&flood, &small]), [5, 5]);
    assert_eq!(counts(&assigned, usize::MAX, [&flood, &small]), [50, 5]);
}

#[test]
fn keys_get_slots_by_their_weights_after_a_reload_too() {
    let (mut rig, _) = busy();
    rig.put("crawl", shared("crawl", 70));
    rig.put("mail", shared("{{ params.kind | default('mail') }}", 30));
    let crawl: Vec<RunId> = (0..100).map(|_| rig.start("crawl")).collect();
    let mail: Vec<RunId> = (0..100).map(|_| rig.start("mail")).collect();
    rig.reload();
    let mut assigned = drain(&mut rig);
    assigned.dedup();
    assert_eq!(counts(&assigned, 101, [&crawl, &mail]), [70, 30]);
}

#[test]
fn the_steps_of_a_workflow_share_slots_as_their_job_says() {
    let (mut rig, _) = busy();
    let names = (0..20).map(|index| format!("s{index}").parse().expect("a name"));
    let steps = names.map(|name| Step::of(name, Work::Task(Task::Noop))).collect();
    let workflow = Task::Workflow(Box::new(Workflow { steps, finally: Vec::new(), output: None }));
    rig.put("flow", Definition { task: workflow, ..shared("flow", 1) });
    let whole = rig.start("flow");
    let plain: Vec<RunId> = (0..20).map(|_| rig.submit(manual())).collect();
    while rig.run(plain[19]).status() != Status::Succeeded || rig.run(whole).status() != Status::Succeeded {
        let at_work = rig.running().into_iter().find(|run| *run != whole).expect("one slot is in use");
        rig.succeed(at_work);
    }
    let assigned = rig.assigned();
    let steps: Vec<RunId> =
        assigned.iter().copied().filter(|run| rig.run(*run).parent() == Some(whole)).collect();
    assert_eq!(counts(&assigned, 21, [&steps, &plain]), [10, 10]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn runs_are_given_out_exactly_by_priority_then_wait(
        asks in prop::collection::vec((0u16..2, 0u8..=9, 0u64..3), 1..40),
        slots in 1usize..4,
    ) {
        let mut rig = Rig::with(2, 0, Settings::default());
        let mut line = Vec::new();
        for (shard, priority, wait) in asks {
            rig.advance_by(span(&format!("{wait}ms")));
            let run = submit_to(&mut rig, shard, priority);
            line.push((9 - priority, rig.now, run));
        }
        line.sort();
        rig.join(slots);
        rig.settle();
        while let Some(run) = rig.running().first().copied() {
            prop_assert!(rig.running().len() <= slots);
            rig.succeed(run);
        }
        prop_assert_eq!(rig.assigned(), line.into_iter().map(|(_, _, run)| run).collect::<Vec<_>>());
    }
}
