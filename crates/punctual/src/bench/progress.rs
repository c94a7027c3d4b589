//! What progress reports cost a node: processor time and commits, and how soon REST shows them.

use std::time::Duration;

use clap::Args;
use futures_util::future::try_join_all;
use punctual::{Context, Error, Output, Worker};
use punctual_client::Client;
use punctual_core::ids::RunId;
use punctual_core::name::Namespace;
use punctual_wire::rest::Submit;
use serde::Serialize;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::Found;
use super::data_folder::{DataFolder, Stopwatch};
use super::server::{Server, TICKS_PER_SECOND};
use super::statistics::percentile;

/// How often a run is looked at, to see its newest report.
const LOOK: Duration = Duration::from_millis(20);
/// How many runs are looked at.
const LOOKED_AT: usize = 4;
/// How long all attempts may take to start.
const START_MAX: Duration = Duration::from_secs(60);

#[derive(Debug, Args)]
pub(crate) struct Progress {
    /// Attempts that run at once
    #[arg(long, default_value_t = 100)]
    attempts: u32,
    /// Reports a second, of all attempts together
    #[arg(long, default_value_t = 1000)]
    rate: u32,
    /// How long to look, once without reports and once with them
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    #[command(flatten)]
    data: DataFolder,
}

#[derive(Debug, Serialize)]
pub(crate) struct Measured {
    updates_per_second: f64,
    commits_per_second: f64,
    /// Of one core, beyond what the same attempts take without reports.
    cpu_percent: f64,
    /// From a report to the first answer over REST that shows it or a newer one.
    seen_p99_ms: f64,
    attempts: u32,
}

impl Found for Measured {
    fn lines(&self) -> Vec<(&'static str, String)> {
        vec![
            ("attempts at once", self.attempts.to_string()),
            ("reports", format!("{:.0}/s", self.updates_per_second)),
            ("commits", format!("{:.1}/s", self.commits_per_second)),
            ("CPU of the node for them", format!("{:.2} %", self.cpu_percent)),
            ("until REST shows a report", format!("p99 {:.0} ms", self.seen_p99_ms)),
        ]
    }
}

/// What the attempts do: each reports the milliseconds since `began`, as long as `is_reporting`.
#[derive(Debug, Clone)]
struct Work {
    began: Stopwatch,
    every: Duration,
    is_reporting: watch::Receiver<bool>,
    reports: watch::Sender<u64>,
}

impl Work {
    async fn report(self, cx: Context) -> Result<Output, Error> {
        let mut pace = interval(self.every);
        pace.set_missed_tick_behavior(MissedTickBehavior::Skip);
        while !cx.is_cancelled() {
            pace.tick().await;
            if *self.is_reporting.borrow() {
                cx.report(50, self.began.elapsed().as_millis().to_string());
                self.reports.send_modify(|reports| *reports += 1);
            }
        }
        Err("cancelled".into())
    }
}

impl Progress {
    pub(crate) async fn run(self) -> anyhow::Result<Measured> {
        anyhow::ensure!(
            self.attempts > 0 && self.rate > 0 && self.seconds > 0,
            "--attempts, --rate and --seconds are at least 1"
        );
        let folder = self.data.folder("progress")?;
        let mut server = Server::start(folder.path())?;
        let (url, client) = server.client().await?;
        let (switch, is_reporting) = watch::channel(false);
        let (reports, reported) = watch::channel(0);
        let every = Duration::from_secs_f64(f64::from(self.attempts) / f64::from(self.rate));
        let work = Work { began: Stopwatch::start(), every, is_reporting, reports };
        let began = work.began;
        let worker = Worker::builder().server(url).slots(self.attempts).drain(Duration::ZERO);
        let worker = worker.function("report", move |cx| work.clone().report(cx)).start().await?;
        let runs = start(&client, self.attempts).await?;

        let span = Duration::from_secs(self.seconds);
        let look =
            Look { client: client.clone(), runs: runs.into_iter().take(LOOKED_AT).collect(), began, every };
        // The runs are read in both phases, so that the difference is the reports alone.
        let (quiet, _) = tokio::join!(Phase::measure(&server, &client, &reported, span), look.delays(span));
        switch.send_replace(true);
        let (busy, delays) =
            tokio::join!(Phase::measure(&server, &client, &reported, span), look.delays(span));
        let (quiet, busy, mut delays) = (quiet?, busy?, delays?);
        worker.stop().await?;
        anyhow::ensure!(!delays.is_empty(), "no report was seen");
        delays.sort_unstable();
        Ok(Measured {
            updates_per_second: busy.reports / busy.seconds,
            commits_per_second: busy.commits / busy.seconds,
            cpu_percent: busy.cpu_percent() - quiet.cpu_percent(),
            seen_p99_ms: percentile(&delays, 99),
            attempts: self.attempts,
        })
    }
}

/// What a stretch of time took.
#[derive(Debug)]
struct Phase {
    seconds: f64,
    reports: f64,
    commits: f64,
    ticks: f64,
}

impl Phase {
    #[expect(clippy::cast_precision_loss, reason = "counts of a benchmark fit")]
    async fn measure(
        server: &Server,
        client: &Client,
        reported: &watch::Receiver<u64>,
        span: Duration,
    ) -> anyhow::Result<Phase> {
        let watch = Stopwatch::start();
        // The lock of a borrowed count must not be held while this waits: attempts need it to count.
        let reports_before = *reported.borrow();
        let (commits_before, ticks_before) = (commits(client).await?, server.cpu_ticks()?);
        sleep(span).await;
        let reports = *reported.borrow() - reports_before;
        Ok(Phase {
            reports: reports as f64,
            commits: commits(client).await? - commits_before,
            ticks: (server.cpu_ticks()? - ticks_before) as f64,
            seconds: watch.seconds(),
        })
    }

    /// Of one core.
    fn cpu_percent(&self) -> f64 {
        100.0 * self.ticks / TICKS_PER_SECOND / self.seconds
    }
}

async fn commits(client: &Client) -> anyhow::Result<f64> {
    let metrics = client.metrics().await?;
    let value = metrics.lines().find_map(|line| line.strip_prefix("punctual_commits_total "));
    Ok(value.unwrap_or("0").parse()?)
}

/// Starts the attempts, and waits until all of them run.
async fn start(client: &Client, count: u32) -> anyhow::Result<Vec<RunId>> {
    let namespace = Namespace::default();
    let submit: Submit = serde_json::from_value(serde_json::json!({ "task": { "function": "report" } }))?;
    let mut runs = Vec::new();
    for _ in 0..count {
        runs.push(client.submit(&namespace, &submit).await?.id.0);
    }
    let watch = Stopwatch::start();
    for run in &runs {
        while client.run(&namespace, *run, false).await?.started_at.is_none() {
            anyhow::ensure!(watch.elapsed() < START_MAX, "the attempts have not started after a minute");
            sleep(LOOK).await;
        }
    }
    Ok(runs)
}

/// Reads runs over REST.
struct Look {
    client: Client,
    runs: Vec<RunId>,
    began: Stopwatch,
    /// The time between two reports of a run.
    every: Duration,
}

impl Look {
    /// How long each report of the runs took until it was seen, in milliseconds.
    async fn delays(&self, span: Duration) -> anyhow::Result<Vec<i64>> {
        let of_runs = try_join_all(self.runs.iter().map(|run| self.delays_of(*run, span))).await?;
        Ok(of_runs.concat())
    }

    async fn delays_of(&self, run: RunId, span: Duration) -> anyhow::Result<Vec<i64>> {
        let (namespace, watch) = (Namespace::default(), Stopwatch::start());
        let (mut delays, mut newest) = (Vec::new(), None);
        while watch.elapsed() < span {
            sleep(LOOK).await;
            let Some(text) = self.client.run(&namespace, run, false).await?.progress_message else {
                continue;
            };
            let (at, seen) = (text.parse::<i64>()?, i64::try_from(self.began.elapsed().as_millis())?);
            let Some(before) = newest.replace(at).filter(|before| *before < at) else { continue };
            // The reports since the one before were never shown: this one replaced them.
            let every = i64::try_from(self.every.as_millis())?.max(1);
            let reports = (at - before + every / 2) / every;
            delays.extend((0..reports.max(1)).map(|older| seen - (at - older * every)));
        }
        Ok(delays)
    }
}
