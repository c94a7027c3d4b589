//! Reads of the endpoints: one row, or a page of rows.

use std::cmp::Ordering;
use std::sync::Arc;

use punctual_core::Timestamp;
use punctual_core::change::{DeadLetter, DeletedJob, Revision, Skip};
use punctual_core::ids::JobId;
use punctual_core::ids::RunId;
use punctual_core::job::Job;
use punctual_core::name::{Name, Namespace};
use tokio_postgres::Row;

use super::link::ask;
use super::{Postgres, queries, rows};
use crate::{JobFilter, LetterFilter, Result, Stats, codec};

impl Postgres {
    pub(super) async fn job_named(&self, namespace: &Namespace, name: &Name) -> Result<Option<Arc<Job>>> {
        let (namespaces, names) = (vec![namespace.as_str().to_owned()], vec![name.as_str().to_owned()]);
        let found = self.doors.take().await?.read(ask!(queries::jobs::NAMED, namespaces, names)).await?;
        Ok(self.read_jobs(&found)?.pop())
    }

    pub(super) async fn list_jobs(
        &self,
        filter: &JobFilter,
        after: Option<(Namespace, Name)>,
        limit: usize,
    ) -> Result<Vec<Arc<Job>>> {
        // No name is empty, so an empty name sorts before all.
        let (after_namespace, after_name) = match after {
            Some((namespace, name)) => (namespace.as_str().to_owned(), name.as_str().to_owned()),
            None => (String::new(), String::new()),
        };
        let ask = match &filter.namespace {
            None => ask!(queries::jobs::LIST, after_namespace, after_name, rows_max(limit)),
            Some(wanted) => {
                let after_name = match wanted.as_str().cmp(&after_namespace) {
                    Ordering::Less => return Ok(Vec::new()),
                    Ordering::Equal => after_name,
                    Ordering::Greater => String::new(),
                };
                let (wanted, limit) = (wanted.as_str().to_owned(), rows_max(limit));
                match filter.calendar.as_ref().map(codec::quoted) {
                    Some(name) => ask!(queries::jobs::LIST_OF_CALENDAR, wanted, after_name, limit, name),
                    None => ask!(queries::jobs::LIST_OF_NAMESPACE, wanted, after_name, limit),
                }
            }
        };
        let found = self.doors.take().await?.read(ask).await?;
        self.read_jobs(&found)
    }

    fn read_jobs(&self, found: &[Row]) -> Result<Vec<Arc<Job>>> {
        let mut definitions = self.definitions.lock();
        found.iter().map(|row| rows::job(row, &mut definitions)).collect()
    }

    pub(super) async fn list_dead_letters(
        &self,
        filter: &LetterFilter,
        after: Option<RunId>,
        limit: usize,
    ) -> Result<Vec<DeadLetter>> {
        let LetterFilter { namespace, job, since } = filter;
        let ask = ask!(
            queries::dead_letters::LIST,
            after.map_or(-1, |run| run.0),
            namespace.as_ref().map(|namespace| namespace.as_str().to_owned()),
            job.as_ref().map(|job| job.as_str().to_owned()),
            since.map(Timestamp::as_millis),
            rows_max(limit),
        );
        let found = self.doors.take().await?.read(ask).await?;
        found.iter().map(rows::dead_letter).collect()
    }

    pub(super) async fn list_outdated_jobs(&self, zone_data: &str, limit: usize) -> Result<Vec<Arc<Job>>> {
        let ask = ask!(queries::jobs::OUTDATED, zone_data.to_owned(), rows_max(limit));
        let found = self.doors.take().await?.read(ask).await?;
        self.read_jobs(&found)
    }

    pub(super) async fn list_deleted_jobs(
        &self,
        named: Option<(&Namespace, &Name)>,
        after: Option<JobId>,
        limit: usize,
    ) -> Result<Vec<DeletedJob>> {
        let (after, limit) = (after.map_or(-1, |job| job.0), rows_max(limit));
        let ask = match named {
            None => ask!(queries::deleted_jobs::LIST, after, limit),
            Some((namespace, name)) => {
                let (namespace, name) = (namespace.as_str().to_owned(), name.as_str().to_owned());
                ask!(queries::deleted_jobs::NAMED, after, limit, namespace, name)
            }
        };
        let found = self.doors.take().await?.read(ask).await?;
        found.iter().map(rows::deleted_job).collect()
    }

    pub(super) async fn list_skips(
        &self,
        job: JobId,
        before: Option<(u32, Timestamp)>,
        limit: usize,
    ) -> Result<Vec<Skip>> {
        let (revision, from) =
            before.map_or((i64::MAX, i64::MAX), |(revision, from)| (i64::from(revision), from.as_millis()));
        let ask = ask!(queries::skips::NEWEST_FIRST, job.0, revision, from, rows_max(limit));
        let found = self.doors.take().await?.read(ask).await?;
        found.iter().map(rows::skip).collect()
    }

    pub(super) async fn one_revision(&self, job: JobId, revision: u32) -> Result<Option<Arc<Revision>>> {
        let ask = ask!(queries::revisions::GET, vec![job.0], vec![i64::from(revision)]);
        let found = self.doors.take().await?.read(ask).await?;
        Ok(self.read_revisions(&found)?.pop())
    }

    pub(super) async fn list_revisions(
        &self,
        job: JobId,
        before: Option<u32>,
        limit: usize,
    ) -> Result<Vec<Arc<Revision>>> {
        let before = before.map_or(i64::MAX, i64::from);
        let ask = ask!(queries::revisions::NEWEST_FIRST, job.0, before, rows_max(limit));
        let found = self.doors.take().await?.read(ask).await?;
        self.read_revisions(&found)
    }

    fn read_revisions(&self, found: &[Row]) -> Result<Vec<Arc<Revision>>> {
        let mut definitions = self.definitions.lock();
        let read = found.iter().map(|row| {
            let (job, revision) = (JobId(rows::get(row, 0)?), rows::number(row, 1)?);
            let definition = definitions.read(rows::get(row, 3)?)?;
            let (at, state) = (rows::instant(row, 2)?, codec::from_json(rows::get(row, 4)?)?);
            Ok(Arc::new(Revision { job, revision, definition, at, state }))
        });
        read.collect()
    }

    pub(super) async fn count(&self) -> Result<Stats> {
        let mut link = self.doors.take().await?;
        let found = link.read(ask!(queries::shards::STATS)).await?;
        let Some(row) = found.first() else { return Ok(Stats::default()) };
        let queues = link.read(ask!(queries::queues::STATS)).await?;
        let count = |column| queues.first().map_or(Ok(0), |row| rows::number(row, column));
        Ok(Stats {
            jobs: rows::number(row, 0)?,
            live_runs: rows::number(row, 1)?,
            history_runs: rows::number(row, 2)?,
            dead_letters: rows::number(row, 3)?,
            queues: count(0)?,
            messages: count(1)?,
        })
    }
}

pub(super) fn rows_max(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
