//! A node on a memory store, and a clock that stands still.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::time::Clock;
use punctual_node::{Config, Node};
use punctual_store::Store;
use punctual_store::memory::Memory;

/// Long enough for everything that should happen.
pub(crate) const LONG: Duration = Duration::from_secs(30);

#[derive(Debug)]
struct Standing;

impl Clock for Standing {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_800_000_000_000)
    }

    fn until(&self, instant: Timestamp) -> Duration {
        if instant > self.now() { Duration::from_secs(3600) } else { Duration::ZERO }
    }
}

/// A clock that the test moves.
#[derive(Debug, Default)]
pub(crate) struct Moved(AtomicU64);

impl Moved {
    pub(crate) fn pass(&self, span: Duration) {
        let millis = u64::try_from(span.as_millis()).expect("a test passes less than an age");
        self.0.fetch_add(millis, Ordering::Relaxed);
    }
}

impl Clock for Moved {
    fn now(&self) -> Timestamp {
        Standing.now() + Duration::from_millis(self.0.load(Ordering::Relaxed))
    }

    fn until(&self, instant: Timestamp) -> Duration {
        if instant > self.now() { Duration::from_secs(3600) } else { Duration::ZERO }
    }
}

pub(crate) async fn node(store: &Arc<Memory>) -> Node {
    node_with(store, Arc::new(Standing)).await
}

pub(crate) async fn node_with(store: &Arc<Memory>, clock: Arc<dyn Clock>) -> Node {
    let config = Config {
        store: Arc::clone(store) as Arc<dyn Store>,
        clock,
        lanes: 2,
        attempt_lease: Duration::from_secs(15),
        shard_lease: Duration::from_secs(3),
        cluster: None,
    };
    let node = Node::start(config).expect("a node starts");
    assert!(node.handle().wait_until(|status| status.ready).await);
    node
}
