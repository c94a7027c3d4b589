//! What the node needs: leadership of shards, their live rows, and commits.
//!
//! Endpoints never get this part of the store.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use punctual_core::change::{Batch, Loaded, TimerPage, TimerPosition};
use punctual_core::ids::{Epoch, SessionId, ShardId};
use punctual_core::job::Job;
use punctual_core::queue::{Message, MessagePosition, QueueNumber};

use crate::Result;
use crate::membership::{Claim, Leases};

/// What a leader of shards calls.
#[async_trait]
pub trait Shards: Send + Sync + fmt::Debug {
    /// Whether its calls wait only for the store's own threads, never for sockets. If true, they may be awaited on a
    /// thread without an I/O driver, and the waiting thread is woken directly.
    fn is_local(&self) -> bool {
        false
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

    /// The next timers of a shard after a place: jobs, waiting runs and messages together, however far off. A page ends
    /// early when its messages reach `limits::PAGE_BYTES_MAX`: only a page without an end is the last.
    async fn due(&self, shard: ShardId, after: TimerPosition, limit: usize) -> Result<TimerPage>;

    /// The next queued messages of a queue after a place. A page ends early when it reaches `limits::PAGE_BYTES_MAX`
    /// bytes: a page with fewer messages than `limit` and fewer bytes than that is the last.
    async fn backlog(
        &self,
        shard: ShardId,
        queue: QueueNumber,
        after: MessagePosition,
        limit: usize,
    ) -> Result<Vec<Arc<Message>>>;

    /// Jobs whose next due time was calculated with older time zone data than this version, in any order.
    async fn outdated_jobs(&self, zone_data: &str, limit: usize) -> Result<Vec<Arc<Job>>>;
}
