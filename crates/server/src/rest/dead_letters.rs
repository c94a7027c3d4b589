//! Dead letters: list, show, replay, discard, one by one or many at once.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::Response;
use futures_util::{StreamExt, stream};
use punctual_core::Timestamp;
use punctual_core::change;
use punctual_core::command::{Answer, Command, RetryRun};
use punctual_core::ids::RunId;
use punctual_core::name::{Name, Namespace};
use punctual_core::run::Status;
use punctual_store::LetterFilter;
use punctual_wire::Text;
use punctual_wire::rest::{
    self, Action, Again, Chosen, Code, DeadLetter, Decide, Decision, Decisions, Page, Problem,
};
use serde::Deserialize;

use super::ask::unexpected;
use super::body::{self, MaybeJson};
use super::problem::Failed;
use super::request::{Asked, IdempotencyKey, In, RunAt, page_limit};
use crate::Endpoints;

/// Letters handled concurrently: they share commits, and leave room for other commands.
const AT_ONCE: usize = 64;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Listing {
    job: Option<Name>,
    since: Option<Text<Timestamp>>,
    limit: Option<Text<usize>>,
    after: Option<Text<RunId>>,
}

pub(crate) async fn list(
    State(endpoints): State<Endpoints>,
    In(namespace): In,
    Asked(listing): Asked<Listing>,
) -> Result<Json<Page<DeadLetter>>, Failed> {
    let limit = page_limit(listing.limit)?;
    let filter = LetterFilter {
        namespace: Some(namespace),
        job: listing.job,
        since: listing.since.map(|since| since.0),
    };
    let after = listing.after.map(|after| after.0);
    let letters = endpoints.handle.reads().dead_letters(&filter, after, limit + 1).await?;
    let page = Page::cut(letters, limit, |letter| letter.run.to_string());
    let mut items = Vec::with_capacity(page.items.len());
    for letter in &page.items {
        items.push(with_run(&endpoints, letter).await?);
    }
    Ok(Json(Page { items, next: page.next }))
}

pub(crate) async fn show(State(endpoints): State<Endpoints>, at: RunAt) -> Result<Json<DeadLetter>, Failed> {
    let filter = LetterFilter { namespace: Some(at.namespace), ..LetterFilter::default() };
    let just_before = Some(RunId(at.run.0 - 1));
    let letters = endpoints.handle.reads().dead_letters(&filter, just_before, 1).await?;
    match letters.first().filter(|letter| letter.run == at.run) {
        Some(letter) => Ok(Json(with_run(&endpoints, letter).await?)),
        None => Err(Problem::new(
            Code::NoSuchDeadLetter,
            format!("run {} is not a dead letter of this namespace", at.run),
        )
        .into()),
    }
}

async fn with_run(endpoints: &Endpoints, letter: &change::DeadLetter) -> Result<DeadLetter, Failed> {
    let record = endpoints.handle.reads().run(&letter.namespace, letter.run).await?;
    Ok(DeadLetter::of(letter, record.as_ref()))
}

pub(crate) async fn replay(
    State(endpoints): State<Endpoints>,
    at: RunAt,
    IdempotencyKey(key): IdempotencyKey,
    parts: Parts,
    MaybeJson(body): MaybeJson<Again>,
) -> Result<Response, Failed> {
    let by = endpoints.name_of_caller(&parts).await?;
    let replay = body.into_core(key.as_deref(), (at.namespace.clone(), at.run), by, true)?;
    endpoints.ask_new_run(&at.namespace, Command::RetryRun(replay)).await
}

pub(crate) async fn discard(State(endpoints): State<Endpoints>, at: RunAt) -> Result<StatusCode, Failed> {
    let command = Command::DiscardDeadLetter { namespace: at.namespace, run: at.run };
    match endpoints.handle.command(command).await? {
        Answer::Discarded => Ok(StatusCode::NO_CONTENT),
        other => Err(unexpected(&other)),
    }
}

/// Replays or discards each letter and answers for each. If repeated, a handled letter is reported as no dead
/// letter any more; with an `Idempotency-Key`, a replay is answered with the run it made.
pub(crate) async fn decide(
    State(endpoints): State<Endpoints>,
    In(namespace): In,
    IdempotencyKey(key): IdempotencyKey,
    parts: Parts,
    body::Json(body): body::Json<Decide>,
) -> Result<Json<Decisions>, Failed> {
    let by = endpoints.name_of_caller(&parts).await?;
    let chosen = body.chosen()?;
    let (params, due_at, resume) = (body.params, body.due_at, body.resume);
    let again = Again { params, due_at, resume, ..Again::default() };
    // The run is that of each letter in turn.
    let replay = again.into_core(key.as_deref(), (namespace.clone(), RunId(0)), by, true)?;
    let (ids, more) = choose(&endpoints, &namespace, chosen).await?;
    let command = |run| match body.action {
        Action::Replay => Command::RetryRun(RetryRun { run, ..replay.clone() }),
        Action::Discard => Command::DiscardDeadLetter { namespace: namespace.clone(), run },
    };
    let decisions = stream::iter(ids).map(|run| decided(&endpoints, run, command(run)));
    let items = decisions.buffered(AT_ONCE).collect().await;
    Ok(Json(Decisions { items, more }))
}

/// The chosen letters, and whether there are more of them.
async fn choose(
    endpoints: &Endpoints,
    namespace: &Namespace,
    chosen: Chosen,
) -> Result<(Vec<RunId>, bool), Failed> {
    match chosen {
        Chosen::These(ids) => Ok((ids, false)),
        Chosen::OldestOf { job, limit } => {
            let filter = LetterFilter { namespace: Some(namespace.clone()), job: Some(job), since: None };
            let mut letters = endpoints.handle.reads().dead_letters(&filter, None, limit + 1).await?;
            let more = letters.len() > limit;
            letters.truncate(limit);
            Ok((letters.into_iter().map(|letter| letter.run).collect(), more))
        }
    }
}

async fn decided(endpoints: &Endpoints, letter: RunId, command: Command) -> Decision {
    let nothing = Decision { id: Text(letter), done: false, run: None, state: None, problem: None };
    match endpoints.handle.command(command).await.map_err(Failed::from) {
        // A run that was skipped at once did no work, so its letter stays.
        Ok(Answer::Run(run)) => Decision {
            done: run.status() != Status::Skipped,
            run: Some(Text(run.id)),
            state: Some(rest::State(run.status())),
            ..nothing
        },
        Ok(Answer::Existing(run)) => Decision { done: true, run: Some(Text(run)), ..nothing },
        Ok(Answer::Discarded) => Decision { done: true, ..nothing },
        Ok(other) => Decision { problem: Some(unexpected(&other).0), ..nothing },
        Err(Failed(problem)) => Decision { problem: Some(problem), ..nothing },
    }
}
