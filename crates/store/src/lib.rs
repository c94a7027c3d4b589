//! The store: few verbs, each with a promise.
//!
//! `memory` is the meaning in plain Rust; every other backend is whatever passes `conformance`. A backend may be
//! slower, never different. The store does not know the engine: they share `core::change`.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use punctual_core::Timestamp;
use punctual_core::change::{Batch, DeadLetter, Found, Loaded, RunRecord, Skip, TimerPage, TimerPlace, Want};
use punctual_core::ids::{Epoch, JobId, RunId, ShardId, Token};
use punctual_core::job::Job;
use punctual_core::name::{Name, Namespace};
use punctual_core::run::{Run, Status};

pub mod error;
mod refusal;
mod listing;
mod keep;
pub mod memory;
pub mod sqlite;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;

pub use error::Error;

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[async_trait]
pub trait Store: Send + Sync + fmt::Debug {
    /// How many shards this store was created with. It never changes.
    fn shards(&self) -> u16;

    /// Makes a new epoch of every named shard. Waits behind a transaction of an older epoch that is under way,
    /// so that what it wrote is seen by the load that follows. Durable when it returns.
    async fn acquire(&self, shards: &[ShardId]) -> Result<Vec<(ShardId, Epoch)>>;

    /// The live set of a shard, exactly as committed: every run that has not ended and does not merely wait for
    /// its due time. Refused with `Fenced` if the epoch is not the newest.
    async fn load(&self, shard: ShardId, epoch: Epoch) -> Result<Loaded>;

    /// All batches in one transaction, each only under its (epoch, commit), which the commit counts up by one.
    /// Durable when it returns. After an error other than `Unknown` nothing of any batch is stored; `Fenced` and
    /// `Refused` name the shard to leave out.
    async fn commit(&self, batches: Arc<Vec<Batch>>) -> Result<()>;

    /// Rows by key, as committed. What is not found is not in the answer.
    async fn fetch(&self, wants: Vec<(ShardId, Want)>) -> Result<Found>;

    /// The next timers of a shard after a place, jobs and waiting runs together, however far off.
    async fn due(&self, shard: ShardId, after: TimerPlace, limit: usize) -> Result<TimerPage>;

    async fn job(&self, namespace: &Namespace, name: &Name) -> Result<Option<Arc<Job>>>;

    /// Jobs in order of (namespace, name), after the one named.
    async fn jobs(
        &self,
        filter: &JobFilter,
        after: Option<(Namespace, Name)>,
        limit: usize,
    ) -> Result<Vec<Arc<Job>>>;

    async fn run(&self, namespace: &Namespace, run: RunId) -> Result<Option<RunRecord>>;

    /// Runs that match, newest id first unless the filter says otherwise, beyond the one named.
    async fn runs(&self, filter: &RunFilter, after: Option<RunId>, limit: usize) -> Result<Vec<Arc<Run>>>;

    /// Oldest first, after the one named.
    async fn dead_letters(
        &self,
        namespace: Option<&Namespace>,
        after: Option<RunId>,
        limit: usize,
    ) -> Result<Vec<DeadLetter>>;

    /// Records of due times passed over, in order of (job, from), after the one named.
    async fn skips(
        &self,
        job: Option<JobId>,
        after: Option<(JobId, Timestamp)>,
        limit: usize,
    ) -> Result<Vec<Skip>>;

    /// One revision of a job.
    async fn revision(
        &self,
        job: JobId,
        revision: u32,
    ) -> Result<Option<Arc<punctual_core::change::Revision>>>;

    async fn stats(&self) -> Result<Stats>;

    /// Adds output of attempts, apart from the hot rows: it does not wait for a commit nor a commit for it. A crash
    /// may lose the last second of output, never a state. A chunk that is there already is left as it is.
    async fn append_logs(&self, chunks: Vec<LogChunk>) -> Result<()>;

    /// Output of a run in order of (token, number), after the place named.
    async fn read_logs(&self, run: RunId, after: Option<(Token, u32)>, limit: usize)
    -> Result<Vec<LogChunk>>;

    /// Removes at most `limit` rows of finished things that nobody keeps: history beyond a job's `keep`, ad-hoc
    /// history beyond `ad_hoc_kept`, output whose run is gone, expired keys, old skip records, revisions without
    /// a job. Never a dead letter, never a live run. Returns how many rows went; 0: there is nothing left to do. To
    /// know that, every job with history is looked at: whoever calls again should rest in proportion.
    async fn prune(&self, policy: &PrunePolicy, limit: usize) -> Result<usize>;

    /// A consistent copy of the store, taken under load, that opens as a store.
    async fn backup(&self, to: &Path) -> Result<()>;
}

#[derive(Debug, Clone, Default)]
pub struct JobFilter {
    pub namespace: Option<Namespace>,
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
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stats {
    pub jobs: u64,
    pub live_runs: u64,
    pub history_runs: u64,
    pub dead_letters: u64,
}

/// A piece of an attempt's output, at most 64 KiB.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogChunk {
    pub run: RunId,
    pub token: Token,
    pub number: u32,
    pub at: Timestamp,
    pub stream: Stream,
    pub bytes: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    Out,
    Err,
    /// A remark of Punctual's own, such as where output was cut.
    Note,
}

#[derive(Debug, Clone)]
pub struct PrunePolicy {
    pub now: Timestamp,
    /// How long runs without a job are kept.
    pub ad_hoc_kept: std::time::Duration,
}
