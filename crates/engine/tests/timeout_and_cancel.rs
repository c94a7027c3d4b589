//! Stopping a run: by its timeout or by someone's word. What runs keeps its slot until its worker has reported.

use punctual_core::attempt::{End, Order};
use punctual_core::command::{Answer, Command, Refusal};
use punctual_core::ids::RunId;
use punctual_core::job::{Definition, Limit, Overlap, Route};
use punctual_core::name::Namespace;
use punctual_core::run::{Cause, Reason, Status, What};
use punctual_core::task::{Accept, Http, Method, Task};

use crate::support::{Rig, at, cancel, cancel_saying, delete, every, manual, span};

fn ten_seconds(attempts: u32) -> Definition {
    let mut definition = Definition { timeout: Some(span("10s")), ..manual() };
    definition.retry.attempts = attempts;
    definition.retry.delay = span("1m");
    definition
}

fn cancel_run(rig: &mut Rig, run: RunId) {
    assert!(matches!(rig.ask(cancel(run)), Ok(Answer::Run(_))));
}

#[test]
fn a_timeout_tells_the_worker_and_waits_for_it() {
    let mut rig = Rig::new(1);
    let (run, next) = (rig.submit(ten_seconds(1)), rig.submit(manual()));
    rig.advance("9s");
    assert_eq!(rig.run(run).cancelling(), None);
    rig.advance("1s");
    assert_eq!(rig.run(run).cancelling(), Some(Cause::Timeout));
    let token = rig.run(run).token;
    assert!(rig.orders().contains(&Order::Cancel { run, token, cause: Cause::Timeout }));
    rig.advance("20s");
    assert_eq!(rig.status(next), Status::Ready, "the slot is not free yet");
    rig.fail(run);
    assert_eq!((rig.status(run), rig.status(next)), (Status::TimedOut, Status::Running));
    assert!(rig.is_dead_letter(run));
}

#[test]
fn a_success_that_comes_after_the_timeout_is_a_success() {
    let mut rig = Rig::new(1);
    let run = rig.submit(ten_seconds(1));
    rig.advance("20s");
    rig.succeed(run);
    assert_eq!(rig.status(run), Status::Succeeded);
}

#[test]
fn a_timed_out_attempt_is_tried_again_while_attempts_are_left() {
    let mut rig = Rig::new(1);
    let run = rig.submit(ten_seconds(2));
    rig.advance("10s");
    rig.fail(run);
    assert_eq!(rig.status(run), Status::Waiting);
    rig.advance("1m");
    assert_eq!(rig.status(run), Status::Running);
    rig.advance("10s");
    rig.fail(run);
    assert_eq!((rig.status(run), rig.run(run).failures), (Status::TimedOut, 2));
}

#[test]
fn the_timeout_of_an_attempt_that_has_failed_does_not_touch_its_retry() {
    let mut rig = Rig::new(1);
    let run = rig.submit(ten_seconds(2));
    rig.advance("5s");
    rig.fail(run);
    rig.advance("30s");
    assert_eq!(rig.status(run), Status::Waiting, "it backs off, and nothing can time out");
    rig.advance("35s");
    assert_eq!((rig.status(run), rig.run(run).cancelling()), (Status::Running, None));
}

#[test]
fn a_timeout_counts_from_each_assignment() {
    let mut rig = Rig::new(1);
    let (first, second) = (rig.submit(manual()), rig.submit(ten_seconds(1)));
    rig.advance("1h");
    assert_eq!(rig.status(second), Status::Ready);
    rig.succeed(first);
    rig.advance("9s");
    assert_eq!(rig.run(second).cancelling(), None);
    rig.advance("1s");
    assert_eq!(rig.run(second).cancelling(), Some(Cause::Timeout));
}

#[test]
fn a_timeout_holds_over_a_reload() {
    let mut rig = Rig::new(1);
    let run = rig.submit(ten_seconds(1));
    rig.advance("5s");
    rig.reload();
    rig.advance("5s");
    assert_eq!(rig.run(run).cancelling(), Some(Cause::Timeout));
}

#[test]
fn a_run_that_nobody_works_on_is_cancelled_at_once() {
    let mut rig = Rig::new(1);
    rig.put("job", Definition { overlap: Overlap::Queue, ..ten_seconds(2) });
    let running = rig.start("job");
    let held = rig.start("job");
    let delayed = rig.start_at("job", at("1h"));
    let (_busy, ready) = (rig.submit(manual()), rig.submit(manual()));
    rig.fail(running);
    let backing_off = running;
    for run in [held, delayed, ready, backing_off] {
        cancel_run(&mut rig, run);
        let run = rig.run(run);
        assert_eq!(
            (run.status(), run.reason.clone()),
            (Status::Cancelled, Some(Reason::Cancelled(Cause::User)))
        );
    }
    assert_eq!(rig.shards[0].live_runs(), 1, "only the busy one is left");
}

#[test]
fn a_cancelled_run_keeps_its_slot_until_its_worker_reports() {
    let mut rig = Rig::new(1);
    let (run, next) = (rig.submit(ten_seconds(5)), rig.submit(manual()));
    cancel_run(&mut rig, run);
    cancel_run(&mut rig, run);
    assert_eq!(rig.cancelled_orders(), [run], "asked twice, told once");
    assert_eq!((rig.status(run), rig.status(next)), (Status::Running, Status::Ready));
    rig.report(run, End::Failed);
    assert_eq!((rig.status(run), rig.status(next)), (Status::Cancelled, Status::Running));
    assert!(!rig.is_dead_letter(run), "what someone stopped is nobody's dead letter");
}

#[test]
fn after_a_cancel_no_attempt_starts() {
    let mut rig = Rig::new(1);
    let run = rig.submit(ten_seconds(5));
    cancel_run(&mut rig, run);
    rig.lose_worker();
    rig.join(1);
    rig.advance("1h");
    assert_eq!((rig.status(run), rig.run(run).attempt), (Status::Cancelled, 1));
}

#[test]
fn a_users_word_outranks_a_timeout() {
    let mut rig = Rig::new(1);
    let run = rig.submit(ten_seconds(5));
    rig.advance("10s");
    cancel_run(&mut rig, run);
    rig.fail(run);
    assert_eq!(rig.status(run), Status::Cancelled, "a timeout would have allowed a retry");
}

/// The entries of a run that people caused, and their comments.
#[track_caller]
fn check_by_hand(rig: &Rig, run: RunId, expected: &[(What, &str)]) {
    let run = rig.run(run);
    let told = run.by_hand.iter().map(|(index, by_hand)| {
        let entry = &run.entries[*index as usize];
        assert_eq!((by_hand.by.as_deref(), by_hand.at), (Some("ops"), entry.at));
        (entry.what, &*by_hand.comment)
    });
    assert_eq!(told.collect::<Vec<_>>(), expected);
}

#[test]
fn who_cancelled_a_run_when_and_why_is_recorded() {
    let mut rig = Rig::new(1);
    let (run, waiting) = (rig.submit(manual()), rig.submit(manual()));
    rig.ask(cancel_saying(waiting, false, "wrong day")).unwrap();
    assert_eq!(rig.status(waiting), Status::Cancelled);
    check_by_hand(&rig, waiting, &[(What::CancelAsked, "wrong day")]);
    rig.ask(cancel_saying(run, false, "wrong file")).unwrap();
    rig.reload();
    rig.ask(cancel_saying(run, false, "once more")).unwrap();
    rig.ask(cancel_saying(run, true, "at once")).unwrap();
    rig.fail(run);
    assert_eq!(rig.status(run), Status::Cancelled);
    check_by_hand(&rig, run, &[(What::CancelAsked, "wrong file"), (What::CancelAsked, "at once")]);
}

#[test]
fn a_cancel_by_hand_is_recorded_of_the_whole_run_only() {
    let mut rig = Rig::new(1);
    let split = Definition { route: Route { shards: Some(2), ..Route::default() }, ..manual() };
    let run = rig.submit(split);
    rig.advance("1s");
    rig.ask(cancel_saying(run, false, "wrong day")).unwrap();
    check_by_hand(&rig, run, &[(What::CancelAsked, "wrong day")]);
    let parts: Vec<_> = rig.all_runs().into_iter().filter(|part| part.parent() == Some(run)).collect();
    assert!(parts.len() == 2 && parts.iter().all(|part| part.by_hand.is_empty()));
}

#[test]
fn what_has_ended_cannot_be_cancelled() {
    let mut rig = Rig::new(1);
    let run = rig.submit(manual());
    rig.succeed(run);
    assert!(matches!(rig.ask(cancel(run)), Err(Refusal::WrongState { .. })));
}

#[test]
fn a_run_of_another_namespace_does_not_exist() {
    let mut rig = Rig::new(1);
    let run = rig.submit(manual());
    let namespace: Namespace = "elsewhere".parse().unwrap();
    let cancel = Command::CancelRun { namespace, run, now: false, by: None, comment: Box::default() };
    assert_eq!(rig.ask(cancel), Err(Refusal::NoSuchRun(run)));
    assert_eq!(rig.run(run).cancelling(), None);
}

/// Work that a service accepts and works on; the retry comes after an hour.
fn accepted_elsewhere() -> Definition {
    let accept = Some(Accept { poll: span("5s"), all: None });
    let http = Http { method: Method::Post, accept, ..Http::get("http://example.com") };
    let mut definition = Definition { task: Task::Http(Box::new(http)), ..manual() };
    definition.retry.attempts = 3;
    definition.retry.delay = span("1h");
    definition
}

/// Checks that the next attempt of a run is there to cancel its work, and ends the run.
#[track_caller]
fn check_cancels_work(rig: &mut Rig, run: RunId, cause: Cause) {
    assert_eq!((rig.status(run), rig.run(run).attempt), (Status::Running, 2));
    let token = rig.run(run).token;
    assert!(rig.orders().contains(&Order::Cancel { run, token, cause }));
    rig.fail(run);
    assert_eq!(rig.run(run).reason, Some(Reason::Cancelled(cause)));
    assert_eq!(rig.status(run), Status::Cancelled);
}

#[test]
fn a_cancel_does_not_wait_for_the_retry_that_cancels_the_work() {
    let mut rig = Rig::new(1);
    let run = rig.submit(accepted_elsewhere());
    rig.fail(run);
    cancel_run(&mut rig, run);
    check_cancels_work(&mut rig, run, Cause::User);
}

#[test]
fn a_deleted_job_cancels_the_work_of_its_runs() {
    let mut rig = Rig::new(1);
    rig.put("job", accepted_elsewhere());
    let run = rig.start("job");
    rig.fail(run);
    rig.ask(delete("job")).expect("deleted");
    check_cancels_work(&mut rig, run, Cause::JobDeleted);
}

#[test]
fn a_run_that_waits_for_the_limit_of_a_deleted_job_cancels_its_work() {
    let mut rig = Rig::new(2);
    let definition =
        Definition { limits: vec![Limit::of_running(1)], overlap: Overlap::Allow, ..accepted_elsewhere() };
    rig.put("job", definition);
    let first = rig.start("job");
    rig.fail(first);
    let second = rig.start("job");
    rig.advance("1h");
    assert_eq!((rig.status(first), rig.status(second)), (Status::Waiting, Status::Running));
    rig.ask(delete("job")).expect("deleted");
    check_cancels_work(&mut rig, first, Cause::JobDeleted);
}

#[test]
fn a_replaced_run_cancels_its_work_before_the_new_one_starts() {
    let mut rig = Rig::new(2);
    rig.put(
        "job",
        Definition { overlap: Overlap::Replace, schedules: vec![every("1m")], ..accepted_elsewhere() },
    );
    rig.advance("1m");
    let old = rig.runs("job")[0].id;
    rig.fail(old);
    rig.advance("1m");
    let new = rig.runs("job")[1].id;
    assert_eq!(rig.status(new), Status::Waiting, "it is held");
    check_cancels_work(&mut rig, old, Cause::Replaced);
    assert_eq!(rig.status(new), Status::Running);
}

#[test]
fn a_deleted_job_takes_its_runs_along() {
    let mut rig = Rig::new(1);
    rig.put("job", Definition { overlap: Overlap::Queue, ..manual() });
    let (running, held) = (rig.start("job"), rig.start("job"));
    let far = rig.start_at("job", at("300d"));
    rig.ask(delete("job")).expect("deleted");
    assert_eq!(rig.run(running).cancelling(), Some(Cause::JobDeleted));
    assert_eq!(rig.status(held), Status::Cancelled);
    rig.fail(running);
    assert_eq!(rig.status(running), Status::Cancelled);
    rig.advance("300d");
    assert_eq!(rig.status(far), Status::Cancelled, "a far one, at the latest when its time comes");
}
