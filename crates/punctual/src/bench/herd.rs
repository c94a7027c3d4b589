//! A thundering herd: many jobs due at one instant, while REST requests go on.

use std::time::Duration;

use clap::Args;
use punctual_client::Client;
use punctual_core::Timestamp;
use punctual_core::name::Namespace;
use punctual_core::schedule::{Schedule, When};
use punctual_node::Handle;
use punctual_wire::rest::Submit;
use serde::Serialize;
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::Found;
use super::data_folder::{DataFolder, Stopwatch, node};
use super::lateness::{Fired, fired, have_ended, job_name, put_jobs};
use super::statistics::percentile;
use crate::wiring;

/// The interval of REST requests: a read and a submit, in turn.
const ASK_EVERY: Duration = Duration::from_millis(10);
/// Jobs created concurrently.
const CREATORS: usize = 512;

#[derive(Debug, Args)]
pub(crate) struct Herd {
    #[arg(long, default_value_t = 100_000)]
    jobs: usize,
    /// Attempts that may be under way at once
    #[arg(long, default_value_t = 2048)]
    slots: usize,
    #[command(flatten)]
    data: DataFolder,
}

#[derive(Debug, Serialize)]
pub(crate) struct Measured {
    created_seconds: f64,
    started_seconds: f64,
    lost: usize,
    api_p99_ms: f64,
    api_max_ms: f64,
    api_requests: usize,
    early: usize,
    jobs: usize,
}

impl Found for Measured {
    fn lines(&self) -> Vec<(&'static str, String)> {
        vec![
            ("jobs due in one instant", self.jobs.to_string()),
            ("all runs created after", format!("{:.2} s", self.created_seconds)),
            ("last run started after", format!("{:.2} s", self.started_seconds)),
            ("lost, early", format!("{}, {}", self.lost, self.early)),
            (
                "REST meanwhile",
                format!(
                    "p99 {:.0} ms, max {:.0} ms of {}",
                    self.api_p99_ms, self.api_max_ms, self.api_requests
                ),
            ),
        ]
    }
}

impl Herd {
    #[expect(clippy::cast_precision_loss, reason = "milliseconds of a benchmark fit")]
    pub(crate) async fn run(self) -> anyhow::Result<Measured> {
        let folder = self.data.folder("herd")?;
        let (running, handle) = node(&folder, self.slots).await?;
        let due = self.create(&handle).await?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let client = Client::new(&format!("http://{}", listener.local_addr()?), None)?;
        let (stop_asking, asking_ends) = watch::channel(false);
        let (stop, mut closing) = watch::channel(false);
        let serving = tokio::spawn(punctual_server::serve(listener, running.endpoints(), async move {
            drop(closing.wait_for(|stop| *stop).await);
        }));
        tokio::time::sleep(due.since(wiring::now()).saturating_sub(Duration::from_millis(500))).await;
        let asking = tokio::spawn(ask_meanwhile(client, asking_ends));
        let runs = self.wait_for_all(&handle, due).await?;
        stop_asking.send_replace(true);
        let mut api = asking.await??;
        stop.send_replace(true);
        serving.await??;
        running.shut_down().await;
        api.sort_unstable();
        let after = |instants: &mut dyn Iterator<Item = Timestamp>| {
            instants.max().map_or(0.0, |last| (last.as_millis() - due.as_millis()) as f64 / 1000.0)
        };
        Ok(Measured {
            created_seconds: after(&mut runs.iter().map(|run| run.created)),
            started_seconds: after(&mut runs.iter().filter_map(|run| run.started)),
            lost: self.jobs.saturating_sub(runs.iter().filter(|run| run.started.is_some()).count()),
            api_p99_ms: percentile(&api, 99) / 1000.0,
            api_max_ms: percentile(&api, 100) / 1000.0,
            api_requests: api.len(),
            early: runs.iter().filter(|run| run.started.is_some_and(|at| at < due)).count(),
            jobs: self.jobs,
        })
    }

    /// Creates the jobs, all due at one instant after the last creation.
    async fn create(&self, handle: &Handle) -> anyhow::Result<Timestamp> {
        // Twice the slowest creation time measured so far.
        let lead = Duration::from_secs(5) + Duration::from_millis(self.jobs as u64 / 4);
        let due = Timestamp::from_millis(((wiring::now() + lead).as_millis() / 1000) * 1000);
        put_jobs(handle, self.jobs, CREATORS, move |_| Ok(Schedule::new(When::At(due)))).await?;
        anyhow::ensure!(
            wiring::now() < due,
            "creating the jobs took longer than the time before they are due"
        );
        Ok(due)
    }

    async fn wait_for_all(&self, handle: &Handle, due: Timestamp) -> anyhow::Result<Vec<Fired>> {
        tokio::time::sleep(due.since(wiring::now())).await;
        anyhow::ensure!(have_ended(handle, self.jobs).await?, "the herd has not ended after two minutes");
        fired(handle).await
    }
}

/// Sends REST requests until stopped; returns the time of each in microseconds.
async fn ask_meanwhile(client: Client, stopped: watch::Receiver<bool>) -> anyhow::Result<Vec<i64>> {
    let namespace = Namespace::default();
    let name = job_name(0).parse()?;
    let submit: Submit = serde_json::from_value(serde_json::json!({ "task": { "noop": {} } }))?;
    let mut took = Vec::new();
    let mut pace = tokio::time::interval(ASK_EVERY);
    while !*stopped.borrow() {
        pace.tick().await;
        let watch = Stopwatch::start();
        if took.len() % 2 == 0 {
            client.job(&namespace, &name).await?;
        } else {
            client.submit(&namespace, &submit).await?;
        }
        took.push(i64::try_from(watch.elapsed().as_micros())?);
    }
    Ok(took)
}
