//! The default store: one folder, nothing to install.
//!
//! ```text
//! punctual.db    every row; one writer thread, a few readers
//! logs.db        output of attempts, with a writer of its own
//! acknowledged   how many commits were acknowledged, so that lost ones are noticed
//! lock           held by the one process that uses the folder
//! ```
//!
//! SQLite blocks, so every connection lives on a thread and gets requests over a channel. The leader's reads have a
//! reader of their own: a long listing at an endpoint never makes a fire late.
//!
//! In reading order: the files (`folder`, `mark`, `connection`, `schema`, `open`), writes (`writer`, `changes`,
//! `young`, `checkpoint`), reads (`reader`, `shard`, `doors`, `queues`, `walk`), and the rest (`logs`, `prune`,
//! `backup`).

mod failure;
mod folder;
mod mark;
mod connection;
mod schema;
mod lane;
mod open;
mod queries;
mod rows;
mod transaction;
mod writer;
mod changes;
mod young;
mod checkpoint;
mod reader;
mod shard;
mod doors;
mod queues;
mod calendars;
mod membership;
mod mail;
mod admin;
mod walk;
mod logs;
mod old;
mod prune;
mod backup;
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

pub use self::backup::{Copied, backup, restore};
use self::failure::Failure;
use self::folder::{Folder, Lock};
use self::lane::Lane;
use self::logs::{LogWriter, Syncer};
use self::mark::MarkAtClose;
use self::prune::Places;
use self::reader::{Reader, Snapshot};
use self::walk::Walk;
use self::writer::Writer;
use self::young::{Guard, Shared};
pub use crate::Durability;
use crate::mail::{Mail, Place};
use crate::{
    CalendarFilter, Claim, End, JobFilter, Leases, LetterFilter, Member, PrunePolicy, PutCalendar, Result,
    RunFilter, Session, Sessions, Stats, Store, Swap, token,
};

#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// How many shards a new store gets. An existing store keeps its number.
    pub shards: u16,
    pub durability: Durability,
}

impl Default for Options {
    fn default() -> Self {
        Options { shards: 64, durability: Durability::Full }
    }
}

/// Field order is drop order: the readers close first, then the writers, and the lock is released last.
pub struct Sqlite {
    shards: u16,
    durability: Durability,
    folder: Folder,
    pruned: Mutex<Places>,
    young: Shared,
    #[cfg(test)]
    health: Arc<failure::Health>,
    leader: Lane<Reader>,
    doors: Lane<Reader>,
    log_reader: Lane<Reader>,
    log_writer: Lane<LogWriter>,
    _log_syncer: Syncer,
    writer: Lane<Writer>,
    _mark: MarkAtClose,
    _lock: Lock,
}

impl Sqlite {
    /// `commit` for a thread that may block: the benchmark measures the writer alone with it.
    pub fn commit_blocking(&self, batches: Arc<Vec<Batch>>) -> Result<()> {
        self.writer.ask_blocking(batches, |writer, batches| writer.commit(batches))
    }

    /// Reads messages, young ones and rows, as of the same commit.
    async fn with_young<T: Send + 'static>(
        &self,
        lane: &Lane<Reader>,
        work: impl FnOnce(&mut Snapshot<'_>, Guard<'_>) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T> {
        let young = Arc::clone(&self.young);
        lane.ask(move |reader| reader.read_with(&young, work)).await
    }
}

impl fmt::Debug for Sqlite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let folder = self.folder.path();
        f.debug_struct("Sqlite")
            .field("folder", &folder)
            .field("shards", &self.shards)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Store for Sqlite {
    fn shards(&self) -> u16 {
        self.shards
    }

    fn durability(&self) -> Durability {
        self.durability
    }

    fn is_local(&self) -> bool {
        true
    }

    async fn leases(&self) -> Result<Leases> {
        self.leader.ask(|reader| reader.read(|snapshot| snapshot.leases())).await
    }

    async fn acquire(&self, by: Option<SessionId>, claims: &[Claim]) -> Result<Vec<(ShardId, Epoch)>> {
        let claims = claims.to_vec();
        self.writer.ask(move |writer| writer.acquire(by, &claims)).await
    }

    async fn release(&self, shards: &[(ShardId, Epoch)], heir: Option<SessionId>) -> Result<()> {
        let shards = shards.to_vec();
        self.writer.ask(move |writer| writer.release(&shards, heir)).await
    }

    async fn load(&self, shard: ShardId, epoch: Epoch) -> Result<Loaded> {
        self.leader.ask(move |reader| reader.read(|snapshot| snapshot.load(shard, epoch))).await
    }

    async fn commit(&self, batches: Arc<Vec<Batch>>) -> Result<()> {
        self.writer.ask_about(batches, |writer, batches| writer.commit(batches)).await
    }

    async fn fetch(&self, wants: Vec<(ShardId, Want)>) -> Result<Found> {
        let has_message = wants.iter().any(|(_, want)| matches!(want, Want::Message(_)));
        if !has_message {
            return self.leader.ask(move |reader| reader.read(|snapshot| snapshot.fetch(None, &wants))).await;
        }
        self.with_young(&self.leader, move |snapshot, young| snapshot.fetch(Some(young), &wants)).await
    }

    async fn due(&self, shard: ShardId, after: TimerPlace, limit: usize) -> Result<TimerPage> {
        self.with_young(&self.leader, move |snapshot, young| snapshot.due(young, shard, after, limit)).await
    }

    async fn backlog(
        &self,
        shard: ShardId,
        queue: QueueNumber,
        after: queue::Place,
        limit: usize,
    ) -> Result<Vec<Arc<Message>>> {
        let read = move |snapshot: &mut Snapshot<'_>, young: Guard<'_>| {
            snapshot.backlog(young, (shard, queue), after, limit)
        };
        self.with_young(&self.leader, read).await
    }

    async fn queues(
        &self,
        namespace: Option<&Namespace>,
        after: Option<&QueueKey>,
        limit: usize,
    ) -> Result<Vec<QueueRecord>> {
        let (namespace, after) = (namespace.cloned(), after.cloned());
        let read = move |reader: &mut Reader| {
            reader.read(|snapshot| snapshot.queues(namespace.as_ref(), after.as_ref(), limit))
        };
        self.doors.ask(read).await
    }

    async fn messages(
        &self,
        queue: &QueueKey,
        after: Option<queue::Place>,
        limit: usize,
    ) -> Result<Vec<Arc<Message>>> {
        let queue = queue.clone();
        self.with_young(&self.doors, move |snapshot, young| snapshot.messages(young, &queue, after, limit))
            .await
    }

    async fn line(&self, queue: &QueueKey, from: End, limit: usize) -> Result<Vec<Arc<Message>>> {
        let queue = queue.clone();
        self.with_young(&self.doors, move |snapshot, young| snapshot.line_from(young, &queue, from, limit))
            .await
    }

    async fn job(&self, namespace: &Namespace, name: &Name) -> Result<Option<Arc<Job>>> {
        let (namespace, name) = (namespace.clone(), name.clone());
        self.doors.ask(move |reader| reader.read(|snapshot| snapshot.job_named(&namespace, &name))).await
    }

    async fn jobs(
        &self,
        filter: &JobFilter,
        after: Option<(Namespace, Name)>,
        limit: usize,
    ) -> Result<Vec<Arc<Job>>> {
        let filter = filter.clone();
        self.doors
            .ask(move |reader| reader.read(|snapshot| snapshot.jobs(&filter, after.as_ref(), limit)))
            .await
    }

    async fn run(&self, namespace: &Namespace, run: RunId) -> Result<Option<RunRecord>> {
        let record = self.doors.ask(move |reader| reader.read(|snapshot| snapshot.run(run))).await?;
        Ok(record.filter(|record| record.run.namespace == *namespace))
    }

    async fn runs(&self, filter: &RunFilter, after: Option<RunId>, limit: usize) -> Result<Vec<Arc<Run>>> {
        let mut walk = Walk::new(filter, after, limit, self.shards);
        while walk.goes_on() {
            let step = move |reader: &mut Reader| reader.read(|snapshot| walk.step(snapshot).map(|()| walk));
            walk = self.doors.ask(step).await?;
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
        let read =
            move |reader: &mut Reader| reader.read(|snapshot| snapshot.dead_letters(&filter, after, limit));
        self.doors.ask(read).await
    }

    async fn outdated_jobs(&self, zone_data: &str, limit: usize) -> Result<Vec<Arc<Job>>> {
        let zone_data = zone_data.to_owned();
        self.doors.ask(move |reader| reader.read(|snapshot| snapshot.outdated_jobs(&zone_data, limit))).await
    }

    async fn deleted_jobs(
        &self,
        named: Option<(&Namespace, &Name)>,
        after: Option<JobId>,
        limit: usize,
    ) -> Result<Vec<DeletedJob>> {
        let named = named.map(|(namespace, name)| (namespace.clone(), name.clone()));
        let read = move |reader: &mut Reader| {
            let named = named.as_ref().map(|(namespace, name)| (namespace, name));
            reader.read(|snapshot| snapshot.deleted_jobs(named, after, limit))
        };
        self.doors.ask(read).await
    }

    async fn skips(&self, job: JobId, before: Option<(u32, Timestamp)>, limit: usize) -> Result<Vec<Skip>> {
        self.doors.ask(move |reader| reader.read(|snapshot| snapshot.skips(job, before, limit))).await
    }

    async fn revision(&self, job: JobId, revision: u32) -> Result<Option<Arc<Revision>>> {
        self.doors.ask(move |reader| reader.read(|snapshot| snapshot.revision(job, revision))).await
    }

    async fn revisions(&self, job: JobId, before: Option<u32>, limit: usize) -> Result<Vec<Arc<Revision>>> {
        self.doors.ask(move |reader| reader.read(|snapshot| snapshot.revisions(job, before, limit))).await
    }

    async fn calendar(&self, namespace: &Namespace, name: &Name) -> Result<Option<Arc<calendar::Record>>> {
        let (namespace, name) = (namespace.clone(), name.clone());
        self.doors.ask(move |reader| reader.read(|snapshot| snapshot.calendar(&namespace, &name))).await
    }

    async fn calendars(
        &self,
        filter: &CalendarFilter,
        after: Option<(Namespace, Name)>,
        limit: usize,
    ) -> Result<Vec<Arc<calendar::Record>>> {
        let filter = filter.clone();
        self.doors
            .ask(move |reader| reader.read(|snapshot| snapshot.calendars(&filter, after.as_ref(), limit)))
            .await
    }

    async fn put_calendar(&self, put: PutCalendar) -> Result<Swap> {
        self.writer.ask(move |writer| writer.put_calendar(&put)).await
    }

    async fn delete_calendar(&self, namespace: &Namespace, name: &Name, expect: Expect) -> Result<Swap> {
        let (namespace, name) = (namespace.clone(), name.clone());
        self.writer.ask(move |writer| writer.delete_calendar(&namespace, &name, expect)).await
    }

    async fn settle_calendar(&self, namespace: &Namespace, name: &Name, version: u32) -> Result<()> {
        let (namespace, name) = (namespace.clone(), name.clone());
        self.writer.ask(move |writer| writer.settle_calendar(&namespace, &name, version)).await
    }

    async fn agree(&self, name: &str, offer: &[u8]) -> Result<Vec<u8>> {
        let (name, offer) = (name.to_owned(), offer.to_vec());
        self.writer.ask(move |writer| writer.agree(&name, &offer)).await
    }

    async fn send_mail(&self, mail: &[Mail], kept: Duration) -> Result<()> {
        let mail = mail.to_vec();
        self.writer.ask(move |writer| writer.send_mail(&mail, kept)).await
    }

    async fn receive_mail(&self, to: SessionId, taken: &[Place], limit: usize) -> Result<Vec<Mail>> {
        let taken = taken.to_vec();
        self.writer.ask(move |writer| writer.receive_mail(to, &taken, limit)).await
    }

    async fn tokens(&self) -> Result<Vec<token::Record>> {
        self.doors.ask(|reader| reader.read(|snapshot| snapshot.tokens())).await
    }

    async fn add_token(&self, record: &token::Record) -> Result<bool> {
        let record = record.clone();
        self.writer.ask(move |writer| writer.add_token(&record)).await
    }

    async fn remove_token(&self, name: &str) -> Result<bool> {
        let name = name.to_owned();
        self.writer.ask(move |writer| writer.remove_token(&name)).await
    }

    async fn stats(&self) -> Result<Stats> {
        self.doors.ask(|reader| reader.read(|snapshot| snapshot.stats())).await
    }

    async fn append_logs(&self, chunks: Vec<log::Chunk>) -> Result<()> {
        self.log_writer.ask(move |writer| writer.append(&chunks)).await
    }

    async fn read_logs(
        &self,
        run: RunId,
        after: Option<log::Place>,
        limit: usize,
    ) -> Result<Vec<log::Chunk>> {
        self.log_reader.ask(move |reader| reader.read(|snapshot| snapshot.logs(run, after, limit))).await
    }

    async fn log_bytes(&self, run: RunId) -> Result<u64> {
        self.log_reader.ask(move |reader| reader.read(|snapshot| snapshot.log_bytes(run))).await
    }

    async fn prune(&self, policy: &PrunePolicy, limit: usize) -> Result<usize> {
        self.prune_all(policy, limit).await
    }
}

#[async_trait]
impl Sessions for Sqlite {
    async fn renew(&self, session: &Session, ttl: Duration) -> Result<Vec<Member>> {
        let session = session.clone();
        self.writer.ask(move |writer| writer.renew(&session, ttl)).await
    }

    async fn leave(&self, session: SessionId) -> Result<()> {
        self.writer.ask(move |writer| writer.leave(session)).await
    }
}
