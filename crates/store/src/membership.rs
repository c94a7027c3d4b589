//! Membership and leadership: which nodes live, and which node leads which shard.
//!
//! A **session** says that a node lives; it is liveness only, and may be kept outside the store. A **lease** says which
//! session a shard belongs to; it is a row of the store, because the epoch in it is the fencing token that keeps a run
//! from being made twice. Losing every session costs a pause, never a double run.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use punctual_core::Timestamp;
use punctual_core::ids::{Epoch, SessionId, ShardId};

use crate::Result;

/// Stores the sessions of a cluster.
#[async_trait]
pub trait Sessions: Send + Sync + fmt::Debug {
    /// Renews this node's session for `ttl` from now, by the session store's clock, and returns every live session,
    /// this one included, in order of their ids. It need not be durable: a lost renewal is made again a second later.
    async fn renew(&self, session: &Session, ttl: Duration) -> Result<Vec<Member>>;

    /// Ends a session at once. Does nothing if it does not exist.
    async fn leave(&self, session: SessionId) -> Result<()>;
}

/// One life of one node: a restart begins a new session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    pub id: SessionId,
    /// The node's name, for people.
    pub node: Arc<str>,
    /// Where peers and workers reach the node, `host:port`. `None` means it cannot be dialled.
    pub address: Option<Arc<str>>,
    /// The node's share of the shards, relative to the other weights. Zero means it leads none.
    pub weight: u32,
    /// The node is embedded in an application: it leads nothing while a center node lives.
    pub embedded: bool,
    /// How busy its scheduling thread is, in percent.
    pub load: u8,
}

/// A live session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    pub session: Session,
    /// How long it has lived without a break, by the session store's clock.
    pub age: Duration,
}

/// The leadership of one shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    pub shard: ShardId,
    /// The newest epoch.
    pub epoch: Epoch,
    /// The session that acquired the shard; it may have expired since. `None` means never acquired, or released.
    pub owner: Option<SessionId>,
    /// The session that should lead the shard next, named by the last release.
    pub heir: Option<SessionId>,
}

/// The leases of all shards in order, read in one snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leases {
    /// When they were read, by the store's clock, which all nodes share.
    pub now: Timestamp,
    pub shards: Vec<Lease>,
}

/// A request to lead a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    pub shard: ShardId,
    /// The claim holds only while this is the newest epoch: a node that saw an owner die must not outdate the owner
    /// that came after it. `None` means any epoch.
    pub expected_epoch: Option<Epoch>,
}

impl Claim {
    pub fn any_epoch(shard: ShardId) -> Self {
        Claim { shard, expected_epoch: None }
    }
}
