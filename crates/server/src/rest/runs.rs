//! Runs: submit, list, show, cancel, retry, progress.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use punctual_core::Timestamp;
use punctual_core::change::{RunRecord, Want};
use punctual_core::command::{Answer, Command, Refusal, RetryRun, Submit};
use punctual_core::ids::{JobId, RunId};
use punctual_core::name::{Name, Namespace};
use punctual_core::run::{self, Status};
use punctual_store::RunFilter;
use punctual_wire::Text;
use punctual_wire::rest::{self, Again, Attempt, Page, Problem, Progress, Run};
use serde::Deserialize;

use super::ask::unexpected;
use super::problem::Failed;
use super::request::{Asked, IdempotencyKey, In, MaybeJson, RunAt, page_limit};
use crate::Endpoints;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Listing {
    job: Option<Name>,
    /// One or several states, separated by commas.
    state: Option<String>,
    /// One or several triggers, separated by commas.
    trigger: Option<String>,
    /// The key that the runs were submitted with.
    key: Option<String>,
    since: Option<Text<Timestamp>>,
    until: Option<Text<Timestamp>>,
    limit: Option<Text<usize>>,
    after: Option<Text<RunId>>,
    /// Include every attempt of each run.
    attempts: Option<Text<bool>>,
    /// Only the child runs of this run, by index.
    parent: Option<Text<RunId>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Detail {
    events: Option<Text<bool>>,
}

pub(crate) async fn list(
    State(endpoints): State<Endpoints>,
    In(namespace): In,
    Asked(listing): Asked<Listing>,
) -> Result<Json<Page<Run>>, Failed> {
    let limit = page_limit(listing.limit)?;
    let with_attempts = listing.attempts.is_some_and(|attempts| attempts.0);
    let (after, parent) = (listing.after.map(|after| after.0), listing.parent.map(|parent| parent.0));
    let jobs = match &listing.job {
        Some(name) => Some(endpoints.jobs_named(&namespace, name).await?),
        None => None,
    };
    let filter = filter(namespace.clone(), listing)?;
    // One more than the page holds: the extra run shows that there is a next page.
    let mut runs = match (parent, &jobs) {
        (Some(run), _) => children(&endpoints, &RunAt { namespace, run }, &filter, after, limit + 1).await?,
        (None, None) => endpoints.handle.reads().runs(&filter, after, limit + 1).await?,
        (None, Some(jobs)) => runs_of(&endpoints, jobs, filter, after, limit + 1).await?,
    };
    runs.retain(|run| jobs.as_ref().is_none_or(|jobs| run.job().is_some_and(|job| jobs.contains(&job))));
    let page = Page::cut(runs, limit, |run| run.id.to_string());
    let item = |run: &Arc<run::Run>| {
        let listed = Run::listed(run);
        Run { attempts: with_attempts.then(|| Attempt::all(run)), ..listed }
    };
    Ok(Json(Page { items: page.items.iter().map(item).collect(), next: page.next }))
}

/// Runs of several jobs of one name, newest first. The jobs share a shard, so every run of a newer job has a
/// greater id than those of an older job, and reading one job after the other keeps the order.
async fn runs_of(
    endpoints: &Endpoints,
    jobs: &[JobId],
    mut filter: RunFilter,
    after: Option<RunId>,
    limit: usize,
) -> Result<Vec<Arc<run::Run>>, Failed> {
    let mut runs = Vec::new();
    for job in jobs {
        filter.job = Some(*job);
        runs.extend(endpoints.handle.reads().runs(&filter, after, limit - runs.len()).await?);
        if runs.len() == limit {
            break;
        }
    }
    Ok(runs)
}

fn filter(namespace: Namespace, listing: Listing) -> Result<RunFilter, Failed> {
    Ok(RunFilter {
        namespace: Some(namespace),
        job: None,
        statuses: listing.state.as_deref().map(statuses).transpose()?.unwrap_or_default(),
        triggers: listing.trigger.as_deref().map(triggers).transpose()?.unwrap_or_default(),
        key: listing.key.map(key).transpose()?,
        since: listing.since.map(|since| since.0),
        until: listing.until.map(|until| until.0),
        oldest_first: false,
    })
}

/// The children of a run by index. The parent's row lists their ids.
async fn children(
    endpoints: &Endpoints,
    parent: &RunAt,
    filter: &RunFilter,
    after: Option<RunId>,
    limit: usize,
) -> Result<Vec<Arc<run::Run>>, Failed> {
    let record = endpoints.find_run(parent).await?;
    let ids = record.run.children().iter().map(|child| child.run);
    let ids: Vec<RunId> = ids.filter(|run| after.is_none_or(|after| *run > after)).collect();
    let mut children = Vec::new();
    for ids in ids.chunks(limit) {
        let wants = ids.iter().map(|run| (run.shard(), Want::Run(*run))).collect();
        let mut found = endpoints.handle.reads().fetch(wants).await?.runs;
        found.sort_by_key(|record| record.run.id);
        children.extend(found.into_iter().map(|record| record.run).filter(|run| filter.takes(run)));
        if children.len() >= limit {
            break;
        }
    }
    children.truncate(limit);
    Ok(children)
}

fn triggers(words: &str) -> Result<Vec<run::Trigger>, Failed> {
    let trigger = |word: &str| {
        let known = || rest::Trigger::ALL.map(rest::Trigger::as_str).join(", ");
        let read = rest::Trigger::parse(word).map(Into::into);
        read.ok_or_else(|| {
            Problem::parameter("trigger", format!("`{word}` is not a trigger; known are {}", known())).into()
        })
    };
    words.split(',').map(trigger).collect()
}

fn key(text: String) -> Result<Arc<str>, Failed> {
    match rest::key(Some(text), None) {
        Ok(key) => Ok(key.map(|key| key.text).unwrap_or_default()),
        Err(error) => Err(Problem::parameter(error.field, error.message).into()),
    }
}

pub(crate) fn statuses(words: &str) -> Result<Vec<Status>, Failed> {
    let mut all = Vec::new();
    for word in words.split(',') {
        let Some(some) = rest::statuses(word) else {
            let known = Status::ALL.map(Status::as_str).join(", ");
            let message = format!(
                "`{word}` is not a state; known are {known}, and PENDING, RUNNING, COMPLETED, FAILED"
            );
            return Err(Problem::parameter("state", message).into());
        };
        all.extend(some);
    }
    Ok(all)
}

pub(crate) async fn submit(
    State(endpoints): State<Endpoints>,
    In(namespace): In,
    IdempotencyKey(key): IdempotencyKey,
    super::request::Json(body): super::request::Json<rest::Submit>,
) -> Result<Response, Failed> {
    let submit = body.into_core(key.as_deref(), endpoints.clock.now())?;
    let command = Command::Submit(Submit {
        namespace: namespace.clone(),
        definition: submit.what,
        due: submit.due,
        key: submit.key,
        spread: endpoints.handle.spread(),
    });
    endpoints.ask_new_run(&namespace, command).await
}

pub(crate) async fn show(
    State(endpoints): State<Endpoints>,
    at: RunAt,
    Asked(detail): Asked<Detail>,
) -> Result<Json<Run>, Failed> {
    let RunRecord { run, definition, .. } = endpoints.find_run(&at).await?;
    let with_events = detail.events.is_some_and(|events| events.0);
    Ok(Json(if with_events {
        Run::with_events(&run, &definition)
    } else {
        Run::with_attempts(&run, &definition)
    }))
}

pub(crate) async fn cancel(State(endpoints): State<Endpoints>, at: RunAt) -> Result<Json<Run>, Failed> {
    let command = Command::CancelRun { namespace: at.namespace, run: at.run };
    match endpoints.handle.command(command).await? {
        Answer::Run(run) => Ok(Json(Run::from(&*run))),
        other => Err(unexpected(&other)),
    }
}

pub(crate) async fn retry(
    State(endpoints): State<Endpoints>,
    at: RunAt,
    IdempotencyKey(key): IdempotencyKey,
    MaybeJson(body): MaybeJson<Again>,
) -> Result<Response, Failed> {
    let again = body.into_core(key.as_deref())?;
    let command = Command::RetryRun(RetryRun {
        namespace: at.namespace.clone(),
        run: at.run,
        params: again.what,
        due: again.due,
        key: again.key,
        dead_letter: false,
    });
    endpoints.ask_new_run(&at.namespace, command).await
}

pub(crate) async fn progress(
    State(endpoints): State<Endpoints>,
    at: RunAt,
    super::request::Json(body): super::request::Json<Progress>,
) -> Result<StatusCode, Failed> {
    let (token, percent) = body.into_core()?;
    let command = Command::Progress { namespace: at.namespace, run: at.run, token, percent };
    match endpoints.handle.command(command).await? {
        Answer::Noted => Ok(StatusCode::NO_CONTENT),
        other => Err(unexpected(&other)),
    }
}

impl Endpoints {
    pub(crate) async fn find_run(&self, at: &RunAt) -> Result<RunRecord, Failed> {
        let record = self.handle.reads().run(&at.namespace, at.run).await?;
        record.ok_or_else(|| Failed(Refusal::NoSuchRun(at.run).into()))
    }
}
