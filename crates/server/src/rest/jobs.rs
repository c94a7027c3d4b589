//! Jobs: put, patch, validate, show, delete, run, pause, resume, and their next due times.

use axum::Json;
use axum::extract::State;
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use punctual_core::Timestamp;
use punctual_core::advice;
use punctual_core::command::{Answer, Command, Expect, Made, PutJob, Refusal, RunJob};
use punctual_core::ids::RunId;
use punctual_core::job;
use punctual_core::limits::PAGE_MAX;
use punctual_core::name::Namespace;
use punctual_wire::job_file::JobFile;
use punctual_wire::rest::{
    self, Backfill, BackfillJob, Checked, Code, Fire, Graph, Job, Page, PauseJob, Problem, SendEvent,
    SentEvent, Start,
};
use punctual_wire::tree::Node;
use punctual_wire::{Text, job_file};
use serde::Deserialize;

use super::ask::unexpected;
use super::body::{FileBody, MaybeJson, PatchBody};
use super::incidents::check_channels;
use super::problem::Failed;
use super::request::{Asked, Expected, IdempotencyKey, In, Named};
use crate::Endpoints;

/// How often a patch is retried when another edit came first.
const PATCH_TRIES: usize = 8;
/// Fires shown when the request does not say how many.
const NEXT_DEFAULT: usize = 5;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Preview {
    count: Option<Text<usize>>,
    /// Show fires from this instant on. `None` means from now on.
    from: Option<Text<Timestamp>>,
}

pub(crate) async fn put(
    State(endpoints): State<Endpoints>,
    at: Named,
    Expected(expect): Expected,
    FileBody { node, source }: FileBody,
) -> Result<Response, Failed> {
    save(&endpoints, at, expect, node).await.map_err(|failed| source.located(failed))
}

async fn save(endpoints: &Endpoints, at: Named, expect: Expect, node: Node) -> Result<Response, Failed> {
    let draft = job_file::read_for(node, &at.namespace, &at.name)?;
    check_channels(endpoints.handle.channels(), &draft.definition)?;
    let put = PutJob { namespace: at.namespace, name: at.name, definition: draft.definition, expect };
    let (job, made) = endpoints.ask_job(Command::PutJob(put)).await?;
    let status = if made == Made::Created { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, said_made(made), tagged(&job)).into_response())
}

/// Applies the patch to the current revision and puts the result if the revision is still current, so that of
/// two concurrent patches neither is lost.
pub(crate) async fn patch(
    State(endpoints): State<Endpoints>,
    at: Named,
    Expected(expect): Expected,
    PatchBody(patch): PatchBody,
) -> Result<Response, Failed> {
    if expect == Expect::Absent {
        return Err(Problem::parameter(
            "If-None-Match",
            "a patch needs an existing job; leave the header out, or create the job with PUT",
        )
        .into());
    }
    let mut tries = 1;
    loop {
        let job = endpoints.find_job(&at.namespace, &at.name).await?;
        if let Expect::Revision(expected) = expect
            && expected != job.revision
        {
            let (name, actual) = (job.name.clone(), job.revision);
            return Err(Failed(Refusal::WrongRevision { name, expected, actual }.into()));
        }
        let file = JobFile::of(&job.namespace, &job.name, &job.definition);
        let draft = job_file::patched(&file, patch.clone())?;
        check_channels(endpoints.handle.channels(), &draft.definition)?;
        let put = PutJob {
            namespace: draft.namespace,
            name: draft.name,
            definition: draft.definition,
            expect: Expect::Revision(job.revision),
        };
        match endpoints.ask_job(Command::PutJob(put)).await {
            Ok((job, made)) => return Ok((said_made(made), tagged(&job)).into_response()),
            Err(Failed(problem))
                if problem.code == Code::WrongRevision
                    && expect == Expect::Anything
                    && tries < PATCH_TRIES =>
            {
                tries += 1;
            }
            Err(failed) => return Err(failed),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Checking {
    graph: Option<Text<bool>>,
}

/// Says what a put would do, without doing it.
pub(crate) async fn validate(
    State(endpoints): State<Endpoints>,
    In(namespace): In,
    Asked(checking): Asked<Checking>,
    FileBody { node, source }: FileBody,
) -> Result<Json<Checked>, Failed> {
    check(&endpoints, &namespace, &checking, node).await.map_err(|failed| source.located(failed)).map(Json)
}

async fn check(
    endpoints: &Endpoints,
    namespace: &Namespace,
    checking: &Checking,
    node: Node,
) -> Result<Checked, Failed> {
    let draft = job_file::read_in(node, namespace)?;
    check_channels(endpoints.handle.channels(), &draft.definition)?;
    let definition = endpoints.handle.with_calendars(&draft.namespace, draft.definition).await?;
    let definition = endpoints.handle.with_descriptor(&draft.namespace, definition).await?;
    definition.check().map_err(|invalid| Failed(Refusal::Invalid(invalid).into()))?;
    let known = endpoints.handle.reads().job(&draft.namespace, &draft.name).await?;
    let now = endpoints.clock.now();
    let job = advice::as_if_put(known.as_deref(), draft.namespace, draft.name, definition, now);
    let mut checked = Checked::of(&job, NEXT_DEFAULT, advice::of(&job));
    if let (Some(Text(true)), Some(workflow)) = (&checking.graph, job.definition.workflow()) {
        let graph = Graph::page(&job.namespace, Some(&job.name), workflow, None, PAGE_MAX);
        checked.graph = Some(graph.map_err(Refusal::from)?);
    }
    Ok(checked)
}

pub(crate) async fn show(State(endpoints): State<Endpoints>, at: Named) -> Result<Response, Failed> {
    let job = endpoints.find_job(&at.namespace, &at.name).await?;
    Ok(tagged(&job))
}

pub(crate) async fn delete(
    State(endpoints): State<Endpoints>,
    at: Named,
    Expected(expect): Expected,
) -> Result<StatusCode, Failed> {
    let command = Command::DeleteJob { namespace: at.namespace, name: at.name, expect };
    match endpoints.handle.command(command).await? {
        Answer::Deleted => Ok(StatusCode::NO_CONTENT),
        other => Err(unexpected(&other)),
    }
}

pub(crate) async fn run(
    State(endpoints): State<Endpoints>,
    at: Named,
    IdempotencyKey(key): IdempotencyKey,
    MaybeJson(body): MaybeJson<Start>,
) -> Result<Response, Failed> {
    let start = body.into_core(key.as_deref(), endpoints.clock.now())?;
    let command = Command::RunJob(RunJob {
        namespace: at.namespace.clone(),
        name: at.name,
        params: start.what,
        due: start.due,
        key: start.key,
        caller: None,
    });
    endpoints.ask_new_run(&at.namespace, command).await
}

pub(crate) async fn backfill(
    State(endpoints): State<Endpoints>,
    at: Named,
    parts: Parts,
    super::body::Json(body): super::body::Json<BackfillJob>,
) -> Result<Response, Failed> {
    let by = endpoints.name_of_caller(&parts).await?;
    let ask = body.into_core((at.namespace, at.name), by)?;
    match endpoints.handle.command(Command::Backfill(ask)).await? {
        Answer::Backfill(told) => {
            let status = if told.run.is_some() { StatusCode::CREATED } else { StatusCode::OK };
            Ok((status, Json(Backfill::from(*told))).into_response())
        }
        other => Err(unexpected(&other)),
    }
}

/// Sends an event, which starts the jobs that listen to its name. It is stored when this answers.
pub(crate) async fn send_event(
    State(endpoints): State<Endpoints>,
    at: Named,
    IdempotencyKey(key): IdempotencyKey,
    MaybeJson(body): MaybeJson<SendEvent>,
) -> Result<Response, Failed> {
    let event = body.into_core(key.as_deref())?;
    let command = Command::SendEvent { namespace: at.namespace, name: at.name, event };
    match endpoints.handle.command(command).await? {
        Answer::Event(id) => {
            Ok((StatusCode::ACCEPTED, Json(SentEvent { id: Text(RunId(id)) })).into_response())
        }
        other => Err(unexpected(&other)),
    }
}

pub(crate) async fn pause(
    State(endpoints): State<Endpoints>,
    at: Named,
    parts: Parts,
    MaybeJson(body): MaybeJson<PauseJob>,
) -> Result<Response, Failed> {
    let by = endpoints.name_of_caller(&parts).await?;
    let (reason, until) = (body.reason.into(), body.until.map(|until| until.0));
    let command = Command::PauseJob { namespace: at.namespace, name: at.name, reason, by, until };
    Ok(tagged(&endpoints.ask_job(command).await?.0))
}

pub(crate) async fn resume(State(endpoints): State<Endpoints>, at: Named) -> Result<Response, Failed> {
    let command = Command::ResumeJob { namespace: at.namespace, name: at.name };
    Ok(tagged(&endpoints.ask_job(command).await?.0))
}

pub(crate) async fn next(
    State(endpoints): State<Endpoints>,
    at: Named,
    Asked(preview): Asked<Preview>,
) -> Result<Json<Page<Fire>>, Failed> {
    let count = preview.count.map_or(NEXT_DEFAULT, |count| count.0);
    if !(1..=PAGE_MAX).contains(&count) {
        return Err(Problem::parameter("count", format!("must be 1 to {PAGE_MAX}")).into());
    }
    let job = endpoints.find_job(&at.namespace, &at.name).await?;
    Ok(Json(Page { items: Fire::of(&job, count, preview.from.map(|from| from.0)), next: None }))
}

fn said_made(made: Made) -> [(&'static str, &'static str); 1] {
    [(rest::MADE_HEADER, rest::Made::from(made).as_str())]
}

/// A job with its revision as the ETag that `If-Match` accepts.
fn tagged(job: &job::Job) -> Response {
    ([(header::ETAG, format!("\"{}\"", job.revision))], Json(Job::from(job))).into_response()
}
