//! The progress that an attempt reports, and the checkpoint that the next attempt gets.

use punctual_core::attempt::{Order, Report};
use punctual_core::command::{Answer, Command, Refusal, RetryRun};
use punctual_core::ids::{RunId, Token};
use punctual_core::job::Definition;
use punctual_core::limits::LOSSES_MAX;
use punctual_core::name::Namespace;
use punctual_core::progress::Progress;
use punctual_core::retry::Retry;
use punctual_core::run::Status;

use crate::support::{Rig, made, manual, retry, span};

fn told(run: RunId, token: Token, progress: Progress, durable: bool) -> Command {
    Command::Progress { namespace: Namespace::default(), run, token, progress, durable }
}

fn percent(run: RunId, token: Token, percent: u8) -> Command {
    told(run, token, Progress::percent(percent), false)
}

fn at_row(row: u64) -> Progress {
    Progress { checkpoint: Some(row.to_string().into()), seq: Some(row), ..Progress::default() }
}

fn twice() -> Definition {
    Definition { retry: Retry { attempts: 2, delay: span("10s"), ..Retry::default() }, ..manual() }
}

/// The checkpoint in the newest assignment.
fn given(rig: &Rig) -> Option<String> {
    let newest = rig.orders().into_iter().rev().find_map(|order| match order {
        Order::Assign(assignment) => Some(assignment),
        _ => None,
    });
    newest.expect("an assignment").checkpoint.map(|json| json.to_string())
}

#[test]
fn progress_is_written_with_the_next_change() {
    let mut rig = Rig::new(1);
    let run = rig.submit(manual());
    let token = rig.run(run).token;
    assert_eq!(rig.ask(percent(run, token, 40)), Ok(Answer::Noted));
    rig.advance("2s");
    assert_eq!(rig.run(run).percent(), Some(40));
    assert_eq!(rig.ask(percent(run, token, 90)), Ok(Answer::Noted));
    rig.succeed(run);
    assert_eq!(rig.run(run).percent(), Some(90));
}

#[test]
fn progress_under_an_outdated_token_is_refused() {
    let mut rig = Rig::new(1);
    let run = rig.submit(twice());
    let first = rig.run(run).token;
    rig.fail(run);
    assert!(matches!(rig.ask(percent(run, first, 50)), Err(Refusal::WrongState { .. })), "nobody runs it");
    rig.advance("10s");
    assert_eq!(rig.ask(percent(run, first, 50)), Err(Refusal::OutdatedToken(run)));
    rig.succeed(run);
    let ended = rig.ask(percent(run, rig.run(run).token, 50));
    assert!(matches!(ended, Err(Refusal::WrongState { .. })), "{ended:?}");
    assert_eq!(rig.run(run).progress, None);
    let nobody = RunId(run.0 + 1);
    assert_eq!(rig.ask(percent(nobody, first, 50)), Err(Refusal::NoSuchRun(nobody)));
}

#[test]
fn a_durable_report_is_answered_when_it_is_stored() {
    let mut rig = Rig::new(1);
    let run = rig.submit(manual());
    let token = rig.run(run).token;
    assert_eq!(rig.ask(told(run, token, at_row(1), true)), Ok(Answer::Noted), "at once");
    assert_eq!(rig.run(run).checkpoint().map(|kept| kept.value.to_string()), Some("1".to_owned()));
    let batches = rig.batches.len();
    let second = rig.begin(told(run, token, at_row(2), true));
    let third = rig.begin(told(run, token, at_row(3), true));
    rig.advance("959ms");
    assert_eq!((rig.answer(second), rig.batches.len()), (None, batches));
    rig.advance("1ms");
    assert_eq!((rig.answer(second), rig.answer(third)), (Some(Ok(Answer::Noted)), Some(Ok(Answer::Noted))));
    assert_eq!(rig.batches.len(), batches + 1, "one commit for both");
    assert_eq!(rig.run(run).checkpoint().map(|kept| kept.value.to_string()), Some("3".to_owned()));
}

#[test]
fn a_report_that_comes_late_is_answered_as_late() {
    let mut rig = Rig::new(1);
    let run = rig.submit(manual());
    let token = rig.run(run).token;
    let numbered = |seq, percent| Progress { seq: Some(seq), ..Progress::percent(percent) };
    assert_eq!(rig.ask(told(run, token, numbered(2, 20), true)), Ok(Answer::Noted));
    assert_eq!(rig.ask(told(run, token, numbered(1, 10), false)), Ok(Answer::Late));
    let second = rig.begin(told(run, token, numbered(2, 30), true));
    rig.advance("1s");
    assert_eq!(rig.answer(second), Some(Ok(Answer::Late)));
    assert_eq!(rig.run(run).percent(), Some(20));
}

#[test]
fn the_reports_of_workers_are_counted_by_outcome() {
    let mut rig = Rig::new(1);
    let run = rig.submit(manual());
    let token = rig.run(run).token;
    let outdated = Token(token.0 - 1);
    let broken = Progress { checkpoint: Some("{".into()), ..Progress::default() };
    for (token, progress) in
        [(token, at_row(2)), (token, at_row(1)), (token, at_row(1)), (outdated, at_row(3)), (token, broken)]
    {
        rig.tell(Report::Progress { run, token, progress });
    }
    let counts = rig.pool.counts().progress;
    assert_eq!((counts.accepted, counts.late), (1, 2));
    assert_eq!((counts.outdated, counts.invalid), (1, 1));
}

#[test]
fn a_worker_is_told_when_its_checkpoint_is_stored() {
    let mut rig = Rig::new(1);
    let run = rig.submit(manual());
    let token = rig.run(run).token;
    let saved = |rig: &Rig| rig.orders().contains(&Order::Saved { run, token, seq: 7 });
    rig.hold_commits();
    rig.tell(Report::Progress { run, token, progress: at_row(7) });
    assert!(!saved(&rig));
    rig.let_commits_through();
    assert!(saved(&rig));
}

#[test]
fn the_attempt_after_a_failure_or_a_loss_continues_at_the_checkpoint() {
    let mut rig = Rig::new(1);
    let run = rig.submit(twice());
    assert_eq!(given(&rig), None);
    rig.tell(Report::Progress { run, token: rig.run(run).token, progress: at_row(100) });
    rig.fail(run);
    rig.advance("10s");
    assert_eq!(given(&rig).as_deref(), Some("100"));
    rig.tell(Report::Progress { run, token: rig.run(run).token, progress: at_row(200) });
    rig.advance("1s");
    rig.lose_worker();
    rig.join(1);
    rig.settle();
    assert_eq!(given(&rig).as_deref(), Some("200"));
    assert_eq!(rig.run(run).percent(), None);
}

#[test]
fn an_attempt_after_a_failure_starts_over_if_the_job_says_so() {
    let mut rig = Rig::new(1);
    let mut definition = twice();
    definition.retry.resume = false;
    let run = rig.submit(definition);
    rig.tell(Report::Progress { run, token: rig.run(run).token, progress: at_row(100) });
    rig.fail(run);
    rig.advance("10s");
    assert_eq!(given(&rig), None);
}

#[test]
fn a_run_is_lost_too_often_only_without_a_newer_checkpoint() {
    let mut rig = Rig::new(1);
    let run = rig.submit(manual());
    for row in 1..=u64::from(3 * LOSSES_MAX) {
        rig.tell(Report::Progress { run, token: rig.run(run).token, progress: at_row(row) });
        rig.lose_worker();
        rig.join(1);
        rig.settle();
        assert_eq!(rig.status(run), Status::Running);
    }
    for _ in 1..LOSSES_MAX {
        rig.lose_worker();
        rig.join(1);
        rig.settle();
    }
    assert_eq!(rig.status(run), Status::Failed);
}

#[test]
fn a_retry_by_hand_starts_at_the_checkpoint_if_asked() {
    let mut rig = Rig::new(1);
    let run = rig.submit(manual());
    rig.tell(Report::Progress { run, token: rig.run(run).token, progress: at_row(100) });
    rig.fail(run);
    made(rig.ask(Command::RetryRun(retry(run))));
    assert_eq!(given(&rig), None);
    rig.succeed_all();
    made(rig.ask(Command::RetryRun(RetryRun { resume: true, ..retry(run) })));
    assert_eq!(given(&rig).as_deref(), Some("100"));
}
