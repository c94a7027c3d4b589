//! Locks of an embedded node.

use std::sync::Arc;
use std::time::Duration;

use punctual_client::{HeldLock, Hold, Holds, hold};
use punctual_core::command::Refusal;
use punctual_core::ids::Fence;
use punctual_core::limits::LOCK_WAIT_MAX;
use punctual_core::lock::{LockKey, LockRefusal};
use punctual_core::name::Name;
use punctual_node::Handle;
use punctual_node::locks::NewLock;

use super::{Node, NodeError};

impl Node {
    /// Acquires a lock, and holds it until the result is dropped: it is renewed in the background.
    pub async fn lock(&self, name: &str, how: Hold) -> Result<HeldLock, NodeError> {
        let name: Name = name.parse().map_err(|error| NodeError::Invalid(format!("{error}")))?;
        let key = LockKey { namespace: self.namespace().clone(), name };
        let random = getrandom::u64().map_err(|error| NodeError::Start(error.to_string()))?;
        let (ttl, wait) = (how.ttl, how.wait);
        let request = format!("{random:016x}").into();
        hold(ttl, wait, Locked { handle: self.handle().clone(), key, how, request }).await
    }
}

/// A lock that this node holds or wants.
struct Locked {
    handle: Handle,
    key: LockKey,
    how: Hold,
    request: Arc<str>,
}

impl Holds for Locked {
    type Error = NodeError;

    async fn acquire(&self, wait: Duration) -> Result<Fence, NodeError> {
        let lock = self.handle.acquire_lock(NewLock {
            key: self.key.clone(),
            owner: self.how.owner.as_str().into(),
            request: Some(Arc::clone(&self.request)),
            ttl: self.how.ttl,
            wait: wait.min(LOCK_WAIT_MAX),
        });
        Ok(lock.await?.fence)
    }

    async fn renew(&self, fence: Fence) -> Result<(), NodeError> {
        Ok(self.handle.renew_lock(self.key.clone(), fence).await.map(drop)?)
    }

    async fn release(&self, fence: Fence) -> Result<(), NodeError> {
        Ok(self.handle.release_lock(self.key.clone(), fence).await?)
    }

    fn is_held(error: &NodeError) -> bool {
        matches!(error, NodeError::Refused(Refusal::Lock(LockRefusal::Locked { .. })))
    }

    fn may_pass(error: &NodeError) -> bool {
        matches!(error, NodeError::Unavailable(_))
    }
}
