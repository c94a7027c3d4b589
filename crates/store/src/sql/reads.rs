//! What endpoints list and show, for every store in a database.

use std::sync::Arc;

use async_trait::async_trait;
use punctual_core::Timestamp;
use punctual_core::alert::Incident;
use punctual_core::change::{DeadLetter, DeletedJob, Found, Revision, RunRecord, Skip, Want};
use punctual_core::hold::HoldRecord;
use punctual_core::ids::{Epoch, IncidentId, JobId, RunId, ShardId};
use punctual_core::job::Job;
use punctual_core::lock::Lock;
use punctual_core::log;
use punctual_core::name::{Name, Namespace};
use punctual_core::queue::{Message, MessagePosition, QueueKey, QueueRecord};
use punctual_core::run::Run;
use punctual_core::schedule::calendar;
use punctual_core::statistics::Counts;
use punctual_core::workflow::{Approval, ApprovalKey, StepKey, StepRecord};

use super::backend::{Backend, Purpose, Scope, work};
use super::connection::ask;
use super::counting::Counting;
use super::messages::Which;
use super::queries::{
    approvals, calendars, chunks, dead_letters, deleted_jobs, holds, incidents, jobs, locks, queues,
    revisions, shards, skips, steps,
};
use super::value::Row;
use super::walk::Walk;
use super::{counting, decode, last_runs, namespaces, records, search, statistics};
use crate::listing::NameSpan;
use crate::{
    CalendarFilter, Durability, End, IncidentFilter, JobFilter, LetterFilter, NamespaceCounts, Reads, Result,
    RunFilter, StatisticsFilter, Stats, StatusCount, codec,
};

#[async_trait]
impl<B: Backend> Reads for B {
    fn shards(&self) -> u16 {
        self.facts().shards
    }

    fn durability(&self) -> Durability {
        self.facts().durability
    }

    async fn fetch(&self, wants: Vec<(ShardId, Want)>) -> Result<Found> {
        if wants.is_empty() { Ok(Found::default()) } else { self.fetch_rows(wants).await }
    }

    async fn queues(
        &self,
        namespace: Option<&Namespace>,
        after: Option<&QueueKey>,
        limit: usize,
    ) -> Result<Vec<QueueRecord>> {
        let after = after.map(|key| (key.namespace.as_str(), key.name.as_str()));
        let Some(span) = NameSpan::of(namespace, after) else { return Ok(Vec::new()) };
        let sql = if span.goes_beyond { queues::LIST } else { queues::LIST_OF_NAMESPACE };
        let list = ask!(sql, span.namespace.to_owned(), span.after.as_bytes().to_vec(), limit);
        self.list(work!(|c| c.all(list, decode::queue).await)).await
    }

    async fn messages(
        &self,
        queue: &QueueKey,
        after: Option<MessagePosition>,
        limit: usize,
    ) -> Result<Vec<Arc<Message>>> {
        let after = after.unwrap_or(MessagePosition::START);
        self.queue_messages(queue.clone(), Which::All { after }, limit).await
    }

    async fn queued_messages(&self, queue: &QueueKey, from: End, limit: usize) -> Result<Vec<Arc<Message>>> {
        self.queue_messages(queue.clone(), from.into(), limit).await
    }

    async fn commits(&self) -> Result<Vec<(Epoch, u64)>> {
        let read = |row: &dyn Row| Ok((Epoch(row.number(0)?), row.int(1)?.cast_unsigned()));
        self.list(work!(|c| c.all(ask!(shards::COMMITS), read).await)).await
    }

    async fn namespaces(&self, after: Option<&Namespace>, limit: usize) -> Result<Vec<NamespaceCounts>> {
        let after = after.map_or(String::new(), |after| after.as_str().to_owned());
        self.list(work!(|c| namespaces::read(c, after, limit).await)).await
    }

    async fn job(&self, namespace: &Namespace, name: &Name) -> Result<Option<Arc<Job>>> {
        let key = vec![namespace.as_str().to_owned().into(), name.as_str().to_owned().into()];
        self.list(work!(|c| {
            let definitions = c.definitions();
            Ok(c.by_keys(jobs::NAMED, vec![key], |row| decode::job(row, &definitions)).await?.pop())
        }))
        .await
    }

    async fn jobs(
        &self,
        filter: &JobFilter,
        after: Option<(Namespace, Name)>,
        limit: usize,
    ) -> Result<Vec<Arc<Job>>> {
        let after = after.as_ref().map(|(namespace, name)| (namespace.as_str(), name.as_str()));
        let Some(span) = NameSpan::of(filter.namespace.as_ref(), after) else { return Ok(Vec::new()) };
        let (namespace, after) = (span.namespace.to_owned(), span.after.to_owned());
        let list = match &filter.calendar {
            _ if span.goes_beyond => ask!(jobs::LIST, namespace, after, limit),
            None => ask!(jobs::LIST_OF_NAMESPACE, namespace, after, limit),
            Some(calendar) => ask!(jobs::LIST_OF_CALENDAR, namespace, after, limit, codec::quoted(calendar)),
        };
        self.list(work!(|c| {
            let definitions = c.definitions();
            c.all(list, |row| decode::job(row, &definitions)).await
        }))
        .await
    }

    async fn run(&self, namespace: &Namespace, run: RunId) -> Result<Option<RunRecord>> {
        let read = work!(|c| records::record(c, run).await);
        let record: Option<RunRecord> = Backend::run(self, Purpose::List, B::FETCH, read).await?;
        Ok(record.filter(|record| record.run.namespace == *namespace))
    }

    async fn runs(&self, filter: &RunFilter, after: Option<RunId>, limit: usize) -> Result<Vec<Arc<Run>>> {
        if let (Some(search), Some(namespace)) = (&filter.search, &filter.namespace)
            && let Some(candidates) = search::candidates(self, namespace, search).await?
        {
            return search::among(self, candidates, filter, after, limit).await;
        }
        let mut walk = Walk::new(filter, after, limit, self.facts().shards);
        while walk.goes_on() {
            walk = Backend::run(self, Purpose::List, Scope::Snapshot, work!(|c| walk.step(c).await)).await?;
        }
        Ok(walk.runs)
    }

    async fn last_runs(&self, jobs: &[JobId], limit: usize) -> Result<Vec<Arc<Run>>> {
        let jobs = jobs.to_vec();
        let read = work!(|c| last_runs::read(c, &jobs, limit).await);
        Backend::run(self, Purpose::List, Scope::Snapshot, read).await
    }

    async fn count_runs(&self, filter: &RunFilter, limit: usize) -> Result<Vec<StatusCount>> {
        let mut counts = Vec::new();
        for group in counting::groups(filter) {
            let mut counting = Counting::new(filter, group, limit, self.facts().shards);
            while counting.goes_on() {
                let step = work!(|c| counting.step(c).await);
                counting = Backend::run(self, Purpose::List, Scope::Snapshot, step).await?;
            }
            counts.extend(counting.result());
        }
        Ok(counts)
    }

    async fn dead_letters(
        &self,
        filter: &LetterFilter,
        after: Option<RunId>,
        limit: usize,
    ) -> Result<Vec<DeadLetter>> {
        let LetterFilter { namespace, job, since } = filter;
        let list = ask!(
            dead_letters::LIST,
            after.map_or(-1, |run| run.0),
            namespace.as_ref().map(|namespace| namespace.as_str().to_owned()),
            job.as_ref().map(|name| name.as_str().to_owned()),
            *since,
            limit,
        );
        self.list(work!(|c| c.all(list, decode::dead_letter).await)).await
    }

    async fn deleted_jobs(
        &self,
        named: Option<(&Namespace, &Name)>,
        after: Option<JobId>,
        limit: usize,
    ) -> Result<Vec<DeletedJob>> {
        let after = after.map_or(-1, |job| job.0);
        let list = match named {
            None => ask!(deleted_jobs::LIST, after, limit),
            Some((namespace, name)) => {
                let (namespace, name) = (namespace.as_str().to_owned(), name.as_str().to_owned());
                ask!(deleted_jobs::NAMED, after, limit, namespace, name)
            }
        };
        self.list(work!(|c| c.all(list, decode::deleted_job).await)).await
    }

    async fn steps(
        &self,
        run: RunId,
        after: Option<(u32, Option<u32>)>,
        limit: usize,
    ) -> Result<Vec<Arc<StepRecord>>> {
        let (step, item) = match after {
            Some((step, item)) => (i64::from(step), i64::from(StepKey { run, step, item }.item_column())),
            None => (-1, -1),
        };
        let list = ask!(steps::LIST, run.0, step, item, limit);
        self.list(work!(|c| c.all(list, decode::step).await)).await
    }

    async fn approvals(
        &self,
        namespace: Option<&Namespace>,
        after: Option<&ApprovalKey>,
        limit: usize,
    ) -> Result<Vec<Approval>> {
        let first = namespace.or(after.map(|after| &after.namespace));
        let mut found = Vec::new();
        if let Some(first) = first {
            let place = after.filter(|after| after.namespace == *first);
            let (run, step) = place.map_or((-1, -1), |place| (place.run.0, i64::from(place.step)));
            let list = ask!(approvals::LIST_OF_NAMESPACE, first.as_str().to_owned(), run, step, limit);
            found = self.list(work!(|c| c.all(list, decode::approval).await)).await?;
        }
        if namespace.is_none() && found.len() < limit {
            let beyond = first.map_or(String::new(), |first| first.as_str().to_owned());
            let list = ask!(approvals::LIST, beyond, limit - found.len());
            found.extend(self.list(work!(|c| c.all(list, decode::approval).await)).await?);
        }
        Ok(found)
    }

    async fn locks(
        &self,
        namespace: &Namespace,
        after: Option<&Name>,
        limit: usize,
    ) -> Result<Vec<Arc<Lock>>> {
        let (namespace, after) = (namespace.as_str().to_owned(), after.map_or("", Name::as_str).to_owned());
        let list = ask!(locks::LIST, namespace, after, limit);
        self.list(work!(|c| c.all(list, |row| codec::read_json(row.bytes(0)?)).await)).await
    }

    async fn holds(&self) -> Result<Vec<Arc<HoldRecord>>> {
        self.list(work!(|c| c.all(ask!(holds::LIST), |row| codec::read_json(row.bytes(0)?)).await)).await
    }

    async fn incidents(
        &self,
        filter: &IncidentFilter,
        before: Option<IncidentId>,
        limit: usize,
    ) -> Result<Vec<Arc<Incident>>> {
        let IncidentFilter { namespace, job, is_open } = filter;
        let list = ask!(
            incidents::LIST,
            before.map_or(i64::MAX, |id| id.0),
            namespace.as_ref().map(|namespace| namespace.as_str().to_owned()),
            job.as_ref().map(|name| name.as_str().to_owned()),
            if *is_open { i64::MAX } else { 0 },
            limit,
        );
        self.list(work!(|c| c.all(list, |row| codec::read_json(row.bytes(0)?)).await)).await
    }

    async fn skips(&self, job: JobId, before: Option<(u32, Timestamp)>, limit: usize) -> Result<Vec<Skip>> {
        let (revision, from) =
            before.map_or((i64::MAX, i64::MAX), |(revision, from)| (i64::from(revision), from.as_millis()));
        let list = ask!(skips::NEWEST_FIRST, job.0, revision, from, limit);
        self.list(work!(|c| c.all(list, decode::skip).await)).await
    }

    async fn revision(&self, job: JobId, revision: u32) -> Result<Option<Arc<Revision>>> {
        let key = vec![job.0.into(), revision.into()];
        self.list(work!(|c| {
            let definitions = c.definitions();
            Ok(c.by_keys(revisions::GET, vec![key], |row| decode::revision(row, &definitions)).await?.pop())
        }))
        .await
    }

    async fn revisions(&self, job: JobId, before: Option<u32>, limit: usize) -> Result<Vec<Arc<Revision>>> {
        let list = ask!(revisions::NEWEST_FIRST, job.0, before.map_or(i64::MAX, i64::from), limit);
        self.list(work!(|c| {
            let definitions = c.definitions();
            c.all(list, |row| decode::revision(row, &definitions)).await
        }))
        .await
    }

    async fn calendar(&self, namespace: &Namespace, name: &Name) -> Result<Option<Arc<calendar::Record>>> {
        let get = ask!(calendars::GET, namespace.as_str().to_owned(), name.as_str().to_owned());
        self.list(work!(|c| c.one(get, decode::calendar).await)).await
    }

    async fn calendars(
        &self,
        filter: &CalendarFilter,
        after: Option<(Namespace, Name)>,
        limit: usize,
    ) -> Result<Vec<Arc<calendar::Record>>> {
        // No name is empty, so an empty name sorts before all.
        let (after_namespace, after_name) = after
            .map_or((String::new(), String::new()), |(namespace, name)| {
                (namespace.as_str().to_owned(), name.as_str().to_owned())
            });
        let sql = if filter.unsettled { calendars::UNSETTLED } else { calendars::LIST };
        let namespace = filter.namespace.as_ref().map(|namespace| namespace.as_str().to_owned());
        let list = ask!(sql, after_namespace, after_name, namespace, limit);
        self.list(work!(|c| c.all(list, decode::calendar).await)).await
    }

    async fn stats(&self) -> Result<Stats> {
        self.list(work!(|c| {
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
        }))
        .await
    }

    async fn statistics(&self, filter: &StatisticsFilter) -> Result<Vec<(Timestamp, Counts)>> {
        statistics::read(self, filter).await
    }

    async fn read_logs(
        &self,
        run: RunId,
        after: Option<log::ChunkPosition>,
        limit: usize,
    ) -> Result<Vec<log::Chunk>> {
        let (token, number) =
            after.map_or((i64::MIN, 0), |place| (place.token.0.cast_signed(), place.number));
        let list = ask!(chunks::LIST, run.0, token, number, limit);
        let read = work!(|c| c.all(list, |row| decode::chunk(run, row)).await);
        Backend::run(self, Purpose::ReadOutput, Scope::Statement, read).await
    }
}
