//! Many stored cron jobs, which are rows, not memory. The restart is measured in a separate process.

use std::time::Duration;

use clap::Args;
use punctual_core::hash;
use punctual_core::schedule::{Cron, Schedule, When};
use serde::Serialize;

use super::Found;
use super::data_folder::{DataFolder, Stopwatch, node};
use super::lateness::put_jobs;
use super::server::{Server, TICKS_PER_SECOND};

/// Concurrent creators: enough to read for one batch while another is written.
const CREATORS: usize = 8192;
/// How long an idle node is measured.
const IDLE: Duration = Duration::from_secs(10);

#[derive(Debug, Args)]
pub(crate) struct Jobs {
    #[arg(long, default_value_t = 1_000_000)]
    count: usize,
    #[command(flatten)]
    data: DataFolder,
}

#[derive(Debug, Serialize)]
pub(crate) struct Measured {
    create_per_second: f64,
    ready_seconds: f64,
    rss_mib: f64,
    idle_cpu_percent: f64,
    count: usize,
}

impl Found for Measured {
    fn lines(&self) -> Vec<(&'static str, String)> {
        vec![
            ("cron jobs", self.count.to_string()),
            ("created", format!("{:.0}/s", self.create_per_second)),
            ("restart to ready", format!("{:.2} s", self.ready_seconds)),
            ("memory when ready", format!("{:.0} MiB", self.rss_mib)),
            ("CPU when idle", format!("{:.2} %", self.idle_cpu_percent)),
        ]
    }
}

impl Jobs {
    #[expect(clippy::cast_precision_loss, reason = "a number of jobs fits")]
    pub(crate) async fn run(self) -> anyhow::Result<Measured> {
        let folder = self.data.folder("jobs")?;
        let (running, handle) = node(&folder, 16).await?;
        let watch = Stopwatch::start();
        put_jobs(&handle, self.count, CREATORS, yearly).await?;
        let seconds = watch.seconds();
        drop(handle);
        running.shut_down().await;

        let watch = Stopwatch::start();
        let mut server = Server::start(folder.path())?;
        server.client().await?;
        let ready_seconds = watch.seconds();
        // The node reads its first pages after it is ready; measure memory after that.
        tokio::time::sleep(Duration::from_secs(3)).await;
        let before = server.cpu_ticks()?;
        tokio::time::sleep(IDLE).await;
        let ticks = server.cpu_ticks()? - before;
        let rss_mib = server.rss_kib()? as f64 / 1024.0;
        Ok(Measured {
            create_per_second: self.count as f64 / seconds,
            ready_seconds,
            rss_mib,
            idle_cpu_percent: 100.0 * ticks as f64 / TICKS_PER_SECOND / IDLE.as_secs_f64(),
            count: self.count,
        })
    }
}

/// Once a year, at random times: a million such jobs leave a node idle.
fn yearly(index: usize) -> anyhow::Result<Schedule> {
    let dice = hash::mix(index as u64 + 1);
    let (minute, hour, day, month) =
        (dice % 60, dice / 60 % 24, 1 + dice / 1440 % 28, 1 + dice / 40_320 % 12);
    let cron = Cron::parse(&format!("{minute} {hour} {day} {month} *"), "UTC")?;
    Ok(Schedule::new(When::Cron(cron)))
}
