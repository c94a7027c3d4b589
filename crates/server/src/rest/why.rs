//! Why a run waits, and why a job does not run: reads the rows that the rule of `core::why` needs.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use punctual_core::hold::{Hold, holding};
use punctual_core::ids::{JobId, RunId, ShardId};
use punctual_core::run::{self, Status, Wait};
use punctual_core::why::{self, Facts, Last};
use punctual_store::{Children, RunFilter};
use punctual_wire::rest::Why;

use super::problem::Failed;
use super::request::{Named, RunAt};
use crate::Endpoints;

/// Live runs of a job that are read: the first of them decide.
const LIVE_READ: usize = 100;
const LIVE: [Status; 3] = [Status::Waiting, Status::Ready, Status::Running];

pub(crate) async fn of_run(State(endpoints): State<Endpoints>, at: RunAt) -> Result<Json<Why>, Failed> {
    let record = endpoints.find_run(&at).await?;
    let earlier = match (&record.run.state, record.run.job()) {
        (run::State::Waiting { wait: Wait::Overlap | Wait::Limit(_) }, Some(job)) => {
            endpoints.active_run(job, at.run).await?
        }
        _ => None,
    };
    let holds = endpoints.handle.reads().holds().await?;
    let facts = endpoints.facts(at.run.shard(), holding(&holds, &at.namespace));
    // A run that waits for a limit waits for one that its job has now: an edit applies to it too.
    let definition = match (&record.run.state, &record.job) {
        (run::State::Waiting { wait: Wait::Limit(_) }, Some(job)) => &job.definition,
        _ => &record.definition,
    };
    Ok(Json(why::of_run(&record.run, definition, earlier, facts).into()))
}

pub(crate) async fn of_job(State(endpoints): State<Endpoints>, at: Named) -> Result<Json<Why>, Failed> {
    let job = endpoints.find_job(&at.namespace, &at.name).await?;
    let holds = endpoints.handle.reads().holds().await?;
    let facts = endpoints.facts(job.shard(), holding(&holds, &at.namespace));
    let live = endpoints.live_runs(job.id).await?;
    let store = endpoints.handle.reads();
    let foremost = match why::foremost(&live, facts.now) {
        Some(run) => store.run(&at.namespace, run.id).await?,
        None => None,
    };
    let ended: Vec<Status> = Status::ALL.into_iter().filter(|status| status.is_terminal()).collect();
    let filter = RunFilter {
        jobs: vec![job.id],
        statuses: ended,
        children: Children::LeftOut,
        ..RunFilter::default()
    };
    let ended = store.runs(&filter, None, 1).await?;
    let skip = store.skips(job.id, None, 1).await?;
    let last = Last {
        live: foremost.as_ref().map(|record| (&*record.run, &*record.definition)),
        ended: ended.first().map(|run| &**run),
        skip: skip.first(),
    };
    Ok(Json(why::of_job(&job, last, facts).into()))
}

impl Endpoints {
    fn facts<'a>(&self, shard: ShardId, hold: Option<&'a Hold>) -> Facts<'a> {
        Facts { now: self.clock.now(), hold, is_led: self.handle.has_leader(shard) }
    }

    /// The first live runs of a job, oldest first.
    async fn live_runs(&self, job: JobId) -> Result<Vec<Arc<run::Run>>, Failed> {
        let filter = RunFilter {
            jobs: vec![job],
            statuses: LIVE.to_vec(),
            oldest_first: true,
            ..RunFilter::default()
        };
        Ok(self.handle.reads().runs(&filter, None, LIVE_READ).await?)
    }

    /// The oldest run of a job that is at work, is ready or waits for its next attempt, besides the given one.
    async fn active_run(&self, job: JobId, besides: RunId) -> Result<Option<RunId>, Failed> {
        let is_active = |run: &run::Run| match run.state {
            run::State::Waiting { wait } => matches!(wait, Wait::Backoff(_)),
            _ => true,
        };
        let live = self.live_runs(job).await?;
        Ok(live.iter().find(|run| run.id != besides && is_active(run)).map(|run| run.id))
    }
}
