//! Through a worker over the network: the rate of no-op runs, the time from assignment to start, and a few
//! slots shared by several nodes.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use punctual_core::job::Definition;
use punctual_core::run::{Run, What};
use punctual_core::task::Task;
use punctual_node::Handle;
use punctual_store::RunFilter;
use serde::Serialize;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use super::Found;
use super::data_folder::DataFolder;
use super::load::{ended, submit, through};
use super::member::{Member, settle};
use super::remote_worker::RemoteWorker;
use super::slots;
use super::statistics::{Late, median};

#[derive(Debug, Args)]
pub(crate) struct Remote {
    /// Runs to submit, each time
    #[arg(long, default_value_t = 100_000)]
    count: usize,
    /// How often to measure them; the median counts
    #[arg(long, default_value_t = 3)]
    repeat: usize,
    /// Attempts that the worker may have under way at once
    #[arg(long, default_value_t = 2048)]
    slots: usize,
    /// Runs a second while it is measured how soon an assignment starts
    #[arg(long, default_value_t = 1000)]
    rate: u32,
    /// How long that is measured
    #[arg(long, default_value_t = 10)]
    seconds: u32,
    /// A server to keep the store, postgres://… or mysql://…: what is written stays there [default: SQLite in new folders]
    #[arg(long, value_name = "URL", env = "PUNCTUAL_BENCH_STORE", hide_env_values = true)]
    store: Option<String>,
    #[command(flatten)]
    data: DataFolder,
}

#[derive(Debug, Serialize)]
pub(crate) struct Measured {
    runs_per_second: f64,
    runs_each: Vec<f64>,
    count: usize,
    /// From the decision to assign a run until its start, including the commit.
    assigned_to_started: Late,
    rate: u32,
    shared: slots::Shared,
}

impl Found for Measured {
    fn lines(&self) -> Vec<(&'static str, String)> {
        let Late { p50_ms, p99_ms, max_ms, .. } = self.assigned_to_started;
        let mut lines = vec![
            ("no-op runs through one worker", format!("{:.0}/s", self.runs_per_second)),
            ("assignments a second", self.rate.to_string()),
            ("assignment to start", format!("p50 {p50_ms:.0} ms, p99 {p99_ms:.0} ms, max {max_ms:.0} ms")),
        ];
        lines.extend(self.shared.lines());
        lines
    }
}

impl Remote {
    pub(crate) async fn run(self) -> anyhow::Result<Measured> {
        let mut runs_each = Vec::new();
        for _ in 0..self.repeat.max(1) {
            runs_each.push(self.throughput().await?);
        }
        let assigned_to_started = self.latency().await?;
        let shared = slots::share(self.store.as_deref(), &self.data).await?;
        Ok(Measured {
            runs_per_second: median(runs_each.clone()),
            runs_each,
            count: self.count,
            assigned_to_started,
            rate: self.rate,
            shared,
        })
    }

    #[expect(clippy::cast_precision_loss, reason = "a number of runs fits")]
    async fn throughput(&self) -> anyhow::Result<f64> {
        let folder = self.data.folder("remote")?;
        let members = [Member::start(self.store.as_deref(), &folder, 0).await?];
        settle(&members).await?;
        let worker = RemoteWorker::start(&members, &folder, self.slots).await?;
        let seconds = through(&[members[0].handle.clone()], self.count).await?;
        worker.shut_down().await?;
        for member in members {
            member.shut_down().await?;
        }
        Ok(self.count as f64 / seconds)
    }

    async fn latency(&self) -> anyhow::Result<Late> {
        let folder = self.data.folder("latency")?;
        let members = [Member::start(self.store.as_deref(), &folder, 0).await?];
        settle(&members).await?;
        let worker = RemoteWorker::start(&members, &folder, self.slots).await?;
        let handle = members[0].handle.clone();
        let begin = crate::wiring::now();
        let expected = self.rate as usize * self.seconds as usize;
        let before = handle.reads().stats().await?.history_runs;
        self.submit_at_rate(&handle).await?;
        ended(&handle, before + expected as u64).await?;
        let filter = RunFilter { oldest_first: true, since: Some(begin), ..RunFilter::default() };
        let runs = history(&handle, &filter).await?;
        let took: Vec<i64> = runs.iter().filter_map(|run| assigned_to_started(run)).collect();
        anyhow::ensure!(took.len() == expected, "{} runs of {expected} have started", took.len());
        worker.shut_down().await?;
        for member in members {
            member.shut_down().await?;
        }
        Ok(Late::of(took))
    }

    /// Submits each run at its time, without waiting for earlier ones.
    async fn submit_at_rate(&self, handle: &Handle) -> anyhow::Result<()> {
        let definition = Arc::new(Definition::of(Task::Noop));
        let mut pace = tokio::time::interval(Duration::from_secs(1) / self.rate.max(1));
        pace.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let mut submitting = JoinSet::new();
        for _ in 0..self.rate * self.seconds {
            pace.tick().await;
            let (handle, definition) = (handle.clone(), Arc::clone(&definition));
            submitting.spawn(async move { submit(&handle, &definition).await });
            while let Some(submitted) = submitting.try_join_next() {
                submitted??;
            }
        }
        while let Some(submitted) = submitting.join_next().await {
            submitted??;
        }
        Ok(())
    }
}

fn assigned_to_started(run: &Run) -> Option<i64> {
    let assigned = run.entries.iter().rfind(|entry| entry.what == What::Assigned)?;
    Some(run.started_at?.as_millis() - assigned.at.as_millis())
}

/// Every run that matches, oldest first.
pub(super) async fn history(handle: &Handle, filter: &RunFilter) -> anyhow::Result<Vec<Arc<Run>>> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let runs = handle.reads().runs(filter, after, 1000).await?;
        let Some(last) = runs.last() else { return Ok(all) };
        after = Some(last.id);
        all.extend(runs);
    }
}
