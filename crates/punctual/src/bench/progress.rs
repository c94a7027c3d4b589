//! What progress reports cost a node: processor time and commits, and how old the newest one is that REST shows.

use std::time::Duration;

use clap::Args;
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
    /// The age of the newest report that REST shows.
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
            ("age of what REST shows", format!("p99 {:.0} ms", self.seen_p99_ms)),
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
        let quiet = Phase::measure(&server, &client, &reported, span).await?;
        switch.send_replace(true);
        let (busy, ages) = tokio::join!(
            Phase::measure(&server, &client, &reported, span),
            ages(&client, runs[0], began, span)
        );
        let (busy, mut ages) = (busy?, ages?);
        worker.stop().await?;
        ages.sort_unstable();
        Ok(Measured {
            updates_per_second: busy.reports / busy.seconds,
            commits_per_second: busy.commits / busy.seconds,
            cpu_percent: busy.cpu_percent() - quiet.cpu_percent(),
            seen_p99_ms: percentile(&ages, 99),
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

/// How old the newest report of a run is, in milliseconds, each time the run is read.
async fn ages(client: &Client, run: RunId, began: Stopwatch, span: Duration) -> anyhow::Result<Vec<i64>> {
    let (namespace, watch) = (Namespace::default(), Stopwatch::start());
    let mut ages = Vec::new();
    while watch.elapsed() < span {
        sleep(LOOK).await;
        if let Some(at) = client.run(&namespace, run, false).await?.progress_message {
            ages.push(i64::try_from(began.elapsed().as_millis())? - at.parse::<i64>()?);
        }
    }
    anyhow::ensure!(!ages.is_empty(), "no report was seen");
    Ok(ages)
}
