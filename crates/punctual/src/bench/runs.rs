//! No-op runs, end to end: submitted, assigned, executed, reported, settled into history, every step durable.
//!
//! The bare writer beside it writes the same rows, made beforehand, with one thread and nothing else to do: what the
//! schema and the disk would allow.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use punctual_core::Timestamp;
use punctual_core::attempt::Outcome;
use punctual_core::change::{Batch, Changes, Loaded, Row, RowKey};
use punctual_core::command::{Command, Submit};
use punctual_core::ids::{Epoch, IdMaker, RunId, ShardId, Token, WorkerId};
use punctual_core::job::Definition;
use punctual_core::name::Namespace;
use punctual_core::run::{Event, Origin, Run, Trigger};
use punctual_core::task::Task;
use punctual_node::Handle;
use punctual_store::sqlite::{Options, Sqlite};
use punctual_store::{Claim, Store};
use serde::Serialize;
use tokio::task::JoinSet;

use super::Found;
use super::figures::median;
use super::place::{Folder, Place, Stopwatch, UNDER_WAY, node};
use super::remote::Pair;
use crate::cli::progress;
use crate::wiring;

/// Runs in one batch of the bare writer.
const BARE_BATCH: usize = 1000;

#[derive(Debug, Args)]
pub(crate) struct Runs {
    /// Runs to submit, each time
    #[arg(long, default_value_t = 200_000)]
    count: usize,
    /// How often to measure; the median counts
    #[arg(long, default_value_t = 3)]
    repeat: usize,
    /// Attempts that may be under way at once
    #[arg(long, default_value_t = 2048)]
    slots: usize,
    /// Let a worker over the network execute them, on this machine
    #[arg(long)]
    remote: bool,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Serialize)]
pub(crate) struct Measured {
    runs_per_second: f64,
    baseline_runs_per_second: f64,
    ratio: f64,
    count: usize,
    /// Every measurement, in order.
    runs_each: Vec<f64>,
    baseline_each: Vec<f64>,
}

impl Found for Measured {
    fn lines(&self) -> Vec<(&'static str, String)> {
        vec![
            ("no-op runs", format!("{:.0}/s", self.runs_per_second)),
            ("bare writer of the same rows", format!("{:.0}/s", self.baseline_runs_per_second)),
            ("ratio", format!("{:.2}", self.ratio)),
        ]
    }
}

impl Runs {
    pub(crate) async fn run(self) -> anyhow::Result<Measured> {
        let (mut runs_each, mut baseline_each) = (Vec::new(), Vec::new());
        for _ in 0..self.repeat.max(1) {
            baseline_each.push(self.bare().await?);
            runs_each.push(self.whole().await?);
        }
        let (runs, baseline) = (median(runs_each.clone()), median(baseline_each.clone()));
        Ok(Measured {
            runs_per_second: runs,
            baseline_runs_per_second: baseline,
            ratio: runs / baseline,
            count: self.count,
            runs_each,
            baseline_each,
        })
    }

    #[expect(clippy::cast_precision_loss, reason = "a number of runs fits")]
    async fn whole(&self) -> anyhow::Result<f64> {
        let folder = self.place.folder("runs")?;
        let seconds = if self.remote {
            let (pair, handle) = Pair::start(&folder, self.slots).await?;
            let seconds = self.through(&handle).await?;
            pair.shut_down().await?;
            seconds
        } else {
            let (running, handle) = node(&folder, self.slots).await?;
            let seconds = self.through(&handle).await?;
            running.shut_down().await;
            seconds
        };
        Ok(self.count as f64 / seconds)
    }

    /// Seconds from the first submit to the last row of history.
    async fn through(&self, handle: &Handle) -> anyhow::Result<f64> {
        let watch = Stopwatch::start();
        submit_all(handle, self.count).await?;
        // Memory is ahead of the disk: a run counts when the store has it in its history.
        while handle.store().stats().await?.history_runs < self.count as u64 {
            anyhow::ensure!(handle.status().failed.is_none(), "the node failed");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Ok(watch.seconds())
    }

    #[expect(clippy::cast_precision_loss, reason = "a number of runs fits")]
    async fn bare(&self) -> anyhow::Result<f64> {
        let folder = self.place.folder("bare")?;
        let count = self.count;
        let seconds = tokio::task::spawn_blocking(move || write_bare(&folder, count)).await??;
        Ok(count as f64 / seconds)
    }
}

/// Submits through as many askers as keep the commits full.
async fn submit_all(handle: &Handle, count: usize) -> anyhow::Result<()> {
    let definition = Arc::new(Definition::of(Task::Noop));
    let bar = progress::bar("submitting", count);
    let askers = UNDER_WAY.min(count.max(1));
    let mut tasks = JoinSet::new();
    for asker in 0..askers {
        let (handle, definition, bar) = (handle.clone(), Arc::clone(&definition), Arc::clone(&bar));
        let share = count / askers + usize::from(asker < count % askers);
        tasks.spawn(async move {
            for _ in 0..share {
                let submit = Submit {
                    namespace: Namespace::default(),
                    definition: Arc::clone(&definition),
                    due: None,
                    key: None,
                    spread: handle.spread(),
                };
                handle.command(Command::Submit(submit)).await?;
            }
            bar.inc(share as u64);
            anyhow::Ok(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    bar.finish_and_clear();
    Ok(())
}

/// Seconds to write the rows of as many runs: each born running, then moved into the history.
fn write_bare(folder: &Folder, count: usize) -> anyhow::Result<f64> {
    let store = Sqlite::open(folder.path(), Options::default())?;
    let shard = ShardId(0);
    let runtime = tokio::runtime::Handle::current();
    let epoch = runtime
        .block_on(store.acquire(None, &[Claim::whatever(shard)]))?
        .first()
        .map_or(Epoch(1), |(_, epoch)| *epoch);
    let loaded = runtime.block_on(store.load(shard, epoch))?;
    let batches = bare_batches(&loaded, count);
    let watch = Stopwatch::start();
    for batch in batches {
        store.commit_blocking(Arc::new(vec![batch]))?;
    }
    Ok(watch.seconds())
}

fn bare_batches(loaded: &Loaded, count: usize) -> Vec<Batch> {
    let now = wiring::now();
    let Loaded { shard, epoch, mut commit, last_id, .. } = *loaded;
    let mut ids = IdMaker::new(shard, last_id);
    let definition = Arc::new(Definition::of(Task::Noop));
    let mut batches = Vec::new();
    let mut left = count;
    while left > 0 {
        let size = left.min(BARE_BATCH);
        left -= size;
        let runs: Vec<(Run, Run)> =
            (0..size).map(|_| life(RunId(ids.next(now)), &definition, epoch, now)).collect();
        let (mut born, mut ended) = (Changes::default(), Changes::default());
        for (running, done) in runs {
            ended.delete(RowKey::Run(running.id));
            born.insert(Row::Run(Arc::new(running)));
            ended.insert(Row::History(Arc::new(done)));
        }
        for changes in [born, ended] {
            batches.push(Batch { shard, epoch, commit, last_id: ids.last(), changes });
            commit += 1;
        }
    }
    batches
}

/// A run as the engine writes it, running and ended.
fn life(id: RunId, definition: &Arc<Definition>, epoch: Epoch, now: Timestamp) -> (Run, Run) {
    let origin = Origin::AdHoc(Arc::clone(definition));
    let mut run = Run::new(id, Namespace::default(), origin, Trigger::Submit, now, now);
    let token = Token::default().next(epoch);
    let worker = WorkerId::new("local", 1_800_000_000_000);
    let legal = "a run comes due, is assigned and ends";
    run.apply(Event::Due, definition, now).expect(legal);
    run.apply(Event::Assigned { worker, token }, definition, now).expect(legal);
    let running = run.clone();
    run.apply(Event::Reported { token, outcome: Outcome::succeeded(now) }, definition, now).expect(legal);
    (running, run)
}
