//! Reads of the endpoints: one row, or a page of rows.

use std::cmp::Ordering;
use std::sync::Arc;

use mysql_async::Row;
use punctual_core::Timestamp;
use punctual_core::change::{DeadLetter, DeletedJob, Revision, RunRecord, Skip};
use punctual_core::ids::{JobId, RunId};
use punctual_core::job::Job;
use punctual_core::name::{Name, Namespace};

use super::failure::{Failure, Moment};
use super::link::Held;
use super::{Mysql, queries, rows};
use crate::{JobFilter, LetterFilter, Result, Stats, codec, place};

impl Mysql {
    pub(super) async fn job_named(&self, namespace: &Namespace, name: &Name) -> Result<Option<Arc<Job>>> {
        let mut held = self.door().await?;
        let found = held.rows(queries::jobs::NAMED, (namespace.as_str(), name.as_str())).await;
        let jobs = found.and_then(|found| self.read_jobs(&found));
        Ok(held.finish(jobs, Moment::Reading).await?.pop())
    }

    pub(super) async fn list_jobs(
        &self,
        filter: &JobFilter,
        after: Option<&(Namespace, Name)>,
        limit: usize,
    ) -> Result<Vec<Arc<Job>>> {
        let mut held = self.door().await?;
        let found = job_rows(&mut held, filter, after, limit).await;
        let jobs = found.and_then(|found| self.read_jobs(&found));
        held.finish(jobs, Moment::Reading).await
    }

    pub(super) async fn run_of(&self, id: RunId) -> Result<Option<RunRecord>> {
        let mut held = self.door().await?;
        let record = self.find_run(&mut held, id).await;
        held.finish(record, Moment::Reading).await
    }

    async fn find_run(&self, held: &mut Held<'_>, id: RunId) -> Result<Option<RunRecord>, Failure> {
        // A run never becomes live again, so a run that ends between the two reads is found by the second.
        if let Some(row) = held.row(queries::runs::GET, (place::of(id),)).await? {
            return self.record(held, (rows::run(&row, 0)?, false)).await.map(Some);
        }
        match held.row(queries::history::GET, (id.0,)).await? {
            Some(row) => {
                let dead_letter = rows::int_or_none(&row, 1)?.is_some();
                self.record(held, (rows::run(&row, 0)?, dead_letter)).await.map(Some)
            }
            None => Ok(None),
        }
    }

    pub(super) async fn list_dead_letters(
        &self,
        filter: &LetterFilter,
        after: Option<RunId>,
        limit: usize,
    ) -> Result<Vec<DeadLetter>> {
        let namespace = filter.namespace.as_ref().map(Namespace::as_str);
        let job = filter.job.as_ref().map(Name::as_str);
        let since = filter.since.map(Timestamp::as_millis);
        let after = after.map_or(-1, |run| run.0);
        let params = (after, namespace, namespace, job, job, since, since, rows_max(limit));
        let mut held = self.door().await?;
        let found = held.rows(queries::dead_letters::LIST, params).await;
        let letters = found.and_then(|found| found.iter().map(rows::dead_letter).collect());
        held.finish(letters, Moment::Reading).await
    }

    pub(super) async fn list_outdated_jobs(&self, zone_data: &str, limit: usize) -> Result<Vec<Arc<Job>>> {
        let mut held = self.door().await?;
        let found = held.rows(queries::jobs::OUTDATED, (zone_data, rows_max(limit))).await;
        let jobs = found.and_then(|found| self.read_jobs(&found));
        held.finish(jobs, Moment::Reading).await
    }

    pub(super) async fn list_deleted_jobs(
        &self,
        named: Option<(&Namespace, &Name)>,
        after: Option<JobId>,
        limit: usize,
    ) -> Result<Vec<DeletedJob>> {
        let (after, limit) = (after.map_or(-1, |job| job.0), rows_max(limit));
        let mut held = self.door().await?;
        let found = match named {
            None => held.rows(queries::deleted_jobs::LIST, (after, limit)).await,
            Some((namespace, name)) => {
                let params = (namespace.as_str(), name.as_str(), after, limit);
                held.rows(queries::deleted_jobs::NAMED, params).await
            }
        };
        let jobs = found.and_then(|found| found.iter().map(rows::deleted_job).collect());
        held.finish(jobs, Moment::Reading).await
    }

    pub(super) async fn list_skips(
        &self,
        job: JobId,
        before: Option<(u32, Timestamp)>,
        limit: usize,
    ) -> Result<Vec<Skip>> {
        let mut held = self.door().await?;
        let found = skip_rows(&mut held, job, before, limit).await;
        let skips = found.and_then(|found| found.iter().map(rows::skip).collect());
        held.finish(skips, Moment::Reading).await
    }

    pub(super) async fn read_revision(&self, job: JobId, revision: u32) -> Result<Option<Arc<Revision>>> {
        let mut held = self.door().await?;
        let found = held.row(queries::revisions::GET, (job.0, revision)).await;
        let read = |row: Row| {
            let definition = codec::definition(rows::text(&row, 1)?)?;
            let (at, state) = (rows::instant(&row, 0)?, codec::from_json(rows::text(&row, 2)?)?);
            Ok(Arc::new(Revision { job, revision, definition, at, state }))
        };
        let found = found.and_then(|found| found.map(read).transpose());
        held.finish(found, Moment::Reading).await
    }

    pub(super) async fn list_revisions(
        &self,
        job: JobId,
        before: Option<u32>,
        limit: usize,
    ) -> Result<Vec<Arc<Revision>>> {
        let mut held = self.door().await?;
        let before = before.map_or(i64::MAX, i64::from);
        let found = held.rows(queries::revisions::NEWEST_FIRST, (job.0, before, rows_max(limit))).await;
        let read = |row: &Row| {
            let definition = codec::definition(rows::text(row, 2)?)?;
            let (revision, at) = (rows::number(row, 0)?, rows::instant(row, 1)?);
            let state = codec::from_json(rows::text(row, 3)?)?;
            Ok(Arc::new(Revision { job, revision, definition, at, state }))
        };
        let revisions = found.and_then(|found| found.iter().map(read).collect());
        held.finish(revisions, Moment::Reading).await
    }

    pub(super) async fn read_stats(&self) -> Result<Stats> {
        let mut held = self.door().await?;
        let stats = stats(&mut held).await;
        held.finish(stats, Moment::Reading).await
    }
}

async fn job_rows(
    held: &mut Held<'_>,
    filter: &JobFilter,
    after: Option<&(Namespace, Name)>,
    limit: usize,
) -> Result<Vec<Row>, Failure> {
    // No name is empty, so an empty name sorts before all.
    let (after_namespace, after_name) = match after {
        Some((namespace, name)) => (namespace.as_str(), name.as_str()),
        None => ("", ""),
    };
    let Some(namespace) = &filter.namespace else {
        let rest = (after_namespace, after_name, rows_max(limit));
        let mut found = held.rows(queries::jobs::LIST_OF_NAMESPACE, rest).await?;
        if found.len() < limit {
            let beyond = (after_namespace, rows_max(limit - found.len()));
            found.extend(held.rows(queries::jobs::LIST_BEYOND, beyond).await?);
        }
        return Ok(found);
    };
    let after = match namespace.as_str().cmp(after_namespace) {
        Ordering::Less => return Ok(Vec::new()),
        Ordering::Equal => after_name,
        Ordering::Greater => "",
    };
    match &filter.calendar {
        Some(calendar) => {
            let params = (namespace.as_str(), after, codec::quoted(calendar), rows_max(limit));
            held.rows(queries::jobs::LIST_OF_CALENDAR, params).await
        }
        None => {
            let params = (namespace.as_str(), after, rows_max(limit));
            held.rows(queries::jobs::LIST_OF_NAMESPACE, params).await
        }
    }
}

async fn skip_rows(
    held: &mut Held<'_>,
    job: JobId,
    before: Option<(u32, Timestamp)>,
    limit: usize,
) -> Result<Vec<Row>, Failure> {
    let (revision, from) =
        before.map_or((i64::MAX, i64::MAX), |(revision, from)| (i64::from(revision), from.as_millis()));
    let mut found = held.rows(queries::skips::OF_REVISION, (job.0, revision, from, rows_max(limit))).await?;
    if found.len() < limit {
        let earlier = (job.0, revision, rows_max(limit - found.len()));
        found.extend(held.rows(queries::skips::OF_EARLIER, earlier).await?);
    }
    Ok(found)
}

async fn stats(held: &mut Held<'_>) -> Result<Stats, Failure> {
    let Some(row) = held.row(queries::shards::STATS, ()).await? else { return Ok(Stats::default()) };
    let queues = held.row(queries::queues::STATS, ()).await?;
    let of_queues = |column| queues.as_ref().map_or(Ok(0), |row| rows::number(row, column));
    Ok(Stats {
        jobs: rows::number(&row, 0)?,
        live_runs: rows::number(&row, 1)?,
        history_runs: rows::number(&row, 2)?,
        dead_letters: rows::number(&row, 3)?,
        queues: of_queues(0)?,
        messages: of_queues(1)?,
    })
}

pub(super) fn rows_max(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
