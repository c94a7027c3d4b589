//! The store: few verbs, each with a promise.
//!
//! `memory` is the meaning in plain Rust; every other backend is whatever passes `conformance`. A backend may be
//! slower, never different. The store does not know the engine: they share `core::change`.

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

    /// Whether its calls wait for threads of its own and for nothing else: then they may be awaited where there are no
    /// sockets to wait for, and whoever awaits them is woken without a detour.
    fn is_local(&self) -> bool {
        false
    }

    /// What an acknowledged commit survives.
    fn durability(&self) -> Durability {
        Durability::Full
    }

    /// The time by the store's clock, and who leads what.
    async fn leases(&self) -> Result<Leases>;

    /// Makes a new epoch, led by `by`, of every claimed shard that is still in the epoch its claim names; the others
    /// are left alone and are not in the answer. What a former owner has under way is ended where the store can, and
    /// else waited for, so that what it wrote is seen by the load that follows. Durable when it returns.
    async fn acquire(&self, by: Option<SessionId>, claims: &[Claim]) -> Result<Vec<(ShardId, Epoch)>>;

    /// Gives up shards that are still in the epoch named with them, and names who should lead them next.
    async fn release(&self, shards: &[(ShardId, Epoch)], heir: Option<SessionId>) -> Result<()>;

    /// The live set of a shard, exactly as committed: every run that has not ended and does not merely wait for
    /// its due time. Refused with `Fenced` if the epoch is not the newest.
    async fn load(&self, shard: ShardId, epoch: Epoch) -> Result<Loaded>;

    /// All batches in one transaction, each only under its (epoch, commit), which the commit counts up by one.
    /// Durable when it returns. After an error other than `Unknown` nothing of any batch is stored; `Fenced` and
    /// `Refused` name the shard to leave out.
    async fn commit(&self, batches: Arc<Vec<Batch>>) -> Result<()>;

    /// Rows by key, as committed. What is not found is not in the answer.
    async fn fetch(&self, wants: Vec<(ShardId, Want)>) -> Result<Found>;

    /// The next timers of a shard after a place, jobs, waiting runs and messages together, however far off. A page ends
    /// early when its messages are heavy (`limits::PAGE_BYTES_MAX`): only a page without an end is the last.
    async fn due(&self, shard: ShardId, after: TimerPlace, limit: usize) -> Result<TimerPage>;

    /// The next messages in the line of a queue after a place. A page ends early when it is heavy
    /// (`limits::PAGE_BYTES_MAX`): one that is shorter than its limit and lighter than that is the last.
    async fn backlog(
        &self,
        shard: ShardId,
        queue: QueueNumber,
        after: Place,
        limit: usize,
    ) -> Result<Vec<Arc<Message>>>;

    /// Queues that match, in order of (namespace, name), after the one named.
    async fn queues(
        &self,
        namespace: Option<&Namespace>,
        after: Option<&QueueKey>,
        limit: usize,
    ) -> Result<Vec<QueueRecord>>;

    /// Messages of one queue, in the line or not, in the order of their places, after the one named. A page ends early
    /// when it is heavy, like one of `backlog`.
    async fn messages(
        &self,
        queue: &QueueKey,
        after: Option<Place>,
        limit: usize,
    ) -> Result<Vec<Arc<Message>>>;

    /// Messages in the line of one queue, from one of its ends on. It ends early when it is heavy, like a page of
    /// `backlog`.
    async fn line(&self, queue: &QueueKey, from: End, limit: usize) -> Result<Vec<Arc<Message>>>;

    async fn job(&self, namespace: &Namespace, name: &Name) -> Result<Option<Arc<Job>>>;

    /// Jobs in order of (namespace, name), after the one named.
    async fn jobs(
        &self,
        filter: &JobFilter,
        after: Option<(Namespace, Name)>,
        limit: usize,
    ) -> Result<Vec<Arc<Job>>>;

    async fn run(&self, namespace: &Namespace, run: RunId) -> Result<Option<RunRecord>>;

    /// Runs that match, newest id first unless the filter says otherwise, beyond the one named. A long result comes
    /// cut to its end ([`Run::abridge`]): a page of them whole would not fit into memory.
    async fn runs(&self, filter: &RunFilter, after: Option<RunId>, limit: usize) -> Result<Vec<Arc<Run>>>;

    /// Dead letters that match, oldest first, after the one named.
    async fn dead_letters(
        &self,
        filter: &LetterFilter,
        after: Option<RunId>,
        limit: usize,
    ) -> Result<Vec<DeadLetter>>;

    /// Jobs whose next due time was calculated with older time zone data than this version, in any order.
    async fn outdated_jobs(&self, zone_data: &str, limit: usize) -> Result<Vec<Arc<Job>>>;

    /// Deleted jobs whose runs or skip records may still be kept, in order of id, after the one named. With `named` only
    /// those of that name, of which there may be several.
    async fn deleted_jobs(
        &self,
        named: Option<(&Namespace, &Name)>,
        after: Option<JobId>,
        limit: usize,
    ) -> Result<Vec<DeletedJob>>;

    /// Records of due times of a job that were passed over, newest revision and newest due time first, before the
    /// (revision, from) named.
    async fn skips(&self, job: JobId, before: Option<(u32, Timestamp)>, limit: usize) -> Result<Vec<Skip>>;

    /// One revision of a job.
    async fn revision(
        &self,
        job: JobId,
        revision: u32,
    ) -> Result<Option<Arc<punctual_core::change::Revision>>>;

    /// Revisions of a job, newest first, before the one named.
    async fn revisions(
        &self,
        job: JobId,
        before: Option<u32>,
        limit: usize,
    ) -> Result<Vec<Arc<punctual_core::change::Revision>>>;

    async fn calendar(&self, namespace: &Namespace, name: &Name) -> Result<Option<Arc<calendar::Record>>>;

    /// Calendars in order of (namespace, name), after the one named.
    async fn calendars(
        &self,
        filter: &CalendarFilter,
        after: Option<(Namespace, Name)>,
        limit: usize,
    ) -> Result<Vec<Arc<calendar::Record>>>;

    /// Puts a calendar under a version that no calendar of this store ever had, if `expect` holds of the one that is
    /// there; it is not settled. Durable when it returns.
    async fn put_calendar(&self, put: PutCalendar) -> Result<Swap>;

    /// Removes a calendar if `expect` holds of it. Durable when it returns.
    async fn delete_calendar(&self, namespace: &Namespace, name: &Name, expect: Expect) -> Result<Swap>;

    /// Notes that every job follows this version of a calendar; one that has another version by now is left alone.
    async fn settle_calendar(&self, namespace: &Namespace, name: &Name, version: u32) -> Result<()>;

    /// What the cluster agreed on once under this name: the first who offers a value decides, and everybody gets that
    /// one. Durable when it returns.
    async fn agree(&self, name: &str, offer: &[u8]) -> Result<Vec<u8>>;

    /// Leaves mail for others; what is there already is left as it is. What has lain there for longer than `kept`
    /// is thrown away: whom it was for is gone.
    async fn send_mail(&self, mail: &[Mail], kept: std::time::Duration) -> Result<()>;

    /// Removes the mail of a session that it has taken, and gives what else there is for it, in order of sender and
    /// number. It is given again until it was taken.
    async fn receive_mail(&self, to: SessionId, taken: &[mail::Place], limit: usize) -> Result<Vec<Mail>>;

    /// Every token, by name.
    async fn tokens(&self) -> Result<Vec<token::Record>>;

    /// Adds a token; false: the name is taken, and nothing happened. Durable when it returns.
    async fn add_token(&self, record: &token::Record) -> Result<bool>;

    /// Removes a token; false: there is none. Durable when it returns.
    async fn remove_token(&self, name: &str) -> Result<bool>;

    async fn stats(&self) -> Result<Stats>;

    /// Adds output of attempts, apart from the hot rows: it does not wait for a commit nor a commit for it. A crash
    /// may lose the last second of output, never a state. A chunk that is there already is left as it is.
    async fn append_logs(&self, chunks: Vec<log::Chunk>) -> Result<()>;

    /// Output of a run in order of its places, after the one named.
    async fn read_logs(&self, run: RunId, after: Option<log::Place>, limit: usize)
    -> Result<Vec<log::Chunk>>;

    /// How many bytes of output a run has here, all attempts together and our own remarks left out.
    async fn log_bytes(&self, run: RunId) -> Result<u64>;

    /// Removes at most `limit` rows of finished things that nobody keeps: history beyond a job's `keep`, ad-hoc
    /// history beyond `ad_hoc_kept`, output whose run is gone, expired keys, old skip records, revisions of
    /// deleted jobs that have neither runs nor skip records left. Never a dead letter, never a live run. Returns how many rows went; 0: there is nothing left to do. To
    /// know that, every job with history is looked at: whoever calls again should rest in proportion.
    async fn prune(&self, policy: &PrunePolicy, limit: usize) -> Result<usize>;
}

/// An end of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// What is taken next comes first.
    First,
    /// What is taken last comes first.
    Last,
}

#[derive(Debug, Clone, Default)]
pub struct JobFilter {
    pub namespace: Option<Namespace>,
    /// Only jobs that name this calendar; goes with a namespace, because a calendar is of one.
    pub calendar: Option<Name>,
}

#[derive(Debug, Clone, Default)]
pub struct CalendarFilter {
    pub namespace: Option<Namespace>,
    /// Only those that some job may still follow an older version of.
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

/// What became of a change that goes through only if something is still so.
#[derive(Debug, Clone, PartialEq)]
pub enum Swap {
    /// The calendar as it now is, or as it last was.
    Done(Arc<calendar::Record>),
    /// Nothing happened: this is the version that is there; none: there is no such calendar.
    Refused { actual: Option<u32> },
}

#[derive(Debug, Clone, Default)]
pub struct RunFilter {
    pub namespace: Option<Namespace>,
    pub job: Option<JobId>,
    /// Empty: any.
    pub statuses: Vec<Status>,
    /// Runs created in [since, until).
    pub since: Option<Timestamp>,
    pub until: Option<Timestamp>,
    pub oldest_first: bool,
    /// Empty: any.
    pub triggers: Vec<Trigger>,
    /// Runs that bear this key, whether or not it still lives.
    pub key: Option<Arc<str>>,
}

#[derive(Debug, Clone, Default)]
pub struct LetterFilter {
    pub namespace: Option<Namespace>,
    pub job: Option<Name>,
    /// Dead since then or later.
    pub since: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stats {
    pub jobs: u64,
    pub live_runs: u64,
    pub history_runs: u64,
    pub dead_letters: u64,
    pub queues: u64,
    /// Messages of all queues, in the line or not, by the counts of their queues.
    pub messages: u64,
}

#[derive(Debug, Clone)]
pub struct PrunePolicy {
    pub now: Timestamp,
    /// How long runs without a job are kept.
    pub ad_hoc_kept: std::time::Duration,
}
