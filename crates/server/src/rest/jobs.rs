//! Jobs: put, show, list, delete, run, pause, resume, and when they are due next.

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use punctual_core::command::{Answer, Command, Made, PutJob, RunJob};
use punctual_core::job;
use punctual_core::limits::PAGE_MAX;
use punctual_core::name::Name;
use punctual_store::JobFilter;
use punctual_wire::rest::{self, Fire, Job, Page, Problem, Start};
use punctual_wire::{Text, job_file};
use serde::Deserialize;

use super::ask::unexpected;
use super::problem::Failed;
use super::request::{Asked, Expected, IdempotencyKey, In, JobAt, JobBody, MaybeJson, page_limit};
use crate::Doors;

/// Fires shown when the asker does not say how many.
const NEXT_DEFAULT: usize = 5;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Listing {
    limit: Option<Text<usize>>,
    after: Option<Name>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Preview {
    count: Option<Text<usize>>,
}

pub(crate) async fn list(
    State(doors): State<Doors>,
    In(namespace): In,
    Asked(listing): Asked<Listing>,
) -> Result<Json<Page<Job>>, Failed> {
    let limit = page_limit(listing.limit)?;
    let filter = JobFilter { namespace: Some(namespace.clone()) };
    let after = listing.after.map(|name| (namespace, name));
    let jobs = doors.handle.store().jobs(&filter, after, limit + 1).await?;
    let page = Page::cut(jobs, limit, |job| job.name.to_string());
    Ok(Json(Page { items: page.items.iter().map(|job| Job::from(&**job)).collect(), next: page.next }))
}

pub(crate) async fn put(
    State(doors): State<Doors>,
    at: JobAt,
    Expected(expect): Expected,
    JobBody(body): JobBody,
) -> Result<Response, Failed> {
    let draft = job_file::read_for(body, &at.namespace, &at.name)?;
    let put = PutJob { namespace: at.namespace, name: at.name, definition: draft.definition, expect };
    let (job, made) = doors.ask_job(Command::PutJob(put)).await?;
    let status = if made == Made::Created { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, [(rest::MADE_HEADER, rest::Made::from(made).as_str())], tagged(&job)).into_response())
}

pub(crate) async fn show(State(doors): State<Doors>, at: JobAt) -> Result<Response, Failed> {
    let job = doors.find_job(&at.namespace, &at.name).await?;
    Ok(tagged(&job))
}

pub(crate) async fn delete(
    State(doors): State<Doors>,
    at: JobAt,
    Expected(expect): Expected,
) -> Result<StatusCode, Failed> {
    let command = Command::DeleteJob { namespace: at.namespace, name: at.name, expect };
    match doors.handle.command(command).await? {
        Answer::Deleted => Ok(StatusCode::NO_CONTENT),
        other => Err(unexpected(&other)),
    }
}

pub(crate) async fn run(
    State(doors): State<Doors>,
    at: JobAt,
    IdempotencyKey(key): IdempotencyKey,
    MaybeJson(body): MaybeJson<Start>,
) -> Result<Response, Failed> {
    let start = body.into_core(key.as_deref(), doors.clock.now())?;
    let command = Command::RunJob(RunJob {
        namespace: at.namespace.clone(),
        name: at.name,
        params: start.what,
        due: start.due,
        key: start.key,
    });
    doors.ask_new_run(&at.namespace, command).await
}

pub(crate) async fn pause(State(doors): State<Doors>, at: JobAt) -> Result<Response, Failed> {
    let command = Command::PauseJob { namespace: at.namespace, name: at.name };
    Ok(tagged(&doors.ask_job(command).await?.0))
}

pub(crate) async fn resume(State(doors): State<Doors>, at: JobAt) -> Result<Response, Failed> {
    let command = Command::ResumeJob { namespace: at.namespace, name: at.name };
    Ok(tagged(&doors.ask_job(command).await?.0))
}

pub(crate) async fn next(
    State(doors): State<Doors>,
    at: JobAt,
    Asked(preview): Asked<Preview>,
) -> Result<Json<Page<Fire>>, Failed> {
    let count = preview.count.map_or(NEXT_DEFAULT, |count| count.0);
    if !(1..=PAGE_MAX).contains(&count) {
        return Err(Problem::parameter("count", format!("1 to {PAGE_MAX}")).into());
    }
    let job = doors.find_job(&at.namespace, &at.name).await?;
    Ok(Json(Page { items: Fire::of(&job, count), next: None }))
}

/// A job with its revision as the tag that `If-Match` takes back.
fn tagged(job: &job::Job) -> Response {
    ([(header::ETAG, format!("\"{}\"", job.revision))], Json(Job::from(job))).into_response()
}
