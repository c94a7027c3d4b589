//! Orders that come twice, late or in masses, and reports that nobody acknowledges.

use std::time::Duration;

use punctual_core::attempt::{Assignment, End, Report};
use punctual_core::ids::{RunId, Token};
use punctual_core::run::Cause;
use punctual_core::task::Task;
use punctual_worker::{Closed, Order};

use crate::rig::{NOW, Rig, TOKEN, assignment, is_alive, shell, until, within};

fn acknowledge(run: i64) -> Order {
    Order::Acknowledge { run: RunId(run), token: TOKEN }
}

#[tokio::test]
async fn an_assignment_told_twice_is_started_once() {
    let mut rig = Rig::start().await;
    let told = Order::Assign(assignment(1, shell("echo hi")));
    rig.order(vec![told.clone(), told.clone()]).await;
    rig.order(vec![told.clone()]).await;
    rig.finished(1).await;
    rig.order(vec![acknowledge(1), told]).await;
    rig.assign(2, Task::Noop).await;
    rig.finished(2).await;
    assert_eq!(rig.logs.lines(1, 1).await, ["hi"]);
    rig.shut_down().await;
}

#[tokio::test]
async fn a_finished_attempt_repeats_its_stored_outcome() {
    let mut rig = Rig::start().await;
    let effects = rig.scratch.path().join("effects");
    let task = shell(&format!("echo once >> {0}; wc -l < {0}; exit 3", effects.display()));
    rig.assign(1, task.clone()).await;
    let outcome = rig.finished(1).await;
    assert_eq!((outcome.exit_code, &*outcome.output), (Some(3), "1"));
    for _ in 0..3 {
        rig.assign(1, task.clone()).await;
        assert_eq!(rig.finished(1).await, outcome);
    }
    assert_eq!(std::fs::read_to_string(effects).unwrap(), "once\n");
    rig.shut_down().await;
}

#[tokio::test]
async fn a_start_is_reported_before_its_outcome() {
    let mut rig = Rig::start().await;
    rig.assign(1, shell("true")).await;
    let report = rig.report_where(|report| report.run().is_some()).await;
    assert_eq!(report, Report::Started { run: RunId(1), token: TOKEN, at: NOW });
    assert_eq!(rig.finished(1).await.started_at, NOW);
    rig.shut_down().await;
}

#[tokio::test]
async fn a_newer_token_replaces_the_older_attempt_whose_outcome_is_not_told() {
    let mut rig = Rig::start().await;
    rig.assign(1, shell("echo $$; sleep 1000")).await;
    let older = rig.logs.pids(1, 1).await[0];
    let newer = Assignment { token: Token(2), ..assignment(1, shell("echo $PUNCTUAL_ATTEMPT_TOKEN")) };
    rig.order(vec![Order::Assign(newer)]).await;
    let report = rig.report_where(|report| matches!(report, Report::Finished { .. })).await;
    let Report::Finished { token, outcome, .. } = report else { panic!("{report:?}") };
    assert_eq!((token, &*outcome.output), (Token(2), "2"));
    assert!(!is_alive(older));
    rig.shut_down().await;
}

#[tokio::test]
async fn an_outcome_is_sent_again_until_it_is_acknowledged() {
    let mut rig = Rig::start().await;
    let outcome = rig.outcome_of(shell("echo hi")).await;
    assert_eq!(rig.finished(1).await, outcome); // by the heartbeat
    let alive = rig.report_where(|report| matches!(report, Report::Alive { .. })).await;
    assert_eq!(alive, Report::Alive { attempts: vec![(RunId(1), TOKEN)] });
    rig.order(vec![acknowledge(1), Order::Resend]).await;
    rig.report_where(|report| *report == Report::Alive { attempts: vec![] }).await;
    rig.assign(2, Task::Noop).await;
    let next = rig.report_where(|report| matches!(report, Report::Finished { .. })).await;
    assert!(matches!(next, Report::Finished { run: RunId(2), .. }));
    rig.shut_down().await;
}

#[tokio::test]
async fn a_worker_with_empty_hands_says_nothing_until_it_is_asked() {
    let mut rig = Rig::start().await;
    rig.outcome_of(Task::Noop).await;
    rig.order(vec![acknowledge(1), Order::Resend]).await;
    rig.report_where(|report| *report == Report::Alive { attempts: vec![] }).await;
    // Many heartbeats' time.
    let unasked = tokio::time::timeout(Duration::from_secs(1), rig.batches.recv()).await;
    assert!(unasked.is_err(), "{unasked:?}");
    rig.order(vec![Order::Resend]).await;
    assert_eq!(rig.report().await, Report::Alive { attempts: vec![] });
    rig.shut_down().await;
}

#[tokio::test]
async fn outcomes_are_sent_again_at_once_on_request() {
    let mut rig = Rig::start_with(|config| config.heartbeat = Duration::from_secs(3600)).await;
    let outcome = rig.outcome_of(Task::Noop).await;
    rig.order(vec![Order::Resend]).await;
    assert_eq!(rig.finished(1).await, outcome);
    rig.assign(1, Task::Noop).await;
    assert_eq!(rig.finished(1).await, outcome);
    rig.shut_down().await;
}

#[tokio::test]
async fn ten_thousand_noops_in_one_batch_come_back_in_one_batch() {
    let mut rig = Rig::start_with(|config| config.heartbeat = Duration::from_secs(3600)).await;
    rig.report_where(|report| matches!(report, Report::Lent { .. })).await;
    rig.order((0..10_000).map(|run| Order::Assign(assignment(run, Task::Noop))).collect()).await;
    let batch = within("the outcomes", rig.batches.recv()).await.unwrap();
    let ended = |report: &&Report| matches!(report, Report::Finished { outcome, .. } if outcome.end == End::Succeeded);
    assert_eq!(batch.iter().filter(ended).count(), 10_000);
    assert_eq!(batch.last(), Some(&Report::Lent { total: 16 }), "the eight slots are free again");
    rig.order((0..10_000).map(acknowledge).collect()).await;
    rig.order(vec![Order::Resend, Order::Assign(assignment(10_000, Task::Noop))]).await;
    let next = within("the next", rig.batches.recv()).await.unwrap();
    assert_eq!(next.iter().filter(ended).count(), 1);
    rig.shut_down().await;
}

#[tokio::test]
async fn a_slot_is_lent_again_with_the_outcome_that_frees_it_and_not_before() {
    let mut rig = Rig::start_with(|config| config.slots = 2).await;
    assert_eq!(rig.report().await, Report::Lent { total: 2 });
    let told = Order::Assign(assignment(1, shell("read line; echo $line")));
    // An assignment uses one credit, and an offer that is made again none.
    let again = |assignment| Order::Assign(Assignment { again: true, ..assignment });
    rig.order(vec![told, again(assignment(1, shell("read line; echo $line")))]).await;
    rig.order(vec![again(assignment(2, Task::Noop))]).await;
    rig.finished(2).await;
    rig.order(vec![Order::Cancel { run: RunId(1), token: TOKEN, cause: Cause::User }]).await;
    let mut heard = Vec::new();
    rig.report_where(|report| {
        heard.push(report.clone());
        matches!(report, Report::Lent { .. })
    })
    .await;
    assert_eq!(heard.pop(), Some(Report::Lent { total: 3 }));
    assert!(matches!(heard.pop(), Some(Report::Finished { run: RunId(1), .. })), "with its outcome");
    rig.shut_down().await;
}

#[tokio::test]
async fn orders_are_obeyed_while_nobody_reads_the_reports() {
    let mut rig = Rig::start().await;
    // Far more batches than both channels hold: if the worker waited to be heard, this would never end.
    for run in 0..1000 {
        within("room for an order", rig.assign(run, Task::Noop)).await;
    }
    for run in 0..1000 {
        rig.finished(run).await;
    }
    rig.shut_down().await;
}

#[tokio::test]
async fn more_attempts_than_slots_wait_their_turn() {
    let mut rig = Rig::start_with(|config| config.slots = 1).await;
    rig.assign(1, shell("echo $$; sleep 1000")).await;
    let first = rig.logs.pids(1, 1).await[0];
    rig.assign(2, shell("echo second")).await;
    rig.assign(3, Task::Noop).await;
    rig.finished(3).await; // needs no slot
    assert!(is_alive(first) && rig.logs.chunks().iter().all(|chunk| chunk.run != RunId(2)));
    rig.order(vec![Order::Cancel { run: RunId(1), token: TOKEN, cause: Cause::User }]).await;
    assert_eq!(&*rig.finished(2).await.output, "second");
    rig.shut_down().await;
}

#[tokio::test]
async fn a_cancel_that_overtakes_its_assignment_wins() {
    let mut rig = Rig::start().await;
    rig.order(vec![Order::Cancel { run: RunId(1), token: TOKEN, cause: Cause::User }]).await;
    assert_eq!(&*rig.finished(1).await.error, "cancelled on request before it started");
    rig.order(vec![Order::Acknowledge { run: RunId(1), token: TOKEN }]).await;
    rig.assign(1, shell("echo never")).await;
    rig.assign(2, shell("echo hi")).await;
    rig.finished(2).await;
    assert!(rig.logs.chunks().iter().all(|chunk| chunk.run == RunId(2)));
    rig.shut_down().await;
}

#[tokio::test]
async fn a_worker_that_shut_down_takes_no_orders() {
    let rig = Rig::start().await;
    let handle = rig.handle.clone();
    rig.shut_down().await;
    assert_eq!(handle.send(vec![Order::Resend]).await, Err(Closed));
    assert_eq!(handle.send(vec![Order::Resend]).await, Err(Closed));
}

#[tokio::test]
async fn a_worker_that_nobody_listens_to_stops_its_programs() {
    let mut rig = Rig::start().await;
    rig.assign(1, shell("echo $$; sleep 1000")).await;
    let pid = rig.logs.pids(1, 1).await[0];
    rig.batches.close();
    until("the program is gone", || !is_alive(pid)).await;
    rig.shut_down().await;
}
