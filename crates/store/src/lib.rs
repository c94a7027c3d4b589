//! The store: few methods, each with a promise.
//!
//! `memory` defines the meaning in plain Rust; every other backend has to pass the same tests (`conformance`). A
//! backend may be slower, never different. The store does not depend on the engine: both use `core::change`.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use punctual_core::Timestamp;
use punctual_core::change::{
    Batch, DeadLetter, DeletedJob, Found, Loaded, RunRecord, Skip, TimerPage, TimerPlace, Want,
};
use punctual_core::command::Expect;
use punctual_core::ids::{Epoch, JobId, RunId, SessionId, ShardId};
use punctual_core::job::Job;
use punctual_core::log;
use punctual_core::name::{Name, Namespace};
use punctual_core::queue::{Message, Place, QueueKey, QueueNumber, QueueRecord};
use punctual_core::run::{Run, Status, Trigger};
use punctual_core::schedule::calendar;

pub mod error;
mod address;
pub mod membership;
pub mod mail;
pub mod token;
pub mod sessions;
mod refusal;
mod listing;
mod weight;
mod keep;
mod codec;
mod definitions;
mod place;
mod circle;
mod tally;
mod migrations;
pub mod memory;
pub mod sqlite;
pub mod postgres;
pub mod mysql;
mod open;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;

pub use address::Durability;
pub use error::Error;
pub use mail::Mail;
pub use membership::{Claim, Lease, Leases, Member, Session, Sessions};
pub use open::{Opened, folder, folder_of, open};

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[async_trait]
pub trait Store: Send + Sync + fmt::Debug {
    /// How many shards this store was created with. It never changes.
    fn shards(&self) -> u16;

    /// Whether its calls wait only for the store's own threads, never for sockets. If true, they may be awaited on a
    /// thread without an I/O driver, and the waiting thread is woken directly.
    fn is_local(&self) -> bool {
        false
    }

    /// What an acknowledged commit survives.
    fn durability(&self) -> Durability {
        Durability::Full
    }

    /// The time by the store's clock, and the leader of each shard.
    async fn leases(&self) -> Result<Leases>;

    /// Makes a new epoch, led by `by`, for every claimed shard whose epoch is still the one in its claim. The other
    /// shards stay as they are and are not in the answer. A transaction of the former owner that is still open is ended
    /// where the store can do so, else waited for: the load that follows sees what it wrote. Durable when it returns.
    async fn acquire(&self, by: Option<SessionId>, claims: &[Claim]) -> Result<Vec<(ShardId, Epoch)>>;

    /// Releases shards whose epoch is still the one given, and names the session that should lead them next.
    async fn release(&self, shards: &[(ShardId, Epoch)], heir: Option<SessionId>) -> Result<()>;

    /// The live set of a shard, exactly as committed: all runs that have not ended, except those that only wait for
    /// their due time. Refused with `Fenced` if the epoch is not the newest.
    async fn load(&self, shard: ShardId, epoch: Epoch) -> Result<Loaded>;

    /// Writes all batches in one transaction, each only under its (epoch, commit); the commit number grows by one.
    /// Durable when it returns. After an error other than `Unknown` no batch is stored; `Fenced` and `Refused` name the
    /// shard to leave out.
    async fn commit(&self, batches: Arc<Vec<Batch>>) -> Result<()>;

    /// Rows by key, as committed. The answer leaves out rows that do not exist.
    async fn fetch(&self, wants: Vec<(ShardId, Want)>) -> Result<Found>;

    /// The next timers of a shard after a place: jobs, waiting runs and messages together, however far off. A page ends
    /// early when its messages reach `limits::PAGE_BYTES_MAX`: only a page without an end is the last.
    async fn due(&self, shard: ShardId, after: TimerPlace, limit: usize) -> Result<TimerPage>;

    /// The next queued messages of a queue after a place. A page ends early when it reaches `limits::PAGE_BYTES_MAX`
    /// bytes: a page with fewer messages than `limit` and fewer bytes than that is the last.
    async fn backlog(
        &self,
        shard: ShardId,
        queue: QueueNumber,
        after: Place,
        limit: usize,
    ) -> Result<Vec<Arc<Message>>>;

    /// Queues of a namespace (`None`: of all), in order of (namespace, name), after the given one.
    async fn queues(
        &self,
        namespace: Option<&Namespace>,
        after: Option<&QueueKey>,
        limit: usize,
    ) -> Result<Vec<QueueRecord>>;

    /// Messages of one queue, queued or not, in order of their places, after the given one. A page ends early as in
    /// `backlog`.
    async fn messages(
        &self,
        queue: &QueueKey,
        after: Option<Place>,
        limit: usize,
    ) -> Result<Vec<Arc<Message>>>;

    /// Queued messages of one queue, starting at the given end. The answer ends early as in `backlog`.
    async fn line(&self, queue: &QueueKey, from: End, limit: usize) -> Result<Vec<Arc<Message>>>;

    async fn job(&self, namespace: &Namespace, name: &Name) -> Result<Option<Arc<Job>>>;

    /// Jobs in order of (namespace, name), after the given one.
    async fn jobs(
        &self,
        filter: &JobFilter,
        after: Option<(Namespace, Name)>,
        limit: usize,
    ) -> Result<Vec<Arc<Job>>>;

    async fn run(&self, namespace: &Namespace, run: RunId) -> Result<Option<RunRecord>>;

    /// Runs that match, newest id first unless the filter says otherwise, after the given one in that order. A long
    /// result is cut to its end ([`Run::abridge`]): a page of whole results would not fit into memory.
    async fn runs(&self, filter: &RunFilter, after: Option<RunId>, limit: usize) -> Result<Vec<Arc<Run>>>;

    /// Dead letters that match, oldest first, after the given one.
    async fn dead_letters(
        &self,
        filter: &LetterFilter,
        after: Option<RunId>,
        limit: usize,
    ) -> Result<Vec<DeadLetter>>;

    /// Jobs whose next due time was calculated with older time zone data than this version, in any order.
    async fn outdated_jobs(&self, zone_data: &str, limit: usize) -> Result<Vec<Arc<Job>>>;

    /// Deleted jobs whose runs or skip records may still be kept, in order of id, after the given one. With `named`,
    /// only the jobs with that name; there may be several.
    async fn deleted_jobs(
        &self,
        named: Option<(&Namespace, &Name)>,
        after: Option<JobId>,
        limit: usize,
    ) -> Result<Vec<DeletedJob>>;

    /// Records of due times of a job that were skipped, newest revision and newest due time first, before the given
    /// (revision, from).
    async fn skips(&self, job: JobId, before: Option<(u32, Timestamp)>, limit: usize) -> Result<Vec<Skip>>;

    /// One revision of a job.
    async fn revision(
        &self,
        job: JobId,
        revision: u32,
    ) -> Result<Option<Arc<punctual_core::change::Revision>>>;

    /// Revisions of a job, newest first, before the given one.
    async fn revisions(
        &self,
        job: JobId,
        before: Option<u32>,
        limit: usize,
    ) -> Result<Vec<Arc<punctual_core::change::Revision>>>;

    async fn calendar(&self, namespace: &Namespace, name: &Name) -> Result<Option<Arc<calendar::Record>>>;

    /// Calendars in order of (namespace, name), after the given one.
    async fn calendars(
        &self,
        filter: &CalendarFilter,
        after: Option<(Namespace, Name)>,
        limit: usize,
    ) -> Result<Vec<Arc<calendar::Record>>>;

    /// Puts a calendar if `expect` holds for the stored one. It gets a version that no calendar of this store ever had,
    /// and is not settled. Durable when it returns.
    async fn put_calendar(&self, put: PutCalendar) -> Result<Swap>;

    /// Removes a calendar if `expect` holds for it. Durable when it returns.
    async fn delete_calendar(&self, namespace: &Namespace, name: &Name, expect: Expect) -> Result<Swap>;

    /// Records that every job follows this version of a calendar. Does nothing if the calendar has another version by
    /// now.
    async fn settle_calendar(&self, namespace: &Namespace, name: &Name, version: u32) -> Result<()>;

    /// The value that the cluster has agreed on under this name. The first offer decides, and every caller gets that
    /// value. Durable when it returns.
    async fn agree(&self, name: &str, offer: &[u8]) -> Result<Vec<u8>>;

    /// Stores mail for other sessions; mail that is stored already stays as it is. Also deletes mail older than `kept`:
    /// its recipient is gone.
    async fn send_mail(&self, mail: &[Mail], kept: std::time::Duration) -> Result<()>;

    /// Deletes the mail that a session has taken and returns its other mail, in order of sender and number. Mail is
    /// returned again until it is taken.
    async fn receive_mail(&self, to: SessionId, taken: &[mail::Place], limit: usize) -> Result<Vec<Mail>>;

    /// Every token, in order of name.
    async fn tokens(&self) -> Result<Vec<token::Record>>;

    /// Adds a token. Returns false and changes nothing if the name is taken. Durable when it returns.
    async fn add_token(&self, record: &token::Record) -> Result<bool>;

    /// Removes a token. Returns false if it does not exist. Durable when it returns.
    async fn remove_token(&self, name: &str) -> Result<bool>;

    async fn stats(&self) -> Result<Stats>;

    /// Adds output of attempts, apart from the hot rows: output and commits do not wait for each other. A crash may
    /// lose the last second of output, never a state. A chunk that is stored already stays as it is.
    async fn append_logs(&self, chunks: Vec<log::Chunk>) -> Result<()>;

    /// Output of a run in order of its places, after the given one.
    async fn read_logs(&self, run: RunId, after: Option<log::Place>, limit: usize)
    -> Result<Vec<log::Chunk>>;

    /// How many bytes of output a run has, over all attempts and without Punctual's own remarks.
    async fn log_bytes(&self, run: RunId) -> Result<u64>;

    /// Removes at most `limit` rows of finished things that are past their retention: history beyond a job's `keep`,
    /// ad-hoc history beyond `ad_hoc_kept`, output whose run is gone, expired keys, old skip records, revisions of
    /// deleted jobs that have neither runs nor skip records left. Never a dead letter, never a live run. Returns how
    /// many rows were removed. It returns 0 only after a look at every job with history, so callers should pause
    /// between calls.
    async fn prune(&self, policy: &PrunePolicy, limit: usize) -> Result<usize>;
}

/// An end of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The message that is taken next comes first.
    First,
    /// The message that is taken last comes first.
    Last,
}

#[derive(Debug, Clone, Default)]
pub struct JobFilter {
    pub namespace: Option<Namespace>,
    /// Only jobs that name this calendar. Needs `namespace`, because a calendar belongs to one.
    pub calendar: Option<Name>,
}

#[derive(Debug, Clone, Default)]
pub struct CalendarFilter {
    pub namespace: Option<Namespace>,
    /// Only calendars of which a job may still follow an older version.
    pub unsettled: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct PutCalendar {
    pub namespace: Namespace,
    pub name: Name,
    pub days: calendar::Days,
    pub description: String,
    pub at: Timestamp,
    pub expect: Expect,
}

/// The outcome of a compare-and-swap on a calendar.
#[derive(Debug, Clone, PartialEq)]
pub enum Swap {
    /// The calendar after the change; for a delete, as it was before.
    Done(Arc<calendar::Record>),
    /// Nothing changed: `actual` is the stored version. `None` means there is no such calendar.
    Refused { actual: Option<u32> },
}

#[derive(Debug, Clone, Default)]
pub struct RunFilter {
    pub namespace: Option<Namespace>,
    pub job: Option<JobId>,
    /// Empty means any status.
    pub statuses: Vec<Status>,
    /// Runs created in [since, until).
    pub since: Option<Timestamp>,
    pub until: Option<Timestamp>,
    pub oldest_first: bool,
    /// Empty means any trigger.
    pub triggers: Vec<Trigger>,
    /// Only runs with this key, whether or not the key has expired.
    pub key: Option<Arc<str>>,
}

#[derive(Debug, Clone, Default)]
pub struct LetterFilter {
    pub namespace: Option<Namespace>,
    pub job: Option<Name>,
    /// Only dead letters from this instant on.
    pub since: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stats {
    pub jobs: u64,
    pub live_runs: u64,
    pub history_runs: u64,
    pub dead_letters: u64,
    pub queues: u64,
    /// Messages of all queues, queued or not, summed from the counts in the queue rows.
    pub messages: u64,
}

#[derive(Debug, Clone)]
pub struct PrunePolicy {
    pub now: Timestamp,
    /// How long runs without a job are kept.
    pub ad_hoc_kept: std::time::Duration,
}
