//! Exports the history that the promises are checked against: one line per record, page by page.
//!
//! Jobs come before runs, so that every fire up to a job's cursor is among the runs read later. In the
//! reverse order, a fire made between the two reads would look lost.
//!
//! Runs go on while the pages are read, so every run says when it was read.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use punctual_core::Timestamp;
use punctual_core::change;
use punctual_core::ids::{JobId, RunId};
use punctual_core::job::Job;
use punctual_core::name::{Name, Namespace};
use punctual_core::run::Run;
use punctual_store::{Error, JobFilter, RunFilter};
use punctual_wire::Text;
use punctual_wire::rest::{self, Event, Line, Resume, Stats};
use serde::Deserialize;

use super::problem::Failed;
use super::request::Asked;
use super::skips::{self, Owner};
use crate::Endpoints;

/// Rows read together.
const PAGE: usize = 500;
/// The export is sent in pieces of about this size.
const PIECE_BYTES: usize = 1024 * 1024;

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Range {
    from: Option<Text<Timestamp>>,
    to: Option<Text<Timestamp>>,
}

/// How far an export has got.
enum Stage {
    Jobs(Option<(Namespace, Name)>),
    DeletedJobs(Option<JobId>),
    Runs(Option<RunId>),
    /// Runs that were read, and the stage after them.
    Read {
        runs: std::vec::IntoIter<Arc<Run>>,
        read_at: Timestamp,
        then: Box<Stage>,
    },
    Stats,
    Done,
}

pub(crate) async fn history(
    State(endpoints): State<Endpoints>,
    Asked(range): Asked<Range>,
) -> Result<Response, Failed> {
    let pages = stream::try_unfold(Stage::Jobs(None), move |stage| {
        let endpoints = endpoints.clone();
        async move { next_page(&endpoints, range, stage).await }
    });
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(pages)).into_response())
}

async fn next_page(
    endpoints: &Endpoints,
    range: Range,
    stage: Stage,
) -> Result<Option<(Bytes, Stage)>, Error> {
    let mut lines = Lines(Vec::new());
    let next = match stage {
        Stage::Jobs(after) => jobs(endpoints, range, after, &mut lines).await?,
        Stage::DeletedJobs(after) => deleted_jobs(endpoints, range, after, &mut lines).await?,
        Stage::Runs(after) => runs(endpoints, range, after).await?,
        Stage::Read { runs, read_at, then } => write_runs(endpoints, runs, read_at, then, &mut lines).await?,
        Stage::Stats => {
            lines.add(&Line::Stats(stats(endpoints).await?));
            Stage::Done
        }
        Stage::Done => return Ok(None),
    };
    Ok(Some((lines.0.into(), next)))
}

async fn jobs(
    endpoints: &Endpoints,
    range: Range,
    after: Option<(Namespace, Name)>,
    lines: &mut Lines,
) -> Result<Stage, Error> {
    let jobs = endpoints.handle.reads().jobs(&JobFilter::default(), after, PAGE).await?;
    for job in &jobs {
        lines.add(&Line::job(job, None));
        revisions(endpoints, job, lines).await?;
        skip_records(endpoints, range, job, lines).await?;
    }
    match jobs.last() {
        Some(last) if jobs.len() == PAGE => {
            Ok(Stage::Jobs(Some((last.namespace.clone(), last.name.clone()))))
        }
        _ => Ok(Stage::DeletedJobs(None)),
    }
}

/// Deleted jobs come after existing jobs: a job deleted between the reads is in both, and its later line counts.
async fn deleted_jobs(
    endpoints: &Endpoints,
    range: Range,
    after: Option<JobId>,
    lines: &mut Lines,
) -> Result<Stage, Error> {
    let deleted = endpoints.handle.reads().deleted_jobs(None, after, PAGE).await?;
    for gone in &deleted {
        if let Some(job) = skips::last_of(endpoints, gone).await? {
            lines.add(&Line::job(&job, Some(job.updated_at)));
            revisions(endpoints, &job, lines).await?;
            skip_records(endpoints, range, &job, lines).await?;
        }
    }
    match deleted.last() {
        Some(last) if deleted.len() == PAGE => Ok(Stage::DeletedJobs(Some(last.id))),
        _ => Ok(Stage::Runs(None)),
    }
}

/// Every revision of the job, so that the due times of each can be checked.
async fn revisions(endpoints: &Endpoints, job: &Job, lines: &mut Lines) -> Result<(), Error> {
    let mut before = None;
    loop {
        let page = endpoints.handle.reads().revisions(job.id, before, PAGE).await?;
        for revision in &page {
            lines.add(&Line::revision(job, revision));
        }
        match page.last() {
            Some(last) if page.len() == PAGE => before = Some(last.revision),
            _ => return Ok(()),
        }
    }
}

async fn skip_records(
    endpoints: &Endpoints,
    range: Range,
    job: &Job,
    lines: &mut Lines,
) -> Result<(), Error> {
    let (mut owner, mut before) = (Owner::of(job), None);
    loop {
        let page = endpoints.handle.reads().skips(job.id, before, PAGE).await?;
        for skip in page.iter().filter(|skip| range.touches(skip)) {
            lines.add(&Line::Skip(owner.tell(endpoints, skip).await?));
        }
        match page.last() {
            Some(last) if page.len() == PAGE => before = Some((last.revision, last.from)),
            _ => return Ok(()),
        }
    }
}

impl Range {
    fn touches(self, skip: &change::Skip) -> bool {
        self.from.is_none_or(|from| skip.to >= from.0) && self.to.is_none_or(|to| skip.from < to.0)
    }
}

async fn runs(endpoints: &Endpoints, range: Range, after: Option<RunId>) -> Result<Stage, Error> {
    let filter = RunFilter {
        since: range.from.map(|from| from.0),
        until: range.to.map(|to| to.0),
        oldest_first: true,
        ..RunFilter::default()
    };
    let read_at = endpoints.clock.now();
    let runs = endpoints.handle.reads().runs(&filter, after, PAGE).await?;
    let then = match runs.last() {
        Some(last) if runs.len() == PAGE => Stage::Runs(Some(last.id)),
        _ => Stage::Stats,
    };
    Ok(Stage::Read { runs: runs.into_iter(), read_at, then: Box::new(then) })
}

/// A page may hold many large results: each is read when it is written, and a full piece is sent first.
async fn write_runs(
    endpoints: &Endpoints,
    mut runs: std::vec::IntoIter<Arc<Run>>,
    read_at: Timestamp,
    then: Box<Stage>,
    lines: &mut Lines,
) -> Result<Stage, Error> {
    while lines.0.len() < PIECE_BYTES {
        let Some(mut run) = runs.next() else { return Ok(*then) };
        if run.may_be_abridged()
            && let Some(whole) = endpoints.handle.reads().run(&run.namespace, run.id).await?
        {
            run = whole.run;
        }
        let job_id = run.job().map(Text);
        lines.add(&Line::Run { run: Box::new((&*run).into()), job_id, read_at: Text(read_at) });
        for event in Event::all(&run) {
            lines.add(&Line::Event(event));
        }
        for resume in Resume::all(&run) {
            lines.add(&Line::Resume(resume));
        }
        if run.has_begun_steps() {
            steps(endpoints, &run, lines).await?;
        }
    }
    Ok(Stage::Read { runs, read_at, then })
}

/// The graph of a workflow, and what was decided of its steps; of a split run, the rows of its parts. The definition is
/// read last: if the run was pruned meanwhile, the steps that were read may not be all.
async fn steps(endpoints: &Endpoints, run: &Run, lines: &mut Lines) -> Result<(), Error> {
    let (mut rows, mut after) = (Vec::new(), None);
    loop {
        let page = endpoints.handle.reads().steps(run.id, after, PAGE).await?;
        after = page.last().map(|last| (last.key.step, last.key.item));
        let is_last = page.len() < PAGE;
        rows.extend(page);
        if is_last {
            break;
        }
    }
    let record = endpoints.handle.reads().run(&run.namespace, run.id).await?;
    let Some(workflow) = record.as_ref().and_then(|record| run.workflow(&record.definition)) else {
        return Ok(());
    };
    if let Ok(graph) = rest::Workflow::of(run.id, workflow) {
        lines.add(&Line::Workflow(graph));
    }
    rows.iter().filter_map(|row| rest::Step::of(workflow, row)).for_each(|row| lines.add(&Line::Step(row)));
    Ok(())
}

async fn stats(endpoints: &Endpoints) -> Result<Stats, Error> {
    let stored = endpoints.handle.reads().stats().await?;
    let status = endpoints.handle.status();
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
        // Writing to memory cannot fail, and every key is a string.
        if serde_json::to_writer(&mut self.0, line).is_ok() {
            self.0.push(b'\n');
        }
    }
}
