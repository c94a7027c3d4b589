//! Finds rows past their retention, with reads that take no locks.

use punctual_core::ids::{JobId, RunId, first_id_at};

use super::doors::rows_max;
use super::failure::{Failure, Moment};
use super::link::Held;
use super::{Mysql, queries, rows};
use crate::keep::Kept;
use crate::{PrunePolicy, Result, place};

/// Jobs, or runs, that one step of a walk examines.
pub(super) const VISITS_MAX: usize = 256;

/// Rows to remove.
#[derive(Debug, Default)]
pub(super) struct Doomed {
    pub(super) history: Vec<RunId>,
    pub(super) uniques: Vec<(u16, Vec<u8>)>,
    pub(super) skips: Vec<(i64, u32, i64)>,
    pub(super) revisions: Vec<(i64, u32)>,
    /// Deleted jobs whose last revision is removed with these rows.
    pub(super) deleted_jobs: Vec<i64>,
}

/// One step of a circular walk: the rows found, and the key to continue after. `None` means there are no more keys.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) doomed: Doomed,
    pub(super) next: Option<i64>,
}

impl Found {
    fn history(history: Vec<RunId>, next: Option<i64>) -> Found {
        Found { doomed: Doomed { history, ..Doomed::default() }, next }
    }
}

impl Doomed {
    pub(super) fn is_empty(&self) -> bool {
        self.history.is_empty()
            && self.uniques.is_empty()
            && self.skips.is_empty()
            && self.revisions.is_empty()
            && self.deleted_jobs.is_empty()
    }
}

impl Mysql {
    /// Old rows that an index finds directly, without a walk.
    pub(super) async fn old_at_hand(&self, policy: &PrunePolicy, limit: usize) -> Result<Doomed> {
        let mut held = self.door().await?;
        let found = at_hand(&mut held, policy, limit).await;
        held.finish(found, Moment::Reading).await
    }

    /// History beyond what jobs keep, for the next few jobs that have history.
    pub(super) async fn old_history(&self, after: i64, policy: &PrunePolicy, limit: usize) -> Result<Found> {
        let mut held = self.door().await?;
        let found = history(&mut held, after, policy, limit).await;
        held.finish(found, Moment::Reading).await
    }

    /// Revisions of deleted jobs that no run or skip record needs, for the next few deleted jobs.
    pub(super) async fn old_revisions(&self, after: i64, limit: usize) -> Result<Found> {
        let mut held = self.door().await?;
        let found = revisions(&mut held, after, limit).await;
        held.finish(found, Moment::Reading).await
    }

    pub(super) async fn without_run(&self, runs: &[RunId]) -> Result<Vec<RunId>> {
        let mut held = self.door().await?;
        let found = self.runs_by_id(&mut held, runs).await;
        let there = held.finish(found, Moment::Reading).await?;
        let is_there = |run: &RunId| there.binary_search_by_key(run, |(found, _)| found.id).is_ok();
        Ok(runs.iter().copied().filter(|run| !is_there(run)).collect())
    }
}

async fn at_hand(held: &mut Held<'_>, policy: &PrunePolicy, limit: usize) -> Result<Doomed, Failure> {
    let since = policy.now.before(policy.ad_hoc_kept).as_millis();
    let history = held.rows(queries::history::OLD_AD_HOC, (since, rows_max(limit))).await?;
    let history = history.iter().map(|row| rows::int(row, 0).map(RunId)).collect::<Result<Vec<_>, _>>()?;
    let expired = (policy.now.as_millis(), rows_max(limit - history.len()));
    let expired = held.rows(queries::uniques::EXPIRED, expired).await?;
    let uniques = expired
        .iter()
        .map(|row| Ok((rows::number(row, 0)?, rows::bytes(row, 1)?.to_vec())))
        .collect::<Result<Vec<_>, Failure>>()?;
    let skips = held
        .rows(queries::skips::OLD, old_skips(policy, rows_max(limit - history.len() - uniques.len())))
        .await?;
    let skips = skips
        .iter()
        .map(|row| Ok((rows::int(row, 0)?, rows::number(row, 1)?, rows::int(row, 2)?)))
        .collect::<Result<Vec<_>, Failure>>()?;
    Ok(Doomed { history, uniques, skips, ..Doomed::default() })
}

fn old_skips(policy: &PrunePolicy, limit: i64) -> (i64, i64, i64, i64) {
    const DAY_MILLIS: i64 = 24 * 3600 * 1000;
    let ad_hoc = i64::try_from(policy.ad_hoc_kept.as_millis()).unwrap_or(i64::MAX);
    // Every record is kept for at least a day or `ad_hoc_kept`, whichever is shorter.
    let newest = policy.now.as_millis().saturating_sub(ad_hoc.min(DAY_MILLIS));
    (newest, policy.now.as_millis(), ad_hoc, limit)
}

async fn history(
    held: &mut Held<'_>,
    after: i64,
    policy: &PrunePolicy,
    limit: usize,
) -> Result<Found, Failure> {
    let (mut old, mut job) = (Vec::new(), after);
    for _ in 0..VISITS_MAX {
        match held.row(queries::history::NEXT_JOB, (job,)).await? {
            Some(row) => job = rows::int(&row, 0)?,
            None => return Ok(Found::history(old, None)),
        }
        history_of(held, JobId(job), policy, limit, &mut old).await?;
        if old.len() == limit {
            // This job may have more.
            job -= 1;
            break;
        }
    }
    Ok(Found::history(old, Some(job)))
}

async fn history_of(
    held: &mut Held<'_>,
    job: JobId,
    policy: &PrunePolicy,
    limit: usize,
    old: &mut Vec<RunId>,
) -> Result<(), Failure> {
    let keep = match held.row(queries::jobs::KEEP, (job.0,)).await? {
        Some(row) => Some((rows::number::<u32>(&row, 0)?, rows::number::<u32>(&row, 1)?)),
        None => None,
    };
    let kept = Kept::of(keep, policy);
    let beyond = match keep {
        Some((runs, _)) => held.row(queries::history::BEYOND, (job.0, runs)).await?,
        None => None,
    };
    let beyond = beyond.map_or(Ok(-1), |row| rows::int(&row, 0))?;
    // A run created after `kept.since` cannot have finished before it.
    let newest = beyond.max(first_id_at(kept.since));
    let params = (job.0, newest, beyond, kept.since.as_millis(), rows_max(limit - old.len()));
    for row in held.rows(queries::history::OLD_OF_JOB, params).await? {
        old.push(RunId(rows::int(&row, 0)?));
    }
    Ok(())
}

async fn revisions(held: &mut Held<'_>, after: i64, limit: usize) -> Result<Found, Failure> {
    let mut doomed = Doomed::default();
    let jobs = held.rows(queries::deleted_jobs::AFTER, (after, rows_max(VISITS_MAX))).await?;
    let jobs = jobs.iter().map(|row| rows::int(row, 0)).collect::<Result<Vec<_>, Failure>>()?;
    let mut next = jobs.last().copied().filter(|_| jobs.len() == VISITS_MAX);
    for job in jobs {
        if is_needed(held, JobId(job)).await? {
            continue;
        }
        let rest = limit - doomed.revisions.len();
        let found = held.rows(queries::revisions::OF_JOB, (job, rows_max(rest))).await?;
        for row in &found {
            doomed.revisions.push((job, rows::number(row, 0)?));
        }
        if found.len() == rest {
            next = Some(job - 1);
            break;
        }
        doomed.deleted_jobs.push(job);
    }
    Ok(Found { doomed, next })
}

async fn is_needed(held: &mut Held<'_>, job: JobId) -> Result<bool, Failure> {
    let (first, last) = place::span(job.shard());
    Ok(held.row(queries::jobs::EXISTS, (job.0,)).await?.is_some()
        || held.row(queries::history::ANY_OF_JOB, (job.0,)).await?.is_some()
        || held.row(queries::skips::ANY_OF_JOB, (job.0,)).await?.is_some()
        || held.row(queries::runs::ANY_OF_JOB, (first, last, job.0)).await?.is_some())
}
