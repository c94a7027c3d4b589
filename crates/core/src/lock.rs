//! Locks: a name that one owner at a time may hold, for as long as it renews it.
//!
//! A lock belongs to the shard of its name. Only a held lock has a row, and its key is its *fence*: a number that is larger
//! for every later holder, whichever node leads the shard. What the lock protects can refuse a holder that comes late by it.
//!
//! ```text
//!  acquire ──▶ waits ──▶ held ──release, or not renewed in time──▶ free
//! ```

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Timestamp;
use crate::ids::{Fence, ShardId};
use crate::invalid::Invalid;
use crate::limits::{KEY_BYTES_MAX, LOCK_OWNER_BYTES_MAX, LOCK_TTL_MAX, LOCK_TTL_MIN, LOCK_WAIT_MAX};
use crate::name::{Name, Namespace};
use crate::schedule::format_duration;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LockKey {
    pub namespace: Namespace,
    pub name: Name,
}

impl LockKey {
    pub fn shard(&self, shards: u16) -> ShardId {
        ShardId::of(&[self.namespace.as_str().as_bytes(), b"lock", self.name.as_str().as_bytes()], shards)
    }
}

/// A lock that is held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lock {
    pub fence: Fence,
    pub key: LockKey,
    pub owner: Box<str>,
    /// The idempotency key of the acquire: its owner gets the lock again under this key.
    pub request: Arc<str>,
    pub since: Timestamp,
    /// How long it is held without a renewal.
    pub ttl: Duration,
    /// When it ends without a renewal. Its leader measures the time by the monotonic clock.
    pub expires_at: Timestamp,
}

/// A command on a lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    Acquire(Acquire),
    /// Begins the time of the lock again.
    Renew {
        key: LockKey,
        fence: Fence,
    },
    Release {
        key: LockKey,
        fence: Fence,
    },
    /// The caller of an acquire is gone: it waits no more, and a lock that it got is released.
    Withdraw {
        key: LockKey,
        waiter: u64,
    },
    /// The lock and who waits for it.
    Show {
        key: LockKey,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acquire {
    pub key: LockKey,
    pub owner: Box<str>,
    /// The idempotency key. If the owner holds the lock under the same key already, its time begins again.
    pub request: Arc<str>,
    pub ttl: Duration,
    /// How long to wait if it is held.
    pub wait: Duration,
    /// The number under which a node asks. A repetition has another one.
    pub waiter: u64,
}

impl Acquire {
    pub fn check(&self) -> Result<(), Invalid> {
        let invalid = |field, message| Err(Invalid::new(field, message));
        let owner = &self.owner;
        if owner.is_empty() || owner.len() > LOCK_OWNER_BYTES_MAX || owner.chars().any(char::is_control) {
            let message = format!("must have 1 to {LOCK_OWNER_BYTES_MAX} bytes, and no control characters");
            return invalid("owner", message);
        }
        if self.request.is_empty() || self.request.len() > KEY_BYTES_MAX {
            return invalid("key", format!("must have 1 to {KEY_BYTES_MAX} bytes"));
        }
        if !(LOCK_TTL_MIN..=LOCK_TTL_MAX).contains(&self.ttl) {
            let (least, most) = (format_duration(LOCK_TTL_MIN), format_duration(LOCK_TTL_MAX));
            return invalid(
                "ttl",
                format!("must be {least} to {most}; renew the lock to hold it for longer"),
            );
        }
        if self.wait > LOCK_WAIT_MAX {
            let most = format_duration(LOCK_WAIT_MAX);
            let message =
                format!("must be at most {most}; repeat the request with the same key to wait longer");
            return invalid("wait", message);
        }
        Ok(())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Said {
    Held(Arc<Lock>),
    Released,
    Withdrawn,
    /// `None` means that the lock is free.
    Shown(Option<LockView>),
}

/// A lock as its leader sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockView {
    pub lock: Arc<Lock>,
    /// In the order in which they will get the lock.
    pub waiting: Vec<Waiting>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    pub owner: Box<str>,
    pub since: Timestamp,
}

/// Why a command on a lock was refused. A refused command changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum LockRefusal {
    #[error("lock `{name}` is held by `{owner}` until {expires_at}, unless it is renewed")]
    Locked { name: Name, owner: Box<str>, expires_at: Timestamp },
    #[error("lock `{name}` is not held under fence {fence} any more: stop the work that it protects")]
    OutdatedFence { name: Name, fence: Fence },
    #[error("no more locks can be held in namespace `{0}`: release some, then try again")]
    TooManyLocks(Namespace),
    #[error("too many callers wait for lock `{0}` or for others of its shard: try again later")]
    TooManyWaiters(Name),
}

impl Ask {
    pub fn key(&self) -> &LockKey {
        match self {
            Ask::Acquire(Acquire { key, .. })
            | Ask::Renew { key, .. }
            | Ask::Release { key, .. }
            | Ask::Withdraw { key, .. }
            | Ask::Show { key } => key,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_acquire_that_cannot_be_names_the_field() {
        let key = LockKey { namespace: Namespace::default(), name: "backup".parse().unwrap() };
        let ttl = Duration::from_secs(10);
        let good = Acquire {
            key,
            owner: "host-1".into(),
            request: "a".into(),
            ttl,
            wait: Duration::ZERO,
            waiter: 1,
        };
        assert_eq!(good.check(), Ok(()));
        let field = |acquire: Acquire| acquire.check().unwrap_err().field;
        assert_eq!(field(Acquire { ttl: Duration::ZERO, ..good.clone() }), "ttl");
        assert_eq!(field(Acquire { ttl: LOCK_TTL_MAX + ttl, ..good.clone() }), "ttl");
        assert_eq!(field(Acquire { wait: LOCK_WAIT_MAX + ttl, ..good.clone() }), "wait");
        for owner in ["", "a\nb", &"x".repeat(LOCK_OWNER_BYTES_MAX + 1)] {
            assert_eq!(field(Acquire { owner: owner.into(), ..good.clone() }), "owner");
        }
        assert_eq!(field(Acquire { request: "".into(), ..good }), "key");
    }
}
