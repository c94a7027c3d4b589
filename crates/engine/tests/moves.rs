//! A run that goes on with another worker: moved by a user, by its own attempt, or yielded by its worker.

use std::sync::Arc;

use proptest::prelude::*;
use punctual_core::attempt::{End, Order, Outcome, Report};
use punctual_core::command::{Answer, Command, Refusal};
use punctual_core::ids::{RunId, Token, WorkerId};
use punctual_core::job::{Definition, Overlap, Strategy};
use punctual_core::limits::{LOSSES_MAX, MOVES_MAX};
use punctual_core::name::Namespace;
use punctual_core::progress::Progress;
use punctual_core::retry::Retry;
use punctual_core::run::{Cause, Reason, Status, What};
use punctual_core::task::Params;
use punctual_engine::Event;

use crate::routing::{by, id, leave, routed, whats, with_workers, worker_of};
use crate::support::{Rig, cancel, manual, span};

fn moved(run: RunId, worker: Option<&str>) -> Command {
    Command::MoveRun { namespace: Namespace::default(), run, worker: worker.map(Arc::from) }
}

fn now(run: RunId) -> Command {
    Command::CancelRun { namespace: Namespace::default(), run, now: true, by: None, comment: Box::default() }
}

fn tell(rig: &mut Rig, worker: &str, report: Report) {
    let run = report.run().expect("a report about a run");
    rig.apply(run.shard(), Event::Report { worker: id(worker), report });
    rig.settle();
}

/// The worker of the running attempt says how it ended.
fn end(rig: &mut Rig, run: RunId, end: End) {
    let (worker, token) = (worker_of(rig, run), rig.run(run).token);
    let outcome = Outcome { end, ..Outcome::failed(rig.now, "stopped") };
    tell(rig, &worker, Report::Finished { run, token, outcome });
}

fn report(rig: &mut Rig, run: RunId, progress: Progress) {
    let (worker, token) = (worker_of(rig, run), rig.run(run).token);
    tell(rig, &worker, Report::Progress { run, token, progress });
}

fn at_row(row: u64) -> Progress {
    Progress { checkpoint: Some(row.to_string().into()), ..Progress::default() }
}

fn hint(answer: Result<Answer, Refusal>) -> String {
    match answer {
        Err(Refusal::WrongState { hint, .. }) => hint.into_owned(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_moved_run_goes_on_elsewhere_and_uses_up_nothing() {
    let mut rig = with_workers(&[("a", 2), ("b", 2)]);
    let run = rig.submit(manual());
    report(&mut rig, run, at_row(70));
    let token = rig.run(run).token;
    assert!(matches!(rig.ask(moved(run, None)), Ok(Answer::Run(_))));
    assert!(rig.orders().contains(&Order::Cancel { run, token, cause: Cause::Moved }));
    assert_eq!((rig.status(run), rig.run(run).attempt), (Status::Running, 1), "its attempt has not ended");
    end(&mut rig, run, End::Failed);
    assert_eq!(worker_of(&rig, run), "b");
    let after = rig.run(run);
    assert!(after.token > token);
    assert_eq!((after.failures, after.losses, after.attempt, after.moves), (0, 0, 2, 1));
    assert_eq!(after.checkpoint().map(|kept| &*kept.value), Some("70"));
    let last: Vec<What> = whats(&after).into_iter().rev().take(3).collect();
    assert_eq!(last, [What::Assigned, What::Moved, What::MoveAsked]);
    tell(&mut rig, "a", Report::Finished { run, token, outcome: Outcome::succeeded(after.due) });
    assert_eq!(rig.status(run), Status::Running, "the token is outdated");
}

#[test]
fn a_run_whose_worker_is_lost_while_it_is_moved_loses_nothing() {
    let mut rig = with_workers(&[("a", 1), ("b", 1)]);
    let run = rig.submit(manual());
    rig.ask(moved(run, None)).expect("moved");
    let token = rig.run(run).token;
    leave(&mut rig, "a");
    rig.apply(run.shard(), Event::Lost { run, token });
    rig.settle();
    assert_eq!((worker_of(&rig, run), rig.run(run).losses), ("b".to_owned(), 0));
}

#[test]
fn a_named_worker_is_waited_for_as_long_as_it_is_here() {
    let mut rig = with_workers(&[("a", 1), ("b", 3), ("c", 1)]);
    let (run, other) = (rig.submit(manual()), rig.submit(routed(by(Strategy::Last))));
    assert_eq!((worker_of(&rig, run), worker_of(&rig, other)), ("a".to_owned(), "c".to_owned()));
    rig.ask(moved(run, Some("c"))).expect("moved");
    end(&mut rig, run, End::Failed);
    assert_eq!(rig.status(run), Status::Ready, "`c` is busy");
    rig.reload();
    assert_eq!(rig.status(run), Status::Ready, "a new leader knows the wish");
    leave(&mut rig, "c");
    assert_eq!(worker_of(&rig, run), "b");
    assert_eq!(rig.run(run).move_to, None, "the next attempt has no wish");
}

#[test]
fn a_sticky_run_that_is_moved_leaves_its_worker() {
    let mut rig = with_workers(&[("a", 2), ("b", 2)]);
    let run = rig.submit(routed(by(Strategy::Sticky)));
    let before = worker_of(&rig, run);
    rig.ask(moved(run, None)).expect("moved");
    end(&mut rig, run, End::Failed);
    assert_ne!(worker_of(&rig, run), before);
}

#[test]
fn a_run_that_cannot_go_elsewhere_stays_where_it_is() {
    let mut rig = with_workers(&[("a", 2)]);
    let run = rig.submit(manual());
    rig.ask(moved(run, None)).expect("moved");
    rig.lend(&id("a"), 3);
    end(&mut rig, run, End::Failed);
    assert_eq!((worker_of(&rig, run), rig.run(run).attempt), ("a".to_owned(), 2));
}

#[test]
fn a_move_that_is_not_possible_is_refused_with_the_reason() {
    let mut rig = with_workers(&[("a", 4)]);
    let run = rig.submit(manual());
    for unknown in ["z", "a@2", ""] {
        let refused = rig.ask(moved(run, Some(unknown)));
        assert!(
            matches!(&refused, Err(Refusal::Invalid(invalid)) if invalid.field == "worker"),
            "{refused:?}"
        );
    }
    let nobody = RunId(run.0 + 1);
    assert_eq!(rig.ask(moved(nobody, None)), Err(Refusal::NoSuchRun(nobody)));
    rig.ask(moved(run, Some("a"))).expect("its own worker is a worker too");
    assert_eq!(hint(rig.ask(moved(run, None))), "it is being stopped already");
    let once = rig.submit(Definition { at_most_once: true, ..manual() });
    assert!(hint(rig.ask(moved(once, None))).contains("at most once"));
    report(&mut rig, once, Progress { rebalance: true, ..Progress::default() });
    assert_eq!(rig.run(once).cancelling(), None, "its own attempt cannot move it either");
    end(&mut rig, once, End::Succeeded);
    assert_eq!(hint(rig.ask(moved(once, None))), "it has ended already");
}

#[test]
fn an_attempt_moves_itself_and_changes_the_parameters() {
    let mut rig = with_workers(&[("a", 1), ("b", 1)]);
    let params = Params(r#"{"from":0,"keep":true,"old":1}"#.into());
    let run = rig.submit(Definition { params, ..manual() });
    let patch = Some(Params(r#"{"from":50,"old":null}"#.into()));
    let first = Progress { seq: Some(1), ..at_row(49) };
    report(&mut rig, run, Progress { rebalance: true, params: patch, seq: Some(2), ..at_row(50) });
    report(&mut rig, run, first);
    assert_eq!(rig.run(run).cancelling(), Some(Cause::Moved));
    end(&mut rig, run, End::Failed);
    assert_eq!(worker_of(&rig, run), "b");
    let newest = rig.orders().into_iter().rev().find_map(|order| match order {
        Order::Assign(assignment) => Some(assignment),
        _ => None,
    });
    let newest = newest.expect("an assignment");
    assert_eq!(&*newest.params.0, r#"{"from":50,"keep":true}"#);
    assert_eq!(newest.checkpoint.as_deref(), Some("50"));
}

#[test]
fn a_late_report_moves_nothing() {
    let mut rig = with_workers(&[("a", 1), ("b", 1)]);
    let run = rig.submit(manual());
    report(&mut rig, run, Progress { seq: Some(5), ..Progress::percent(5) });
    report(&mut rig, run, Progress { seq: Some(4), rebalance: true, ..Progress::default() });
    assert_eq!(rig.run(run).cancelling(), None);
}

#[test]
fn yields_are_moves_and_not_losses() {
    let mut rig = with_workers(&[("a", 50), ("b", 50)]);
    let run = rig.submit(manual());
    for yields in 1..=3 * LOSSES_MAX {
        end(&mut rig, run, End::Yielded);
        let after = rig.run(run);
        assert_eq!((after.status(), after.losses, after.moves), (Status::Running, 0, yields));
    }
    let once = rig.submit(Definition { at_most_once: true, ..manual() });
    end(&mut rig, once, End::Yielded);
    assert_eq!(rig.run(once).reason, Some(Reason::LostAtMostOnce));
    let stopped = rig.submit(manual());
    rig.ask(cancel(stopped)).expect("cancelled");
    end(&mut rig, stopped, End::Yielded);
    assert_eq!(rig.status(stopped), Status::Cancelled);
}

#[test]
fn a_run_that_is_moved_too_often_without_a_checkpoint_fails() {
    let mut rig = with_workers(&[("a", 200), ("b", 200)]);
    let run = rig.submit(manual());
    for _ in 1..MOVES_MAX {
        end(&mut rig, run, End::Yielded);
    }
    report(&mut rig, run, at_row(1));
    for _ in 1..MOVES_MAX {
        end(&mut rig, run, End::Yielded);
    }
    assert_eq!(rig.status(run), Status::Running);
    rig.ask(moved(run, None)).expect("moved");
    end(&mut rig, run, End::Failed);
    let reason = rig.run(run).reason.clone();
    assert_eq!((rig.status(run), &reason), (Status::Failed, &Some(Reason::MovedTooOften)));
    assert!(reason.expect("a reason").to_string().starts_with("moved_too_often"));
}

#[test]
fn a_cancel_ends_a_run_that_is_being_moved() {
    for cancel in [cancel, now] {
        let mut rig = with_workers(&[("a", 1), ("b", 1)]);
        let run = rig.submit(manual());
        rig.ask(moved(run, None)).expect("moved");
        rig.ask(cancel(run)).expect("cancelled");
        end(&mut rig, run, End::Failed);
        assert_eq!(rig.status(run), Status::Cancelled);
    }
}

#[test]
fn a_cancel_without_grace_follows_a_polite_one() {
    let mut rig = with_workers(&[("a", 1)]);
    let run = rig.submit(manual());
    let token = rig.run(run).token;
    for command in [cancel(run), now(run), now(run), cancel(run)] {
        rig.ask(command).expect("cancelled");
    }
    let causes: Vec<Cause> = rig
        .orders()
        .into_iter()
        .filter_map(|order| match order {
            Order::Cancel { cause, .. } => Some(cause),
            _ => None,
        })
        .collect();
    assert_eq!(causes, [Cause::User, Cause::UserNow]);
    assert!(rig.orders().contains(&Order::Cancel { run, token, cause: Cause::UserNow }));
}

/// Starts a run with this grace period, stops it, and lets its worker ignore that.
fn ignored(grace: Option<&str>, stop: impl Fn(RunId) -> Command) -> (Rig, RunId) {
    let mut rig = with_workers(&[("a", 2)]);
    let run = rig.submit(Definition { grace: grace.map(span), ..manual() });
    rig.ask(stop(run)).expect("stopped");
    (rig, run)
}

#[test]
fn a_worker_that_ignores_a_cancel_does_not_keep_its_run() {
    // The lease is 15 s, and reports have one more second to arrive.
    let elsewhere = |run| moved(run, None);
    type Stop = fn(RunId) -> Command;
    let rows: [(Option<&str>, Stop, &str, Status); 4] = [
        (None, cancel, "26s", Status::Cancelled),
        (Some("1m"), cancel, "76s", Status::Cancelled),
        (Some("1m"), now, "16s", Status::Cancelled),
        (Some("0s"), elsewhere, "16s", Status::Failed),
    ];
    for (grace, stop, after, status) in rows {
        let (mut rig, run) = ignored(grace, stop);
        rig.advance_by(span(after) - span("1ms"));
        assert_eq!(rig.status(run), Status::Running, "{grace:?}");
        rig.advance("1ms");
        assert_eq!(rig.status(run), status, "{grace:?}");
    }
}

#[test]
fn a_new_leader_waits_as_long_for_the_end_of_an_attempt() {
    let (mut rig, run) = ignored(None, cancel);
    rig.advance("20s");
    rig.reload();
    rig.advance("25s");
    assert_eq!(rig.status(run), Status::Running);
    rig.advance("1s");
    assert_eq!(rig.status(run), Status::Cancelled);
}

#[test]
fn a_worker_that_ignores_a_cancel_gets_no_work_until_it_obeys() {
    for obeys in [true, false] {
        let (mut rig, run) = ignored(None, cancel);
        let token = rig.run(run).token;
        rig.advance("26s");
        let next = rig.submit(manual());
        assert_eq!((rig.status(run), rig.status(next)), (Status::Cancelled, Status::Ready));
        assert!(rig.ask(moved(next, None)).is_err());
        let alive = |attempts: &[(RunId, Token)]| Report::Alive { attempts: attempts.to_vec() };
        let hear = |rig: &mut Rig, worker: &WorkerId, report: Report| {
            rig.pool.hear(worker, &report, span("15s"), rig.elapsed());
            rig.settle();
        };
        hear(&mut rig, &id("a"), alive(&[(run, token)]));
        assert_eq!(rig.status(next), Status::Ready);
        if obeys {
            let outcome = Outcome::failed(rig.now, "at last");
            tell(&mut rig, "a", Report::Finished { run, token, outcome });
        } else {
            hear(&mut rig, &id("a"), alive(&[]));
        }
        assert_eq!(rig.status(next), Status::Running);
        assert_eq!(rig.status(run), Status::Cancelled);
    }
}

#[test]
fn a_worker_gets_no_work_while_another_node_cannot_stop_it() {
    let mut rig = with_workers(&[("a", 2)]);
    let (run, token) = (RunId(77), Token(3));
    rig.pool.distrust(&id("a"), run, token);
    assert_eq!(rig.pool.roster().unstopped(&id("a")), [(run, token)]);
    assert!(rig.pool.roster().present().iter().all(|worker| worker.is_stuck && !worker.is_open));
    let waits = rig.submit(manual());
    assert_eq!(rig.status(waits), Status::Ready);
    // Its heartbeats go to every node, and name the attempts of all of them.
    for (attempts, status) in [(vec![(run, token)], Status::Ready), (vec![], Status::Running)] {
        rig.pool.hear(&id("a"), &Report::Alive { attempts }, span("15s"), rig.elapsed());
        rig.settle();
        assert_eq!(rig.status(waits), status);
    }
    // A worker that is not connected here is told of in vain.
    rig.pool.distrust(&id("b"), run, token);
    assert_eq!(rig.pool.roster().unstopped(&id("b")), []);
}

#[test]
fn a_draining_worker_gets_no_work() {
    let mut rig = with_workers(&[("a", 2), ("b", 1)]);
    let draining = |rig: &mut Rig, on: bool| {
        rig.pool.hear(&id("a"), &Report::Draining { on }, span("15s"), rig.elapsed());
        rig.settle();
    };
    draining(&mut rig, true);
    assert!(rig.pool.roster().present().iter().any(|worker| worker.is_draining));
    let run = rig.submit(manual());
    assert_eq!(worker_of(&rig, run), "b");
    assert!(rig.ask(moved(run, Some("a"))).is_err(), "it takes no more work");
    let waits = rig.submit(manual());
    assert_eq!(rig.status(waits), Status::Ready);
    draining(&mut rig, false);
    assert_eq!(worker_of(&rig, waits), "a");
}

proptest! {
    /// A move uses up neither an attempt nor a loss in any sequence of events, and the next attempt never starts before
    /// the end of the one before it was reported.
    #[test]
    fn no_sequence_of_moves_uses_up_an_attempt(steps in proptest::collection::vec(0u8..9, 1..60)) {
        let mut rig = with_workers(&[("a", 200), ("b", 200), ("c", 200)]);
        let retry = Retry { attempts: 3, delay: span("1s"), ..Retry::default() };
        let run = rig.submit(Definition { retry, overlap: Overlap::Allow, ..manual() });
        let (mut failed, mut row) = (0, 0);
        for step in steps {
            if rig.status(run) == Status::Waiting {
                rig.advance("5s");
            }
            if rig.status(run) != Status::Running {
                break;
            }
            let before = rig.run(run);
            let ends = match step {
                0 => {
                    let _ = rig.ask(moved(run, None));
                    false
                }
                1 => {
                    let _ = rig.ask(moved(run, Some("c")));
                    false
                }
                2 => {
                    report(&mut rig, run, Progress { rebalance: true, ..Progress::default() });
                    false
                }
                3 => {
                    row += 1;
                    report(&mut rig, run, at_row(row));
                    // It is written lazily.
                    rig.advance("1s");
                    false
                }
                4 => {
                    rig.reload();
                    false
                }
                5 => {
                    rig.advance("1s");
                    false
                }
                6 | 7 => {
                    end(&mut rig, run, End::Yielded);
                    true
                }
                _ => {
                    failed += u32::from(before.cancelling().is_none());
                    end(&mut rig, run, End::Failed);
                    true
                }
            };
            let after = rig.run(run);
            prop_assert_eq!((after.failures, after.losses), (failed, 0));
            prop_assert!(ends || after.token == before.token, "a new attempt beside an old one");
            prop_assert!(!ends || after.status() != Status::Running || after.token > before.token);
            let kept = after.checkpoint().map_or(0, |kept| kept.value.parse().unwrap_or(0));
            prop_assert_eq!(kept, row, "the checkpoint goes with the run");
        }
    }
}
