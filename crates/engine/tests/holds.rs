//! Holds: what does not start, what becomes of the due times meanwhile, and how a hold ends.

use std::sync::Arc;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::change::{Row, SkipReason};
use punctual_core::command::{Answer, Command, PutJob, Refusal, RunJob};
use punctual_core::hold::{Fires, Hold, HoldRecord, Scope};
use punctual_core::ids::{RunId, ShardId};
use punctual_core::job::{Definition, Limit, Overlap, Pause};
use punctual_core::name::Namespace;
use punctual_core::retry::{Backoff, Retry};
use punctual_core::run::{State, Status, Trigger, Wait};
use punctual_core::task::Task;
use punctual_core::workflow::{Step, Work, Workflow};
use punctual_engine::Settings;

use crate::support::{
    Rig, START, after_finish, at, delete, every, made, manual, name, on, pause, put, resume, span, start,
    worker,
};

const SHARD: ShardId = ShardId(0);

fn in_default() -> Scope {
    Scope::Namespace(Namespace::default())
}

fn order(scope: Scope, since: Timestamp) -> Hold {
    let pause = Pause { reason: "the bank is closed".into(), by: Some("ops".into()), since, until: None };
    Hold { scope, pause, fires: Fires::Skip }
}

fn every_ten_seconds() -> Definition {
    Definition { overlap: Overlap::Allow, ..on([every("10s")]) }
}

impl Rig {
    fn hold(&mut self, hold: Hold) -> Result<Answer, Refusal> {
        self.ask(Command::Hold { shard: SHARD, hold: Box::new(hold) })
    }

    /// Everything in the namespace of the tests is on hold from now on.
    fn hold_all(&mut self, fires: Fires, until: Option<&str>) {
        let mut hold = order(in_default(), self.now);
        (hold.fires, hold.pause.until) = (fires, until.map(at));
        self.hold(hold).expect("held");
    }

    fn release(&mut self, scope: Scope) -> bool {
        match self.ask(Command::Release { shard: SHARD, scope, at: self.now }) {
            Ok(Answer::Released(was_held)) => was_held,
            other => panic!("{other:?}"),
        }
    }

    fn hold_rows(&self) -> Vec<Arc<HoldRecord>> {
        let rows = self.rows.all().filter_map(|row| match row {
            Row::Hold(row) => Some(Arc::clone(row)),
            _ => None,
        });
        rows.collect()
    }

    /// The due times of the child runs of backfills, in seconds since the beginning.
    fn made_up(&self) -> Vec<i64> {
        let children = self.all_runs().into_iter().filter(|run| run.is_backfilled());
        children.map(|run| crate::support::seconds(run.due)).collect()
    }

    fn waits_for_hold(&self, run: RunId) -> bool {
        self.run(run).state == State::Waiting { wait: Wait::Hold }
    }
}

#[test]
fn under_a_hold_no_job_fires_and_its_due_times_are_on_record() {
    let mut rig = Rig::new(9);
    rig.put("job", every_ten_seconds());
    rig.advance("15s");
    rig.hold_all(Fires::Skip, None);
    let commits = rig.batches.len();
    rig.advance("30s");
    assert_eq!(rig.dues("job"), [10]);
    assert_eq!(rig.batches.len(), commits, "a hold writes nothing for the jobs that it covers");
    assert!(rig.release(in_default()));
    assert_eq!(rig.skipped(), [(20, 40)]);
    assert_eq!(rig.skips()[0].reason, SkipReason::Held);
    rig.advance("15s");
    assert_eq!(rig.dues("job"), [10, 50, 60]);
}

#[test]
fn a_hold_survives_a_load_and_ends_at_its_instant() {
    let mut rig = Rig::new(9);
    rig.put("job", every_ten_seconds());
    rig.hold_all(Fires::Skip, Some("35s"));
    rig.reload();
    rig.advance("20s");
    rig.reload();
    rig.advance("30s");
    assert_eq!((rig.dues("job"), rig.skipped()), (vec![40, 50], vec![(10, 30)]));
}

#[test]
fn a_hold_that_ended_while_nobody_was_there_covers_its_own_time() {
    let mut rig = Rig::new(9);
    rig.put("job", every_ten_seconds());
    rig.hold_all(Fires::Skip, Some("25s"));
    rig.start("job");
    rig.pass("60s");
    rig.reload();
    assert_eq!(rig.skipped(), [(10, 20), (30, 40)], "the misfire policy decides about the later ones");
    assert_eq!(rig.dues("job"), [0, 50, 60]);
    assert!(rig.runs("job").iter().all(|run| run.status() == Status::Running));
}

#[test]
fn fires_that_are_kept_are_made_up_for_by_a_backfill() {
    let mut rig = Rig::new(2);
    rig.put("job", Definition { overlap: Overlap::Skip, ..every_ten_seconds() });
    rig.advance("5s");
    rig.hold_all(Fires::Keep, None);
    rig.advance("40s");
    rig.reload();
    rig.advance("10s");
    assert!(rig.release(in_default()));
    for _ in 0..6 {
        rig.succeed_all();
    }
    assert_eq!(rig.made_up(), [10, 20, 30, 40, 50]);
    let backfill = rig.runs("job").into_iter().find(|run| run.is_backfill()).expect("a backfill");
    assert_eq!((backfill.status(), backfill.trigger), (Status::Succeeded, Trigger::Backfill));
    assert_eq!(rig.skipped(), [(10, 50)]);
}

#[test]
fn runs_that_began_before_a_hold_go_on() {
    let mut rig = Rig::new(1);
    rig.put("job", manual());
    let run = rig.start("job");
    rig.hold_all(Fires::Skip, None);
    rig.reload();
    assert_eq!(rig.status(run), Status::Running);
    rig.succeed(run);
    assert_eq!(rig.status(run), Status::Succeeded);
}

#[test]
fn runs_that_are_asked_for_under_a_hold_wait_for_its_end() {
    let mut rig = Rig::new(4);
    rig.put("job", manual());
    rig.hold_all(Fires::Skip, None);
    let (by_hand, alone) = (rig.start("job"), rig.submit(manual()));
    assert!(rig.waits_for_hold(by_hand) && rig.waits_for_hold(alone));
    rig.reload();
    assert!(rig.waits_for_hold(by_hand) && rig.waits_for_hold(alone));
    rig.release(in_default());
    assert!(rig.status(by_hand) == Status::Running && rig.status(alone) == Status::Running);
}

#[test]
fn ready_runs_start_after_the_hold_only() {
    let mut rig = Rig::new(1);
    rig.put("job", Definition { overlap: Overlap::Allow, ..manual() });
    let (first, second) = (rig.start("job"), rig.start("job"));
    assert_eq!(rig.status(second), Status::Ready);
    rig.hold_all(Fires::Skip, None);
    rig.succeed(first);
    assert_eq!(rig.status(second), Status::Ready, "its worker has a free slot");
    rig.reload();
    rig.advance("1m");
    assert_eq!(rig.status(second), Status::Ready);
    rig.release(in_default());
    assert_eq!(rig.status(second), Status::Running);
}

#[test]
fn the_next_attempt_of_a_run_waits_for_the_end_of_a_hold() {
    let mut rig = Rig::new(1);
    let retry = Retry { attempts: 3, backoff: Backoff::Fixed, delay: span("5s"), ..Retry::default() };
    rig.put("job", Definition { retry, ..manual() });
    let (failed, lost) = (rig.start("job"), rig.submit(Definition { at_most_once: false, ..manual() }));
    rig.hold_all(Fires::Skip, None);
    rig.fail(failed);
    rig.advance("10s");
    assert!(rig.waits_for_hold(failed));
    assert_eq!(rig.status(lost), Status::Ready);
    rig.release(in_default());
    assert_eq!((rig.status(failed), rig.status(lost)), (Status::Ready, Status::Running));
}

#[test]
fn a_lost_attempt_is_not_repeated_under_a_hold() {
    let mut rig = Rig::new(1);
    rig.put("job", manual());
    let run = rig.start("job");
    rig.hold_all(Fires::Skip, None);
    rig.lose_worker();
    rig.join(1);
    rig.advance("1m");
    assert!(rig.waits_for_hold(run));
    rig.release(in_default());
    assert_eq!(rig.status(run), Status::Running);
}

#[test]
fn a_workflow_starts_no_step_under_a_hold() {
    let mut rig = Rig::new(2);
    let step = |text: &str, needs: &[&str]| Step {
        needs: needs.iter().map(|text| name(text)).collect(),
        ..Step::of(name(text), Work::Task(Task::Noop))
    };
    let workflow =
        Workflow { steps: vec![step("a", &[]), step("b", &["a"])], finally: Vec::new(), output: None };
    rig.put("flow", Definition::of(Task::Workflow(Box::new(workflow))));
    let run = rig.start("flow");
    rig.hold_all(Fires::Skip, None);
    rig.succeed_all();
    rig.reload();
    assert_eq!((rig.status(run), rig.all_runs().len()), (Status::Running, 2), "the second step has no run");
    rig.release(in_default());
    rig.succeed_all();
    assert_eq!(rig.status(run), Status::Succeeded);
}

#[test]
fn a_run_that_waits_for_a_limit_goes_on_waiting_for_it() {
    let mut rig = Rig::new(9);
    rig.put("job", Definition { limits: vec![Limit::of_running(1)], overlap: Overlap::Allow, ..manual() });
    let runs = [rig.start("job"), rig.start("job"), rig.start("job")];
    rig.hold_all(Fires::Skip, None);
    rig.succeed(runs[0]);
    rig.reload();
    assert_eq!(rig.status(runs[1]), Status::Waiting);
    rig.release(in_default());
    assert_eq!(runs.map(|run| rig.status(run)), [Status::Succeeded, Status::Running, Status::Waiting]);
}

#[test]
fn an_edit_under_a_hold_leaves_earlier_due_times_to_the_old_schedule() {
    let mut rig = Rig::new(9);
    rig.put("job", every_ten_seconds());
    rig.hold_all(Fires::Keep, None);
    rig.advance("25s");
    rig.put("job", Definition { schedules: vec![every("1m")], ..every_ten_seconds() });
    assert_eq!(rig.made_up(), [0i64; 0], "the backfill waits too");
    rig.advance("60s");
    rig.release(in_default());
    assert_eq!(rig.made_up(), [10, 20, 60]);
    let revisions: Vec<u32> = rig.skips().iter().map(|skip| skip.revision).collect();
    assert_eq!(revisions, [1, 1, 2], "both, and the due time that the edit dropped");
}

#[test]
fn a_paused_job_stays_paused_after_a_hold() {
    let mut rig = Rig::new(9);
    rig.put("job", every_ten_seconds());
    rig.ask(pause("job")).expect("paused");
    rig.hold_all(Fires::Keep, None);
    rig.advance("25s");
    rig.release(in_default());
    rig.advance("10s");
    rig.ask(resume("job")).expect("resumed");
    assert_eq!(rig.skips()[0].reason, SkipReason::Paused);
    assert_eq!((rig.skipped(), rig.made_up()), (vec![(10, 30)], vec![]));
}

#[test]
fn after_finish_counts_from_the_end_of_the_hold() {
    let mut rig = Rig::new(1);
    rig.put("job", on([after_finish("10s")]));
    rig.succeed_all();
    rig.hold_all(Fires::Skip, None);
    rig.advance("25s");
    rig.release(in_default());
    assert_eq!(rig.job("job").and_then(|job| job.cursor.next_due), Some(at("35s")));
    rig.advance("15s");
    assert_eq!(rig.dues("job"), [0, 35]);
}

#[test]
fn a_deleted_job_under_a_hold_is_gone() {
    let mut rig = Rig::new(9);
    rig.put("job", every_ten_seconds());
    rig.hold_all(Fires::Keep, None);
    let waiting = rig.start("job");
    rig.advance("25s");
    rig.ask(delete("job")).expect("deleted");
    rig.release(in_default());
    assert_eq!(rig.status(waiting), Status::Cancelled);
    assert!(rig.running().is_empty() && rig.made_up().is_empty());
}

#[test]
fn jobs_that_left_memory_are_found_again_after_the_hold() {
    let mut rig = Rig::with(1, 99, Settings { page: 4, ..Settings::default() });
    for number in 0..30 {
        rig.put(&format!("job-{number}"), every_ten_seconds());
    }
    rig.hold_all(Fires::Skip, None);
    rig.advance("25s");
    // Its batch lets the jobs leave memory.
    rig.submit(manual());
    rig.advance("10s");
    rig.release(in_default());
    assert_eq!(rig.skipped(), vec![(10, 30); 30]);
    rig.advance("5s");
    assert_eq!(rig.all_runs().iter().filter(|run| run.due == at("40s")).count(), 30);
}

#[test]
fn a_hold_covers_the_namespaces_inside_and_no_others() {
    let mut rig = Rig::new(9);
    let place = |text: &str| text.parse::<Namespace>().expect("a namespace");
    for namespace in ["payments", "payments/eu", "billing"] {
        let Command::PutJob(ask) = put("job", manual()) else { unreachable!() };
        rig.ask(Command::PutJob(PutJob { namespace: place(namespace), ..ask })).expect("saved");
    }
    rig.hold(order(Scope::Namespace(place("payments")), START)).expect("held");
    let mut begin = |namespace: &str| {
        made(rig.ask(Command::RunJob(RunJob { namespace: place(namespace), ..start("job") })))
    };
    let runs = ["payments", "payments/eu", "billing"].map(&mut begin);
    assert_eq!(runs.map(|run| rig.status(run)), [Status::Waiting, Status::Waiting, Status::Running]);
    rig.hold(order(Scope::Everything, START)).expect("held");
    assert!(rig.release(Scope::Namespace(place("payments"))));
    assert_eq!(rig.status(runs[0]), Status::Waiting, "everything is on hold");
    assert!(rig.release(Scope::Everything));
    assert_eq!(runs.map(|run| rig.status(run)), [Status::Running; 3]);
}

#[test]
fn of_two_holds_over_a_job_one_that_keeps_the_fires_decides() {
    let mut rig = Rig::new(9);
    rig.put("job", every_ten_seconds());
    rig.hold_all(Fires::Keep, None);
    rig.hold(order(Scope::Everything, rig.now)).expect("held");
    rig.advance("15s");
    rig.release(in_default());
    rig.advance("10s");
    rig.release(Scope::Everything);
    assert_eq!((rig.skipped(), rig.made_up()), (vec![(10, 10), (20, 20)], vec![10]));
}

#[test]
fn an_edit_under_a_hold_keeps_the_fires_of_an_earlier_one() {
    let mut rig = Rig::new(9);
    rig.put("job", every_ten_seconds());
    rig.hold_all(Fires::Keep, None);
    rig.hold(order(Scope::Everything, rig.now)).expect("held");
    rig.advance("15s");
    rig.release(in_default());
    rig.advance("10s");
    rig.put("job", Definition { description: "edited".into(), ..every_ten_seconds() });
    rig.release(Scope::Everything);
    assert_eq!((rig.skipped(), rig.made_up()), (vec![(10, 10), (20, 20)], vec![10]));
}

#[test]
fn an_edit_under_a_hold_that_keeps_the_fires_keeps_all() {
    let mut rig = Rig::new(9);
    rig.put("job", every_ten_seconds());
    rig.hold_all(Fires::Keep, None);
    rig.hold(order(Scope::Everything, rig.now)).expect("held");
    rig.advance("15s");
    rig.release(Scope::Everything);
    rig.advance("10s");
    rig.put("job", Definition { description: "edited".into(), ..every_ten_seconds() });
    rig.release(in_default());
    assert_eq!((rig.skipped(), rig.made_up()), (vec![(10, 20)], vec![10, 20]));
}

#[test]
fn a_repeated_order_changes_nothing_and_a_later_one_replaces_it() {
    let mut rig = Rig::new(1);
    let first = order(in_default(), rig.now);
    rig.hold(first.clone()).expect("held");
    let rows = rig.hold_rows();
    rig.advance("5s");
    let again = Hold { pause: Pause { since: rig.now, ..first.pause.clone() }, ..first.clone() };
    rig.hold(again.clone()).expect("held already");
    assert_eq!(rig.hold_rows(), rows);
    rig.hold(Hold { fires: Fires::Keep, ..again }).expect("changed");
    let changed = rig.hold_rows();
    assert_eq!((changed.len(), changed[0].hold.fires), (1, Fires::Keep));
    rig.hold(first).expect("an order that was overtaken");
    assert_eq!(rig.hold_rows(), changed);
}

#[test]
fn a_hold_that_comes_after_its_release_does_not_begin() {
    let mut rig = Rig::new(1);
    let hold = order(in_default(), rig.now);
    rig.hold(hold.clone()).expect("held");
    rig.advance("1s");
    assert!(rig.release(in_default()) && !rig.release(in_default()));
    rig.advance("50s");
    rig.hold(hold.clone()).expect("a copy of the order that was delayed");
    assert!(rig.hold_rows().iter().all(|row| !row.is_in_force()));
    rig.advance("2m");
    assert!(rig.hold_rows().is_empty(), "the row has gone");
    assert!(matches!(rig.hold(hold), Err(Refusal::Invalid(invalid)) if invalid.field == "hold"));
}

#[test]
fn the_row_of_an_ended_hold_goes_under_a_hold_elsewhere() {
    let mut rig = Rig::new(1);
    let scopes = ["payments", "payments/eu", "billing"]
        .map(|text| Scope::Namespace(text.parse().expect("a namespace")));
    for scope in &scopes {
        rig.hold(order(scope.clone(), rig.now)).expect("held");
    }
    rig.release(scopes[0].clone());
    rig.release(scopes[2].clone());
    rig.advance("3m");
    let left: Vec<Scope> = rig.hold_rows().iter().map(|row| row.hold.scope.clone()).collect();
    assert_eq!(left, [scopes[1].clone(), scopes[0].clone()], "jobs in payments/eu have not recorded it");
    rig.release(scopes[1].clone());
    rig.advance("3m");
    assert!(rig.hold_rows().is_empty());
}

/// A rig with more waiting runs than one batch starts.
fn with_many_waiting() -> (Rig, Vec<RunId>) {
    let mut rig = Rig::new(0);
    rig.hold_all(Fires::Skip, None);
    let runs = (0..2500).map(|_| rig.submit(manual())).collect();
    (rig, runs)
}

#[test]
fn many_runs_start_over_several_batches_after_a_hold() {
    for reloads in [false, true] {
        let (mut rig, runs) = with_many_waiting();
        let commits = rig.batches.len();
        rig.release(in_default());
        if reloads {
            rig.reload();
        }
        rig.advance("1s");
        assert!(runs.iter().all(|run| rig.status(*run) == Status::Ready));
        assert!(rig.batches[commits..].iter().all(|batch| batch.changes.len() <= 1010));
    }
}

#[test]
fn a_hold_that_begins_again_stops_the_other_runs() {
    let (mut rig, runs) = with_many_waiting();
    rig.release(in_default());
    rig.hold_all(Fires::Skip, None);
    rig.advance("1s");
    let ready = runs.iter().filter(|run| rig.status(**run) == Status::Ready).count();
    assert!(ready < 1010, "{ready} runs were ready before the second hold");
    rig.join(1);
    rig.advance("1s");
    assert!(rig.running().is_empty());
    rig.release(in_default());
    rig.advance("1s");
    assert!(runs.iter().all(|run| rig.status(*run) != Status::Waiting));
    assert_eq!(rig.running(), [runs[0]]);
}

#[test]
fn a_hold_may_not_end_before_it_begins() {
    let mut rig = Rig::new(1);
    let mut hold = order(in_default(), rig.now);
    hold.pause.until = Some(rig.now);
    assert!(matches!(rig.hold(hold), Err(Refusal::Invalid(invalid)) if invalid.field == "until"));
}

#[test]
fn a_worker_that_joins_under_a_hold_gets_nothing() {
    let mut rig = Rig::new(0);
    let run = rig.submit(manual());
    rig.hold_all(Fires::Skip, None);
    rig.join(1);
    rig.settle();
    assert_eq!(rig.status(run), Status::Ready);
    rig.release(in_default());
    assert_eq!(rig.run(run).assignee.as_ref().and_then(|to| to.worker()), Some(&worker()));
    assert_eq!(rig.run(run).reason, None, "a worker fits now");
    assert!(rig.now.since(START) < Duration::from_secs(1));
}
