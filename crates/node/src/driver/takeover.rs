//! Logs takeovers from lost nodes: one log line per node, when this node leads the last shard that it claimed.

use std::collections::BTreeSet;
use std::sync::Arc;

use punctual_core::ids::ShardId;
use punctual_core::time::Elapsed;

#[derive(Debug, Default)]
pub(super) struct Takeovers(Vec<Takeover>);

#[derive(Debug)]
struct Takeover {
    /// The name of the lost node.
    node: Arc<str>,
    /// Since when its shards have had no leader.
    since: Elapsed,
    /// Shards that are claimed but not led yet.
    pending: BTreeSet<ShardId>,
    /// Number of shards that this node leads now.
    led: usize,
}

impl Takeovers {
    pub(super) fn claim(&mut self, node: Arc<str>, shard: ShardId, since: Elapsed) {
        match self.0.iter_mut().find(|takeover| takeover.node == node) {
            Some(takeover) => {
                takeover.pending.insert(shard);
                takeover.since = takeover.since.min(since);
            }
            None => self.0.push(Takeover { node, since, pending: [shard].into(), led: 0 }),
        }
    }

    /// This node leads the shard now.
    pub(super) fn led(&mut self, shard: ShardId, lived: Elapsed) {
        self.ended(shard, true, lived);
    }

    /// Another node leads the shard now.
    pub(super) fn lost(&mut self, shard: ShardId, lived: Elapsed) {
        self.ended(shard, false, lived);
    }

    fn ended(&mut self, shard: ShardId, is_led: bool, lived: Elapsed) {
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
