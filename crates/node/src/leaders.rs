//! The leader of each shard, as far as this node knows.
//!
//! The driver's membership publishes it; `forward`, `followers` and the calendar keeper read it. The value may be
//! outdated when they act on it. They must be correct all the same, because the epoch decides who leads.

use std::sync::Arc;
use std::time::Duration;

use punctual_core::ids::ShardId;
use tokio::sync::watch;

use crate::peers::Peers;

/// Default time for a command from an endpoint to find its leader and get an answer.
pub const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leader {
    Here,
    /// The peer at this `host:port`, or at the mail address of [`crate::peers::address_of`].
    At(Arc<str>),
    /// No leader is known.
    Nobody,
}

/// The leaders of all shards, indexed by shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaders {
    pub shards: Vec<Leader>,
}

impl Leaders {
    /// For a single node, which leads every shard.
    pub fn alone(shards: u16) -> Leaders {
        Leaders::all(shards, &Leader::Here)
    }

    pub fn all(shards: u16, leader: &Leader) -> Leaders {
        Leaders { shards: vec![leader.clone(); usize::from(shards)] }
    }

    /// The leader of a shard. For a shard that does not exist (from an invalid id) this node answers "not found"
    /// itself.
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

/// What a node needs to forward commands to other nodes.
#[derive(Debug)]
pub struct Forwarding {
    pub leaders: watch::Receiver<Leaders>,
    pub peers: Arc<dyn Peers>,
    /// How long a command may take to find its leader and get an answer.
    pub patience: Duration,
    /// False means this node leads no shards.
    pub schedules: bool,
}

impl Forwarding {
    /// For a single node.
    pub(crate) fn alone(shards: u16) -> Forwarding {
        // The leaders of a single node never change, so the sender is dropped.
        let (_, leaders) = watch::channel(Leaders::alone(shards));
        Forwarding { leaders, peers: Arc::new(crate::peers::None), patience: PATIENCE, schedules: true }
    }
}

/// Waits until the leaders change. Without a sender they never change, and this waits for ever.
pub(crate) async fn changed(leaders: &mut watch::Receiver<Leaders>) {
    if leaders.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Returns when a shard has another leader than this one.
pub(crate) async fn moved(mut leaders: watch::Receiver<Leaders>, shard: ShardId, from: &Leader) {
    while leaders.borrow_and_update().of(shard) == from {
        changed(&mut leaders).await;
    }
}
