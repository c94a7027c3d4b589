//! A node whose clock is wrong for a while.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::command::{Command, Expect, PutJob};
use punctual_core::job::Definition;
use punctual_core::name::Namespace;
use punctual_core::schedule::{Schedule, When};
use punctual_core::task::Task;
use punctual_core::time::Clock;
use punctual_node::{Config, Node};
use punctual_store::memory::Memory;
use punctual_store::{Reads, RunFilter, Store};

const HOUR: Duration = Duration::from_secs(3600);

/// A clock that stands still, and is wrong by some milliseconds for a number of readings.
#[derive(Debug, Default)]
struct Wrong {
    readings: AtomicU32,
    by: AtomicI64,
}

impl Wrong {
    fn be(&self, by: Duration, readings: u32) {
        self.by.store(i64::try_from(by.as_millis()).unwrap(), Ordering::SeqCst);
        self.readings.store(readings, Ordering::SeqCst);
    }
}

impl Clock for Wrong {
    fn now(&self) -> Timestamp {
        let takes_one = |left: u32| left.checked_sub(1);
        let wrong = self.readings.fetch_update(Ordering::SeqCst, Ordering::SeqCst, takes_one).is_ok();
        let by = if wrong { self.by.load(Ordering::SeqCst) } else { 0 };
        Timestamp::from_millis(1_800_000_000_000 + by)
    }

    fn elapsed(&self) -> Duration {
        Duration::ZERO
    }
}

fn put(name: &str) -> Command {
    let schedule = Schedule::new(When::Every(HOUR));
    Command::PutJob(PutJob {
        namespace: Namespace::default(),
        name: name.parse().unwrap(),
        definition: Arc::new(Definition { schedules: vec![schedule], ..Definition::of(Task::Noop) }),
        expect: Expect::Anything,
    })
}

/// A node with one hourly job.
async fn node(clock: &Arc<Wrong>, store: &Arc<Memory>) -> Node {
    let node = Node::start(Config {
        store: Arc::clone(store) as Arc<dyn Store>,
        clock: Arc::clone(clock) as Arc<dyn Clock>,
        lanes: 1,
        attempt_lease: Duration::from_secs(15),
        records: true,
        shard_lease: Duration::from_secs(3),
        cluster: None,
        attempt_keys: None,
        channels: None,
    })
    .unwrap();
    let handle = node.handle();
    assert!(handle.wait_until(|status| status.ready).await);
    handle.command(put("hourly")).await.unwrap();
    node
}

/// The number of runs of a node with one hourly job after its clock was most of a day ahead for `readings` readings.
async fn runs_after(readings: u32) -> usize {
    let (clock, store) = (Arc::new(Wrong::default()), Arc::new(Memory::new(1)));
    let node = node(&clock, &store).await;
    clock.be(24 * HOUR - HOUR / 2, readings);
    // The node reads its clock before it applies the command.
    node.handle().command(put("another")).await.unwrap();
    let runs = store.runs(&RunFilter::default(), None, 100).await.unwrap().len();
    node.shut_down().await;
    runs
}

#[tokio::test]
async fn a_sleeping_node_is_told_that_its_clock_was_set() {
    let (clock, store) = (Arc::new(Wrong::default()), Arc::new(Memory::new(1)));
    let node = node(&clock, &store).await;
    clock.be(24 * HOUR - HOUR / 2, u32::MAX);
    node.nudge().clock_was_set();
    let handle = node.handle();
    let fired = handle.wait_until(|status| status.ready_runs == 1);
    assert!(tokio::time::timeout(Duration::from_secs(30), fired).await.unwrap());
    node.shut_down().await;
}

#[tokio::test]
async fn one_wrong_reading_of_the_clock_fires_nothing() {
    assert_eq!(runs_after(1).await, 0);
}

#[tokio::test]
async fn a_clock_that_was_really_set_is_believed() {
    assert_eq!(runs_after(u32::MAX).await, 1, "only the newest missed fire of the day runs");
}
