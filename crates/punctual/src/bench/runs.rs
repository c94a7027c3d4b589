//! No-op runs, end to end: submitted, assigned, executed, reported, settled into history, every step durable.
//!
//! The baseline is a bare writer of the same rows, which shows what the schema and the disk allow; on a
//! database server also its rate of single-row commits, so that results of different machines can be
//! compared.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use punctual_core::ids::SessionId;
use punctual_node::Handle;
use punctual_store::{Opened, PrunePolicy};
use serde::Serialize;

use super::Found;
use super::bare;
use super::data_folder::{DataFolder, Stopwatch, node_with};
use super::load::through;
use super::member::{Member, settle};
use super::statistics::median;
use crate::settings::{Overrides, Settings, Store};
use crate::wiring;

/// Concurrent clients in the second measurement of single-row commits.
const CLIENTS: usize = 8;
/// Rows pruned in one call.
const PRUNE_STEP: usize = 5000;

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
    /// A server to measure, postgres://… or mysql://…: what is written stays there [default: SQLite in a new folder]
    #[arg(long, value_name = "URL", env = "PUNCTUAL_BENCH_STORE", hide_env_values = true)]
    store: Option<String>,
    /// Measure so many nodes in turn with one alone, all on this machine and on one store
    #[arg(long, value_name = "COUNT", requires = "store", default_value_t = 1)]
    nodes: usize,
    /// Measure in turn without statistics and search terms, to see what they cost
    #[arg(long, conflicts_with = "store")]
    statistics: bool,
    /// Then prune all these runs, and measure as many again on the same store
    #[arg(long)]
    prune: bool,
    #[command(flatten)]
    data: DataFolder,
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
    #[serde(flatten)]
    server: Option<Server>,
    #[serde(flatten)]
    several: Option<Several>,
    #[serde(flatten)]
    pruned: Option<Pruned>,
    #[serde(flatten)]
    statistics: Option<Statistics>,
}

/// The results without statistics and search terms.
#[derive(Debug, Serialize)]
struct Statistics {
    runs_per_second_without_statistics: f64,
    /// By how much the runs are slower with them.
    statistics_cost_percent: f64,
    runs_each_without_statistics: Vec<f64>,
}

/// The results on a store whose history was pruned.
#[derive(Debug, Serialize)]
struct Pruned {
    pruned_rows_per_second: f64,
    runs_per_second_after_pruning: f64,
    /// Relative to the store without history: 1 means equal speed.
    ratio_after_pruning: f64,
    runs_each_after_pruning: Vec<f64>,
}

/// Single-row commits of the database server, by one client and by several.
#[derive(Debug, Serialize)]
struct Server {
    single_row_commits_per_second: f64,
    single_row_commits_per_second_of_eight: f64,
}

/// Several nodes on the store, measured in turn with one node.
#[derive(Debug, Serialize)]
struct Several {
    nodes: usize,
    runs_per_second_of_several: f64,
    /// Relative to one node.
    ratio_of_several: f64,
    runs_each_of_several: Vec<f64>,
}

impl Found for Measured {
    fn lines(&self) -> Vec<(&'static str, String)> {
        let mut lines = vec![
            ("no-op runs", format!("{:.0}/s", self.runs_per_second)),
            ("bare writer of the same rows", format!("{:.0}/s", self.baseline_runs_per_second)),
            ("ratio", format!("{:.2}", self.ratio)),
        ];
        if let Some(server) = &self.server {
            let (one, eight) =
                (server.single_row_commits_per_second, server.single_row_commits_per_second_of_eight);
            lines.push(("single-row commits, 1 client", format!("{one:.0}/s")));
            lines.push(("single-row commits, 8 clients", format!("{eight:.0}/s")));
        }
        if let Some(Several { nodes, runs_per_second_of_several, ratio_of_several, .. }) = &self.several {
            lines.push(("nodes", nodes.to_string()));
            lines.push(("no-op runs, several nodes", format!("{runs_per_second_of_several:.0}/s")));
            lines.push(("ratio to one node", format!("{ratio_of_several:.2}")));
        }
        if let Some(statistics) = &self.statistics {
            let without = statistics.runs_per_second_without_statistics;
            lines.push(("no-op runs without statistics", format!("{without:.0}/s")));
            lines.push(("cost of statistics", format!("{:.1} %", statistics.statistics_cost_percent)));
        }
        if let Some(pruned) = &self.pruned {
            lines.push(("pruned rows", format!("{:.0}/s", pruned.pruned_rows_per_second)));
            lines
                .push(("no-op runs after pruning", format!("{:.0}/s", pruned.runs_per_second_after_pruning)));
            lines.push(("ratio to before pruning", format!("{:.2}", pruned.ratio_after_pruning)));
        }
        lines
    }
}

/// One measurement; each value is per second.
#[derive(Debug, Default)]
struct Whole {
    runs: f64,
    pruning: Option<f64>,
    after_pruning: Option<f64>,
}

/// Every measurement, in order.
#[derive(Debug, Default)]
struct Each {
    runs: Vec<f64>,
    several: Vec<f64>,
    without_statistics: Vec<f64>,
    pruning: Vec<f64>,
    after_pruning: Vec<f64>,
    baseline: Vec<f64>,
    single: Vec<f64>,
    single_of_eight: Vec<f64>,
}

impl Runs {
    pub(crate) async fn run(self) -> anyhow::Result<Measured> {
        let mut each = Each::default();
        for _ in 0..self.repeat.max(1) {
            if let Some(url) = &self.store {
                each.single.push(bare::single_rows(url, 1).await?);
                each.single_of_eight.push(bare::single_rows(url, CLIENTS).await?);
            }
            each.baseline.push(self.bare().await?);
            if self.statistics {
                each.without_statistics.push(self.on_sqlite(false).await?.runs);
            }
            let whole = self.whole(1).await?;
            each.runs.push(whole.runs);
            each.pruning.extend(whole.pruning);
            each.after_pruning.extend(whole.after_pruning);
            if self.nodes > 1 {
                each.several.push(self.whole(self.nodes).await?.runs);
            }
        }
        let (runs, baseline) = (median(each.runs.clone()), median(each.baseline.clone()));
        let several = median(each.several.clone());
        let after_pruning = median(each.after_pruning.clone());
        let without = median(each.without_statistics.clone());
        Ok(Measured {
            runs_per_second: runs,
            baseline_runs_per_second: baseline,
            ratio: runs / baseline,
            count: self.count,
            runs_each: each.runs,
            baseline_each: each.baseline,
            server: self.store.is_some().then(|| Server {
                single_row_commits_per_second: median(each.single),
                single_row_commits_per_second_of_eight: median(each.single_of_eight),
            }),
            several: (self.nodes > 1).then(|| Several {
                nodes: self.nodes,
                runs_per_second_of_several: several,
                ratio_of_several: several / runs,
                runs_each_of_several: each.several,
            }),
            pruned: self.prune.then(|| Pruned {
                pruned_rows_per_second: median(each.pruning),
                runs_per_second_after_pruning: after_pruning,
                ratio_after_pruning: after_pruning / runs,
                runs_each_after_pruning: each.after_pruning,
            }),
            statistics: self.statistics.then(|| Statistics {
                runs_per_second_without_statistics: without,
                statistics_cost_percent: (without / runs - 1.0) * 100.0,
                runs_each_without_statistics: each.without_statistics,
            }),
        })
    }

    async fn whole(&self, nodes: usize) -> anyhow::Result<Whole> {
        Ok(match self.store.as_deref() {
            None => self.on_sqlite(true).await?,
            Some(url) => {
                let names = (0..nodes).map(|number| format!("node-{number}"));
                let folders =
                    names.map(|name| self.data.folder(&name)).collect::<anyhow::Result<Vec<_>>>()?;
                let mut members = Vec::new();
                for folder in &folders {
                    members.push(Member::start(Some(url), folder, self.slots).await?);
                }
                settle(&members).await?;
                let handles: Vec<_> = members.iter().map(|member| member.handle.clone()).collect();
                let whole = self.measure(&handles).await?;
                for member in members {
                    member.shut_down().await?;
                }
                whole
            }
        })
    }

    async fn on_sqlite(&self, records: bool) -> anyhow::Result<Whole> {
        let folder = self.data.folder("runs")?;
        let (running, handle) = node_with(&folder, self.slots, |settings| settings.records = records).await?;
        let whole = self.measure(&[handle]).await?;
        running.shut_down().await;
        Ok(whole)
    }

    #[expect(clippy::cast_precision_loss, reason = "a number of runs fits")]
    async fn measure(&self, nodes: &[Handle]) -> anyhow::Result<Whole> {
        let count = self.count as f64;
        let mut whole = Whole { runs: count / through(nodes, self.count).await?, ..Whole::default() };
        if let Some(node) = nodes.first().filter(|_| self.prune) {
            let watch = Stopwatch::start();
            // A time in the future makes every run old enough to prune.
            let now = wiring::now() + Duration::from_secs(24 * 3600);
            let policy = PrunePolicy { now, ad_hoc_kept: Duration::ZERO };
            let mut rows = 0;
            loop {
                match node.upkeep().prune(&policy, PRUNE_STEP).await? {
                    0 => break,
                    gone => rows += gone,
                }
            }
            whole.pruning = Some(rows as f64 / watch.seconds());
            whole.after_pruning = Some(count / through(nodes, self.count).await?);
        }
        Ok(whole)
    }

    async fn bare(&self) -> anyhow::Result<f64> {
        let folder = self.data.folder("bare")?;
        let url = Store { url: self.store.clone(), ..Store::default() };
        let overrides =
            Overrides { data: Some(folder.path().to_owned()), store: url, ..Overrides::default() };
        let settings = Settings::read(None, overrides).map_err(anyhow::Error::msg)?;
        let Opened { store, sessions } = wiring::open_store(&settings, SessionId(0)).await?;
        let lanes = if sessions.is_some() { wiring::LANES_SHARED } else { 1 };
        bare::writer(Arc::clone(&store), u16::try_from(lanes)?, self.count).await
    }
}
