//! Who is there, and who leads what.
//!
//! Two things that look like one. A **session** says that a node lives; it is liveness only, and may be kept outside
//! the store. A **lease** says which session a shard belongs to; it is a row of the store, because the epoch beside
//! it is what keeps a run from being made twice. Losing every session costs a pause, never a double run.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use punctual_core::Timestamp;
use punctual_core::ids::{Epoch, SessionId, ShardId};

use crate::Result;

/// Keeps the sessions of a cluster.
#[async_trait]
pub trait Sessions: Send + Sync + fmt::Debug {
    /// Says that this node lives for `ttl` from now, by the clock of whoever keeps the sessions, and answers with
    /// everyone who lives, this node among them, in order of their ids. It need not be durable: a renewal that is
    /// lost is made again a second later.
    async fn renew(&self, session: &Session, ttl: Duration) -> Result<Vec<Member>>;

    /// Ends a session at once. One that is not there is left alone.
    async fn leave(&self, session: SessionId) -> Result<()>;
}

/// One life of one node, as the others see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    pub id: SessionId,
    /// What people call the node.
    pub node: Arc<str>,
    /// Where peers and workers reach it, `host:port`; none: it cannot be dialled.
    pub address: Option<Arc<str>>,
    /// Its share of the shards beside the others'; zero: it leads nothing.
    pub weight: u32,
    /// It lives inside an application, and leads nothing while a node of a center lives.
    pub embedded: bool,
    /// How busy its scheduling thread is, in percent.
    pub load: u8,
}

/// A session that lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    pub session: Session,
    /// How long it has lived without a break, by the keeper's clock.
    pub age: Duration,
}

/// Who leads a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    pub shard: ShardId,
    /// The newest epoch.
    pub epoch: Epoch,
    /// Who acquired it; none: nobody ever did, or it was released. Whether the owner lives is the sessions' to say.
    pub owner: Option<SessionId>,
    /// To whom it was left.
    pub heir: Option<SessionId>,
}

/// Every shard in order, read in one instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leases {
    /// The instant, by the store's clock, which is everybody's.
    pub now: Timestamp,
    pub shards: Vec<Lease>,
}

/// A shard that someone wants to lead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    pub shard: ShardId,
    /// Only if this is still the newest epoch: whoever saw an owner die must not outdate the one that came after it.
    /// None: whatever it is.
    pub than: Option<Epoch>,
}

impl Claim {
    pub fn whatever(shard: ShardId) -> Self {
        Claim { shard, than: None }
    }
}
