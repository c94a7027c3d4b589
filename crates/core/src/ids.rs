//! Ids of shards, epochs, nodes, runs, jobs and workers.
//!
//! The id of a run or a job has 63 bits: 41 of milliseconds, 10 of shard, 12 of count. The shard makes it and keeps the
//! last one in its row, so any endpoint finds the leader from the id alone, and ids are in time order. Ids are not
//! secrets.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{Timestamp, hash};

/// The most shards a store may have: ten bits of an id.
pub const SHARDS_MAX: u16 = 1024;

/// 2025-01-01T00:00:00Z. Forty-one bits of milliseconds from here reach into 2094.
const ID_EPOCH_MS: i64 = 1_735_689_600_000;
const SHARD_BITS: u32 = 10;
const COUNT_BITS: u32 = 12;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ShardId(pub u16);

impl ShardId {
    /// The shard of a name, the same in every version and on every node.
    pub fn of(parts: &[&[u8]], shards: u16) -> ShardId {
        let slot = hash::stable(parts) % u64::from(shards.max(1));
        ShardId(u16::try_from(slot).unwrap_or(0))
    }
}

impl fmt::Display for ShardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The fencing number of a shard's leader: a higher one outdates all earlier leaders.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Epoch(pub u32);

impl Epoch {
    /// The epoch after a restore from a backup: higher than any epoch since the backup.
    ///
    /// It counts the seconds since 2025. Epochs do not reach that count, because a shard changes its leader less than
    /// once a second.
    #[must_use]
    pub fn after_restore(self, now: Timestamp) -> Epoch {
        let seconds = u32::try_from((now.as_millis() - ID_EPOCH_MS) / 1000).unwrap_or(0);
        Epoch(seconds.max(self.0.saturating_add(1)))
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One process of a node: a random number, so that a restarted node has a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SessionId(pub i64);

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The fencing token of an attempt: it outdates every earlier attempt of its run. The shard's epoch is in the high
/// bits, so that a token made after a backup differs from one made after its restore.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Token(pub u64);

impl Token {
    /// The next token of a run, in the epoch of the leader that assigns it.
    #[must_use]
    pub fn next(self, epoch: Epoch) -> Token {
        let fresh = u64::from(epoch.0) << 32;
        Token((self.0 + 1).max(fresh + 1))
    }

    /// The epoch of the leader that assigned it.
    pub fn epoch(self) -> Epoch {
        Epoch(u32::try_from(self.0 >> 32).unwrap_or(u32::MAX))
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Digits of an id of 63 bits.
pub const ID_BYTES_MAX: usize = 19;

#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not an id; ids are the decimal numbers that listings show")]
pub struct NotAnId(String);

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub struct $name(pub i64);

        impl $name {
            pub fn shard(self) -> ShardId {
                shard_of(self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = NotAnId;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let is_plain = text.len() <= ID_BYTES_MAX && text.bytes().all(|byte| byte.is_ascii_digit());
                match text.parse::<i64>() {
                    Ok(id) if is_plain => Ok($name(id)),
                    _ => Err(NotAnId(text.to_owned())),
                }
            }
        }
    };
}

id!(
    /// One occurrence of a job.
    RunId
);
id!(
    /// The fencing token of a lock. Every later holder of the lock has a larger one.
    Fence
);
id!(
    /// A condition of a job that holds, or held.
    IncidentId
);
id!(
    /// A job, whatever its revision. A job deleted and created again under its old name has a new id.
    JobId
);

fn shard_of(id: i64) -> ShardId {
    let bits = (id >> COUNT_BITS) & i64::from(SHARDS_MAX - 1);
    ShardId(u16::try_from(bits).unwrap_or(0))
}

/// The smallest id of a shard. It belongs to the first millisecond of all, so it is never made.
pub(crate) fn first_id_of(shard: ShardId) -> i64 {
    i64::from(shard.0) << COUNT_BITS
}

/// The smallest id made at or after an instant: the start of a listing by time.
pub fn first_id_at(instant: Timestamp) -> i64 {
    (instant.as_millis() - ID_EPOCH_MS).max(0) << (SHARD_BITS + COUNT_BITS)
}

/// When an id was made, by the time of the shard that made it.
pub fn made_at(id: i64) -> Timestamp {
    Timestamp::from_millis((id >> (SHARD_BITS + COUNT_BITS)) + ID_EPOCH_MS)
}

/// Makes the ids of one shard: each is larger than the last, whatever the clock does.
#[derive(Debug, Clone)]
pub struct IdMaker {
    shard: ShardId,
    last: i64,
}

impl IdMaker {
    pub fn new(shard: ShardId, last: i64) -> Self {
        IdMaker { shard, last }
    }

    pub fn last(&self) -> i64 {
        self.last
    }

    /// Skips every id of the past. The last id is stored with each commit, so the next leader also learns the time from
    /// it: engine time never runs back, not even over a restart with a clock that was set back.
    pub fn pass(&mut self, now: Timestamp) {
        self.last = self.last.max(first_id_at(now) | (i64::from(self.shard.0) << COUNT_BITS));
    }

    pub fn next(&mut self, now: Timestamp) -> i64 {
        let shard = i64::from(self.shard.0) << COUNT_BITS;
        let fresh = first_id_at(now) | shard;
        self.last = if fresh > self.last {
            fresh
        } else if self.last & ((1 << COUNT_BITS) - 1) < (1 << COUNT_BITS) - 1 {
            self.last + 1
        } else {
            // The count of this millisecond is used up: take the next millisecond instead of waiting for it.
            (((self.last >> (SHARD_BITS + COUNT_BITS)) + 1) << (SHARD_BITS + COUNT_BITS)) | shard
        };
        self.last
    }
}

/// A worker: its name and, after an `@`, the number of its process. A restarted worker is another worker: attempts of
/// its earlier process are lost, and are never offered to it under the same token.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct WorkerId(pub Arc<str>);

impl WorkerId {
    pub fn new(name: &str, life: u64) -> Self {
        WorkerId(Arc::from(format!("{name}@{life}")))
    }

    /// The name without the process number.
    pub fn name(&self) -> &str {
        self.0.split_once('@').map_or(&*self.0, |(name, _)| name)
    }
}

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ids_grow_and_name_their_shard_whatever_the_clock_does(
            shard in 0u16..SHARDS_MAX,
            clock in proptest::collection::vec(1_735_689_600_000i64..1_900_000_000_000, 1..50),
        ) {
            let mut ids = IdMaker::new(ShardId(shard), 0);
            let mut last = 0;
            for now in clock {
                for _ in 0..3 {
                    let id = ids.next(Timestamp::from_millis(now));
                    prop_assert!(id > last);
                    prop_assert_eq!(RunId(id).shard(), ShardId(shard));
                    last = id;
                }
            }
        }
    }

    #[test]
    fn a_full_millisecond_borrows_from_the_next() {
        let now = Timestamp::from_millis(1_800_000_000_000);
        let mut ids = IdMaker::new(ShardId(7), 0);
        let made: Vec<i64> = (0..10_000).map(|_| ids.next(now)).collect();
        assert!(made.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(made.iter().all(|id| RunId(*id).shard() == ShardId(7)));
    }

    #[test]
    fn a_restore_outdates_every_epoch_since_its_backup() {
        let at = |seconds: i64| Timestamp::from_millis(ID_EPOCH_MS + seconds * 1000);
        let backup = Epoch(7);
        let first = backup.after_restore(at(60_000_000));
        assert!(first > Epoch(1_000_000), "more takeovers than there can have been");
        // The first restored store was led a thousand times before the same backup was restored again an hour later.
        assert!(backup.after_restore(at(60_003_600)) > Epoch(first.0 + 1000));
        assert_eq!(
            Epoch(60_000_000).after_restore(at(5)),
            Epoch(60_000_001),
            "under a clock that was set back"
        );
    }

    #[test]
    fn a_token_of_a_new_epoch_outdates_every_token_of_the_old_one() {
        let old = Token::default().next(Epoch(3)).next(Epoch(3));
        assert!(old.next(Epoch(4)) > old);
        assert!(Token::default().next(Epoch(4)) > old);
    }
}
