//! Reads of the endpoints: one row, or a page of rows.

use std::cmp::Ordering;
use std::sync::Arc;

use punctual_core::Timestamp;
use punctual_core::change::{DeadLetter, DeletedJob, Revision, Skip};
use punctual_core::ids::{JobId, RunId};
use punctual_core::job::Job;
use punctual_core::name::{Name, Namespace};

use super::connection::{Ask, Connection, ask};
use super::decode;
use super::queries::{dead_letters, deleted_jobs, jobs, queues, revisions, shards, skips};
use crate::{JobFilter, LetterFilter, Result, Stats, codec};

pub(super) async fn job(
    c: &mut dyn Connection,
    namespace: &Namespace,
    name: &Name,
) -> Result<Option<Arc<Job>>> {
    let definitions = c.definitions();
    let key = vec![vec![namespace.as_str().into(), name.as_str().into()]];
    Ok(c.by_keys(jobs::NAMED, key, |row| decode::job(row, &definitions)).await?.pop())
}

pub(super) async fn jobs(
    c: &mut dyn Connection,
    filter: &JobFilter,
    after: Option<&(Namespace, Name)>,
    limit: usize,
) -> Result<Vec<Arc<Job>>> {
    let Some(ask) = jobs_ask(filter, after, limit) else { return Ok(Vec::new()) };
    let definitions = c.definitions();
    c.all(ask, |row| decode::job(row, &definitions)).await
}

/// `None` means no job can match.
fn jobs_ask<'a>(
    filter: &'a JobFilter,
    after: Option<&'a (Namespace, Name)>,
    limit: usize,
) -> Option<Ask<'a>> {
    // No name is empty, so an empty name sorts before all.
    let (after_namespace, after_name) =
        after.map_or(("", ""), |(namespace, name)| (namespace.as_str(), name.as_str()));
    let Some(namespace) = &filter.namespace else {
        return Some(ask!(jobs::LIST, after_namespace, after_name, limit));
    };
    let after = match namespace.as_str().cmp(after_namespace) {
        Ordering::Less => return None,
        Ordering::Equal => after_name,
        Ordering::Greater => "",
    };
    Some(match &filter.calendar {
        Some(calendar) => {
            ask!(jobs::LIST_OF_CALENDAR, namespace.as_str(), after, limit, codec::quoted(calendar))
        }
        None => ask!(jobs::LIST_OF_NAMESPACE, namespace.as_str(), after, limit),
    })
}

pub(crate) async fn outdated_jobs(
    c: &mut dyn Connection,
    zone_data: &str,
    limit: usize,
) -> Result<Vec<Arc<Job>>> {
    let definitions = c.definitions();
    c.all(ask!(jobs::OUTDATED, zone_data, limit), |row| decode::job(row, &definitions)).await
}

pub(super) async fn dead_letters(
    c: &mut dyn Connection,
    filter: &LetterFilter,
    after: Option<RunId>,
    limit: usize,
) -> Result<Vec<DeadLetter>> {
    let LetterFilter { namespace, job, since } = filter;
    let ask = ask!(
        dead_letters::LIST,
        after.map_or(-1, |run| run.0),
        namespace.as_ref().map(Namespace::as_str),
        job.as_ref().map(Name::as_str),
        *since,
        limit,
    );
    c.all(ask, decode::dead_letter).await
}

pub(super) async fn deleted_jobs(
    c: &mut dyn Connection,
    named: Option<&(Namespace, Name)>,
    after: Option<JobId>,
    limit: usize,
) -> Result<Vec<DeletedJob>> {
    let after = after.map_or(-1, |job| job.0);
    let ask = match named {
        None => ask!(deleted_jobs::LIST, after, limit),
        Some((namespace, name)) => {
            ask!(deleted_jobs::NAMED, after, limit, namespace.as_str(), name.as_str())
        }
    };
    c.all(ask, decode::deleted_job).await
}

pub(super) async fn skips(
    c: &mut dyn Connection,
    job: JobId,
    before: Option<(u32, Timestamp)>,
    limit: usize,
) -> Result<Vec<Skip>> {
    let (revision, from) =
        before.map_or((i64::MAX, i64::MAX), |(revision, from)| (i64::from(revision), from.as_millis()));
    c.all(ask!(skips::NEWEST_FIRST, job.0, revision, from, limit), decode::skip).await
}

pub(super) async fn revision(
    c: &mut dyn Connection,
    job: JobId,
    revision: u32,
) -> Result<Option<Arc<Revision>>> {
    let definitions = c.definitions();
    let key = vec![vec![job.0.into(), revision.into()]];
    Ok(c.by_keys(revisions::GET, key, |row| decode::revision(row, &definitions)).await?.pop())
}

pub(super) async fn revisions(
    c: &mut dyn Connection,
    job: JobId,
    before: Option<u32>,
    limit: usize,
) -> Result<Vec<Arc<Revision>>> {
    let definitions = c.definitions();
    let list = ask!(revisions::NEWEST_FIRST, job.0, before.map_or(i64::MAX, i64::from), limit);
    c.all(list, |row| decode::revision(row, &definitions)).await
}

pub(super) async fn stats(c: &mut dyn Connection) -> Result<Stats> {
    let mut stats = Stats::default();
    c.query(&[ask!(shards::STATS), ask!(queues::STATS)], &mut |index, row| {
        let count = |column| row.int(column).map(i64::cast_unsigned);
        if index == 0 {
            (stats.jobs, stats.live_runs) = (count(0)?, count(1)?);
            (stats.history_runs, stats.dead_letters) = (count(2)?, count(3)?);
        } else {
            (stats.queues, stats.messages) = (count(0)?, count(1)?);
        }
        Ok(true)
    })
    .await?;
    Ok(stats)
}
