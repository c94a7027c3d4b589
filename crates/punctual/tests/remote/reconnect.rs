//! Every worker loses its node at once, and comes back when it does (T-23).
//!
//! `WORKERS=10000` for the full count, in a release: it takes three file descriptors a worker, because both ends are in here.

use std::sync::Arc;
use std::time::Duration;

use punctual::core::run::Status;
use punctual_store::memory::Memory;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::time::Instant;

use crate::scene::{Center, DEADLINE, Setting, Wanted, Worker, noop, within};

const WORKERS: usize = 300;
const FILES_PER_WORKER: usize = 3;
/// How long the node is away: some of the pauses have grown by then.
const OUTAGE: Duration = Duration::from_millis(1500);
/// The longest pause between two tries, and time for a slow machine to greet so many a second.
const PAUSE_MAX: Duration = Duration::from_secs(4);
const GREETED_PER_SECOND: usize = 50;
/// No more of them than this share come within a moment.
const MOMENT: Duration = Duration::from_millis(100);
const SHARE_MAX: f64 = 0.6;

fn wanted() -> usize {
    std::env::var("WORKERS").ok().and_then(|count| count.parse().ok()).unwrap_or(WORKERS)
}

/// How long so many may take to be greeted.
fn greeting(count: usize) -> Duration {
    Duration::from_secs((count / GREETED_PER_SECOND) as u64)
}

fn raise_files(count: usize) {
    let limit = getrlimit(Resource::Nofile);
    let needed = u64::try_from(count * FILES_PER_WORKER + 256).unwrap();
    let most = limit.maximum.map_or(needed, |most| most.min(needed));
    let raised = Rlimit { current: Some(limit.current.map_or(most, |now| now.max(most))), ..limit };
    setrlimit(Resource::Nofile, raised).unwrap();
    assert!(most >= needed, "{count} workers need {needed} file descriptors: `ulimit -n {needed}`");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_workers_come_back_to_a_node_that_was_away_and_not_all_at_once() {
    let count = wanted();
    raise_files(count);
    let store = Arc::new(Memory::new(4));
    let doors = punctual_server::Settings {
        connections: 2 * count + 64,
        connections_per_address: 2 * count + 64,
        ..punctual_server::Settings::default()
    };
    let setting = |address: &str| Setting {
        store: store.clone(),
        address: address.to_owned(),
        doors: doors.clone(),
        ..Setting::default()
    };
    let center = Center::start(setting("127.0.0.1:0")).await;
    let workers: Vec<Worker> = (0..count)
        .map(|number| {
            let name: &'static str = Box::leak(format!("w{number}").into_boxed_str());
            Worker::start(&[&center.address], Wanted { name, slots: 1, ..Wanted::default() })
        })
        .collect();
    let joined = center.node.handle();
    let joined = joined.wait_until(|status| status.workers == count);
    assert!(tokio::time::timeout(DEADLINE + greeting(count), joined).await.expect("all of them join"));
    let address = center.address.clone();
    center.shut_down().await;
    tokio::time::sleep(OUTAGE).await;

    let center = Center::start(setting(&address)).await;
    let handle = center.node.handle();
    let back = Instant::now();
    let mut seen = Vec::new();
    // Whoever asks meanwhile is answered: the herd is no outage.
    let asked = center.submit(noop()).await;
    let answered = back.elapsed();
    let all = PAUSE_MAX + greeting(count) + Duration::from_secs(2);
    while seen.last().is_none_or(|(_, here)| *here < count) {
        seen.push((back.elapsed(), handle.status().workers));
        assert!(back.elapsed() < all, "{} of {count} are back after {all:?}", handle.status().workers);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let most = seen.iter().map(|(at, here)| {
        let later = seen.iter().take_while(|(later, _)| *later <= *at + MOMENT).last();
        later.map_or(0, |(_, later)| later - here)
    });
    let most = most.max().unwrap_or(0);
    println!("{count} workers back after {:?}, at most {most} in {MOMENT:?}", back.elapsed());
    #[expect(clippy::cast_precision_loss, reason = "counts of a test are small")]
    let share = most as f64 / count as f64;
    assert!(share <= SHARE_MAX, "{most} of {count} came within {MOMENT:?}");
    assert!(answered < Duration::from_secs(2), "{answered:?}");
    assert_eq!(center.ended(asked).await.state.0, Status::Succeeded);
    for _ in 0..count {
        center.submit(noop()).await;
    }
    let is_done = handle.wait_until(|status| status.ready_runs + status.running_runs == 0);
    assert!(within("all of them work", is_done).await);
    assert_eq!(handle.status().stale_reports, 0);
    drop(workers);
}
