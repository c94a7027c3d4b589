//! Rows past their retention: a reader finds them, the writer removes them.

use punctual_core::Timestamp;
use punctual_core::ids::{JobId, RunId, ShardId, first_id_at};

use super::doors::rows_max;
use super::failure::Failure;
use super::reader::Snapshot;
use super::writer::Writer;
use super::{queries, rows};
use crate::keep::Kept;
use crate::{PrunePolicy, Result, place};

/// Jobs, or runs with output, that are examined in one snapshot.
pub(super) const VISITS_MAX: usize = 256;

/// Rows to remove from the state.
#[derive(Debug, Default)]
pub(super) struct Doomed {
    pub(super) history: Vec<RunId>,
    pub(super) uniques: Vec<(u16, String)>,
    pub(super) skips: Vec<(i64, u32, i64)>,
    pub(super) revisions: Vec<(i64, u32)>,
    /// Deleted jobs whose last revision is removed with these rows.
    pub(super) deleted_jobs: Vec<i64>,
}

/// One step of a circular walk: the rows found, and the key to continue after. `None` means there are no more keys.
pub(super) struct Found {
    pub(super) doomed: Doomed,
    pub(super) next: Option<i64>,
}

impl Snapshot<'_> {
    /// History beyond what jobs keep, for the next few jobs that have history.
    pub(super) fn old_history(
        &self,
        after: i64,
        policy: &PrunePolicy,
        limit: usize,
    ) -> Result<Found, Failure> {
        let (mut history, mut job) = (Vec::new(), after);
        for _ in 0..VISITS_MAX {
            match self.one(queries::history::NEXT_JOB, [job], |row| Ok(row.get(0)?))? {
                Some(next) => job = next,
                None => return Ok(Found { doomed: Doomed { history, ..Doomed::default() }, next: None }),
            }
            self.old_history_of(JobId(job), policy, limit, &mut history)?;
            if history.len() == limit {
                // This job may have more.
                job -= 1;
                break;
            }
        }
        Ok(Found { doomed: Doomed { history, ..Doomed::default() }, next: Some(job) })
    }

    fn old_history_of(
        &self,
        job: JobId,
        policy: &PrunePolicy,
        limit: usize,
        history: &mut Vec<RunId>,
    ) -> Result<(), Failure> {
        let keep = self.one(queries::jobs::KEEP, [job.0], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let kept = Kept::of(keep, policy);
        let beyond = match keep {
            Some((runs, _)) => {
                self.one(queries::history::BEYOND, (job.0, runs), |row| Ok(row.get::<_, i64>(0)?))?
            }
            None => None,
        };
        let beyond = beyond.unwrap_or(-1);
        // A run created after `kept.since` cannot have finished before it.
        let newest = beyond.max(first_id_at(kept.since));
        let params = (job.0, newest, beyond, kept.since.as_millis(), rows_max(limit - history.len()));
        history.extend(self.all(queries::history::OLD_OF_JOB, params, |row| Ok(RunId(row.get(0)?)))?);
        Ok(())
    }

    /// Old rows that an index finds directly, without a walk.
    pub(super) fn old_at_hand(&self, policy: &PrunePolicy, limit: usize) -> Result<Doomed, Failure> {
        let rest = |taken: usize| rows_max(limit.saturating_sub(taken));
        let since = policy.now.before(policy.ad_hoc_kept).as_millis();
        let history =
            self.all(queries::history::OLD_AD_HOC, (since, rest(0)), |row| Ok(RunId(row.get(0)?)))?;
        let mut taken = history.len();
        let expired = (policy.now.as_millis(), rest(taken));
        let uniques = self.all(queries::uniques::EXPIRED, expired, |row| {
            Ok((row.get(0)?, rows::text(row, 1)?.to_owned()))
        })?;
        taken += uniques.len();
        let skips = self.all(queries::skips::OLD, old_skips(policy, rest(taken)), |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })?;
        Ok(Doomed { history, uniques, skips, ..Doomed::default() })
    }

    /// Revisions of deleted jobs that no run or skip record needs, for the next few deleted jobs.
    pub(super) fn old_revisions(&self, after: i64, limit: usize) -> Result<Found, Failure> {
        let mut doomed = Doomed::default();
        let jobs = self.all(queries::deleted_jobs::AFTER, (after, rows_max(VISITS_MAX)), |row| {
            Ok(row.get::<_, i64>(0)?)
        })?;
        let mut next = (jobs.len() == VISITS_MAX).then(|| jobs.last().copied()).flatten();
        for job in jobs {
            if self.is_needed(JobId(job))? {
                continue;
            }
            let rest = limit - doomed.revisions.len();
            let revisions =
                self.all(queries::revisions::OF_JOB, (job, rows_max(rest)), |row| Ok((job, row.get(0)?)))?;
            let all = revisions.len() < rest;
            doomed.revisions.extend(revisions);
            if !all {
                next = Some(job - 1);
                break;
            }
            doomed.deleted_jobs.push(job);
        }
        Ok(Found { doomed, next })
    }

    fn is_needed(&self, job: JobId) -> Result<bool, Failure> {
        let (first, last) = place::span(job.shard());
        Ok(self.exists(queries::jobs::EXISTS, [job.0])?
            || self.exists(queries::history::ANY_OF_JOB, [job.0])?
            || self.exists(queries::skips::ANY_OF_JOB, [job.0])?
            || self.exists(queries::runs::ANY_OF_JOB, (first, last, job.0))?)
    }

    pub(super) fn without_run(&self, runs: &[RunId]) -> Result<Vec<RunId>, Failure> {
        let mut gone = Vec::new();
        for run in runs {
            if !self.has_run(*run)? {
                gone.push(*run);
            }
        }
        Ok(gone)
    }

    fn has_run(&self, run: RunId) -> Result<bool, Failure> {
        Ok(self.exists(queries::history::EXISTS, [run.0])?
            || self.exists(queries::runs::GET, [place::of(run)])?)
    }
}

fn old_skips(policy: &PrunePolicy, limit: i64) -> (i64, i64, i64, i64) {
    let ad_hoc = i64::try_from(policy.ad_hoc_kept.as_millis()).unwrap_or(i64::MAX);
    // Every record is kept for at least a day or `ad_hoc_kept`, whichever is shorter.
    let newest = policy.now.as_millis().saturating_sub(ad_hoc.min(DAY_MILLIS));
    (policy.now.as_millis(), ad_hoc, newest, limit)
}

const DAY_MILLIS: i64 = 24 * 3600 * 1000;

impl Doomed {
    pub(super) fn is_empty(&self) -> bool {
        self.history.is_empty()
            && self.uniques.is_empty()
            && self.skips.is_empty()
            && self.revisions.is_empty()
            && self.deleted_jobs.is_empty()
    }
}

impl Writer {
    /// Removes the rows that a reader found. Rows that changed since are left alone.
    pub(super) fn remove(&mut self, doomed: &Doomed, now: Timestamp) -> Result<usize> {
        self.transact(|connection, _| {
            let mut gone = 0;
            let mut history = connection.prepare_cached(queries::history::DELETE)?;
            let mut per_shard = std::collections::BTreeMap::<ShardId, i64>::new();
            for run in &doomed.history {
                let rows = history.execute([run.0])?;
                *per_shard.entry(run.shard()).or_default() += rows_max(rows);
                gone += rows;
            }
            for (shard, rows) in per_shard {
                connection.prepare_cached(queries::shards::PRUNED)?.execute((shard.0, rows))?;
            }
            for (shard, key) in &doomed.uniques {
                let expired = (shard, key, now.as_millis());
                gone += connection.prepare_cached(queries::uniques::DELETE_EXPIRED)?.execute(expired)?;
            }
            for skip in &doomed.skips {
                gone += connection.prepare_cached(queries::skips::DELETE)?.execute(*skip)?;
            }
            for revision in &doomed.revisions {
                gone += connection.prepare_cached(queries::revisions::DELETE)?.execute(*revision)?;
            }
            for job in &doomed.deleted_jobs {
                connection.prepare_cached(queries::deleted_jobs::DELETE)?.execute([job])?;
            }
            Ok(gone)
        })
    }
}
