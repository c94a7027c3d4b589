//! Runs: submit, list, show, output, cancel, retry.

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures_util::{Stream, stream};
use punctual_core::Timestamp;
use punctual_core::change::RunRecord;
use punctual_core::command::{Answer, Command, Refusal, RetryRun, Submit};
use punctual_core::ids::{RunId, Token};
use punctual_core::name::Name;
use punctual_core::run::Status;
use punctual_store::{LogChunk, RunFilter};
use punctual_wire::Text;
use punctual_wire::rest::{self, Again, Page, Problem, Run};
use serde::Deserialize;

use super::ask::unexpected;
use super::problem::Failed;
use super::request::{Asked, IdempotencyKey, In, MaybeJson, RunAt, page_limit};
use crate::Doors;

/// Pieces of output read at a time: a mebibyte at most.
const LOG_PAGE: usize = 16;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Listing {
    job: Option<Name>,
    /// One state or several, with commas between.
    state: Option<String>,
    since: Option<Text<Timestamp>>,
    until: Option<Text<Timestamp>>,
    limit: Option<Text<usize>>,
    after: Option<Text<RunId>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Detail {
    events: Option<Text<bool>>,
}

pub(crate) async fn list(
    State(doors): State<Doors>,
    In(namespace): In,
    Asked(listing): Asked<Listing>,
) -> Result<Json<Page<Run>>, Failed> {
    let limit = page_limit(listing.limit)?;
    let job = match listing.job {
        Some(name) => Some(doors.find_job(&namespace, &name).await?.id),
        None => None,
    };
    let filter = RunFilter {
        namespace: Some(namespace),
        job,
        statuses: listing.state.as_deref().map(statuses).transpose()?.unwrap_or_default(),
        since: listing.since.map(|since| since.0),
        until: listing.until.map(|until| until.0),
        oldest_first: false,
    };
    let after = listing.after.map(|after| after.0);
    let runs = doors.handle.store().runs(&filter, after, limit + 1).await?;
    let page = Page::cut(runs, limit, |run| run.id.to_string());
    Ok(Json(Page { items: page.items.iter().map(|run| Run::from(&**run)).collect(), next: page.next }))
}

fn statuses(words: &str) -> Result<Vec<Status>, Failed> {
    let mut all = Vec::new();
    for word in words.split(',') {
        let Some(some) = rest::statuses(word) else {
            let known = Status::ALL.map(Status::as_str).join(", ");
            let message = format!("known are {known}, and the four PENDING, RUNNING, COMPLETED, FAILED");
            return Err(Problem::parameter("state", message).into());
        };
        all.extend(some);
    }
    Ok(all)
}

pub(crate) async fn submit(
    State(doors): State<Doors>,
    In(namespace): In,
    IdempotencyKey(key): IdempotencyKey,
    super::request::Json(body): super::request::Json<rest::Submit>,
) -> Result<Response, Failed> {
    let submit = body.into_core(key.as_deref(), doors.clock.now())?;
    let command = Command::Submit(Submit {
        namespace: namespace.clone(),
        definition: submit.what,
        due: submit.due,
        key: submit.key,
        spread: doors.handle.spread(),
    });
    doors.ask_new_run(&namespace, command).await
}

pub(crate) async fn show(
    State(doors): State<Doors>,
    at: RunAt,
    Asked(detail): Asked<Detail>,
) -> Result<Json<Run>, Failed> {
    let run = doors.find_run(&at).await?.run;
    let with_events = detail.events.is_some_and(|events| events.0);
    Ok(Json(if with_events { Run::with_events(&run) } else { Run::from(&*run) }))
}

/// What the attempts printed, in order, as it was printed.
pub(crate) async fn logs(State(doors): State<Doors>, at: RunAt) -> Result<Response, Failed> {
    doors.find_run(&at).await?;
    let output = Body::from_stream(pieces(doors, at.run));
    Ok(([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], output).into_response())
}

fn pieces(doors: Doors, run: RunId) -> impl Stream<Item = Result<Bytes, punctual_store::Error>> {
    stream::try_unfold(None::<(Token, u32)>, move |after| {
        let doors = doors.clone();
        async move {
            let page = doors.handle.store().read_logs(run, after, LOG_PAGE).await?;
            let Some(LogChunk { token, number, .. }) = page.last() else { return Ok(None) };
            let place = Some((*token, *number));
            let bytes: Vec<u8> = page.into_iter().flat_map(|chunk| chunk.bytes).collect();
            Ok(Some((Bytes::from(bytes), place)))
        }
    })
}

pub(crate) async fn cancel(State(doors): State<Doors>, at: RunAt) -> Result<Json<Run>, Failed> {
    let command = Command::CancelRun { namespace: at.namespace, run: at.run };
    match doors.handle.command(command).await? {
        Answer::Run(run) => Ok(Json(Run::from(&*run))),
        other => Err(unexpected(&other)),
    }
}

pub(crate) async fn retry(
    State(doors): State<Doors>,
    at: RunAt,
    IdempotencyKey(key): IdempotencyKey,
    MaybeJson(body): MaybeJson<Again>,
) -> Result<Response, Failed> {
    let again = body.into_core(key.as_deref())?;
    let command = Command::RetryRun(RetryRun {
        namespace: at.namespace.clone(),
        run: at.run,
        params: again.what,
        key: again.key,
    });
    doors.ask_new_run(&at.namespace, command).await
}

impl Doors {
    pub(crate) async fn find_run(&self, at: &RunAt) -> Result<RunRecord, Failed> {
        let record = self.handle.store().run(&at.namespace, at.run).await?;
        record.ok_or_else(|| Failed(Refusal::NoSuchRun(at.run).into()))
    }
}
