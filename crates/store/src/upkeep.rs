//! Retention: removes what is past the time it is kept.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use punctual_core::Timestamp;

use crate::Result;

/// What keeps the store small.
#[async_trait]
pub trait Upkeep: Send + Sync + fmt::Debug {
    /// Removes at most `limit` rows of finished things that are past their retention: history beyond a job's `keep`,
    /// ad-hoc history beyond `ad_hoc_kept`, output whose run is gone, expired keys, old skip records, revisions of
    /// deleted jobs that have neither runs nor skip records left, statistics by minute after two days and by hour after
    /// 400. Never a dead letter, never a live run. Returns how
    /// many rows were removed. It returns 0 only after a look at every job with history, so callers should pause
    /// between calls.
    async fn prune(&self, policy: &PrunePolicy, limit: usize) -> Result<usize>;
}

#[derive(Debug, Clone)]
pub struct PrunePolicy {
    pub now: Timestamp,
    /// How long runs without a job are kept.
    pub ad_hoc_kept: Duration,
}
