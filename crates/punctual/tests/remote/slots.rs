//! Slots that several nodes share: the worker decides who may fill the next one.

use std::sync::Arc;
use std::time::Duration;

use punctual::core::command::{Command, Submit};
use punctual::core::job::Definition;
use punctual::core::name::Namespace;
use punctual::core::run::Status;
use punctual::core::task::Task;
use punctual_store::RunFilter;
use punctual_store::memory::Memory;

use crate::scene::{Center, Setting, Wanted, Worker, within};

const SLOTS: usize = 4;
const SHARDS: u16 = 3;
/// What waits at each node; the first goes before the others.
const PRIORITIES: [u8; 3] = [9, 5, 1];
/// Where nobody begins or ends anything for longer, it is the machine that stands still, and nobody waits for a slot.
const STANDSTILL: u64 = 50;
/// Runs of each node.
const RUNS: usize = 40;

#[tokio::test(flavor = "multi_thread")]
async fn four_slots_shared_by_three_nodes_go_by_priority() {
    let mut centers = Vec::new();
    for hour in (0..).take(PRIORITIES.len()) {
        let (store, ahead) = (Arc::new(Memory::new(SHARDS)), Duration::from_secs(3600 * hour));
        centers.push(Center::start(Setting { store, ahead, ..Setting::default() }).await);
    }
    let addresses: Vec<&str> = centers.iter().map(|center| center.address.as_str()).collect();
    let mut worker = Worker::start(&addresses, Wanted { slots: SLOTS, ..Wanted::default() });
    worker.works_for(centers.len()).await;
    let folder = tempfile::tempdir().unwrap();
    let book = folder.path().join("book").display().to_string();
    // A line a step, of a few bytes: appended whole, in the order in which it happened.
    let text = |priority| {
        format!(
            "echo +{priority} $(date +%s%3N) >> {book}; sleep 0.05; echo -{priority} $(date +%s%3N) >> {book}"
        )
    };
    let mut submitting = tokio::task::JoinSet::new();
    for (number, (center, priority)) in (0..).zip(centers.iter().zip(PRIORITIES)) {
        let definition = Arc::new(Definition { priority, ..Definition::of(Task::Shell(text(priority))) });
        // Stores that know nothing of each other give the same ids, unless each has a shard of its own.
        let own = (0..).filter(|spread| Submit::shard_of(*spread, SHARDS).0 == number);
        for spread in own.take(RUNS) {
            let (handle, definition) = (center.node.handle(), Arc::clone(&definition));
            let (namespace, due, key) = (Namespace::default(), None, None);
            let submit = Command::Submit(Submit { namespace, definition, due, key, spread });
            submitting.spawn(async move { handle.command(submit).await.unwrap() });
        }
    }
    within("everything is submitted", submitting.join_all()).await;
    for center in &centers {
        within("the runs end", succeeded(center)).await;
        assert_eq!(center.node.handle().status().stale_reports, 0);
    }
    let steps = read(&std::fs::read_to_string(&book).unwrap());
    assert_eq!(steps.len(), 2 * RUNS * PRIORITIES.len());
    assert!(most_at_once(&steps) <= SLOTS, "{} at once", most_at_once(&steps));
    let share = share_of_the_first(&steps);
    assert!(share >= 0.75, "the first in priority had {share:.2} of the starts while it waited");
    for priority in PRIORITIES {
        let wait = longest_wait(priority, &steps);
        assert!(wait < Duration::from_secs(1), "priority {priority} waited {wait:?} for a slot");
    }
    worker.stop().await.unwrap();
}

/// Waits until the store has every run in its history: what the node says of itself is ahead of that.
async fn succeeded(center: &Center) {
    let store = center.node.store();
    let filter = RunFilter { statuses: vec![Status::Succeeded], ..RunFilter::default() };
    while store.runs(&filter, None, 1000).await.unwrap().len() < RUNS {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// An attempt begins or ends.
struct Step {
    begins: bool,
    priority: u8,
    millis: u64,
}

fn read(book: &str) -> Vec<Step> {
    let read = |line: &str| {
        let (what, millis) = line.split_once(' ').unwrap();
        Step {
            begins: what.starts_with('+'),
            priority: what[1..].parse().unwrap(),
            millis: millis.parse().unwrap(),
        }
    };
    book.lines().map(read).collect()
}

fn most_at_once(steps: &[Step]) -> usize {
    let (mut now, mut most) = (0_usize, 0);
    for step in steps {
        now = if step.begins { now + 1 } else { now - 1 };
        most = most.max(now);
    }
    most
}

/// Of all that began up to the last of the first priority.
#[expect(clippy::cast_precision_loss, reason = "a few runs")]
fn share_of_the_first(steps: &[Step]) -> f64 {
    let begun: Vec<u8> = steps.iter().filter(|step| step.begins).map(|step| step.priority).collect();
    let last = begun.iter().rposition(|priority| *priority == PRIORITIES[0]).unwrap();
    RUNS as f64 / (last + 1) as f64
}

/// From one beginning to the next; and from the very first, when all waited.
fn longest_wait(priority: u8, steps: &[Step]) -> Duration {
    let (mut now, mut began, mut longest) = (0, 0, 0);
    for pair in steps.windows(2) {
        let [before, step] = pair else { continue };
        now += step.millis.saturating_sub(before.millis).min(STANDSTILL);
        if step.begins && step.priority == priority {
            longest = longest.max(now - began);
            began = now;
        }
    }
    Duration::from_millis(longest)
}
