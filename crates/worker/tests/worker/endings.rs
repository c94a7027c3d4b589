//! Nothing outlives its attempt, and no attempt its worker.

use std::io::BufRead;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use punctual_core::attempt::{End, Report};
use punctual_core::ids::RunId;
use punctual_core::log::Stream;
use punctual_core::run::Cause;
use punctual_worker::{Error, Order, Worker};
use tokio::sync::mpsc;

use crate::rig::{Logs, Rig, TOKEN, assignment, config, is_alive, shell, until};

/// How the reported attempts ended.
pub(crate) fn ends(reports: &[Report]) -> Vec<End> {
    let ends = reports.iter().filter_map(|report| match report {
        Report::Finished { outcome, .. } => Some(outcome.end),
        _ => None,
    });
    ends.collect()
}

fn cancel(run: i64, cause: Cause) -> Vec<Order> {
    vec![Order::Cancel { run: RunId(run), token: TOKEN, cause }]
}

#[tokio::test]
async fn a_cancelled_program_is_gone_with_its_grandchild() {
    let mut rig = Rig::start().await;
    rig.assign(1, shell("echo $$; sh -c 'echo $$; sleep 1000; true' & wait")).await;
    let pids = rig.logs.pids(1, 2).await;
    rig.order(cancel(1, Cause::User)).await;
    let outcome = rig.finished(1).await;
    assert!(pids.iter().all(|pid| !is_alive(*pid)));
    assert_eq!((outcome.end, outcome.exit_code), (End::Failed, None));
    assert_eq!(&*outcome.error, "cancelled on request: killed by signal 15 (SIGTERM)");
    rig.shut_down().await;
}

#[tokio::test]
async fn a_cancelled_program_takes_its_daemons_along() {
    let mut rig = Rig::start().await;
    rig.assign(1, shell("echo $$; setsid sh -c 'echo $$; exec sleep 1000' >&2 & sleep 1000")).await;
    rig.assign(2, shell("setsid sh -c 'echo $$; exec sleep 1000' & wait")).await;
    let bystander = rig.logs.pids(2, 1).await[0];
    until("the daemon's id", || !rig.logs.text(1, Stream::Err).is_empty()).await;
    let daemon: u32 = rig.logs.text(1, Stream::Err).trim().parse().unwrap();
    rig.order(cancel(1, Cause::Timeout)).await;
    assert!(rig.finished(1).await.error.starts_with("stopped at its timeout: "));
    assert!(!is_alive(daemon) && is_alive(bystander));
    rig.shut_down().await;
    assert!(!is_alive(bystander));
}

/// Its node may be cut off from the store, and say nothing.
#[tokio::test]
async fn a_worker_stops_a_task_at_its_timeout_by_itself() {
    let mut rig = Rig::start().await;
    let mut assignment = assignment(1, shell("sleep 1000"));
    Arc::make_mut(&mut assignment.definition).timeout = Some(Duration::from_millis(300));
    rig.order(vec![Order::Assign(assignment)]).await;
    let outcome = rig.finished(1).await;
    assert_eq!(outcome.end, End::TimedOut);
    assert!(outcome.error.starts_with("stopped at its timeout: "), "{}", outcome.error);
    rig.shut_down().await;
}

#[tokio::test]
async fn a_program_may_tidy_up_when_it_is_cancelled() {
    let mut rig = Rig::start().await;
    rig.assign(1, shell("trap 'echo tidied; exit 0' TERM; echo up; sleep 1000 & wait")).await;
    rig.logs.lines(1, 1).await;
    rig.order(cancel(1, Cause::Replaced)).await;
    let outcome = rig.finished(1).await;
    assert_eq!((outcome.end, &*outcome.output), (End::Failed, "up\ntidied"));
    assert_eq!(&*outcome.error, "replaced by a newer run: exit code 0");
    rig.shut_down().await;
}

#[tokio::test]
async fn a_program_that_ignores_the_request_is_killed_after_its_grace() {
    let mut rig = Rig::start_with(|config| config.grace = Duration::from_millis(200)).await;
    // The ignored signal is inherited: all of them have to be killed.
    rig.assign(1, shell("trap '' TERM; echo $$; sh -c 'echo $$; sleep 1000; true' & wait")).await;
    let pids = rig.logs.pids(1, 2).await;
    rig.order(cancel(1, Cause::User)).await;
    let outcome = rig.finished(1).await;
    assert_eq!(&*outcome.error, "cancelled on request: killed by signal 9 (SIGKILL)");
    assert!(pids.iter().all(|pid| !is_alive(*pid)));
    let notes = rig.logs.text(1, Stream::Note);
    // A busy machine notices the end of the grace period late.
    assert!(notes.contains("still there after ") && notes.contains(" s: killed"), "{notes}");
    rig.shut_down().await;
}

#[tokio::test]
async fn a_grandchild_has_the_grace_too_when_its_parent_is_gone() {
    let mut rig = Rig::start().await;
    let grandchild = "trap 'sleep 0.3; echo tidied; exit' TERM; echo up; while :; do sleep 0.01; done";
    rig.assign(1, shell(&format!("sh -c \"{grandchild}\" & wait"))).await;
    rig.logs.lines(1, 1).await;
    rig.order(cancel(1, Cause::User)).await;
    assert_eq!(&*rig.finished(1).await.output, "up\ntidied");
    rig.shut_down().await;
}

#[tokio::test]
async fn what_a_program_leaves_in_its_group_is_gone_when_it_is_reported() {
    let mut rig = Rig::start().await;
    let outcome = rig.outcome_of(shell("sleep 1000 & echo $!")).await;
    assert_eq!(outcome.end, End::Succeeded);
    assert!(!is_alive(outcome.output.trim().parse().unwrap()));
    rig.shut_down().await;
}

#[tokio::test]
async fn a_shutdown_leaves_no_process_and_says_of_none_that_it_failed() {
    let rig = Rig::start().await;
    let logs = Arc::clone(&rig.logs);
    for run in 1..=5 {
        rig.assign(run, shell("echo $$; sleep 1000 & setsid sleep 1000 & wait")).await;
    }
    for run in 6..=12 {
        rig.assign(run, shell("echo $$; sleep 1000")).await; // the last ones have no slot
    }
    let mut pids = Vec::new();
    for run in 1..=5 {
        pids.extend(logs.pids(run, 1).await);
    }
    let last = rig.shut_down().await;
    let ends = ends(&last);
    assert!(ends.len() >= 5 && ends.iter().all(|end| *end == End::Yielded), "{last:?}");
    assert!(pids.iter().all(|pid| !is_alive(*pid)));
    assert!(logs.chunks().iter().all(|chunk| chunk.run <= RunId(8)));
}

#[tokio::test]
async fn a_cancelled_attempt_is_reported_though_its_worker_shuts_down_meanwhile() {
    let rig = Rig::start().await;
    rig.assign(1, shell("trap 'sleep 0.3; exit 7' TERM; echo up; sleep 1000 & wait")).await;
    rig.logs.lines(1, 1).await;
    rig.order(cancel(1, Cause::User)).await;
    until("it is asked to end", || !rig.logs.text(1, Stream::Note).is_empty()).await;
    let last = rig.shut_down().await;
    let codes = last.iter().filter_map(|report| match report {
        Report::Finished { outcome, .. } => Some(outcome.exit_code),
        _ => None,
    });
    assert_eq!(codes.collect::<Vec<_>>(), [Some(7)]);
}

#[tokio::test]
async fn two_workers_cannot_share_a_folder() {
    let rig = Rig::start().await;
    let (reports, _batches) = mpsc::channel(1);
    let config = config(rig.scratch.path(), Arc::new(Logs::default()));
    assert!(matches!(Worker::open(config, reports).await, Err(Error::InUse(_))));
    rig.shut_down().await;
}

#[tokio::test]
async fn a_record_of_a_process_that_has_the_same_pid_by_chance_kills_nobody() {
    let scratch = tempfile::tempdir().unwrap();
    let mut bystander = Command::new("sleep").arg("1000").spawn().unwrap();
    let groups = scratch.path().join("groups");
    std::fs::create_dir_all(&groups).unwrap();
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    std::fs::write(groups.join(bystander.id().to_string()), format!("1 {boot}")).unwrap();
    let (reports, _batches) = mpsc::channel(1);
    let opened = Worker::open(config(scratch.path(), Arc::new(Logs::default())), reports).await;
    assert!(opened.is_ok() && is_alive(bystander.id()));
    assert_eq!(std::fs::read_dir(groups).unwrap().count(), 0);
    bystander.kill().unwrap();
    bystander.wait().unwrap();
}

/// Names the folder of the worker that is to be killed.
const VICTIM: &str = "WORKER_TEST_VICTIM";

/// Not a test of its own: the worker that `kill_a_worker` kills.
#[tokio::test]
#[ignore = "started by the test that kills it"]
async fn victim() {
    let scratch = PathBuf::from(std::env::var_os(VICTIM).expect("the folder"));
    let logs = Arc::new(Logs::default());
    let (reports, mut batches) = mpsc::channel(16);
    let (handle, worker) = Worker::open(config(&scratch, logs.clone()), reports).await.unwrap();
    let running = tokio::spawn(worker.run());
    let forgetful = "env -i sh -c 'echo $$; sleep 1000; true'";
    let daemon = "setsid sh -c 'echo $$; sleep 1000 & wait' &";
    let text = format!("echo $$; sleep 1000 & echo $!; {daemon} {forgetful}");
    handle.send(vec![Order::Assign(assignment(1, shell(&text)))]).await.unwrap();
    let pids = logs.lines(1, 4).await;
    println!("\npids {}", pids.join(" "));
    while batches.recv().await.is_some() {}
    running.await.unwrap();
}

/// Kills a worker in the middle of its work with SIGKILL, and gives its folder and the processes that it had.
pub(crate) fn kill_a_worker() -> (tempfile::TempDir, Vec<u32>) {
    let scratch = tempfile::tempdir().unwrap();
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["endings::victim", "--exact", "--ignored", "--nocapture"])
        .env(VICTIM, scratch.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufReader::new(victim.stdout.take().unwrap()).lines().map_while(Result::ok);
    let pids = lines.find_map(|line| line.strip_prefix("pids ").map(str::to_owned)).unwrap();
    let pids: Vec<u32> = pids.split(' ').map(|pid| pid.parse().unwrap()).collect();
    assert!(pids.iter().all(|pid| is_alive(*pid)), "nothing runs, so there is nothing to see");
    victim.kill().unwrap();
    victim.wait().unwrap();
    (scratch, pids)
}
