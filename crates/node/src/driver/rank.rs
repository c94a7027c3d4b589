//! Ranks the nodes of a cluster for a shard. Every node computes the same ranking.

use punctual_core::hash;
use punctual_core::ids::ShardId;
use punctual_store::Session;

/// Weighted rendezvous hashing: the node with the highest score leads the shard.
pub(super) fn score(shard: ShardId, session: &Session) -> f64 {
    -f64::from(session.weight) / unit(shard, session).ln()
}

/// A hash of shard and node, mapped to a number between 0 and 1.
pub(super) fn unit(shard: ShardId, session: &Session) -> f64 {
    let thrown = hash::stable(&[&shard.0.to_le_bytes(), &session.id.0.to_le_bytes()]);
    // 53 bits, shifted off zero so that the logarithm is finite and negative.
    #[expect(clippy::cast_precision_loss, reason = "53 bits are what a double holds exactly")]
    let unit = ((thrown >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    unit
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Score(pub(super) f64);

impl Eq for Score {}

impl PartialOrd for Score {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Score {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}
