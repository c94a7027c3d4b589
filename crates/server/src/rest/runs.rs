//! Runs: submit, list, show, cancel, move, retry, progress.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::request::Parts;
use axum::response::Response;
use punctual_core::Timestamp;
use punctual_core::change::RunRecord;
use punctual_core::command::{Answer, Command, Refusal, Submit};
use punctual_core::ids::{JobId, RunId};
use punctual_core::name::{Name, Namespace};
use punctual_core::run::{self, Status};
use punctual_core::search::Search;
use punctual_store::{Children, RunFilter};
use punctual_wire::Text;
use punctual_wire::rest::{
    self, Again, Attempt, BackfillSpan, Child, Comment, Page, Problem, Run, RunPage, StateCounts,
};
use punctual_wire::text::Several;
use serde::Deserialize;

use super::ask::unexpected;
use super::body::MaybeJson;
use super::problem::Failed;
use super::request::{Asked, IdempotencyKey, In, RunAt, page_limit};
use crate::Endpoints;

/// Jobs that a request may name.
const JOBS_MAX: usize = 50;
/// The most runs counted of each state.
pub(crate) const COUNT_MAX: usize = 10_000;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Listing {
    /// One or several jobs.
    job: Option<Several>,
    /// One or several states, also separated by commas.
    state: Option<Several>,
    /// One or several triggers, separated by commas.
    trigger: Option<String>,
    /// The key that the runs were submitted with.
    key: Option<String>,
    /// Words of keys, labels, errors and indexed parameters.
    search: Option<String>,
    since: Option<Text<Timestamp>>,
    until: Option<Text<Timestamp>>,
    limit: Option<Text<usize>>,
    after: Option<Text<RunId>>,
    /// Include every attempt of each run.
    attempts: Option<Text<bool>>,
    /// Only the child runs of this run, oldest first.
    parent: Option<Text<RunId>>,
    /// Also list child runs: parts of split runs and steps of workflows.
    children: Option<Text<bool>>,
    /// Also count the runs by state.
    count: Option<Text<bool>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Detail {
    events: Option<Text<bool>>,
    /// Whether the parts of a split run are listed. The default is true.
    children: Option<Text<bool>>,
}

pub(crate) async fn list(
    State(endpoints): State<Endpoints>,
    In(namespace): In,
    Asked(listing): Asked<Listing>,
) -> Result<Json<RunPage>, Failed> {
    let limit = page_limit(listing.limit)?;
    let with_attempts = listing.attempts.is_some_and(|attempts| attempts.0);
    let (after, parent) = (listing.after.map(|after| after.0), listing.parent.map(|parent| parent.0));
    if let Some(run) = parent {
        endpoints.find_run(&RunAt { namespace: namespace.clone(), run }).await?;
    }
    let with_counts = listing.count.is_some_and(|count| count.0);
    let names = listing.job.as_ref().map_or(Ok(Vec::new()), names)?;
    let jobs = endpoints.job_ids(&namespace, &names).await?;
    let filter = RunFilter { jobs, ..filter(namespace, listing)? };
    // One more than the page holds: the extra run shows that there is a next page.
    let runs = endpoints.handle.reads().runs(&filter, after, limit + 1).await?;
    let counts = if with_counts { Some(counts(&endpoints, &filter).await?) } else { None };
    let page = Page::cut(runs, limit, |run| run.id.to_string());
    let item = |run: &Arc<run::Run>| {
        let listed = Run::listed(run);
        Run { attempts: with_attempts.then(|| Attempt::all(run)), ..listed }
    };
    Ok(Json(RunPage { items: page.items.iter().map(item).collect(), next: page.next, counts }))
}

/// The names of jobs in the query.
fn names(jobs: &Several) -> Result<Vec<Name>, Failed> {
    if jobs.0.len() > JOBS_MAX {
        return Err(Problem::parameter("job", format!("at most {JOBS_MAX} jobs")).into());
    }
    let name =
        |text: &String| text.parse().map_err(|error| Problem::parameter("job", format!("{error}")).into());
    jobs.0.iter().map(name).collect()
}

async fn counts(endpoints: &Endpoints, filter: &RunFilter) -> Result<StateCounts, Failed> {
    let filter = RunFilter { statuses: Vec::new(), ..filter.clone() };
    let counts = endpoints.handle.reads().count_runs(&filter, COUNT_MAX).await?;
    let mut told = StateCounts::default();
    for count in counts {
        *told.of(count.status) = count.runs;
        told.capped |= !count.complete;
    }
    Ok(told)
}

fn filter(namespace: Namespace, listing: Listing) -> Result<RunFilter, Failed> {
    let triggers = listing.trigger.as_deref().map(triggers).transpose()?.unwrap_or_default();
    let asks_for_children =
        listing.children.is_some_and(|children| children.0) || triggers.contains(&run::Trigger::Parent);
    let children = match listing.parent {
        Some(parent) => Children::Of(parent.0),
        None if asks_for_children => Children::Included,
        None => Children::LeftOut,
    };
    Ok(RunFilter {
        namespace: Some(namespace),
        jobs: Vec::new(),
        statuses: listing.state.map(|words| statuses(&words.0.join(","))).transpose()?.unwrap_or_default(),
        triggers,
        children,
        key: listing.key.map(key).transpose()?,
        since: listing.since.map(|since| since.0),
        until: listing.until.map(|until| until.0),
        // The children of a run have the order in which they were made.
        oldest_first: listing.parent.is_some(),
        search: listing.search.as_deref().map(search).transpose()?,
    })
}

fn triggers(words: &str) -> Result<Vec<run::Trigger>, Failed> {
    let read = |word: &str| word.parse().map_err(|error: String| Problem::parameter("trigger", error).into());
    words.split(',').map(read).collect()
}

fn key(text: String) -> Result<Arc<str>, Failed> {
    match rest::key(Some(text), None) {
        Ok(key) => Ok(key.map(|key| key.text).unwrap_or_default()),
        Err(error) => Err(Problem::parameter(error.field, error.message).into()),
    }
}

fn search(text: &str) -> Result<Search, Failed> {
    Search::parse(text).map_err(|error| Problem::parameter("search", error.message).into())
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
    super::body::Json(body): super::body::Json<rest::Submit>,
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
    let shown =
        if with_events { Run::with_events(&run, &definition) } else { Run::with_attempts(&run, &definition) };
    if !(run.has_begun_steps() && run.is_split(&definition)) {
        return Ok(Json(shown));
    }
    let with_children = detail.children.is_none_or(|children| children.0);
    if !(with_children || run.is_backfill()) {
        return Ok(Json(shown));
    }
    let rows = endpoints.parts(run.id).await?;
    let children = with_children.then(|| Child::all(&rows));
    Ok(Json(Run { children, backfill: BackfillSpan::of(&rows), ..shown }))
}

pub(crate) async fn cancel(
    State(endpoints): State<Endpoints>,
    at: RunAt,
    parts: Parts,
    MaybeJson(rest::Cancel { now, comment }): MaybeJson<rest::Cancel>,
) -> Result<Json<Run>, Failed> {
    let (by, comment) = (endpoints.name_of_caller(&parts).await?, Comment { comment }.into_core()?);
    let RunAt { namespace, run } = at;
    changed(&endpoints, Command::CancelRun { namespace, run, now, by, comment }).await
}

pub(crate) async fn move_run(
    State(endpoints): State<Endpoints>,
    at: RunAt,
    MaybeJson(rest::Move { worker }): MaybeJson<rest::Move>,
) -> Result<Json<Run>, Failed> {
    let worker = worker.map(Arc::from);
    changed(&endpoints, Command::MoveRun { namespace: at.namespace, run: at.run, worker }).await
}

/// The run after a command.
pub(crate) async fn changed(endpoints: &Endpoints, command: Command) -> Result<Json<Run>, Failed> {
    match endpoints.handle.command(command).await? {
        Answer::Run(run) => Ok(Json(Run::from(&*run))),
        other => Err(unexpected(&other)),
    }
}

pub(crate) async fn retry(
    State(endpoints): State<Endpoints>,
    at: RunAt,
    IdempotencyKey(key): IdempotencyKey,
    parts: Parts,
    MaybeJson(body): MaybeJson<Again>,
) -> Result<Response, Failed> {
    let by = endpoints.name_of_caller(&parts).await?;
    let retry = body.into_core(key.as_deref(), (at.namespace.clone(), at.run), by, false)?;
    endpoints.ask_new_run(&at.namespace, Command::RetryRun(retry)).await
}

impl Endpoints {
    /// The ids of all jobs that have or had one of these names.
    pub(crate) async fn job_ids(&self, namespace: &Namespace, names: &[Name]) -> Result<Vec<JobId>, Failed> {
        let mut ids = Vec::new();
        for name in names {
            ids.extend(self.jobs_named(namespace, name).await?);
        }
        Ok(ids)
    }

    pub(crate) async fn find_run(&self, at: &RunAt) -> Result<RunRecord, Failed> {
        let record = self.handle.reads().run(&at.namespace, at.run).await?;
        record.ok_or_else(|| Failed(Refusal::NoSuchRun(at.run).into()))
    }
}
