//! Runs with their jobs and definitions.

use std::sync::Arc;

use punctual_core::change::RunRecord;
use punctual_core::ids::{JobId, RunId};
use punctual_core::job::{Definition, Job};
use punctual_core::run::{Origin, Run};
use rustc_hash::{FxHashMap, FxHashSet};

use super::connection::Connection;
use super::decode;
use super::queries::{history, jobs, revisions, runs};
use crate::definitions::StepDefinitions;
use crate::{Result, ended_key, live_key, refusal};

/// A run, and whether it is a dead letter.
pub(crate) type Found = (Arc<Run>, bool);

/// Live and finished runs by id; the answer leaves out runs that do not exist. Live runs are read first and a run never
/// becomes live again, so a run that ends between the two reads is found once. Each run is given its `shape` as soon as
/// its row is read: whole results of many runs would not fit into memory.
pub(crate) async fn runs_by_id(
    c: &mut dyn Connection,
    ids: &[RunId],
    shape: fn(Arc<Run>) -> Arc<Run>,
) -> Result<Vec<Found>> {
    let mut found = live_runs(c, ids, shape).await?;
    if found.len() < ids.len() {
        let live: FxHashSet<RunId> = found.iter().map(|(run, _)| run.id).collect();
        let ended = ids.iter().filter(|id| !live.contains(id));
        // An id does not say whether its run is a child.
        let places = ended.flat_map(|id| [ended_key::whole(*id), ended_key::child(*id)]).collect::<Vec<_>>();
        found.extend(ended_runs(c, &places, shape).await?);
    }
    Ok(found)
}

pub(super) async fn live_runs(
    c: &mut dyn Connection,
    ids: &[RunId],
    shape: fn(Arc<Run>) -> Arc<Run>,
) -> Result<Vec<Found>> {
    let keys = ids.iter().map(|id| vec![live_key::of(*id).into()]).collect();
    c.by_keys(runs::GET, keys, |row| Ok((shape(decode::run(row, 0)?), false))).await
}

pub(super) async fn ended_runs(
    c: &mut dyn Connection,
    places: &[i64],
    shape: fn(Arc<Run>) -> Arc<Run>,
) -> Result<Vec<Found>> {
    let keys = places.iter().map(|place| vec![(*place).into()]).collect();
    c.by_keys(history::GET, keys, |row| Ok((shape(decode::run(row, 0)?), row.int_or_none(1)?.is_some())))
        .await
}

/// A live run or a finished one.
pub(crate) async fn record(c: &mut dyn Connection, run: RunId) -> Result<Option<RunRecord>> {
    let found = runs_by_id(c, &[run], |run| run).await?;
    Ok(records(c, found).await?.pop())
}

/// Adds the job and the definition to each run; those that several runs share are read once.
pub(crate) async fn records(c: &mut dyn Connection, runs: Vec<Found>) -> Result<Vec<RunRecord>> {
    let jobs = jobs_of(c, &runs).await?;
    let earlier = earlier_definitions(c, &runs, &jobs).await?;
    let mut of_steps = StepDefinitions::default();
    let records = runs.into_iter().map(|(run, dead_letter)| {
        let job = run.job().and_then(|id| jobs.get(&id)).cloned();
        let definition = match &run.origin {
            Origin::AdHoc(definition) => Arc::clone(definition),
            Origin::Job { id, revision, .. } => match &job {
                Some(job) if job.revision == *revision => Arc::clone(&job.definition),
                _ => {
                    let known = earlier.get(&(*id, *revision)).cloned();
                    known.ok_or_else(|| refusal::no_revision(run.id, *id, *revision))?
                }
            },
        };
        let definition = of_steps.of(&run, definition)?;
        Ok(RunRecord { run, definition, job, dead_letter })
    });
    records.collect()
}

async fn jobs_of(c: &mut dyn Connection, runs: &[Found]) -> Result<FxHashMap<JobId, Arc<Job>>> {
    let ids: FxHashSet<JobId> = runs.iter().filter_map(|(run, _)| run.job()).collect();
    let keys = ids.into_iter().map(|id| vec![id.0.into()]).collect();
    let definitions = c.definitions();
    let jobs = c.by_keys(jobs::BY_ID, keys, |row| decode::job(row, &definitions)).await?;
    Ok(jobs.into_iter().map(|job| (job.id, job)).collect())
}

/// The definitions of runs whose revision is not their job's current one.
async fn earlier_definitions(
    c: &mut dyn Connection,
    runs: &[Found],
    jobs: &FxHashMap<JobId, Arc<Job>>,
) -> Result<FxHashMap<(JobId, u32), Arc<Definition>>> {
    let wanted = runs.iter().filter_map(|(run, _)| match &run.origin {
        Origin::Job { id, revision, .. } => Some((*id, *revision)),
        Origin::AdHoc(_) => None,
    });
    let is_earlier = |(id, revision): &(JobId, u32)| jobs.get(id).is_none_or(|job| job.revision != *revision);
    let wanted: FxHashSet<(JobId, u32)> = wanted.filter(is_earlier).collect();
    let keys = wanted.into_iter().map(|(id, revision)| vec![id.0.into(), revision.into()]).collect();
    let definitions = c.definitions();
    let found = c.by_keys(revisions::GET, keys, |row| decode::revision(row, &definitions)).await?;
    Ok(found.into_iter().map(|found| ((found.job, found.revision), Arc::clone(&found.definition))).collect())
}
