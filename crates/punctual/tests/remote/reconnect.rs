//! Every worker loses its node at once, and comes back when it does (T-23).
//!
//! `WORKERS=10000` for the full count. The workers live in processes of their own, this test started again, because both ends
//! of so many connections are more file descriptors than one process may have.

use std::fs;
use std::io::Read;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use punctual::core::run::Status;
use punctual_store::memory::Memory;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::time::Instant;

use crate::scene::{Center, DEADLINE, Setting, Wanted, Worker, noop};

const WORKERS: usize = 300;
/// Workers in one process.
const WORKERS_EACH: usize = 2500;
/// Of those, how many are started at a time.
const STARTED_AT_ONCE: usize = 100;
/// Its connection and the lock of its folder; while it connects anew, one more.
const FILES_PER_WORKER: usize = 3;
/// What a process of workers is told: where the node is, the number of its first worker, and how many it has.
const TOLD: &str = "PUNCTUAL_TESTS_WORKERS";
/// How long the node is away: some of the pauses have grown by then.
const OUTAGE: Duration = Duration::from_millis(1500);
/// No more of them than this share come within a moment.
const MOMENT: Duration = Duration::from_millis(100);
const SHARE_MAX: f64 = 0.6;

fn wanted() -> usize {
    std::env::var("WORKERS").ok().and_then(|count| count.parse().ok()).unwrap_or(WORKERS)
}

/// Waits until a count is what it is to be, however long that takes, as long as it changes; writes down what was seen.
async fn until_all(what: &str, all: usize, look: impl Fn() -> usize, seen: &mut Vec<(Duration, usize)>) {
    let (began, mut changed) = (Instant::now(), Instant::now());
    loop {
        let now = look();
        if seen.last().is_some_and(|(_, before)| *before != now) {
            changed = Instant::now();
        }
        seen.push((began.elapsed(), now));
        if now == all {
            return;
        }
        assert!(
            changed.elapsed() < DEADLINE,
            "to {what}: {now}, and that for {DEADLINE:?}; it is to be {all}"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn raise_files(count: usize) {
    let limit = getrlimit(Resource::Nofile);
    let needed = u64::try_from(count + 256).unwrap();
    let most = limit.maximum.map_or(needed, |most| most.min(needed));
    let raised = Rlimit { current: Some(limit.current.map_or(most, |now| now.max(most))), ..limit };
    setrlimit(Resource::Nofile, raised).unwrap();
    assert!(most >= needed, "so many workers need {needed} file descriptors: `ulimit -n {needed}`");
}

/// A process of workers; they end with it.
struct Crowd {
    process: Child,
    _until: Option<ChildStdin>,
}

impl Crowd {
    fn start(address: &str, first: usize, count: usize) -> Crowd {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "reconnect::some_workers", "--ignored", "--nocapture"]);
        command.env(TOLD, format!("{address} {first} {count}"));
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        Crowd { _until: process.stdin.take(), process }
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
#[ignore = "a part of the test below, which starts it"]
fn some_workers() {
    // What a worker does once when it starts would otherwise take hundreds of threads.
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).max_blocking_threads(3).enable_all().build();
    runtime.unwrap().block_on(live());
}

/// Starts the workers that this process is told of, a few at a time, and lets them live until the other process is gone.
async fn live() {
    let told = std::env::var(TOLD).expect("it is told what to do");
    let [address, first, count] = told.split(' ').collect::<Vec<_>>()[..] else { panic!("{told}") };
    let (first, count): (usize, usize) = (first.parse().unwrap(), count.parse().unwrap());
    raise_files(count * FILES_PER_WORKER);
    let mut workers: Vec<Worker> = Vec::new();
    let start = |number| {
        let name: &'static str = Box::leak(format!("w{number}").into_boxed_str());
        Worker::start(&[address], Wanted { name, slots: 1, ..Wanted::default() })
    };
    while workers.len() < count {
        let begun = workers.len();
        workers.extend((begun..count.min(begun + STARTED_AT_ONCE)).map(|number| start(first + number)));
        // However long it takes: the other process sees whether they come.
        for worker in &mut workers[begun..] {
            worker.status.wait_for(|status| !status.nodes.is_empty()).await.unwrap();
        }
    }
    // Until the process that started it lets go of it or ends.
    let until = || std::io::stdin().read_to_end(&mut Vec::new());
    tokio::task::spawn_blocking(until).await.unwrap().unwrap();
    drop(workers);
}

/// The most memory that a process had, as the kernel tells it.
fn most_memory(process: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    most.unwrap_or("unknown").trim().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn all_workers_come_back_to_a_node_that_was_away_and_not_all_at_once() {
    let count = wanted();
    // One connection each, and as many that are not closed yet while they come back.
    raise_files(count + count / 2);
    let store = Arc::new(Memory::new(4));
    let endpoints = punctual_server::Settings {
        connections: 2 * count + 64,
        connections_per_address: 2 * count + 64,
        ..punctual_server::Settings::default()
    };
    let setting = |address: &str| Setting {
        store: store.clone(),
        address: address.to_owned(),
        endpoints: endpoints.clone(),
        ..Setting::default()
    };
    let center = Center::start(setting("127.0.0.1:0")).await;
    let firsts = (0..count).step_by(WORKERS_EACH);
    let crowds = firsts.map(|first| Crowd::start(&center.address, first, WORKERS_EACH.min(count - first)));
    let crowds: Vec<Crowd> = crowds.collect();
    let joined = center.node.handle();
    until_all("join", count, || joined.status().workers, &mut Vec::new()).await;
    let address = center.address.clone();
    center.shut_down().await;
    tokio::time::sleep(OUTAGE).await;

    let center = Center::start(setting(&address)).await;
    let handle = center.node.handle();
    let back = Instant::now();
    let mut seen = Vec::new();
    // Requests are answered while thousands of workers reconnect.
    let asked = center.submit(noop()).await;
    let here = handle.status().workers;
    assert!(here < count, "the node answered only when all workers were back, after {:?}", back.elapsed());
    until_all("come back", count, || handle.status().workers, &mut seen).await;
    let most = seen.iter().map(|(at, here)| {
        let beyond = seen.partition_point(|(later, _)| *later <= *at + MOMENT);
        seen[beyond - 1].1.saturating_sub(*here)
    });
    let most = most.max().unwrap_or(0);
    println!("{count} workers back after {:?}, at most {most} in {MOMENT:?}", back.elapsed());
    let crowded: Vec<String> =
        crowds.iter().map(|crowd| most_memory(&crowd.process.id().to_string())).collect();
    println!(
        "most memory: {} of the node, {crowded:?} of up to {WORKERS_EACH} workers each",
        most_memory("self")
    );
    #[expect(clippy::cast_precision_loss, reason = "counts of a test are small")]
    let share = most as f64 / count as f64;
    assert!(share <= SHARE_MAX, "{most} of {count} came within {MOMENT:?}");
    assert_eq!(center.ended(asked).await.state.0, Status::Succeeded);
    for _ in 0..count {
        center.submit(noop()).await;
    }
    until_all("work", 0, || handle.status().ready_runs + handle.status().running_runs, &mut Vec::new()).await;
    assert_eq!(handle.status().stale_reports, 0);
    drop(crowds);
}
