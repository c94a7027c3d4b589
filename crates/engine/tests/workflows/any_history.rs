//! Any history of any workflow: every step is decided once, and the end of the workflow follows from its steps.

use proptest::prelude::*;
use proptest::sample::Index;
use punctual_core::workflow::Graph;
use punctual_engine::Event;

use super::*;

/// A step as drawn: earlier steps that it needs, its rule, what it does.
#[derive(Debug, Clone)]
struct Drawn {
    needs: Vec<Index>,
    rule: Rule,
    kind: Kind,
}

#[derive(Debug, Clone)]
enum Kind {
    Plain,
    Never,
    Broken,
    Mapped(u32, Option<u32>),
    Waiting(u8),
    Approval,
    Inner,
}

#[derive(Debug, Clone, Copy)]
enum Happening {
    Succeed(usize),
    Fail(usize),
    Lose(usize),
    CancelStep(usize),
    Wait(u8),
    Crash,
    Cancel,
}

fn drawn() -> impl Strategy<Value = Drawn> {
    let rule = prop_oneof![
        4 => Just(Rule::AllSucceeded),
        1 => Just(Rule::AnySucceeded),
        2 => Just(Rule::AllDone),
        1 => Just(Rule::AnyFailed),
        1 => Just(Rule::NoneFailed),
    ];
    let kind = prop_oneof![
        6 => Just(Kind::Plain),
        1 => Just(Kind::Never),
        1 => Just(Kind::Broken),
        3 => (0u32..4, proptest::option::of(1u32..3)).prop_map(|(items, parallel)| Kind::Mapped(items, parallel)),
        1 => (0u8..20).prop_map(Kind::Waiting),
        1 => Just(Kind::Approval),
        1 => Just(Kind::Inner),
    ];
    (proptest::collection::vec(any::<Index>(), 0..3), rule, kind).prop_map(|(needs, rule, kind)| Drawn {
        needs,
        rule,
        kind,
    })
}

fn happenings() -> impl Strategy<Value = Vec<Happening>> {
    let happening = prop_oneof![
        8 => (0usize..8).prop_map(Happening::Succeed),
        3 => (0usize..8).prop_map(Happening::Fail),
        2 => (0usize..8).prop_map(Happening::Lose),
        1 => (0usize..8).prop_map(Happening::CancelStep),
        2 => (0u8..20).prop_map(Happening::Wait),
        5 => Just(Happening::Crash),
        1 => Just(Happening::Cancel),
    ];
    proptest::collection::vec(happening, 0..40)
}

fn made(drawn: &[Drawn], finally: &[Drawn]) -> Workflow {
    let name = |at: usize| format!("s{at}");
    let one = |at: usize, drawn: &Drawn| {
        let mut needs: Vec<usize> = match at {
            0 => Vec::new(),
            _ => drawn.needs.iter().map(|index| index.index(at)).collect(),
        };
        needs.sort_unstable();
        needs.dedup();
        let needs: Vec<String> = needs.into_iter().map(name).collect();
        let needs: Vec<&str> = needs.iter().map(String::as_str).collect();
        let plain = step(&name(at), &needs);
        let plain = Step { rule: if needs.is_empty() { Rule::AllDone } else { drawn.rule }, ..plain };
        match &drawn.kind {
            Kind::Plain => plain,
            Kind::Never => Step { when: Some("false".to_owned()), ..plain },
            Kind::Broken => Step { when: Some("params.none".to_owned()), ..plain },
            Kind::Mapped(items, parallel) => {
                let over = format!("[{}]", vec!["7"; *items as usize].join(", "));
                Step { map: Some(Box::new(Map { over, parallel: *parallel })), ..plain }
            }
            Kind::Waiting(seconds) => {
                let span = Duration::from_secs(u64::from(*seconds) + 1);
                Step { work: Work::Wait(Wait::For(span)), ..plain }
            }
            Kind::Approval => Step { work: Work::Approve(Some(Duration::from_secs(15))), ..plain },
            Kind::Inner => {
                let inner = workflow(vec![step("x", &[]), step("y", &["x"])], vec![]);
                Step { work: Work::Workflow(Box::new(inner)), ..plain }
            }
        }
    };
    let all: Vec<Step> = drawn.iter().chain(finally).enumerate().map(|(at, drawn)| one(at, drawn)).collect();
    let (steps, finally) = all.split_at(drawn.len());
    workflow(steps.to_vec(), finally.to_vec())
}

/// All runs of steps, those of inner workflows included.
fn step_runs(rig: &Rig) -> Vec<Arc<Run>> {
    rig.all_runs().into_iter().filter(|run| run.step.is_some()).collect()
}

fn happen(rig: &mut Rig, whole: RunId, happening: Happening) {
    let nth = |rig: &Rig, index: usize| {
        let running: Vec<Arc<Run>> = step_runs(rig)
            .into_iter()
            .filter(|run| run.status() == Status::Running && run.attempt > 0)
            .collect();
        running.get(index % running.len().max(1)).cloned()
    };
    match happening {
        Happening::Succeed(index) => drop(nth(rig, index).map(|run| rig.report(run.id, End::Succeeded))),
        Happening::Fail(index) => drop(nth(rig, index).map(|run| rig.report(run.id, End::Failed))),
        Happening::Lose(index) => {
            if let Some(run) = nth(rig, index) {
                rig.apply(run.id.shard(), Event::Lost { run: run.id, token: run.token });
                rig.lend_again();
                rig.settle();
            }
        }
        Happening::CancelStep(index) => drop(nth(rig, index).map(|run| rig.ask(cancel(run.id)))),
        Happening::Wait(seconds) => {
            // A worker that does not stop an attempt in time would get no more work.
            let stopping = |run: &Arc<Run>| run.attempt > 0 && run.cancelling().is_some();
            while let Some(run) = step_runs(rig).into_iter().find(stopping) {
                rig.report(run.id, End::Failed);
            }
            rig.advance_by(Duration::from_secs(seconds.into()));
        }
        Happening::Crash => rig.reload(),
        Happening::Cancel => drop(rig.ask(cancel(whole))),
    }
}

/// What must hold at any time: a step has started only after all that it needs, and once.
fn check(rig: &Rig, whole: RunId, graph: &Graph) -> Result<(), TestCaseError> {
    let rows = rig.step_rows(whole);
    let state = |step: usize| {
        rows.iter().find(|row| row.key.step as usize == step && row.key.item.is_none()).map(|row| row.state)
    };
    let is_stopped = rig.run(whole).cancelling().is_some() || rig.status(whole) == Status::Cancelled;
    for row in rows.iter().filter(|row| row.key.item.is_none()) {
        let step = row.key.step as usize;
        for needed in &graph.nodes()[step].needs {
            let has_ended = state(*needed).is_some_and(State::has_ended);
            prop_assert!(has_ended || is_stopped, "step {step} was decided before {needed} had ended");
        }
    }
    // `steps` refuses a second run of the same place.
    for row in &rows {
        let Some(child) = row.child else { continue };
        let run = rig.run(child);
        prop_assert_eq!(run.status().is_terminal(), row.state.has_ended(), "{:?} and {:?}", row, run);
        prop_assert_eq!(run.status() == Status::Succeeded, row.state == State::Succeeded);
    }
    let runs = rig.steps(whole).len();
    prop_assert_eq!(runs, rows.iter().filter(|row| row.child.is_some()).count());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 250, ..ProptestConfig::default() })]

    #[test]
    fn any_workflow_ends_and_decides_every_step_exactly_once(
        drawn in proptest::collection::vec(drawn(), 1..10),
        finally in proptest::collection::vec(drawn(), 0..3),
        happenings in happenings(),
        running_max in proptest::option::of(1u32..3),
    ) {
        let whole = made(&drawn, &finally);
        prop_assert_eq!(whole.check(), Ok(()));
        let graph = Graph::of(&whole).unwrap();
        let mut rig = Rig::new(3);
        let run = rig.start_workflow(Definition { limits: running_max.map(Limit::of_running).into_iter().collect(), ..job(whole) });
        for happening in happenings {
            happen(&mut rig, run, happening);
            check(&rig, run, &graph)?;
            let at_work = step_runs(&rig).iter().filter(|run| run.status() == Status::Running && run.attempt > 0).count();
            prop_assert!(running_max.is_none_or(|max| at_work <= max as usize));
        }
        for _ in 0..80 {
            happen(&mut rig, run, Happening::Succeed(0));
            happen(&mut rig, run, Happening::Wait(20));
        }
        check(&rig, run, &graph)?;
        let (ended, rows) = (rig.run(run), rig.step_rows(run));
        prop_assert!(ended.status().is_terminal(), "{:?} {:?}", ended, rig.rows_of(run));
        let wholes: Vec<_> = rows.iter().filter(|row| row.key.item.is_none()).collect();
        prop_assert_eq!(wholes.len(), graph.nodes().len(), "each step is decided once");
        prop_assert!(wholes.iter().all(|row| row.state.has_ended()));
        let has_failed = wholes.iter().any(|row| row.state == State::Failed);
        let is_cancelled = ended.entries.iter().any(|entry| entry.what == punctual_core::run::What::CancelAsked);
        let expected = if is_cancelled { Status::Cancelled } else if has_failed { Status::Failed } else { Status::Succeeded };
        prop_assert_eq!(ended.status(), expected);
        prop_assert_eq!((rig.pool.live_runs(), rig.pool.ready_runs(), rig.pool.roster().attempts_held()), (0, 0, 0));
    }
}
