//! How late jobs start: `started_at` minus `due`, of every run in the history.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use punctual_core::Timestamp;
use punctual_core::command::{Command, Expect, PutJob};
use punctual_core::job::{Definition, Overlap};
use punctual_core::name::Namespace;
use punctual_core::schedule::{Schedule, When};
use punctual_core::task::Task;
use punctual_node::Handle;
use punctual_store::RunFilter;
use serde::Serialize;
use tokio::task::JoinSet;

use super::Found;
use super::data_folder::{DataFolder, Stopwatch, node};
use super::statistics::Late;
use crate::cli::progress;
use crate::cli::time::duration;
use crate::wiring;

const ENDING_MAX: Duration = Duration::from_secs(120);

#[derive(Debug, Args)]
pub(crate) struct Lateness {
    #[arg(long, default_value_t = 1000)]
    jobs: usize,
    /// The period of every job
    #[arg(long, default_value = "1s", value_parser = duration)]
    every: Duration,
    /// How long to look, each way
    #[arg(long, default_value_t = 30)]
    seconds: u64,
    #[command(flatten)]
    data: DataFolder,
}

#[derive(Debug, Serialize)]
pub(crate) struct Measured {
    /// Due times spread evenly over the period.
    spread: Late,
    /// All due at the same instant.
    aligned: Late,
    fires: usize,
}

impl Found for Measured {
    fn lines(&self) -> Vec<(&'static str, String)> {
        vec![
            ("spread over the period", self.spread.line()),
            ("all in one instant", self.aligned.line()),
            ("fires", self.fires.to_string()),
        ]
    }
}

impl Lateness {
    pub(crate) async fn run(self) -> anyhow::Result<Measured> {
        let (spread, first) = self.measure("spread", true).await?;
        let (aligned, second) = self.measure("aligned", false).await?;
        Ok(Measured { spread, aligned, fires: first + second })
    }

    async fn measure(&self, name: &str, spread: bool) -> anyhow::Result<(Late, usize)> {
        let folder = self.data.folder(name)?;
        let (running, handle) = node(&folder, self.jobs.max(16)).await?;
        // Create all jobs well before the first due time, which is a whole second.
        let begin = Timestamp::from_millis((wiring::now().as_millis() / 1000 + 4) * 1000);
        let period = i64::try_from(self.every.as_millis()).unwrap_or(1000);
        for index in 0..self.jobs {
            let step = if spread { period * i64::try_from(index)? / i64::try_from(self.jobs)? } else { 0 };
            let start = Timestamp::from_millis(begin.as_millis() + step);
            let schedule = Schedule { start: Some(start), ..Schedule::new(When::Every(self.every)) };
            put_job(&handle, &job_name(index), schedule).await?;
        }
        let watch = Stopwatch::start();
        let until =
            wiring::now().since(begin).max(begin.since(wiring::now())) + Duration::from_secs(self.seconds);
        tokio::time::sleep(until.saturating_sub(watch.elapsed())).await;
        let late = collect(&handle).await?;
        running.shut_down().await;
        let fires = late.len();
        let expected =
            self.jobs * usize::try_from(self.seconds.saturating_sub(2))? * 1000 / usize::try_from(period)?;
        anyhow::ensure!(fires >= expected, "only {fires} fires of at least {expected}");
        Ok((Late::of(late), fires))
    }
}

/// Creates jobs, `at_once` of them concurrently, with a progress bar.
pub(super) async fn put_jobs(
    handle: &Handle,
    count: usize,
    at_once: usize,
    schedule: impl Fn(usize) -> anyhow::Result<Schedule> + Clone + Send + 'static,
) -> anyhow::Result<()> {
    let bar = progress::bar("creating jobs", count);
    let mut tasks = JoinSet::new();
    for creator in 0..at_once {
        let (handle, bar, schedule) = (handle.clone(), Arc::clone(&bar), schedule.clone());
        tasks.spawn(async move {
            for index in (creator..count).step_by(at_once) {
                put_job(&handle, &job_name(index), schedule(index)?).await?;
                bar.inc(1);
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    bar.finish_and_clear();
    Ok(())
}

pub(super) fn job_name(index: usize) -> String {
    format!("job-{index}")
}

async fn put_job(handle: &Handle, name: &str, schedule: Schedule) -> anyhow::Result<()> {
    let definition =
        Definition { schedules: vec![schedule], overlap: Overlap::Allow, ..Definition::of(Task::Noop) };
    let put = PutJob {
        namespace: Namespace::default(),
        name: name.parse()?,
        definition: Arc::new(definition),
        expect: Expect::Absent,
    };
    handle.command(Command::PutJob(put)).await?;
    Ok(())
}

async fn collect(handle: &Handle) -> anyhow::Result<Vec<i64>> {
    let late = |run: &Fired| Some(run.started?.as_millis() - run.due.as_millis());
    Ok(fired(handle).await?.iter().filter_map(late).collect())
}

/// Waits until this many runs have ended and none is live. `false` means not within two minutes.
pub(super) async fn have_ended(handle: &Handle, count: usize) -> anyhow::Result<bool> {
    let watch = Stopwatch::start();
    while watch.elapsed() < ENDING_MAX {
        let stats = handle.reads().stats().await?;
        if stats.history_runs >= count as u64 && handle.status().live_runs == 0 {
            return Ok(true);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(false)
}

/// When a job's run was due, created and started.
pub(super) struct Fired {
    pub(super) due: Timestamp,
    pub(super) created: Timestamp,
    pub(super) started: Option<Timestamp>,
}

/// Every run that a job has made.
pub(super) async fn fired(handle: &Handle) -> anyhow::Result<Vec<Fired>> {
    let filter = RunFilter { oldest_first: true, ..RunFilter::default() };
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let runs = handle.reads().runs(&filter, after, 1000).await?;
        let Some(last) = runs.last() else { return Ok(all) };
        after = Some(last.id);
        let fired = runs.iter().filter(|run| run.job().is_some());
        all.extend(fired.map(|run| Fired { due: run.due, created: run.created_at, started: run.started_at }));
    }
}
