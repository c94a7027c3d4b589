//! What is taken over from lost nodes, for the log: one line each, when the last shard of it is led here.

use std::collections::BTreeSet;
use std::sync::Arc;

use punctual_core::Timestamp;
use punctual_core::ids::ShardId;

#[derive(Debug, Default)]
pub(super) struct Takeovers(Vec<Takeover>);

#[derive(Debug)]
struct Takeover {
    /// The name of the lost node.
    node: Arc<str>,
    /// Since when nobody led its shards.
    since: Timestamp,
    /// Shards that were claimed and are not led yet.
    pending: BTreeSet<ShardId>,
    /// Shards that are led here now.
    led: usize,
}

impl Takeovers {
    /// A shard of a lost node is claimed.
    pub(super) fn claim(&mut self, node: Arc<str>, shard: ShardId, since: Timestamp) {
        match self.0.iter_mut().find(|takeover| takeover.node == node) {
            Some(takeover) => {
                takeover.pending.insert(shard);
                takeover.since = takeover.since.min(since);
            }
            None => self.0.push(Takeover { node, since, pending: [shard].into(), led: 0 }),
        }
    }

    /// A shard is led here.
    pub(super) fn led(&mut self, shard: ShardId, lived: Timestamp) {
        self.ended(shard, true, lived);
    }

    /// A shard went to another node.
    pub(super) fn lost(&mut self, shard: ShardId, lived: Timestamp) {
        self.ended(shard, false, lived);
    }

    fn ended(&mut self, shard: ShardId, is_led: bool, lived: Timestamp) {
        for takeover in &mut self.0 {
            takeover.led += usize::from(takeover.pending.remove(&shard) && is_led);
        }
        for done in self.0.extract_if(.., |takeover| takeover.pending.is_empty()) {
            if done.led > 0 {
                let (node, shards, took) = (done.node, done.led, lived.since(done.since));
                tracing::info!(%node, shards, ?took, "took over the shards of a lost node");
            }
        }
    }
}
