//! What endpoints list and show, for every store in a database.

use std::sync::Arc;

use async_trait::async_trait;
use punctual_core::Timestamp;
use punctual_core::change::{DeadLetter, DeletedJob, Found, Revision, RunRecord, Skip, Want};
use punctual_core::ids::{JobId, RunId, ShardId};
use punctual_core::job::Job;
use punctual_core::log;
use punctual_core::name::{Name, Namespace};
use punctual_core::queue::{Message, MessagePosition, QueueKey, QueueRecord};
use punctual_core::run::Run;
use punctual_core::schedule::calendar;

use super::backend::{Backend, Purpose, Scope, Work};
use super::connection::ask;
use super::messages::{Which, list_queues};
use super::walk::Walk;
use super::{calendars, decode, listings, queries, records};
use crate::{CalendarFilter, Durability, End, JobFilter, LetterFilter, Reads, Result, RunFilter, Stats};

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
        let (namespace, after) = (namespace.cloned(), after.cloned());
        self.list(Box::new(move |c| {
            Box::pin(async move { list_queues(c, namespace.as_ref(), after.as_ref(), limit).await })
        }))
        .await
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

    async fn line(&self, queue: &QueueKey, from: End, limit: usize) -> Result<Vec<Arc<Message>>> {
        self.queue_messages(queue.clone(), from.into(), limit).await
    }

    async fn job(&self, namespace: &Namespace, name: &Name) -> Result<Option<Arc<Job>>> {
        let (namespace, name) = (namespace.clone(), name.clone());
        self.list(Box::new(move |c| Box::pin(async move { listings::job(c, &namespace, &name).await }))).await
    }

    async fn jobs(
        &self,
        filter: &JobFilter,
        after: Option<(Namespace, Name)>,
        limit: usize,
    ) -> Result<Vec<Arc<Job>>> {
        let filter = filter.clone();
        self.list(Box::new(move |c| {
            Box::pin(async move { listings::jobs(c, &filter, after.as_ref(), limit).await })
        }))
        .await
    }

    async fn run(&self, namespace: &Namespace, run: RunId) -> Result<Option<RunRecord>> {
        let read: Work<_> = Box::new(move |c| Box::pin(records::record(c, run)));
        let record = Backend::run(self, Purpose::List, B::FETCH, read).await?;
        Ok(record.filter(|record| record.run.namespace == *namespace))
    }

    async fn runs(&self, filter: &RunFilter, after: Option<RunId>, limit: usize) -> Result<Vec<Arc<Run>>> {
        let mut walk = Walk::new(filter, after, limit, self.facts().shards);
        while walk.goes_on() {
            let step: Work<_> = Box::new(move |c| Box::pin(walk.step(c)));
            walk = Backend::run(self, Purpose::List, Scope::Snapshot, step).await?;
        }
        Ok(walk.runs)
    }

    async fn dead_letters(
        &self,
        filter: &LetterFilter,
        after: Option<RunId>,
        limit: usize,
    ) -> Result<Vec<DeadLetter>> {
        let filter = filter.clone();
        self.list(Box::new(move |c| {
            Box::pin(async move { listings::dead_letters(c, &filter, after, limit).await })
        }))
        .await
    }

    async fn deleted_jobs(
        &self,
        named: Option<(&Namespace, &Name)>,
        after: Option<JobId>,
        limit: usize,
    ) -> Result<Vec<DeletedJob>> {
        let named = named.map(|(namespace, name)| (namespace.clone(), name.clone()));
        self.list(Box::new(move |c| {
            Box::pin(async move { listings::deleted_jobs(c, named.as_ref(), after, limit).await })
        }))
        .await
    }

    async fn skips(&self, job: JobId, before: Option<(u32, Timestamp)>, limit: usize) -> Result<Vec<Skip>> {
        self.list(Box::new(move |c| Box::pin(listings::skips(c, job, before, limit)))).await
    }

    async fn revision(&self, job: JobId, revision: u32) -> Result<Option<Arc<Revision>>> {
        self.list(Box::new(move |c| Box::pin(listings::revision(c, job, revision)))).await
    }

    async fn revisions(&self, job: JobId, before: Option<u32>, limit: usize) -> Result<Vec<Arc<Revision>>> {
        self.list(Box::new(move |c| Box::pin(listings::revisions(c, job, before, limit)))).await
    }

    async fn calendar(&self, namespace: &Namespace, name: &Name) -> Result<Option<Arc<calendar::Record>>> {
        let (namespace, name) = (namespace.clone(), name.clone());
        self.list(Box::new(move |c| Box::pin(async move { calendars::get(c, &namespace, &name).await })))
            .await
    }

    async fn calendars(
        &self,
        filter: &CalendarFilter,
        after: Option<(Namespace, Name)>,
        limit: usize,
    ) -> Result<Vec<Arc<calendar::Record>>> {
        let filter = filter.clone();
        self.list(Box::new(move |c| {
            Box::pin(async move { calendars::list(c, &filter, after.as_ref(), limit).await })
        }))
        .await
    }

    async fn stats(&self) -> Result<Stats> {
        self.list(Box::new(|c| Box::pin(listings::stats(c)))).await
    }

    async fn read_logs(
        &self,
        run: RunId,
        after: Option<log::ChunkPosition>,
        limit: usize,
    ) -> Result<Vec<log::Chunk>> {
        let (token, number) =
            after.map_or((i64::MIN, 0), |place| (place.token.0.cast_signed(), place.number));
        let list = ask!(queries::chunks::LIST, run.0, token, number, limit);
        let read: Work<_> =
            Box::new(move |c| Box::pin(async move { c.all(list, |row| decode::chunk(run, row)).await }));
        Backend::run(self, Purpose::ReadOutput, Scope::Statement, read).await
    }
}
