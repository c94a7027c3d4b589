//! The store of a cluster on PostgreSQL 13 or newer.
//!
//! A node needs few connections, each for one purpose, so that unrelated work does not wait: two lanes for commits, two
//! for reads of leaders, a few for the endpoints, and one each for renewals, acquisitions and output. They are opened
//! on first use, and again after they are lost.
//!
//! A commit is one round trip: fences, changes and `COMMIT` are sent together, and a statement that misses a row turns
//! the `COMMIT` into a rollback (see `queries` and `commit`). History is a plain table, trimmed by small deletes.
//!
//! In reading order: connections (`connect`, `durability`, `link`, `pool`, `schema`, `open`), writes (`writes`,
//! `messages`, `commit`, `membership`), reads (`snapshot`, `shard`, `doors`, `queues`, `walk`), and the rest (`logs`,
//! `prune`).

mod failure;
mod connect;
mod durability;
mod link;
mod pool;
mod schema;
mod open;
mod queries;
mod rows;
mod writes;
mod messages;
mod commit;
mod membership;
mod mail;
mod snapshot;
mod shard;
mod doors;
mod queues;
mod walk;
mod calendars;
mod admin;
mod logs;
mod prune;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use punctual_core::Timestamp;
use punctual_core::change::{
    Batch, DeadLetter, DeletedJob, Found, Loaded, Revision, RunRecord, Skip, TimerPage, TimerPlace, Want,
};
use punctual_core::command::Expect;
use punctual_core::ids::{Epoch, JobId, RunId, SessionId, ShardId};
use punctual_core::job::Job;
use punctual_core::log;
use punctual_core::name::{Name, Namespace};
use punctual_core::queue::{self, Message, QueueKey, QueueNumber, QueueRecord};
use punctual_core::run::Run;
use punctual_core::schedule::calendar;

use self::open::LANES;
use self::pool::Pool;
use self::prune::Places;
use self::snapshot::Snapshot;
use self::walk::Walk;
use crate::definitions::Definitions;
use crate::mail::{Mail, Place};
use crate::{
    CalendarFilter, Claim, Durability, End, JobFilter, Leases, LetterFilter, Member, PrunePolicy,
    PutCalendar, Result, RunFilter, Session, Sessions, Stats, Store, Swap, token,
};

#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// How many shards a new store gets. An existing store keeps its number.
    pub shards: u16,
    pub durability: Durability,
    /// The session that owns these connections: a node that takes over its shards ends its open transactions.
    pub session: Option<SessionId>,
}

impl Default for Options {
    fn default() -> Self {
        Options { shards: 64, durability: Durability::Full, session: None }
    }
}

#[derive(Debug)]
pub struct Postgres {
    shards: u16,
    durability: Durability,
    lanes: [Pool; LANES],
    leader: Pool,
    doors: Pool,
    session: Pool,
    lease: Pool,
    log: Pool,
    definitions: Mutex<Definitions>,
    pruned: Mutex<Places>,
}

#[async_trait]
impl Store for Postgres {
    fn shards(&self) -> u16 {
        self.shards
    }

    fn durability(&self) -> Durability {
        self.durability
    }

    async fn leases(&self) -> Result<Leases> {
        self.read_leases().await
    }

    async fn acquire(&self, by: Option<SessionId>, claims: &[Claim]) -> Result<Vec<(ShardId, Epoch)>> {
        self.take_shards(by, claims).await
    }

    async fn release(&self, shards: &[(ShardId, Epoch)], heir: Option<SessionId>) -> Result<()> {
        self.give_up_shards(shards, heir).await
    }

    async fn load(&self, shard: ShardId, epoch: Epoch) -> Result<Loaded> {
        let mut link = self.leader.take().await?;
        let mut snapshot = Snapshot::new(&mut link, &self.definitions);
        let loaded = snapshot.load(shard, epoch).await;
        snapshot.end(loaded).await
    }

    async fn commit(&self, batches: Arc<Vec<Batch>>) -> Result<()> {
        // A shard always commits in the same lane, and a lane commits one batch list at a time.
        let Some(first) = batches.first() else { return Ok(()) };
        let mut link = self.lanes[usize::from(first.shard.0) % LANES].take().await?;
        link.commit(&batches, self.shards).await
    }

    async fn fetch(&self, wants: Vec<(ShardId, Want)>) -> Result<Found> {
        let mut link = self.leader.take().await?;
        let mut snapshot = Snapshot::new(&mut link, &self.definitions);
        let found = snapshot.fetch(&wants).await;
        snapshot.end(found).await
    }

    async fn due(&self, shard: ShardId, after: TimerPlace, limit: usize) -> Result<TimerPage> {
        let mut link = self.leader.take().await?;
        let mut snapshot = Snapshot::new(&mut link, &self.definitions);
        let page = snapshot.due(shard, after, limit).await;
        snapshot.end(page).await
    }

    async fn backlog(
        &self,
        shard: ShardId,
        queue: QueueNumber,
        after: queue::Place,
        limit: usize,
    ) -> Result<Vec<Arc<Message>>> {
        self.next_in_line(shard, queue, after, limit).await
    }

    async fn queues(
        &self,
        namespace: Option<&Namespace>,
        after: Option<&QueueKey>,
        limit: usize,
    ) -> Result<Vec<QueueRecord>> {
        self.list_queues(namespace, after, limit).await
    }

    async fn messages(
        &self,
        queue: &QueueKey,
        after: Option<queue::Place>,
        limit: usize,
    ) -> Result<Vec<Arc<Message>>> {
        self.list_messages(queue, after, limit).await
    }

    async fn line(&self, queue: &QueueKey, from: End, limit: usize) -> Result<Vec<Arc<Message>>> {
        self.line_from(queue, from, limit).await
    }

    async fn job(&self, namespace: &Namespace, name: &Name) -> Result<Option<Arc<Job>>> {
        self.job_named(namespace, name).await
    }

    async fn jobs(
        &self,
        filter: &JobFilter,
        after: Option<(Namespace, Name)>,
        limit: usize,
    ) -> Result<Vec<Arc<Job>>> {
        self.list_jobs(filter, after, limit).await
    }

    async fn run(&self, namespace: &Namespace, run: RunId) -> Result<Option<RunRecord>> {
        let mut link = self.doors.take().await?;
        let mut snapshot = Snapshot::new(&mut link, &self.definitions);
        let found = snapshot.record(run).await;
        let record = snapshot.end(found).await?;
        Ok(record.filter(|record| record.run.namespace == *namespace))
    }

    async fn runs(&self, filter: &RunFilter, after: Option<RunId>, limit: usize) -> Result<Vec<Arc<Run>>> {
        let mut walk = Walk::new(filter, after, limit, self.shards);
        while walk.goes_on() {
            let mut link = self.doors.take().await?;
            let mut snapshot = Snapshot::new(&mut link, &self.definitions);
            let stepped = walk.step(&mut snapshot).await;
            snapshot.end(stepped).await?;
        }
        Ok(walk.runs)
    }

    async fn dead_letters(
        &self,
        filter: &LetterFilter,
        after: Option<RunId>,
        limit: usize,
    ) -> Result<Vec<DeadLetter>> {
        self.list_dead_letters(filter, after, limit).await
    }

    async fn outdated_jobs(&self, zone_data: &str, limit: usize) -> Result<Vec<Arc<Job>>> {
        self.list_outdated_jobs(zone_data, limit).await
    }

    async fn deleted_jobs(
        &self,
        named: Option<(&Namespace, &Name)>,
        after: Option<JobId>,
        limit: usize,
    ) -> Result<Vec<DeletedJob>> {
        self.list_deleted_jobs(named, after, limit).await
    }

    async fn skips(&self, job: JobId, before: Option<(u32, Timestamp)>, limit: usize) -> Result<Vec<Skip>> {
        self.list_skips(job, before, limit).await
    }

    async fn revision(&self, job: JobId, revision: u32) -> Result<Option<Arc<Revision>>> {
        self.one_revision(job, revision).await
    }

    async fn revisions(&self, job: JobId, before: Option<u32>, limit: usize) -> Result<Vec<Arc<Revision>>> {
        self.list_revisions(job, before, limit).await
    }

    async fn calendar(&self, namespace: &Namespace, name: &Name) -> Result<Option<Arc<calendar::Record>>> {
        self.one_calendar(namespace, name).await
    }

    async fn calendars(
        &self,
        filter: &CalendarFilter,
        after: Option<(Namespace, Name)>,
        limit: usize,
    ) -> Result<Vec<Arc<calendar::Record>>> {
        self.list_calendars(filter, after, limit).await
    }

    async fn put_calendar(&self, put: PutCalendar) -> Result<Swap> {
        self.swap_calendar(put).await
    }

    async fn delete_calendar(&self, namespace: &Namespace, name: &Name, expect: Expect) -> Result<Swap> {
        self.remove_calendar(namespace, name, expect).await
    }

    async fn settle_calendar(&self, namespace: &Namespace, name: &Name, version: u32) -> Result<()> {
        self.mark_settled(namespace, name, version).await
    }

    async fn agree(&self, name: &str, offer: &[u8]) -> Result<Vec<u8>> {
        self.settle_on(name, offer).await
    }

    async fn send_mail(&self, mail: &[Mail], kept: Duration) -> Result<()> {
        self.post(mail, kept).await
    }

    async fn receive_mail(&self, to: SessionId, taken: &[Place], limit: usize) -> Result<Vec<Mail>> {
        self.collect(to, taken, limit).await
    }

    async fn tokens(&self) -> Result<Vec<token::Record>> {
        self.list_tokens().await
    }

    async fn add_token(&self, record: &token::Record) -> Result<bool> {
        self.insert_token(record).await
    }

    async fn remove_token(&self, name: &str) -> Result<bool> {
        self.delete_token(name).await
    }

    async fn stats(&self) -> Result<Stats> {
        self.count().await
    }

    async fn append_logs(&self, chunks: Vec<log::Chunk>) -> Result<()> {
        self.write_chunks(chunks).await
    }

    async fn read_logs(
        &self,
        run: RunId,
        after: Option<log::Place>,
        limit: usize,
    ) -> Result<Vec<log::Chunk>> {
        self.read_chunks(run, after, limit).await
    }

    async fn log_bytes(&self, run: RunId) -> Result<u64> {
        self.count_log_bytes(run).await
    }

    async fn prune(&self, policy: &PrunePolicy, limit: usize) -> Result<usize> {
        self.prune_all(policy, limit).await
    }
}

#[async_trait]
impl Sessions for Postgres {
    async fn renew(&self, session: &Session, ttl: Duration) -> Result<Vec<Member>> {
        self.renew_session(session, ttl).await
    }

    async fn leave(&self, session: SessionId) -> Result<()> {
        self.end_session(session).await
    }
}
