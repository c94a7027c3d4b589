//! The store of a cluster on MySQL 8 or MariaDB 10.6 and later.
//!
//! It has a few connections, each for one purpose, so that unrelated work does not wait:
//!
//! ```text
//! lane-0, lane-1   commits
//! leader           reads of leaders
//! doors            a few, for the endpoints
//! sessions         renewals and the clock
//! changes          acquisitions, calendars, tokens
//! prune, logs
//! ```
//!
//! It uses the common subset of both databases: no RETURNING, no row aliases, no partial indexes. State is never
//! upserted: the number of rows a statement hits tells whether the store is as the leader expects.
//!
//! In reading order: the connections (`link`, `open`, `schema`, `failure`), writes (`script`, `statements`,
//! `messages`, `wave`, `writer`), reads (`reader`, `shard`, `doors`, `queues`, `walk`), and the rest.

mod failure;
mod link;
mod schema;
mod open;
mod queries;
mod rows;
mod script;
mod statements;
mod messages;
mod wave;
mod writer;
mod reader;
mod shard;
mod doors;
mod queues;
mod walk;
mod leases;
mod sessions;
mod mail;
mod calendars;
mod admin;
mod logs;
mod old;
mod prune;
#[cfg(test)]
mod tests;

use std::fmt;
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

use self::link::{Held, Link};
use self::prune::Places;
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
    /// The session that owns these connections: a node that takes over its shards ends them. `None` means they
    /// cannot be ended this way.
    pub session: Option<SessionId>,
}

impl Default for Options {
    fn default() -> Self {
        Options { shards: 64, durability: Durability::Full, session: None }
    }
}

pub struct Mysql {
    shards: u16,
    durability: Durability,
    database: String,
    lanes: [Link; 2],
    leader: Link,
    doors: Vec<Link>,
    sessions: Link,
    changes: Link,
    pruner: Link,
    logs: Link,
    pruned: Mutex<Places>,
    definitions: Mutex<Definitions>,
}

impl Mysql {
    /// The first free connection for the endpoints.
    async fn door(&self) -> Result<Held<'_>> {
        let (link, _, _) =
            futures_util::future::select_all(self.doors.iter().map(|link| Box::pin(link.turn()))).await;
        link.connected().await
    }
}

impl fmt::Debug for Mysql {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mysql")
            .field("database", &self.database)
            .field("shards", &self.shards)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Store for Mysql {
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
        self.acquire_claims(by, claims).await
    }

    async fn release(&self, shards: &[(ShardId, Epoch)], heir: Option<SessionId>) -> Result<()> {
        self.release_shards(shards, heir).await
    }

    async fn load(&self, shard: ShardId, epoch: Epoch) -> Result<Loaded> {
        self.load_shard(shard, epoch).await
    }

    async fn commit(&self, batches: Arc<Vec<Batch>>) -> Result<()> {
        self.commit_batches(&batches).await
    }

    async fn fetch(&self, wants: Vec<(ShardId, Want)>) -> Result<Found> {
        self.fetch_wants(&wants).await
    }

    async fn due(&self, shard: ShardId, after: TimerPlace, limit: usize) -> Result<TimerPage> {
        self.next_timers(shard, after, limit).await
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
        self.list_jobs(filter, after.as_ref(), limit).await
    }

    async fn run(&self, namespace: &Namespace, run: RunId) -> Result<Option<RunRecord>> {
        let record = self.run_of(run).await?;
        Ok(record.filter(|record| record.run.namespace == *namespace))
    }

    async fn runs(&self, filter: &RunFilter, after: Option<RunId>, limit: usize) -> Result<Vec<Arc<Run>>> {
        self.list_runs(filter, after, limit).await
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
        self.read_revision(job, revision).await
    }

    async fn revisions(&self, job: JobId, before: Option<u32>, limit: usize) -> Result<Vec<Arc<Revision>>> {
        self.list_revisions(job, before, limit).await
    }

    async fn calendar(&self, namespace: &Namespace, name: &Name) -> Result<Option<Arc<calendar::Record>>> {
        self.read_calendar(namespace, name).await
    }

    async fn calendars(
        &self,
        filter: &CalendarFilter,
        after: Option<(Namespace, Name)>,
        limit: usize,
    ) -> Result<Vec<Arc<calendar::Record>>> {
        self.list_calendars(filter, after.as_ref(), limit).await
    }

    async fn put_calendar(&self, put: PutCalendar) -> Result<Swap> {
        self.change_calendar(&put).await
    }

    async fn delete_calendar(&self, namespace: &Namespace, name: &Name, expect: Expect) -> Result<Swap> {
        self.remove_calendar(namespace, name, expect).await
    }

    async fn settle_calendar(&self, namespace: &Namespace, name: &Name, version: u32) -> Result<()> {
        self.mark_settled(namespace, name, version).await
    }

    async fn agree(&self, name: &str, offer: &[u8]) -> Result<Vec<u8>> {
        self.agree_on(name, offer).await
    }

    async fn send_mail(&self, mail: &[Mail], kept: Duration) -> Result<()> {
        self.post(mail, kept).await
    }

    async fn receive_mail(&self, to: SessionId, taken: &[Place], limit: usize) -> Result<Vec<Mail>> {
        self.collect(to, taken, limit).await
    }

    async fn tokens(&self) -> Result<Vec<token::Record>> {
        self.read_tokens().await
    }

    async fn add_token(&self, record: &token::Record) -> Result<bool> {
        self.insert_token(record).await
    }

    async fn remove_token(&self, name: &str) -> Result<bool> {
        self.delete_token(name).await
    }

    async fn stats(&self) -> Result<Stats> {
        self.read_stats().await
    }

    async fn append_logs(&self, chunks: Vec<log::Chunk>) -> Result<()> {
        self.append_chunks(&chunks).await
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
impl Sessions for Mysql {
    async fn renew(&self, session: &Session, ttl: Duration) -> Result<Vec<Member>> {
        self.renew_session(session, ttl).await
    }

    async fn leave(&self, session: SessionId) -> Result<()> {
        self.leave_session(session).await
    }
}
