//! Who leads each shard, as far as this node knows.
//!
//! Whoever keeps the membership says it; `forward`, `followers` and the keeper of the calendars look. What they see may
//! be out of date by the time they act on it, and they must be right all the same: the epoch decides, not this.

use std::sync::Arc;
use std::time::Duration;

use punctual_core::ids::ShardId;
use tokio::sync::watch;

use crate::peers::Peers;

/// How long a door waits for a command to find its leader and be answered, unless it is told otherwise.
pub const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leader {
    Here,
    /// The peer at this `host:port`, or wherever else [`crate::peers::address_of`] says.
    At(Arc<str>),
    /// None that is known.
    Nobody,
}

/// Every shard, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaders {
    pub shards: Vec<Leader>,
}

impl Leaders {
    /// A node that is alone leads them all.
    pub fn alone(shards: u16) -> Leaders {
        Leaders::all(shards, &Leader::Here)
    }

    pub fn all(shards: u16, leader: &Leader) -> Leaders {
        Leaders { shards: vec![leader.clone(); usize::from(shards)] }
    }

    /// Only an id can name a shard that is not there; any node may say that nobody ever made it.
    pub fn of(&self, shard: ShardId) -> &Leader {
        self.shards.get(usize::from(shard.0)).unwrap_or(&Leader::Here)
    }

    pub fn is_here(&self, shard: ShardId) -> bool {
        *self.of(shard) == Leader::Here
    }

    pub fn are_all_here(&self) -> bool {
        self.shards.iter().all(|leader| *leader == Leader::Here)
    }
}

/// What a node knows of the others.
#[derive(Debug)]
pub struct Forwarding {
    pub leaders: watch::Receiver<Leaders>,
    pub peers: Arc<dyn Peers>,
    /// How long a command may take to find its leader and be answered.
    pub patience: Duration,
    /// False: it leads nothing itself.
    pub schedules: bool,
}

impl Forwarding {
    /// Of one.
    pub(crate) fn alone(shards: u16) -> Forwarding {
        // Nobody will ever say otherwise, so nobody keeps the other end.
        let (_, leaders) = watch::channel(Leaders::alone(shards));
        Forwarding { leaders, peers: Arc::new(crate::peers::None), patience: PATIENCE, schedules: true }
    }
}

/// Waits until something else was said. Nobody left to say it: it stays as it is.
pub(crate) async fn changed(leaders: &mut watch::Receiver<Leaders>) {
    if leaders.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}
