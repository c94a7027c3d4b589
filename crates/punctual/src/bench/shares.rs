//! Fair shares: what a small namespace feels of a flood in another one, and how exact the weights of two keys are.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use punctual_core::Timestamp;
use punctual_core::command::{Command, Submit};
use punctual_core::job::{Definition, Share};
use punctual_core::name::Namespace;
use punctual_core::run::{Origin, Run};
use punctual_core::task::Task;
use punctual_node::Handle;
use punctual_store::RunFilter;
use serde::Serialize;
use tokio::task::JoinSet;

use super::Found;
use super::data_folder::{DataFolder, Stopwatch, UNDER_WAY, node};
use super::load::{ended, through};
use super::statistics::Late;
use crate::wiring;

/// Between two runs of the small namespace.
const SMALL_EVERY: Duration = Duration::from_millis(100);
/// The keys that share slots, with their weights.
const KEYS: [(&str, u32); 2] = [("large", 70), ("small", 30)];

#[derive(Debug, Args)]
pub(crate) struct Shares {
    /// Runs of the flood, and of each of the two keys
    #[arg(long, default_value_t = 100_000)]
    count: usize,
    /// Attempts that may be under way at once: few, so that runs wait for slots
    #[arg(long, default_value_t = 16)]
    slots: usize,
    /// How long the small namespace is measured without the flood
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    #[command(flatten)]
    data: DataFolder,
}

#[derive(Debug, Serialize)]
pub(crate) struct Measured {
    alone_p99_ms: f64,
    beside_flood_p99_ms: f64,
    /// How many runs of the small namespace were measured beside the flood.
    beside_flood_runs: usize,
    /// By how much the starts of the large key differ from its 70 %.
    share_error_percent: f64,
    runs_per_second: f64,
}

impl Found for Measured {
    fn lines(&self) -> Vec<(&'static str, String)> {
        vec![
            ("wait for a slot, alone", format!("p99 {:.0} ms", self.alone_p99_ms)),
            (
                "the same beside a flood",
                format!("p99 {:.0} ms of {} runs", self.beside_flood_p99_ms, self.beside_flood_runs),
            ),
            ("error of a share of 70 %", format!("{:.1} %", self.share_error_percent)),
            ("no-op runs with these slots", format!("{:.0}/s", self.runs_per_second)),
        ]
    }
}

impl Shares {
    pub(crate) async fn run(self) -> anyhow::Result<Measured> {
        let (alone, _) = self.waits("alone", 0).await?;
        let (beside, beside_flood_runs) = self.waits("beside", self.count).await?;
        let share_error_percent = self.share_error().await?;
        Ok(Measured {
            alone_p99_ms: alone.p99_ms,
            beside_flood_p99_ms: beside.p99_ms,
            beside_flood_runs,
            share_error_percent,
            runs_per_second: self.throughput().await?,
        })
    }

    /// How long the runs of the small namespace wait while the flood has runs waiting, or for some seconds without a flood.
    async fn waits(&self, name: &str, flood: usize) -> anyhow::Result<(Late, usize)> {
        let folder = self.data.folder(name)?;
        let (running, handle) = node(&folder, self.slots).await?;
        let (small, noop) = ("small".parse::<Namespace>()?, Arc::new(Definition::of(Task::Noop)));
        let due = wiring::now() + Duration::from_secs(1 + flood as u64 / 5_000);
        submit_all(&handle, "flood", &noop, flood, due).await?;
        tokio::time::sleep(due.since(wiring::now())).await;
        let watch = Stopwatch::start();
        let mut pace = tokio::time::interval(SMALL_EVERY);
        let is_measuring = || match flood {
            0 => watch.elapsed() < Duration::from_secs(self.seconds),
            _ => handle.status().ready_runs > self.slots || watch.elapsed() < Duration::from_secs(1),
        };
        let mut submitted = 0;
        while is_measuring() {
            pace.tick().await;
            submit(&handle, &small, &noop, None).await?;
            submitted += 1;
        }
        ended(&handle, flood as u64 + submitted).await?;
        let filter = RunFilter { namespace: Some(small), ..RunFilter::default() };
        let runs = all_runs(&handle, &filter).await?;
        running.shut_down().await;
        let late = |run: &Run| Some(run.started_at?.as_millis() - run.due.as_millis());
        let late: Vec<i64> = runs.iter().filter_map(|run| late(run)).collect();
        let count = late.len();
        Ok((Late::of(late), count))
    }

    /// While runs of both keys wait, the starts should follow the weights.
    #[expect(clippy::cast_precision_loss, reason = "a number of runs fits")]
    async fn share_error(&self) -> anyhow::Result<f64> {
        let folder = self.data.folder("weights")?;
        let (running, handle) = node(&folder, self.slots).await?;
        let due = wiring::now() + Duration::from_secs(2 + self.count as u64 / 2_500);
        for (key, weight) in KEYS {
            let share = Some(Share { key: key.to_owned(), weight });
            let definition = Arc::new(Definition { share, ..Definition::of(Task::Noop) });
            submit_all(&handle, "shared", &definition, self.count, due).await?;
        }
        anyhow::ensure!(wiring::now() < due, "submitting took longer than the time before the runs are due");
        tokio::time::sleep(due.since(wiring::now())).await;
        ended(&handle, 2 * self.count as u64).await?;
        let mut runs = all_runs(&handle, &RunFilter::default()).await?;
        running.shut_down().await;
        runs.sort_unstable_by_key(|run| run.started_at);
        // Before this, runs become ready; after it, the large key has fewer waiting.
        let window = runs.iter().skip(self.count / 10).take(self.count);
        let is_large = |run: &&Arc<Run>| match &run.origin {
            Origin::AdHoc(definition) => {
                definition.share.as_ref().is_some_and(|share| share.key == KEYS[0].0)
            }
            Origin::Job { .. } => false,
        };
        let large = window.filter(is_large).count();
        Ok((large as f64 * 100.0 / self.count as f64 - f64::from(KEYS[0].1)).abs())
    }

    #[expect(clippy::cast_precision_loss, reason = "a number of runs fits")]
    async fn throughput(&self) -> anyhow::Result<f64> {
        let folder = self.data.folder("throughput")?;
        let (running, handle) = node(&folder, self.slots).await?;
        let seconds = through(std::slice::from_ref(&handle), self.count).await?;
        running.shut_down().await;
        Ok(self.count as f64 / seconds)
    }
}

/// Submits runs that are all due at one instant.
async fn submit_all(
    node: &Handle,
    namespace: &str,
    definition: &Arc<Definition>,
    count: usize,
    due: Timestamp,
) -> anyhow::Result<()> {
    let namespace: Namespace = namespace.parse()?;
    let askers = UNDER_WAY.min(count);
    let mut tasks = JoinSet::new();
    for asker in 0..askers {
        let (node, namespace, definition) = (node.clone(), namespace.clone(), Arc::clone(definition));
        tasks.spawn(async move {
            for _ in (asker..count).step_by(askers) {
                submit(&node, &namespace, &definition, Some(due)).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}

async fn submit(
    node: &Handle,
    namespace: &Namespace,
    definition: &Arc<Definition>,
    due: Option<Timestamp>,
) -> anyhow::Result<()> {
    let (namespace, definition) = (namespace.clone(), Arc::clone(definition));
    let submit = Submit { namespace, definition, due, key: None, spread: node.spread() };
    node.command(Command::Submit(submit)).await?;
    Ok(())
}

async fn all_runs(node: &Handle, filter: &RunFilter) -> anyhow::Result<Vec<Arc<Run>>> {
    let filter = RunFilter { oldest_first: true, ..filter.clone() };
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let runs = node.reads().runs(&filter, after, 1000).await?;
        let Some(last) = runs.last() else { return Ok(all) };
        after = Some(last.id);
        all.extend(runs);
    }
}
