//! Shared by all reads: rows by many keys at once, and runs with their jobs and definitions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use punctual_core::change::RunRecord;
use punctual_core::ids::{JobId, RunId};
use punctual_core::job::{Definition, Job};
use punctual_core::run::{Origin, Run};

use super::failure::Failure;
use super::link::Held;
use super::script::{int, list, put};
use super::{Mysql, queries, rows};
use crate::{place, refusal};

type Result<T, E = Failure> = std::result::Result<T, E>;

/// Keys in one query: with more, the optimizer may choose another plan than the primary key.
pub(super) const KEYS_MAX: usize = 500;

/// A run, and whether it is a dead letter.
pub(super) type Read = (Arc<Run>, bool);

impl Mysql {
    /// Live and finished runs, in id order. Live runs are read first and a run never becomes live again, so a run that
    /// ends between the two reads is found once.
    pub(super) async fn runs_by_id(&self, held: &mut Held<'_>, ids: &[RunId]) -> Result<Vec<Read>> {
        let mut found: BTreeMap<RunId, Read> = BTreeMap::new();
        for ids in ids.chunks(KEYS_MAX) {
            let mut sql = Vec::new();
            put(&mut sql, "SELECT body FROM runs FORCE INDEX (PRIMARY) WHERE place IN (");
            list(&mut sql, ids, |sql, id| int(sql, place::of(*id)));
            put(&mut sql, ")");
            for row in held.text(sql).await? {
                let run = rows::run(&row, 0)?;
                found.insert(run.id, (run, false));
            }
            let ended: Vec<RunId> = ids.iter().copied().filter(|id| !found.contains_key(id)).collect();
            if ended.is_empty() {
                continue;
            }
            let mut sql = Vec::new();
            put(
                &mut sql,
                "SELECT history.body, dead_letters.run FROM history FORCE INDEX (PRIMARY) \
                 LEFT JOIN dead_letters ON dead_letters.run = history.id WHERE history.id IN (",
            );
            list(&mut sql, &ended, |sql, id| int(sql, id.0));
            put(&mut sql, ")");
            for row in held.text(sql).await? {
                let run = rows::run(&row, 0)?;
                found.insert(run.id, (run, rows::int_or_none(&row, 1)?.is_some()));
            }
        }
        Ok(found.into_values().collect())
    }

    pub(super) async fn record(&self, held: &mut Held<'_>, run: Read) -> Result<RunRecord> {
        let id = run.0.id;
        let mut records = self.records(held, vec![run]).await?;
        records.pop().ok_or_else(|| refusal::no_revision(id, JobId(0), 0).into())
    }

    /// Adds the job and the definition to each run; those that several runs share are read once.
    pub(super) async fn records(&self, held: &mut Held<'_>, runs: Vec<Read>) -> Result<Vec<RunRecord>> {
        let jobs = self.jobs_of(held, &runs).await?;
        let earlier = self.earlier_definitions(held, &runs, &jobs).await?;
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
            Ok(RunRecord { run, definition, job, dead_letter })
        });
        records.collect()
    }

    async fn jobs_of(&self, held: &mut Held<'_>, runs: &[Read]) -> Result<BTreeMap<JobId, Arc<Job>>> {
        let ids: BTreeSet<JobId> = runs.iter().filter_map(|(run, _)| run.job()).collect();
        let ids: Vec<JobId> = ids.into_iter().collect();
        let mut jobs = BTreeMap::new();
        for ids in ids.chunks(KEYS_MAX) {
            let mut sql = queries::jobs::SELECT.as_bytes().to_vec();
            put(&mut sql, "id IN (");
            list(&mut sql, ids, |sql, id| int(sql, id.0));
            put(&mut sql, ")");
            let found = held.text(sql).await?;
            jobs.extend(self.read_jobs(&found)?.into_iter().map(|job| (job.id, job)));
        }
        Ok(jobs)
    }

    /// The definitions of runs whose revision is not their job's current one.
    async fn earlier_definitions(
        &self,
        held: &mut Held<'_>,
        runs: &[Read],
        jobs: &BTreeMap<JobId, Arc<Job>>,
    ) -> Result<BTreeMap<(JobId, u32), Arc<Definition>>> {
        let wanted: BTreeSet<(JobId, u32)> = runs
            .iter()
            .filter_map(|(run, _)| match &run.origin {
                Origin::AdHoc(_) => None,
                Origin::Job { id, revision, .. } => Some((*id, *revision)),
            })
            .filter(|(id, revision)| jobs.get(id).is_none_or(|job| job.revision != *revision))
            .collect();
        let wanted: Vec<(JobId, u32)> = wanted.into_iter().collect();
        let mut definitions = BTreeMap::new();
        for wanted in wanted.chunks(KEYS_MAX) {
            let mut sql = Vec::new();
            put(&mut sql, "SELECT job, revision, definition FROM revisions WHERE ");
            for (index, (job, revision)) in wanted.iter().enumerate() {
                put(&mut sql, if index == 0 { "(job = " } else { " OR (job = " });
                int(&mut sql, job.0);
                put(&mut sql, " AND revision = ");
                int(&mut sql, *revision);
                put(&mut sql, ")");
            }
            for row in held.text(sql).await? {
                let key = (JobId(rows::int(&row, 0)?), rows::number(&row, 1)?);
                definitions.insert(key, self.definitions.lock().read(rows::text(&row, 2)?)?);
            }
        }
        Ok(definitions)
    }

    /// Reads jobs from rows with the columns of `queries::job_columns`.
    pub(super) fn read_jobs(&self, found: &[mysql_async::Row]) -> Result<Vec<Arc<Job>>> {
        let mut definitions = self.definitions.lock();
        found.iter().map(|row| rows::job(row, &mut definitions)).collect()
    }
}
