//! Reads of the endpoints: one row, or a page of rows.

use std::cmp::Ordering;
use std::sync::Arc;

use punctual_core::Timestamp;
use punctual_core::change::{DeadLetter, DeletedJob, Revision, Skip};
use punctual_core::ids::{JobId, RunId};
use punctual_core::job::Job;
use punctual_core::name::{Name, Namespace};

use super::failure::Failure;
use super::reader::Snapshot;
use super::{queries, rows};
use crate::{JobFilter, LetterFilter, Stats, codec};

type Result<T, E = Failure> = std::result::Result<T, E>;

impl Snapshot<'_> {
    pub(super) fn job_named(&mut self, namespace: &Namespace, name: &Name) -> Result<Option<Arc<Job>>> {
        let connection = self.connection;
        let mut statement = connection.prepare_cached(queries::jobs::NAMED)?;
        let mut found = statement.query((namespace.as_str(), name.as_str()))?;
        found.next()?.map(|row| rows::job(row, self.definitions)).transpose()
    }

    pub(super) fn jobs(
        &mut self,
        filter: &JobFilter,
        after: Option<&(Namespace, Name)>,
        limit: usize,
    ) -> Result<Vec<Arc<Job>>> {
        // No name is empty, so an empty name sorts before all.
        let (after_namespace, after_name) = match after {
            Some((namespace, name)) => (namespace.as_str(), name.as_str()),
            None => ("", ""),
        };
        if let (Some(calendar), Some(namespace)) = (&filter.calendar, &filter.namespace) {
            return self.jobs_of_calendar(namespace, calendar, (after_namespace, after_name), limit);
        }
        let (sql, namespace, name) = match &filter.namespace {
            None => (queries::jobs::LIST, after_namespace, after_name),
            Some(wanted) if wanted.as_str() < after_namespace => return Ok(Vec::new()),
            Some(wanted) if wanted.as_str() == after_namespace => {
                (queries::jobs::LIST_OF_NAMESPACE, wanted.as_str(), after_name)
            }
            Some(wanted) => (queries::jobs::LIST_OF_NAMESPACE, wanted.as_str(), ""),
        };
        let connection = self.connection;
        let mut statement = connection.prepare_cached(sql)?;
        let mut found = statement.query((namespace, name, rows_max(limit)))?;
        let mut jobs = Vec::new();
        while let Some(row) = found.next()? {
            jobs.push(rows::job(row, self.definitions)?);
        }
        Ok(jobs)
    }

    fn jobs_of_calendar(
        &mut self,
        namespace: &Namespace,
        calendar: &Name,
        (after_namespace, after_name): (&str, &str),
        limit: usize,
    ) -> Result<Vec<Arc<Job>>> {
        let after = match namespace.as_str().cmp(after_namespace) {
            Ordering::Less => return Ok(Vec::new()),
            Ordering::Equal => after_name,
            Ordering::Greater => "",
        };
        let connection = self.connection;
        let mut statement = connection.prepare_cached(queries::jobs::LIST_OF_CALENDAR)?;
        let params = (namespace.as_str(), after, rows_max(limit), codec::quoted(calendar));
        let mut found = statement.query(params)?;
        let mut jobs = Vec::new();
        while let Some(row) = found.next()? {
            jobs.push(rows::job(row, self.definitions)?);
        }
        Ok(jobs)
    }

    pub(super) fn dead_letters(
        &self,
        filter: &LetterFilter,
        after: Option<RunId>,
        limit: usize,
    ) -> Result<Vec<DeadLetter>> {
        let LetterFilter { namespace, job, since } = filter;
        let params = (
            after.map_or(-1, |run| run.0),
            namespace.as_ref().map(Namespace::as_str),
            job.as_ref().map(Name::as_str),
            since.map(Timestamp::as_millis),
            rows_max(limit),
        );
        self.all(queries::dead_letters::LIST, params, rows::dead_letter)
    }

    pub(super) fn outdated_jobs(&mut self, zone_data: &str, limit: usize) -> Result<Vec<Arc<Job>>> {
        let connection = self.connection;
        let mut statement = connection.prepare_cached(queries::jobs::OUTDATED)?;
        let mut found = statement.query((zone_data, rows_max(limit)))?;
        let mut jobs = Vec::new();
        while let Some(row) = found.next()? {
            jobs.push(rows::job(row, self.definitions)?);
        }
        Ok(jobs)
    }

    pub(super) fn deleted_jobs(
        &self,
        named: Option<(&Namespace, &Name)>,
        after: Option<JobId>,
        limit: usize,
    ) -> Result<Vec<DeletedJob>> {
        let (after, limit) = (after.map_or(-1, |job| job.0), rows_max(limit));
        match named {
            None => self.all(queries::deleted_jobs::LIST, (after, limit), rows::deleted_job),
            Some((namespace, name)) => {
                let params = (after, limit, namespace.as_str(), name.as_str());
                self.all(queries::deleted_jobs::NAMED, params, rows::deleted_job)
            }
        }
    }

    pub(super) fn skips(
        &self,
        job: JobId,
        before: Option<(u32, Timestamp)>,
        limit: usize,
    ) -> Result<Vec<Skip>> {
        let (revision, from) =
            before.map_or((i64::MAX, i64::MAX), |(revision, from)| (i64::from(revision), from.as_millis()));
        self.all(queries::skips::NEWEST_FIRST, (job.0, revision, from, rows_max(limit)), rows::skip)
    }

    pub(super) fn revision(&mut self, job: JobId, revision: u32) -> Result<Option<Arc<Revision>>> {
        let connection = self.connection;
        let mut statement = connection.prepare_cached(queries::revisions::GET)?;
        let mut found = statement.query((job.0, revision))?;
        let Some(row) = found.next()? else { return Ok(None) };
        let definition = self.definitions.read(rows::text(row, 1)?)?;
        let (at, state) = (rows::instant(row, 0)?, codec::from_json(rows::text(row, 2)?)?);
        Ok(Some(Arc::new(Revision { job, revision, definition, at, state })))
    }

    pub(super) fn revisions(
        &mut self,
        job: JobId,
        before: Option<u32>,
        limit: usize,
    ) -> Result<Vec<Arc<Revision>>> {
        let connection = self.connection;
        let mut statement = connection.prepare_cached(queries::revisions::NEWEST_FIRST)?;
        let before = before.map_or(i64::MAX, i64::from);
        let mut found = statement.query((job.0, before, rows_max(limit)))?;
        let mut revisions = Vec::new();
        while let Some(row) = found.next()? {
            let definition = self.definitions.read(rows::text(row, 2)?)?;
            let (revision, at) = (row.get(0)?, rows::instant(row, 1)?);
            let state = codec::from_json(rows::text(row, 3)?)?;
            revisions.push(Arc::new(Revision { job, revision, definition, at, state }));
        }
        Ok(revisions)
    }

    pub(super) fn stats(&self) -> Result<Stats> {
        let queues = self.one(queries::queues::STATS, [], |row| {
            Ok((row.get::<_, i64>(0)?.cast_unsigned(), row.get::<_, i64>(1)?.cast_unsigned()))
        })?;
        let (queues, messages) = queues.unwrap_or_default();
        let stats = self.one(queries::shards::STATS, [], |row| {
            let count = |column| row.get::<_, i64>(column).map(i64::cast_unsigned);
            Ok(Stats {
                jobs: count(0)?,
                live_runs: count(1)?,
                history_runs: count(2)?,
                dead_letters: count(3)?,
                queues,
                messages,
            })
        })?;
        Ok(stats.unwrap_or_default())
    }
}

pub(super) fn rows_max(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
