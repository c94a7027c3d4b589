//! How many fires per second a node makes in time: `created_at` minus `due`, of every run (P3).

use std::time::Duration;

use clap::Args;
use punctual_core::Timestamp;
use punctual_core::schedule::{Schedule, When};
use serde::Serialize;

use super::Found;
use super::data_folder::{DataFolder, node};
use super::lateness::{fired, have_ended, put_jobs};
use super::statistics::Late;
use crate::wiring;

/// A run made within this time of its due time counts as in time.
const IN_TIME: Duration = Duration::from_secs(1);
/// Jobs created concurrently.
const CREATORS: usize = 512;
/// The period of every job.
const PERIOD: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
pub(crate) struct Fires {
    /// Fires a second: so many jobs are due each second, spread evenly over it
    #[arg(long, default_value_t = 10_000)]
    rate: usize,
    /// How long to look
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Attempts that may be under way at once
    #[arg(long, default_value_t = 2048)]
    slots: usize,
    #[command(flatten)]
    data: DataFolder,
}

#[derive(Debug, Serialize)]
pub(crate) struct Measured {
    rate: usize,
    seconds: u64,
    /// Due times during the measurement.
    due: usize,
    /// Runs made within a second of their due time.
    in_time: usize,
    /// Due times without a run.
    missing: usize,
    /// From due time to creation.
    made: Late,
    /// From due time to start.
    started: Late,
}

impl Found for Measured {
    fn lines(&self) -> Vec<(&'static str, String)> {
        vec![
            ("fires", format!("{} a second for {} s", self.rate, self.seconds)),
            ("made within a second", format!("{} of {}, {} missing", self.in_time, self.due, self.missing)),
            ("from due to made", self.made.line()),
            ("from due to started", self.started.line()),
        ]
    }
}

impl Fires {
    pub(crate) async fn run(self) -> anyhow::Result<Measured> {
        anyhow::ensure!(self.rate > 0 && self.seconds > 0, "--rate and --seconds are at least 1");
        let folder = self.data.folder("fires")?;
        let (running, handle) = node(&folder, self.slots).await?;
        // Create all jobs well before the first due time, which is a whole second.
        let lead = Duration::from_secs(5) + Duration::from_millis(self.rate as u64 / 4);
        let begin = Timestamp::from_millis(((wiring::now() + lead).as_millis() / 1000) * 1000);
        let rate = self.rate;
        let end = begin + Duration::from_secs(self.seconds);
        let last = end.before(Duration::from_millis(1));
        put_jobs(&handle, rate, CREATORS, move |index| {
            let step = PERIOD.mul_f64(fraction(index, rate));
            let (start, end) = (Some(begin + step), Some(last));
            Ok(Schedule { start, end, ..Schedule::new(When::Every(PERIOD)) })
        })
        .await?;
        anyhow::ensure!(
            wiring::now() < begin,
            "creating the jobs took longer than the time before they are due"
        );
        tokio::time::sleep(end.since(wiring::now())).await;
        let due = rate * usize::try_from(self.seconds)?;
        // Runs that have not been created when this returns count as missing.
        have_ended(&handle, due).await?;
        let fires = fired(&handle).await?;
        running.shut_down().await;
        let since_due = |at: Timestamp, due: Timestamp| at.as_millis() - due.as_millis();
        let made: Vec<i64> = fires.iter().map(|fire| since_due(fire.created, fire.due)).collect();
        let started = fires.iter().filter_map(|fire| Some(since_due(fire.started?, fire.due)));
        Ok(Measured {
            rate,
            seconds: self.seconds,
            due,
            in_time: made.iter().filter(|late| Duration::from_millis(late.unsigned_abs()) <= IN_TIME).count(),
            missing: due.saturating_sub(made.len()),
            started: Late::of(started.collect()),
            made: Late::of(made),
        })
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of a benchmark fit")]
fn fraction(index: usize, of: usize) -> f64 {
    index as f64 / of as f64
}
