//! Cancels or retries many runs in one request; each succeeds or fails on its own.

use axum::Json;
use axum::extract::State;
use axum::http::request::Parts;
use futures_util::{StreamExt, stream};
use punctual_core::command::{Answer, Command, RetryRun};
use punctual_core::ids::RunId;
use punctual_core::name::Namespace;
use punctual_core::run::Status;
use punctual_core::search::Search;
use punctual_store::{Children, RunFilter};
use punctual_wire::Text;
use punctual_wire::rest::{
    self, ActOnRuns, ActedOnRuns, ChosenRuns, Code, DECIDED_MAX, Decision, Problem, RunAction, RunsMatching,
};

use super::ask::unexpected;
use super::body;
use super::problem::Failed;
use super::request::In;
use super::runs::statuses;
use crate::Endpoints;

/// Runs handled concurrently: they share commits, and leave room for other commands.
const AT_ONCE: usize = 64;

pub(crate) async fn act(
    State(endpoints): State<Endpoints>,
    In(namespace): In,
    parts: Parts,
    body::Json(body): body::Json<ActOnRuns>,
) -> Result<Json<ActedOnRuns>, Failed> {
    let by = endpoints.name_of_caller(&parts).await?;
    let (ids, more) = match body.chosen()? {
        ChosenRuns::These(ids) => (ids, false),
        ChosenRuns::Matching(filter) => matching(&endpoints, &namespace, body.action, filter).await?,
    };
    let matched = ids.len();
    let ids = if body.dry_run { Vec::new() } else { ids };
    let command = |run| command(&namespace, body.action, run, by.clone());
    let results = stream::iter(ids).map(|run| acted(&endpoints, run, command(run)));
    Ok(Json(ActedOnRuns { matched, more, results: results.buffered(AT_ONCE).collect().await }))
}

/// The newest runs that match, as a listing shows them, and whether there are more of them.
async fn matching(
    endpoints: &Endpoints,
    namespace: &Namespace,
    action: RunAction,
    filter: RunsMatching,
) -> Result<(Vec<RunId>, bool), Failed> {
    let statuses = match filter.state {
        Some(words) => statuses(&words.join(",")).map_err(|Failed(problem)| {
            Failed(Problem::new(Code::Invalid, problem.message).about("filter.state"))
        })?,
        None => usual(action),
    };
    let jobs = endpoints.job_ids(namespace, filter.job.as_deref().unwrap_or_default()).await?;
    let search = filter.search.as_deref().map(Search::parse).transpose();
    let search =
        search.map_err(|error| Failed(Problem::new(Code::Invalid, error.message).about("filter.search")))?;
    let filter = RunFilter {
        namespace: Some(namespace.clone()),
        jobs,
        statuses,
        search,
        since: filter.since.map(|since| since.0),
        until: filter.until.map(|until| until.0),
        children: Children::LeftOut,
        ..RunFilter::default()
    };
    let mut runs = endpoints.handle.reads().runs(&filter, None, DECIDED_MAX + 1).await?;
    let more = runs.len() > DECIDED_MAX;
    runs.truncate(DECIDED_MAX);
    Ok((runs.into_iter().map(|run| run.id).collect(), more))
}

/// The statuses that an action can change.
fn usual(action: RunAction) -> Vec<Status> {
    match action {
        RunAction::Cancel => vec![Status::Waiting, Status::Ready, Status::Running],
        RunAction::Retry => vec![Status::Failed, Status::TimedOut],
    }
}

fn command(namespace: &Namespace, action: RunAction, run: RunId, by: Option<Box<str>>) -> Command {
    let namespace = namespace.clone();
    match action {
        RunAction::Cancel => Command::CancelRun { namespace, run, now: false, by, comment: Box::default() },
        RunAction::Retry => Command::RetryRun(RetryRun {
            namespace,
            run,
            params: None,
            due: None,
            key: None,
            resume: false,
            dead_letter: false,
            from: None,
            step_params: None,
            by,
            comment: Box::default(),
        }),
    }
}

async fn acted(endpoints: &Endpoints, id: RunId, command: Command) -> Decision {
    let nothing = Decision { id: Text(id), done: false, run: None, state: None, problem: None };
    match endpoints.handle.command(command).await.map_err(Failed::from) {
        // A retry that was skipped at once did nothing.
        Ok(Answer::Run(run)) => Decision {
            done: run.status() != Status::Skipped,
            run: (run.id != id).then_some(Text(run.id)),
            state: Some(rest::State(run.status())),
            ..nothing
        },
        Ok(other) => Decision { problem: Some(unexpected(&other).0), ..nothing },
        Err(Failed(problem)) => Decision { problem: Some(problem), ..nothing },
    }
}
