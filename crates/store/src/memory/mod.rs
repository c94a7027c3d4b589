//! The reference implementation of the store, in plain Rust.
//!
//! One ordered map of rows behind a mutex: every backend has to behave as this one does. No call waits, so a future is
//! ready the first time it is polled; the simulator depends on that.
//!
//! The one surprise: a batch is applied in place and undone row by row when it is refused, because copying all rows for
//! each commit would make the simulator slow.

mod tables;
mod reads;
mod queues;
mod prune;
mod calendars;
mod membership;
mod mail;

use std::collections::btree_map::Entry;
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use parking_lot::Mutex;
use punctual_core::Timestamp;
use punctual_core::change::{
    Batch, DeadLetter, DeletedJob, Found, Loaded, Revision, Row, RowKey, RunRecord, Skip, TimerPage,
    TimerPlace, Want,
};
use punctual_core::command::Expect;
use punctual_core::ids::{Epoch, JobId, RunId, SHARDS_MAX, SessionId, ShardId, Token};
use punctual_core::job::Job;
use punctual_core::log;
use punctual_core::name::{Name, Namespace};
use punctual_core::queue::{self, Message, QueueKey, QueueNumber, QueueRecord};
use punctual_core::run::Run;
use punctual_core::schedule::calendar;
use punctual_core::time::Clock;
use tokio::sync::watch;

use self::tables::Tables;
use crate::listing::looked_up;
use crate::mail::{Mail, Place};
use crate::{
    CalendarFilter, Claim, End, JobFilter, Leases, LetterFilter, Member, PrunePolicy, PutCalendar, Result,
    RunFilter, Session, Sessions, Stats, Store, Swap, token,
};

pub struct Memory {
    shards: u16,
    clock: Arc<dyn Clock>,
    tables: Mutex<Tables>,
    written: watch::Sender<u64>,
}

impl Memory {
    /// An empty store that uses the machine's clock.
    pub fn new(shards: u16) -> Self {
        Memory::with_clock(shards, Arc::new(Machine))
    }

    pub fn with_clock(shards: u16, clock: Arc<dyn Clock>) -> Self {
        assert!((1..=SHARDS_MAX).contains(&shards), "a store has 1 to {SHARDS_MAX} shards");
        let (tables, written) = (Mutex::new(Tables::new(shards)), watch::Sender::new(0));
        Memory { shards, clock, tables, written }
    }

    /// Changes with every commit and every settled calendar: wakes tasks that wait for new writes.
    pub fn written(&self) -> watch::Receiver<u64> {
        self.written.subscribe()
    }
}

#[derive(Debug)]
struct Machine;

impl Clock for Machine {
    #[expect(clippy::disallowed_methods, reason = "a store has a clock of its own, and this is all of it")]
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Timestamp::MIN + since
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("shards", &self.shards).finish_non_exhaustive()
    }
}

#[async_trait]
impl Store for Memory {
    fn shards(&self) -> u16 {
        self.shards
    }

    fn is_local(&self) -> bool {
        true
    }

    async fn leases(&self) -> Result<Leases> {
        Ok(Leases { now: self.clock.now(), shards: self.tables.lock().leases() })
    }

    async fn acquire(&self, by: Option<SessionId>, claims: &[Claim]) -> Result<Vec<(ShardId, Epoch)>> {
        self.tables.lock().acquire(by, claims)
    }

    async fn release(&self, shards: &[(ShardId, Epoch)], heir: Option<SessionId>) -> Result<()> {
        self.tables.lock().release(shards, heir);
        Ok(())
    }

    async fn load(&self, shard: ShardId, epoch: Epoch) -> Result<Loaded> {
        self.tables.lock().load(shard, epoch)
    }

    async fn commit(&self, batches: Arc<Vec<Batch>>) -> Result<()> {
        self.tables.lock().commit(&batches)?;
        self.written.send_modify(|times| *times += 1);
        Ok(())
    }

    async fn fetch(&self, wants: Vec<(ShardId, Want)>) -> Result<Found> {
        let tables = self.tables.lock();
        let mut found = Found::default();
        for (shard, want) in wants {
            match want {
                Want::Job(namespace, name) => found.jobs.extend(tables.job_named(namespace, name)),
                Want::Run(run) => found.runs.extend(tables.record_of(run)?.map(looked_up)),
                Want::Unique(key) => found.uniques.extend(tables.unique(shard, key)),
                Want::Message(id) => found.messages.extend(tables.message(id)),
            }
        }
        Ok(found)
    }

    async fn due(&self, shard: ShardId, after: TimerPlace, limit: usize) -> Result<TimerPage> {
        self.tables.lock().due(shard, after, limit)
    }

    async fn backlog(
        &self,
        shard: ShardId,
        queue: QueueNumber,
        after: queue::Place,
        limit: usize,
    ) -> Result<Vec<Arc<Message>>> {
        Ok(self.tables.lock().backlog(shard, queue, after, limit))
    }

    async fn queues(
        &self,
        namespace: Option<&Namespace>,
        after: Option<&QueueKey>,
        limit: usize,
    ) -> Result<Vec<QueueRecord>> {
        Ok(self.tables.lock().list_queues(namespace, after, limit))
    }

    async fn messages(
        &self,
        queue: &QueueKey,
        after: Option<queue::Place>,
        limit: usize,
    ) -> Result<Vec<Arc<Message>>> {
        Ok(self.tables.lock().messages(queue, after, limit))
    }

    async fn line(&self, queue: &QueueKey, from: End, limit: usize) -> Result<Vec<Arc<Message>>> {
        Ok(self.tables.lock().line_from(queue, from, limit))
    }

    async fn job(&self, namespace: &Namespace, name: &Name) -> Result<Option<Arc<Job>>> {
        Ok(self.tables.lock().job_named(namespace.clone(), name.clone()))
    }

    async fn jobs(
        &self,
        filter: &JobFilter,
        after: Option<(Namespace, Name)>,
        limit: usize,
    ) -> Result<Vec<Arc<Job>>> {
        Ok(self.tables.lock().jobs(filter, after.as_ref(), limit))
    }

    async fn run(&self, namespace: &Namespace, run: RunId) -> Result<Option<RunRecord>> {
        let record = self.tables.lock().record_of(run)?;
        Ok(record.filter(|record| record.run.namespace == *namespace))
    }

    async fn runs(&self, filter: &RunFilter, after: Option<RunId>, limit: usize) -> Result<Vec<Arc<Run>>> {
        Ok(self.tables.lock().runs(filter, after, limit))
    }

    async fn dead_letters(
        &self,
        filter: &LetterFilter,
        after: Option<RunId>,
        limit: usize,
    ) -> Result<Vec<DeadLetter>> {
        let tables = self.tables.lock();
        let letters = tables.dead_letters(after.map_or(0, |run| run.0 + 1));
        Ok(letters.filter(|letter| filter.takes(letter)).take(limit).cloned().collect())
    }

    async fn outdated_jobs(&self, zone_data: &str, limit: usize) -> Result<Vec<Arc<Job>>> {
        let tables = self.tables.lock();
        let is_older = |job: &Arc<Job>| job.cursor.zone_data.as_deref().is_some_and(|data| data < zone_data);
        let jobs = tables.names.values().filter_map(|id| tables.job(*id));
        Ok(jobs.filter(is_older).take(limit).collect())
    }

    async fn deleted_jobs(
        &self,
        named: Option<(&Namespace, &Name)>,
        after: Option<JobId>,
        limit: usize,
    ) -> Result<Vec<DeletedJob>> {
        let tables = self.tables.lock();
        let deleted = tables.deleted.values().filter(|gone| tables.job(gone.id).is_none());
        let wanted = deleted
            .filter(|gone| named.is_none_or(|named| named == (&gone.namespace, &gone.name)))
            .filter(|gone| after.is_none_or(|after| gone.id > after));
        Ok(wanted.take(limit).cloned().collect())
    }

    async fn skips(&self, job: JobId, before: Option<(u32, Timestamp)>, limit: usize) -> Result<Vec<Skip>> {
        let tables = self.tables.lock();
        let skips = tables.skips(job);
        let beyond = skips.filter(|skip| before.is_none_or(|before| (skip.revision, skip.from) < before));
        Ok(beyond.take(limit).cloned().collect())
    }

    async fn revision(&self, job: JobId, revision: u32) -> Result<Option<Arc<Revision>>> {
        match self.tables.lock().row(job.shard(), &RowKey::Revision(job, revision)) {
            Some(Row::Revision(revision)) => Ok(Some(Arc::clone(revision))),
            _ => Ok(None),
        }
    }

    async fn revisions(&self, job: JobId, before: Option<u32>, limit: usize) -> Result<Vec<Arc<Revision>>> {
        Ok(self.tables.lock().revisions(job, before, limit))
    }

    async fn calendar(&self, namespace: &Namespace, name: &Name) -> Result<Option<Arc<calendar::Record>>> {
        Ok(self.tables.lock().calendars.get(&(namespace.clone(), name.clone())).cloned())
    }

    async fn calendars(
        &self,
        filter: &CalendarFilter,
        after: Option<(Namespace, Name)>,
        limit: usize,
    ) -> Result<Vec<Arc<calendar::Record>>> {
        let tables = self.tables.lock();
        let beyond =
            tables.calendars.iter().filter(|(key, _)| after.as_ref().is_none_or(|after| *key > after));
        let wanted = beyond.map(|(_, record)| record).filter(|record| filter.takes(record));
        Ok(wanted.take(limit).cloned().collect())
    }

    async fn put_calendar(&self, put: PutCalendar) -> Result<Swap> {
        Ok(self.tables.lock().put_calendar(put))
    }

    async fn delete_calendar(&self, namespace: &Namespace, name: &Name, expect: Expect) -> Result<Swap> {
        Ok(self.tables.lock().delete_calendar(namespace, name, expect))
    }

    async fn settle_calendar(&self, namespace: &Namespace, name: &Name, version: u32) -> Result<()> {
        self.tables.lock().settle_calendar(namespace, name, version);
        self.written.send_modify(|times| *times += 1);
        Ok(())
    }

    async fn agree(&self, name: &str, offer: &[u8]) -> Result<Vec<u8>> {
        Ok(self.tables.lock().agreed.entry(name.to_owned()).or_insert_with(|| offer.to_vec()).clone())
    }

    async fn send_mail(&self, mail: &[Mail], kept: Duration) -> Result<()> {
        self.tables.lock().send(mail, kept, self.clock.now());
        Ok(())
    }

    async fn receive_mail(&self, to: SessionId, taken: &[Place], limit: usize) -> Result<Vec<Mail>> {
        Ok(self.tables.lock().receive(to, taken, limit))
    }

    async fn tokens(&self) -> Result<Vec<token::Record>> {
        Ok(self.tables.lock().tokens.values().cloned().collect())
    }

    async fn add_token(&self, record: &token::Record) -> Result<bool> {
        match self.tables.lock().tokens.entry(record.name.clone()) {
            Entry::Occupied(_) => Ok(false),
            Entry::Vacant(place) => {
                place.insert(record.clone());
                Ok(true)
            }
        }
    }

    async fn remove_token(&self, name: &str) -> Result<bool> {
        Ok(self.tables.lock().tokens.remove(name).is_some())
    }

    async fn stats(&self) -> Result<Stats> {
        Ok(self.tables.lock().stats())
    }

    async fn append_logs(&self, chunks: Vec<log::Chunk>) -> Result<()> {
        let mut tables = self.tables.lock();
        for chunk in chunks {
            tables.logs.entry((chunk.run, chunk.place())).or_insert(chunk);
        }
        Ok(())
    }

    async fn read_logs(
        &self,
        run: RunId,
        after: Option<log::Place>,
        limit: usize,
    ) -> Result<Vec<log::Chunk>> {
        let tables = self.tables.lock();
        let place = |token, number| (run, log::Place { token: Token(token), number });
        let from = after.map_or(Bound::Included(place(0, 0)), |after| Bound::Excluded((run, after)));
        let beyond = tables.logs.range((from, Bound::Included(place(u64::MAX, u32::MAX))));
        Ok(beyond.map(|(_, chunk)| chunk.clone()).take(limit).collect())
    }

    async fn log_bytes(&self, run: RunId) -> Result<u64> {
        let tables = self.tables.lock();
        let own =
            tables.logs.iter().filter(|((of, _), chunk)| *of == run && chunk.stream != log::Stream::Note);
        Ok(own.map(|(_, chunk)| chunk.bytes.len() as u64).sum())
    }

    async fn prune(&self, policy: &PrunePolicy, limit: usize) -> Result<usize> {
        Ok(self.tables.lock().prune(policy, limit))
    }
}

#[async_trait]
impl Sessions for Memory {
    async fn renew(&self, session: &Session, ttl: Duration) -> Result<Vec<Member>> {
        Ok(self.tables.lock().renew(session, ttl, self.clock.now()))
    }

    async fn leave(&self, session: SessionId) -> Result<()> {
        self.tables.lock().sessions.remove(&session);
        Ok(())
    }
}
