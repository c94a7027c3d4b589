//! Any history of a split run: its parent ends once, with the result of its children.

use proptest::prelude::*;

use super::*;

/// What may happen to a family, step by step.
#[derive(Debug, Clone, Copy)]
enum Step {
    Succeed(usize),
    Fail(usize),
    Lose(usize),
    Kill(usize),
    Join(usize),
    Wait(u8),
    Crash,
    Cancel,
    CancelChild(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        5 => (0usize..8).prop_map(Step::Succeed),
        3 => (0usize..8).prop_map(Step::Fail),
        3 => (0usize..8).prop_map(Step::Lose),
        1 => (0usize..3).prop_map(Step::Kill),
        2 => (0usize..3).prop_map(Step::Join),
        3 => (0u8..20).prop_map(Step::Wait),
        4 => Just(Step::Crash),
        1 => Just(Step::Cancel),
        1 => (0usize..8).prop_map(Step::CancelChild),
    ];
    proptest::collection::vec(step, 0..40)
}

const NAMES: [&str; 3] = ["a", "b", "c"];

fn take(cast: &mut Cast, parent: RunId, step: Step, life: &mut u64) {
    let nth = |cast: &Cast, index: usize| {
        let children = cast.children(parent);
        children.get(index % children.len().max(1)).cloned()
    };
    match step {
        Step::Succeed(index) | Step::Fail(index) => {
            let end = if matches!(step, Step::Succeed(_)) { End::Succeeded } else { End::Failed };
            if let Some(child) = nth(cast, index).filter(|child| child.status() == Status::Running) {
                cast.end(child.id, end);
            }
        }
        Step::Lose(index) => {
            let Some(child) = nth(cast, index).filter(|child| child.status() == Status::Running) else {
                return;
            };
            let before: Vec<u32> = cast.children(parent).iter().map(|child| child.attempt).collect();
            cast.rig.apply(child.id.shard(), Event::Lost { run: child.id, token: child.token });
            if let Some(Assignee::Worker(worker)) = &child.assignee {
                cast.lend_again(worker);
            }
            // Before anyone is assigned the slot that is free now.
            cast.rig.commit();
            let after: Vec<u32> = cast.children(parent).iter().map(|child| child.attempt).collect();
            assert_eq!(before, after, "a loss makes nobody else begin anew");
            cast.rig.settle();
        }
        Step::Kill(index) => {
            let there = cast.lent.keys().find(|worker| worker.name() == NAMES[index]).cloned();
            if let Some(worker) = there {
                cast.rig.pool.leave(&worker);
                cast.lent.remove(&worker);
                cast.rig.settle();
            }
        }
        Step::Join(index) => {
            if !cast.lent.keys().any(|worker| worker.name() == NAMES[index]) {
                *life += 1;
                cast.join(&WorkerId::new(NAMES[index], *life), 2);
            }
        }
        Step::Wait(seconds) => {
            cast.rig.advance_by(Duration::from_secs(seconds.into()));
            cast.hear();
        }
        Step::Crash => cast.rig.reload(),
        Step::Cancel => drop(cast.rig.ask(cancel(parent))),
        Step::CancelChild(index) => {
            if let Some(child) = nth(cast, index) {
                let _ = cast.rig.ask(cancel(child.id));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Workers, attempts and the node fail in any order. The child runs are made once, every child ends once, and the
    /// parent ends once, after its last child, with the result that follows from theirs.
    #[test]
    fn every_parent_ends_once_with_the_result_of_its_children(
        steps in steps(),
        sharded in proptest::option::of(1u32..6),
        attempts in 1u32..3,
        running_max in proptest::option::of(1u32..3),
    ) {
        let mut cast = with_workers(&[("a", 2), ("b", 2)]);
        let route = sharded.map_or_else(broadcast, shards);
        let retry = Retry { attempts, delay: Duration::from_secs(1), ..Retry::default() };
        cast.rig.ask(put("job", Definition { retry, limits: running_max.map(Limit::of_running).into_iter().collect(), ..split(route) })).unwrap();
        let parent = cast.rig.start("job");
        let total = cast.children(parent).len();
        prop_assert_eq!(total, sharded.map_or(2, |count| count as usize));
        let mut life = 1;
        for step in steps {
            take(&mut cast, parent, step, &mut life);
            let ended = cast.rig.status(parent).is_terminal();
            let all_ended = cast.statuses(parent).iter().all(|status| status.is_terminal());
            prop_assert_eq!(ended, all_ended, "the parent ends with the last of its children");
            let running = cast.children(parent).iter().filter(|child| child.status() == Status::Running).count();
            prop_assert!(running_max.is_none_or(|max| running <= max as usize));
        }
        // Everybody comes back, and what is left is done.
        for index in 0..3 {
            take(&mut cast, parent, Step::Join(index), &mut life);
        }
        for _ in 0..60 {
            cast.end_all(parent);
            take(&mut cast, parent, Step::Wait(20), &mut life);
        }
        let (run, children) = (cast.rig.run(parent), cast.children(parent));
        prop_assert!(run.status().is_terminal(), "{:?} {:?}", run, children);
        prop_assert_eq!(run.entries.iter().filter(|entry| entry.to.is_terminal()).count(), 1);
        prop_assert_eq!(children.len(), total, "no child was made twice");
        let well = children.iter().all(|child| child.status() == Status::Succeeded);
        prop_assert_eq!(run.status() == Status::Succeeded, well);
        for (child, row) in children.iter().zip(cast.parts(parent)) {
            prop_assert_eq!((Some(child.id), Some(child.status())), (row.child, row.status()));
        }
        prop_assert_eq!((cast.rig.pool.live_runs(), cast.rig.pool.ready_runs(), cast.rig.pool.roster().attempts_held()), (0, 0, 0));
    }
}
