//! R32: a node that is busy for a while gives shards away, and takes them back later.

use std::time::Duration;

use punctual_sim::busy_node;

/// A shard that is handed over has no leader for a moment.
const HAND_OVER: Duration = Duration::from_millis(500);

#[test]
fn a_busy_node_gives_shards_away_and_takes_them_back() {
    let moved = busy_node(1).unwrap_or_else(|broken| panic!("{broken}"));
    assert!(moved.before > 5, "the node has its share first: {moved:?}");
    assert!(moved.busy + 4 <= moved.before, "one shard every ten seconds: {moved:?}");
    assert_eq!(moved.after, moved.before, "{moved:?}");
    assert!(moved.worst < HAND_OVER, "{moved:?}");
}
