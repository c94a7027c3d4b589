//! One worker with four slots, and three nodes that need more: never a fifth concurrent attempt, the highest
//! priority first, and every node gets a share.

use std::sync::Arc;

use punctual_core::Timestamp;
use punctual_core::command::Submit;
use punctual_core::job::Definition;
use punctual_core::run::Run;
use punctual_core::task::{Process, Task};
use punctual_store::RunFilter;
use serde::Serialize;
use tokio::task::JoinSet;

use super::data_folder::DataFolder;
use super::load::{ended, submit_as};
use super::member::{Member, settle};
use super::remote::history;
use super::remote_worker::RemoteWorker;
use crate::wiring;

const SLOTS: usize = 4;
/// The priority of the runs of each node.
const PRIORITIES: [u8; 3] = [9, 5, 1];
/// Runs of each node.
const RUNS: usize = 150;
/// The duration of a run, in seconds.
const TAKES: &str = "0.02";

#[derive(Debug, Serialize)]
pub(super) struct Shared {
    slots: usize,
    nodes: usize,
    runs: usize,
    most_at_once: usize,
    /// While runs of the highest priority wait: their share of all starts.
    first_priority_share: f64,
    /// The longest time without a start on a node with waiting runs.
    longest_wait_ms: i64,
}

impl Shared {
    pub(super) fn lines(&self) -> Vec<(&'static str, String)> {
        vec![
            ("slots shared by nodes", format!("{} by {}", self.slots, self.nodes)),
            ("most attempts at once", self.most_at_once.to_string()),
            ("share of the first while it waits", format!("{:.0} %", 100.0 * self.first_priority_share)),
            ("longest wait of a node", format!("{} ms", self.longest_wait_ms)),
        ]
    }
}

/// Three nodes, on one store or each on its own, and one worker for all of them.
pub(super) async fn share(store: Option<&str>, data: &DataFolder) -> anyhow::Result<Shared> {
    let names = (0..PRIORITIES.len()).map(|number| format!("slots-{number}"));
    let folders = names.map(|name| data.folder(&name)).collect::<Result<Vec<_>, _>>()?;
    let mut members = Vec::new();
    for folder in &folders {
        members.push(Member::start(store, folder, 0).await?);
    }
    if store.is_some() {
        settle(&members).await?;
    }
    let worker = RemoteWorker::start(&members, &folders[0], SLOTS).await?;
    let begin = wiring::now();
    // On a shared store, one node reports the runs of all.
    let tell = if store.is_some() { 1 } else { members.len() };
    let mut before = Vec::new();
    for member in &members[..tell] {
        before.push(member.handle.reads().stats().await?.history_runs);
    }
    submit_all(&members, store.is_some()).await?;
    for (member, before) in members.iter().zip(before) {
        ended(&member.handle, before + (RUNS * PRIORITIES.len() / tell) as u64).await?;
    }
    let filter = RunFilter { oldest_first: true, since: Some(begin), ..RunFilter::default() };
    let mut runs = Vec::new();
    for member in &members[..tell] {
        runs.extend(history(&member.handle, &filter).await?);
    }
    worker.shut_down().await?;
    for member in members {
        member.shut_down().await?;
    }
    let spans: Vec<Span> = runs.iter().filter_map(|run| Span::of(run)).collect();
    anyhow::ensure!(spans.len() == RUNS * PRIORITIES.len(), "only {} runs have ended", spans.len());
    Ok(Shared {
        slots: SLOTS,
        nodes: PRIORITIES.len(),
        runs: spans.len(),
        most_at_once: most_at_once(&spans),
        first_priority_share: share_of(PRIORITIES[0], &spans),
        longest_wait_ms: PRIORITIES
            .map(|priority| longest_wait(priority, &spans))
            .into_iter()
            .max()
            .unwrap_or(0),
    })
}

async fn submit_all(members: &[Member], on_one_store: bool) -> anyhow::Result<()> {
    let task = Task::Process(Process {
        command: vec!["sleep".to_owned(), TAKES.to_owned()],
        env: Default::default(),
        dir: None,
    });
    let mut submitting = JoinSet::new();
    for (number, (member, priority)) in members.iter().zip(PRIORITIES).enumerate() {
        let definition = Arc::new(Definition { priority, ..Definition::of(task.clone()) });
        // Separate stores would give equal ids, so each uses its own shards.
        let shards = member.handle.reads().shards();
        let is_own =
            |spread: &u64| usize::from(Submit::shard_of(*spread, shards).0) % members.len() == number;
        let mut own = (0..).filter(is_own);
        for _ in 0..RUNS {
            let (handle, definition) = (member.handle.clone(), Arc::clone(&definition));
            let spread = if on_one_store { handle.spread() } else { own.next().unwrap_or_default() };
            submitting.spawn(async move { submit_as(&handle, &definition, spread).await });
        }
    }
    while let Some(submitted) = submitting.join_next().await {
        submitted??;
    }
    Ok(())
}

/// The lifetime of a run.
#[derive(Debug, Clone, Copy)]
struct Span {
    priority: u8,
    created: Timestamp,
    started: Timestamp,
    ended: Timestamp,
}

impl Span {
    fn of(run: &Run) -> Option<Span> {
        let (started, ended) = (run.started_at?, run.finished_at?);
        Some(Span { priority: run.priority, created: run.created_at, started, ended })
    }
}

/// Within one millisecond, ends count before starts.
fn most_at_once(spans: &[Span]) -> usize {
    let mut steps: Vec<(Timestamp, i32)> =
        spans.iter().flat_map(|span| [(span.started, 1), (span.ended, -1)]).collect();
    steps.sort_unstable();
    let (mut now, mut most) = (0, 0);
    for (_, step) in steps {
        now += step;
        most = most.max(now);
    }
    usize::try_from(most).unwrap_or(0)
}

/// The share of this priority in all starts up to its last start.
#[expect(clippy::cast_precision_loss, reason = "a number of runs fits")]
fn share_of(priority: u8, spans: &[Span]) -> f64 {
    let own = || spans.iter().filter(|span| span.priority == priority);
    let Some(last) = own().map(|span| span.started).max() else { return 0.0 };
    let all = spans.iter().filter(|span| span.started <= last).count();
    own().count() as f64 / all as f64
}

/// The longest time between two starts, or from the first submit to the first start.
fn longest_wait(priority: u8, spans: &[Span]) -> i64 {
    let own = || spans.iter().filter(|span| span.priority == priority);
    let mut starts: Vec<i64> = own().map(|span| span.started.as_millis()).collect();
    starts.extend(own().map(|span| span.created.as_millis()).min());
    starts.sort_unstable();
    starts.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(priority: u8, started: i64, ended: i64) -> Span {
        let [created, started, ended] = [0, started, ended].map(Timestamp::from_millis);
        Span { priority, created, started, ended }
    }

    #[test]
    fn what_overlaps_is_counted_and_what_follows_is_not() {
        let spans = [span(9, 0, 10), span(9, 5, 15), span(1, 10, 20), span(1, 30, 40)];
        assert_eq!(most_at_once(&spans), 2);
    }

    #[test]
    fn a_priority_has_its_share_until_its_last_start() {
        let spans = [span(9, 1, 2), span(1, 2, 3), span(9, 3, 4), span(9, 4, 5), span(1, 900, 901)];
        assert!((share_of(9, &spans) - 0.75).abs() < 1e-9);
        assert_eq!((longest_wait(9, &spans), longest_wait(1, &spans)), (2, 898));
    }
}
