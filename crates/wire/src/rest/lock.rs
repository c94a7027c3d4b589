//! Locks: what holds them, and what waits for them.

use std::time::Duration;

use punctual_core::ids::Fence;
use punctual_core::lock;
use punctual_core::name::{Name, Namespace};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::schema;
use crate::text::{Instant, Span, Text};

/// A lock that is held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Lock {
    #[schema(value_type = schema::Namespace)]
    pub namespace: Namespace,
    #[schema(value_type = schema::Name)]
    pub name: Name,
    pub owner: String,
    /// The fencing token. Every later holder of the lock has a larger one.
    #[schema(value_type = schema::Id)]
    pub fence: Text<Fence>,
    pub since: Instant,
    /// How long it is held without a renewal.
    pub ttl: Span,
    /// When it ends without a renewal.
    pub expires_at: Instant,
    /// Who waits for it, in the order in which they get it. Only the answer about one lock says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Vec<LockWaiter>>,
}

/// A caller that waits for a lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LockWaiter {
    pub owner: String,
    pub since: Instant,
}

/// Acquires a lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a map like { ttl: 30s, wait: 10s, owner: host-1 }")]
pub struct AcquireLock {
    /// How long it is held without a renewal: 100ms to 1d.
    pub ttl: Span,
    /// How long to wait if another owner holds it, at most 30s. By default the request does not wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<Span>,
    /// Who acquires it, for people: at most 256 bytes.
    pub owner: String,
}

impl AcquireLock {
    pub fn wait(&self) -> Duration {
        self.wait.map_or(Duration::ZERO, |wait| wait.0)
    }
}

/// The fence under which a lock is renewed or released.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a map like { fence: \"4683711365120\" }")]
pub struct HeldFence {
    #[schema(value_type = schema::Id)]
    pub fence: Text<Fence>,
}

impl From<&lock::Lock> for Lock {
    fn from(lock: &lock::Lock) -> Lock {
        Lock {
            namespace: lock.key.namespace.clone(),
            name: lock.key.name.clone(),
            owner: lock.owner.to_string(),
            fence: Text(lock.fence),
            since: Text(lock.since),
            ttl: Span(lock.ttl),
            expires_at: Text(lock.expires_at),
            waiting: None,
        }
    }
}

impl From<&lock::LockView> for Lock {
    fn from(view: &lock::LockView) -> Lock {
        let waiting = view.waiting.iter();
        let waiting =
            waiting.map(|place| LockWaiter { owner: place.owner.to_string(), since: Text(place.since) });
        Lock { waiting: Some(waiting.collect()), ..Lock::from(&*view.lock) }
    }
}
