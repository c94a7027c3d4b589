//! What happens after an attempt has failed, or its worker was lost.

use punctual_core::attempt::{End, Order, Outcome};
use punctual_core::command::{Answer, Command, Refusal, RetryRun};
use punctual_core::job::{Definition, Overlap};
use punctual_core::limits::LOSSES_MAX;
use punctual_core::retry::{Backoff, Failed, On, Retry};
use punctual_core::run::{Cause, Reason, Status, Trigger};
use punctual_core::task::Params;

use crate::support::{Rig, delete, discard, key, made, manual, replay, retry, seconds, span, worker};

fn attempts(attempts: u32) -> Definition {
    let retry = Retry { attempts, delay: span("10s"), max_delay: span("25s"), ..Retry::default() };
    Definition { retry, ..manual() }
}

/// A run that fails at once, every time: when its attempts began, in seconds.
fn check_backoff(backoff: Backoff, begun: &[i64]) {
    let mut rig = Rig::new(1);
    let mut definition = attempts(5);
    definition.retry.backoff = backoff;
    let run = rig.submit(definition);
    let mut seen = Vec::new();
    while !rig.status(run).is_terminal() {
        if rig.status(run) == Status::Running {
            seen.push(seconds(rig.now));
            rig.fail(run);
        }
        rig.advance("1s");
    }
    assert_eq!(seen, begun);
    let run = rig.run(run);
    assert_eq!((run.status(), run.attempt, run.failures), (Status::Failed, 5, 5));
}

#[test]
fn a_retry_waits_by_its_backoff() {
    check_backoff(Backoff::Fixed, &[0, 10, 20, 30, 40]);
    check_backoff(Backoff::Linear, &[0, 10, 30, 55, 80]);
    check_backoff(Backoff::Exponential, &[0, 10, 30, 55, 80]);
}

#[test]
fn who_asked_for_a_retry_is_recorded() {
    let mut rig = Rig::new(1);
    let failed = rig.submit(manual());
    rig.fail(failed);
    rig.pass("1m");
    let (by, comment) = (Some("ops".into()), "the bank is open again".into());
    let run = made(rig.ask(Command::RetryRun(RetryRun { by, comment, ..retry(failed) })));
    let told = rig.run(run).by_hand_at(0).cloned().expect("a person asked for it");
    assert_eq!(told.by.as_deref(), Some("ops"));
    assert_eq!((&*told.comment, told.at), ("the bank is open again", rig.now));
    assert!(rig.run(failed).by_hand.is_empty());
}

#[test]
fn a_retry_is_the_same_run_under_a_higher_token() {
    let mut rig = Rig::new(1);
    let run = rig.submit(attempts(2));
    let first = rig.run(run).token;
    rig.fail(run);
    rig.advance("10s");
    assert!(rig.run(run).token > first);
    assert_eq!(rig.all_runs().len(), 1);
    rig.report_under(run, first, End::Succeeded);
    assert_eq!(rig.status(run), Status::Running, "an outdated result is refused");
    assert_eq!(rig.pool.counts().stale_reports, 1);
    assert!(rig.orders().contains(&Order::Acknowledge { run, token: first }), "and need not be kept");
    rig.succeed(run);
    assert_eq!(rig.status(run), Status::Succeeded);
}

#[test]
fn a_result_is_taken_once() {
    let mut rig = Rig::new(1);
    let run = rig.submit(attempts(3));
    let token = rig.run(run).token;
    rig.succeed(run);
    let ended = rig.run(run);
    for end in [End::Failed, End::Succeeded] {
        rig.report_under(run, token, end);
    }
    assert_eq!(rig.run(run), ended);
}

#[test]
fn a_retry_has_a_priority_of_its_own() {
    let mut rig = Rig::new(1);
    let mut definition = attempts(2);
    definition.retry.priority = Some(9);
    let again = rig.submit(definition);
    rig.fail(again);
    let (busy, next) = (rig.submit(manual()), rig.submit(Definition { priority: 8, ..manual() }));
    rig.advance("10s");
    rig.succeed(busy);
    assert_eq!(rig.running(), [again], "it overtakes a run of priority 8");
    rig.succeed(again);
    assert_eq!(rig.running(), [next]);
}

#[test]
fn used_up_attempts_make_a_dead_letter_unless_the_job_wants_none() {
    for dead_letter in [true, false] {
        let mut rig = Rig::new(1);
        let run = rig.submit(Definition { dead_letter, ..attempts(1) });
        rig.fail(run);
        assert_eq!((rig.status(run), rig.is_dead_letter(run)), (Status::Failed, dead_letter));
    }
}

#[test]
fn a_failure_that_is_not_retried_dies_and_says_why() {
    let mut rig = Rig::new(1);
    let refuse = |rig: &mut Rig, run, status| {
        let outcome = Outcome { failed: Failed::Status(status), ..Outcome::failed(rig.now, "no") };
        rig.report_outcome(run, rig.run(run).token, outcome);
    };
    let run = rig.submit(attempts(3));
    refuse(&mut rig, run, 503);
    assert_eq!(rig.status(run), Status::Waiting, "the server may recover");
    rig.advance("10s");
    refuse(&mut rig, run, 404);
    assert_eq!((rig.status(run), rig.is_dead_letter(run)), (Status::Failed, true));
    let why = rig.run(run).reason.as_ref().map(ToString::to_string);
    assert_eq!(why.as_deref(), Some("not tried again after status 404: `retry.on` does not name it"));

    let retry = Retry { on: vec![On::Timeout], ..attempts(3).retry };
    let run = rig.submit(Definition { retry, ..attempts(3) });
    rig.fail(run);
    assert_eq!((rig.status(run), rig.run(run).attempt), (Status::Failed, 1));
    let why = rig.run(run).reason.as_ref().map(ToString::to_string);
    assert_eq!(why.as_deref(), Some("not tried again: `retry.on` does not name `error`"));
}

#[test]
fn a_dead_letter_is_discarded_once() {
    let mut rig = Rig::new(1);
    let run = rig.submit(attempts(1));
    assert_eq!(rig.ask(discard(run)), Err(Refusal::NotADeadLetter(run)));
    rig.fail(run);
    assert_eq!(rig.ask(discard(run)), Ok(Answer::Discarded));
    assert!(!rig.is_dead_letter(run));
    assert_eq!(rig.ask(discard(run)), Err(Refusal::NotADeadLetter(run)));
    assert_eq!(rig.status(run), Status::Failed, "its history stays");
}

#[test]
fn a_dead_letter_tried_again_is_a_new_run_under_the_newest_revision() {
    let mut rig = Rig::new(1);
    rig.put("job", attempts(1));
    let dead = rig.start("job");
    rig.fail(dead);
    rig.put("job", Definition { priority: 8, ..attempts(1) });
    let params = Params("{\"fixed\":true}".into());
    let again = made(rig.ask(Command::RetryRun(RetryRun { params: Some(params.clone()), ..retry(dead) })));
    let run = rig.run(again);
    assert_eq!((run.retry_of, run.trigger, run.priority), (Some(dead), Trigger::Retry, 8));
    assert_eq!(run.params, Some(params));
    assert!(!rig.is_dead_letter(dead), "someone has decided");
}

#[test]
fn a_retry_keeps_the_due_time_of_the_original() {
    let mut rig = Rig::new(1);
    rig.put("job", attempts(1));
    let dead = rig.start("job");
    let due = rig.run(dead).due;
    rig.fail(dead);
    rig.advance("26h");
    let again = made(rig.ask(Command::RetryRun(replay(dead))));
    let run = rig.run(again);
    assert_eq!((run.due, run.status(), run.trigger), (due, Status::Running, Trigger::Retry));
    assert_eq!(run.late_from(), run.created_at, "it is not late by a day");
    rig.fail(again);

    let yesterday = due.before(span("24h"));
    let other = RetryRun { due: Some(yesterday), ..retry(again) };
    let other = made(rig.ask(Command::RetryRun(other)));
    assert_eq!((rig.run(other).due, rig.status(other)), (yesterday, Status::Running));
}

#[test]
fn a_replay_cannot_be_due_in_the_future() {
    let mut rig = Rig::new(1);
    let dead = rig.submit(attempts(1));
    rig.fail(dead);
    let later = rig.run(dead).due + span("1h");
    let refused = rig.ask(Command::RetryRun(RetryRun { due: Some(later), ..replay(dead) }));
    assert!(matches!(&refused, Err(Refusal::Invalid(invalid)) if invalid.field == "due_at"), "{refused:?}");
    assert!(rig.is_dead_letter(dead), "nothing has changed");
}

#[test]
fn a_run_whose_job_is_gone_is_tried_again_by_itself() {
    let mut rig = Rig::new(1);
    rig.put("job", Definition { priority: 7, ..attempts(1) });
    let dead = rig.start("job");
    rig.fail(dead);
    rig.ask(delete("job")).expect("deleted");
    let again = made(rig.ask(Command::RetryRun(retry(dead))));
    assert_eq!((rig.run(again).job(), rig.run(again).priority), (None, 7));
}

#[test]
fn a_dead_letter_stays_when_its_retry_was_skipped() {
    let mut rig = Rig::new(1);
    rig.put("job", Definition { overlap: Overlap::Skip, ..attempts(1) });
    let dead = rig.start("job");
    rig.fail(dead);
    rig.start("job");
    let again = made(rig.ask(Command::RetryRun(retry(dead))));
    assert_eq!(rig.status(again), Status::Skipped);
    assert!(rig.is_dead_letter(dead), "nobody has tried it");
}

#[test]
fn only_a_dead_letter_is_replayed_and_only_once() {
    let mut rig = Rig::new(1);
    let fine = rig.submit(attempts(1));
    rig.succeed(fine);
    let refused = rig.ask(Command::RetryRun(replay(fine)));
    assert_eq!(refused, Err(Refusal::NotADeadLetter(fine)), "it ended, and well");
    let dead = rig.submit(attempts(1));
    rig.fail(dead);
    let again = made(rig.ask(Command::RetryRun(replay(dead))));
    assert_eq!(rig.ask(Command::RetryRun(replay(dead))), Err(Refusal::NotADeadLetter(dead)));
    assert_eq!(rig.all_runs().len(), 3);
    rig.succeed(again);
    assert!(rig.ask(Command::RetryRun(retry(dead))).is_ok(), "a plain retry asks for no letter");
}

#[test]
fn a_replay_repeated_under_its_key_is_one_run_though_the_letter_is_gone() {
    let mut rig = Rig::new(1);
    let dead = rig.submit(attempts(1));
    rig.fail(dead);
    let ask = |text| Command::RetryRun(RetryRun { key: key(text, span("1h")), ..replay(dead) });
    let again = made(rig.ask(ask("k")));
    rig.reload();
    assert_eq!(rig.ask(ask("k")), Ok(Answer::Existing(again)));
    assert_eq!(rig.ask(ask("another")), Err(Refusal::NotADeadLetter(dead)));
}

#[test]
fn replays_wait_their_turn_whatever_the_overlap_policy() {
    for overlap in [Overlap::Skip, Overlap::QueueOne, Overlap::Replace, Overlap::Queue] {
        let mut rig = Rig::new(5);
        rig.put("job", Definition { overlap, ..attempts(1) });
        let dead: Vec<_> = (0..3)
            .map(|_| {
                let run = rig.start("job");
                rig.fail(run);
                run
            })
            .collect();
        let again: Vec<_> = dead.iter().map(|run| made(rig.ask(Command::RetryRun(replay(*run))))).collect();
        assert!(!dead.iter().any(|run| rig.is_dead_letter(*run)), "{overlap:?}");
        for run in again {
            assert_eq!(rig.running(), [run], "{overlap:?}: one at a time, in the order asked for");
            rig.succeed(run);
        }
    }
}

#[test]
fn what_each_attempt_left_behind_is_kept() {
    let mut rig = Rig::new(1);
    let run = rig.submit(attempts(3));
    rig.fail(run);
    rig.advance("10s");
    rig.lose_worker();
    rig.join(1);
    rig.settle();
    rig.succeed(run);
    let ended = rig.run(run);
    assert_eq!((ended.status(), ended.attempt), (Status::Succeeded, 3));
    let errors: Vec<&str> = ended.earlier.iter().map(|attempt| &*attempt.error).collect();
    assert_eq!(errors[0], "it broke");
    assert_eq!(ended.earlier.len(), 2, "the newest attempt is the run itself");
}

#[test]
fn only_a_run_that_has_ended_is_tried_again() {
    let mut rig = Rig::new(1);
    let run = rig.submit(attempts(2));
    for _ in 0..2 {
        let answer = rig.ask(Command::RetryRun(retry(run)));
        assert!(matches!(answer, Err(Refusal::WrongState { .. })), "{answer:?}");
        if rig.status(run) == Status::Running {
            rig.fail(run);
        }
    }
}

#[test]
fn a_lost_attempt_goes_on_at_once_and_uses_no_attempt_up() {
    let mut rig = Rig::new(1);
    let run = rig.submit(attempts(1));
    let first = rig.run(run).token;
    rig.lose_worker();
    assert_eq!(rig.status(run), Status::Ready);
    rig.join(1);
    rig.settle();
    let again = rig.run(run);
    assert_eq!((again.status(), again.attempt, again.failures, again.losses), (Status::Running, 2, 0, 1));
    assert!(again.token > first);
}

#[test]
fn a_run_that_loses_its_worker_too_often_is_dead() {
    let mut rig = Rig::new(1);
    let run = rig.submit(attempts(50));
    for _ in 0..LOSSES_MAX {
        assert_eq!(rig.status(run), Status::Running);
        rig.lose_worker();
        rig.join(1);
        rig.settle();
    }
    assert_eq!((rig.status(run), rig.run(run).reason.clone()), (Status::Failed, Some(Reason::LostTooOften)));
    assert!(rig.is_dead_letter(run));
}

#[test]
fn at_most_once_is_not_tried_again_when_its_worker_is_lost() {
    let mut rig = Rig::new(1);
    let run = rig.submit(Definition { at_most_once: true, ..attempts(1) });
    rig.lose_worker();
    rig.join(1);
    rig.settle();
    assert_eq!(
        (rig.status(run), rig.run(run).reason.clone()),
        (Status::Failed, Some(Reason::LostAtMostOnce))
    );
    assert_eq!(rig.assigned(), [run], "it was given out once");
}

#[test]
fn a_worker_given_up_and_still_there_is_told_to_stop() {
    let mut rig = Rig::new(1);
    let run = rig.submit(attempts(1));
    let token = rig.run(run).token;
    rig.apply(run.shard(), punctual_engine::Event::Lost { run, token });
    rig.settle();
    assert!(rig.orders().contains(&Order::Cancel { run, token, cause: Cause::Outdated }));
    assert!(rig.pool.roster().is_present(&worker()));
}
