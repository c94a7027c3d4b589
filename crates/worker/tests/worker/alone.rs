//! What only a worker without guardians has to put up with: daemons that stay, and processes that a crash left behind.

use std::sync::Arc;

use punctual_core::attempt::End;
use punctual_core::log::Stream;
use punctual_core::task::Task;
use punctual_worker::Worker;
use tokio::sync::mpsc;

use crate::endings::kill_a_worker;
use crate::rig::{Counter, Logs, Rig, config, is_alive, shell, until, within};

/// A shell that ends when its daemon has left the group, not before.
fn daemon(text: &str) -> Task {
    let wait = "while [ ! -s $left ]; do sleep 0.01; done; rm $left";
    shell(&format!("left=$(mktemp); setsid sh -c \"echo yes > $left; {text}\" & {wait}"))
}

#[tokio::test]
async fn a_daemon_that_holds_the_output_open_does_not_hold_up_the_outcome() {
    let mut rig = Rig::start().await;
    let outcome = rig.outcome_of(daemon("echo \\$\\$; exec sleep 1000")).await;
    assert_eq!(outcome.end, End::Succeeded);
    let note = "a process in the background still holds the output open; it is not read any longer";
    assert_eq!(rig.logs.text(1, Stream::Note), note);
    let daemon = rig.logs.pids(1, 1).await[0];
    rig.shut_down().await;
    until("the daemon is gone with its worker", || !is_alive(daemon)).await;
}

#[tokio::test]
async fn a_daemon_that_prints_for_ever_does_not_hold_up_the_outcome() {
    let mut rig = Rig::start_with(|config| config.logs = Arc::new(Counter::default())).await;
    let outcome = rig.outcome_of(daemon("exec yes")).await;
    assert_eq!(outcome.end, End::Succeeded);
    rig.shut_down().await;
}

#[tokio::test]
async fn what_a_killed_worker_left_behind_is_killed_when_the_next_one_opens() {
    let (scratch, pids) = kill_a_worker();
    assert!(pids.iter().all(|pid| is_alive(*pid)), "nothing was left, so there is nothing to see");
    let (reports, _batches) = mpsc::channel(1);
    let opening = Worker::open(config(scratch.path(), Arc::new(Logs::default())), reports);
    within("the next worker", opening).await.unwrap();
    assert_eq!(pids.into_iter().filter(|pid| is_alive(*pid)).collect::<Vec<u32>>(), Vec::<u32>::new());
}
