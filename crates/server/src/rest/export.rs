//! The exported history: everything the promises can be checked against, one line each, a page at a time.
//!
//! Jobs come before runs. So every fire that a job's cursor tells of is there when the runs are read; the other way
//! round, one made in between would look lost.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use punctual_core::Timestamp;
use punctual_core::change;
use punctual_core::ids::{JobId, RunId};
use punctual_core::job::{Definition, Job};
use punctual_core::name::{Name, Namespace};
use punctual_core::run::Run;
use punctual_core::schedule::When;
use punctual_store::{Error, JobFilter, RunFilter};
use punctual_wire::Text;
use punctual_wire::rest::{Carried, Event, Line, Skip, Stats};
use serde::Deserialize;

use super::problem::Failed;
use super::request::Asked;
use crate::Doors;

/// Rows read at a time.
const PAGE: usize = 500;
/// A piece of the export is sent when it has grown to this.
const PIECE_BYTES: usize = 1024 * 1024;
/// Due times that are counted for one skip record; beyond it nobody cares for the number.
const COUNT_MAX: u64 = 1_000_000;

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Range {
    from: Option<Text<Timestamp>>,
    to: Option<Text<Timestamp>>,
}

/// Where an export has got to.
enum Stage {
    Jobs(Option<(Namespace, Name)>),
    Runs(Option<RunId>),
    /// Runs that were read, and what comes after them.
    Read(std::vec::IntoIter<Arc<Run>>, Box<Stage>),
    Stats,
    Done,
}

pub(crate) async fn history(
    State(doors): State<Doors>,
    Asked(range): Asked<Range>,
) -> Result<Response, Failed> {
    let pages = stream::try_unfold(Stage::Jobs(None), move |stage| {
        let doors = doors.clone();
        async move { next_page(&doors, range, stage).await }
    });
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(pages)).into_response())
}

async fn next_page(doors: &Doors, range: Range, stage: Stage) -> Result<Option<(Bytes, Stage)>, Error> {
    let mut lines = Lines(Vec::new());
    let next = match stage {
        Stage::Jobs(after) => jobs(doors, range, after, &mut lines).await?,
        Stage::Runs(after) => runs(doors, range, after).await?,
        Stage::Read(runs, then) => write_runs(doors, runs, then, &mut lines).await?,
        Stage::Stats => {
            lines.add(&Line::Stats(stats(doors).await?));
            Stage::Done
        }
        Stage::Done => return Ok(None),
    };
    Ok(Some((lines.0.into(), next)))
}

async fn jobs(
    doors: &Doors,
    range: Range,
    after: Option<(Namespace, Name)>,
    lines: &mut Lines,
) -> Result<Stage, Error> {
    let jobs = doors.handle.store().jobs(&JobFilter::default(), after, PAGE).await?;
    for job in &jobs {
        let (cursor, calendars) = ((&job.cursor).into(), Carried::of(&job.definition));
        lines.add(&Line::Job { job: Box::new((&**job).into()), cursor, calendars });
        skips(doors, range, job, lines).await?;
    }
    match jobs.last() {
        Some(last) if jobs.len() == PAGE => {
            Ok(Stage::Jobs(Some((last.namespace.clone(), last.name.clone()))))
        }
        _ => Ok(Stage::Runs(None)),
    }
}

async fn skips(doors: &Doors, range: Range, job: &Arc<Job>, lines: &mut Lines) -> Result<(), Error> {
    let mut after: Option<(JobId, Timestamp)> = None;
    loop {
        let page = doors.handle.store().skips(Some(job.id), after, PAGE).await?;
        for skip in page.iter().filter(|skip| range.touches(skip)) {
            let count = count(doors, job, skip).await?;
            lines.add(&Line::Skip(Skip::of(skip, &job.namespace, &job.name, count)));
        }
        match page.last() {
            Some(last) if page.len() == PAGE => after = Some((last.job, last.from)),
            _ => return Ok(()),
        }
    }
}

impl Range {
    fn touches(self, skip: &change::Skip) -> bool {
        self.from.is_none_or(|from| skip.to >= from.0) && self.to.is_none_or(|to| skip.from < to.0)
    }
}

/// How many due times a record stands for. They were never made, so they are counted by the schedule that named them.
async fn count(doors: &Doors, job: &Arc<Job>, skip: &change::Skip) -> Result<Option<u64>, Error> {
    let definition = if skip.revision == job.revision {
        Some(Arc::clone(&job.definition))
    } else {
        let revision = doors.handle.store().revision(skip.job, skip.revision).await?;
        revision.map(|revision| Arc::clone(&revision.definition))
    };
    let Some(definition) = definition else { return Ok(None) };
    let (created, from, to) = (job.created_at, skip.from, skip.to);
    // A million steps through a calendar take a moment, and other requests should not wait for it.
    let counting = tokio::task::spawn_blocking(move || count_due(&definition, created, from, to));
    Ok(counting.await.unwrap_or(None))
}

fn count_due(definition: &Definition, created: Timestamp, from: Timestamp, to: Timestamp) -> Option<u64> {
    if let [schedule] = definition.schedules.as_slice()
        && schedule.calendar.is_none()
        && let When::Every(period) = schedule.when
        && !period.is_zero()
    {
        let beats = to.since(from).as_millis() / period.as_millis();
        return u64::try_from(beats).ok().map(|beats| beats + 1);
    }
    let mut count = 0;
    let mut after = Timestamp::from_millis(from.as_millis() - 1);
    loop {
        // Several schedules that meet in one instant are one fire.
        let next = definition.schedules.iter().filter_map(|schedule| schedule.next(after, created)).min();
        match next {
            Some(due) if due <= to && count < COUNT_MAX => {
                count += 1;
                after = due;
            }
            Some(due) if due <= to => return None,
            // A due time that hangs on the end of a run has no occurrence of its own, but it was one.
            _ => return Some(count.max(1)),
        }
    }
}

async fn runs(doors: &Doors, range: Range, after: Option<RunId>) -> Result<Stage, Error> {
    let filter = RunFilter {
        since: range.from.map(|from| from.0),
        until: range.to.map(|to| to.0),
        oldest_first: true,
        ..RunFilter::default()
    };
    let runs = doors.handle.store().runs(&filter, after, PAGE).await?;
    let then = match runs.last() {
        Some(last) if runs.len() == PAGE => Stage::Runs(Some(last.id)),
        _ => Stage::Stats,
    };
    Ok(Stage::Read(runs.into_iter(), Box::new(then)))
}

/// A page may hold many large results: each is read when its turn has come, and what is written is sent in between.
async fn write_runs(
    doors: &Doors,
    mut runs: std::vec::IntoIter<Arc<Run>>,
    then: Box<Stage>,
    lines: &mut Lines,
) -> Result<Stage, Error> {
    while lines.0.len() < PIECE_BYTES {
        let Some(mut run) = runs.next() else { return Ok(*then) };
        if run.may_be_abridged()
            && let Some(whole) = doors.handle.store().run(&run.namespace, run.id).await?
        {
            run = whole.run;
        }
        lines.add(&Line::Run { run: Box::new((&*run).into()), job_id: run.job().map(Text) });
        for event in Event::all(&run) {
            lines.add(&Line::Event(event));
        }
    }
    Ok(Stage::Read(runs, then))
}

async fn stats(doors: &Doors) -> Result<Stats, Error> {
    let stored = doors.handle.store().stats().await?;
    let status = doors.handle.status();
    Ok(Stats {
        jobs: stored.jobs,
        live_runs: stored.live_runs,
        history_runs: stored.history_runs,
        dead_letters: stored.dead_letters,
        commits: status.commits,
        changes: status.changes,
        stale_reports: status.stale_reports,
    })
}

/// Newline-delimited JSON.
struct Lines(Vec<u8>);

impl Lines {
    fn add(&mut self, line: &Line) {
        // Writing to memory cannot fail, and every key of a line is a string.
        if serde_json::to_writer(&mut self.0, line).is_ok() {
            self.0.push(b'\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use punctual_core::schedule::{Cron, Schedule};
    use punctual_core::task::Task;

    use super::*;

    fn check(schedules: Vec<When>, from: &str, to: &str, expected: Option<u64>) {
        let schedules = schedules.into_iter().map(Schedule::new).collect();
        let definition = Definition { schedules, ..Definition::of(Task::Noop) };
        let created = "2026-01-01T00:00:00Z".parse().unwrap();
        assert_eq!(count_due(&definition, created, from.parse().unwrap(), to.parse().unwrap()), expected);
    }

    #[test]
    fn a_range_of_skips_is_counted_by_its_schedule() {
        let cron = |text| When::Cron(Cron::parse(text, "UTC").unwrap());
        let (from, to) = ("2026-01-02T00:00:00Z", "2026-01-02T08:00:00Z");
        check(vec![When::Every(Duration::from_secs(1))], from, to, Some(28_801));
        check(vec![cron("0 * * * *")], from, to, Some(9));
        check(vec![cron("0 * * * *"), cron("0,30 * * * *")], from, to, Some(17));
        check(vec![When::AfterFinish(Duration::from_secs(1))], from, from, Some(1));
        check(vec![cron("* * * * * *")], from, "2026-02-02T08:00:00Z", None);
    }
}
