//! A single node on a memory store, with a clock that stands still.

use std::sync::Arc;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::time::{Clock, ManualClock};
use punctual_node::{AlertChannels, Config, Node};
use punctual_store::Store;
use punctual_store::memory::Memory;

/// Long enough for everything that should happen.
pub(crate) const LONG: Duration = Duration::from_secs(30);
pub(crate) const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

pub(crate) async fn node(store: &Arc<Memory>) -> Node {
    node_with(store, Arc::new(ManualClock::at(NOW))).await
}

pub(crate) async fn node_with(store: &Arc<Memory>, clock: Arc<dyn Clock>) -> Node {
    node_with_channels(store, clock, None).await
}

pub(crate) async fn node_with_channels(
    store: &Arc<Memory>,
    clock: Arc<dyn Clock>,
    channels: Option<Arc<dyn AlertChannels>>,
) -> Node {
    let config = Config {
        store: Arc::clone(store) as Arc<dyn Store>,
        clock,
        lanes: 2,
        attempt_lease: Duration::from_secs(15),
        records: true,
        shard_lease: Duration::from_secs(3),
        cluster: None,
        attempt_keys: None,
        channels,
    };
    let node = Node::start(config).expect("a node starts");
    assert!(node.handle().wait_until(|status| status.ready).await);
    node
}
