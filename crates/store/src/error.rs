//! Store errors, by what the caller can do about them.

use punctual_core::ids::{Epoch, ShardId};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Expected: another session leads the shard now. Step down.
    #[error("shard {shard} is no longer led in epoch {epoch}")]
    Fenced { shard: ShardId, epoch: Epoch },
    /// Known to be rolled back: send it again as it is.
    #[error("the transaction was rolled back: {0}")]
    RolledBack(String),
    /// Known to be rolled back: another transaction locked rows of this shard for too long. Send the other shards again
    /// now, and this one later.
    #[error("another transaction has locked rows of shard {shard}")]
    Blocked { shard: ShardId },
    /// The store refuses these changes of this shard, however often they are sent.
    #[error("the store refused a change of shard {shard}: {what}")]
    Refused { shard: ShardId, what: String },
    /// The outcome of a commit is not known: acquire and load the shard before releasing any effect.
    #[error("the outcome of a commit is unknown: {0}")]
    Unknown(String),
    /// The disk is full: nothing was written. Writing works again when there is room.
    #[error("the store is full: {0}")]
    Full(String),
    /// Temporary: try again. Nothing was written.
    #[error("the store is unreachable: {0}")]
    Unreachable(String),
    /// The store cannot be used in its present state: the message says what to do.
    #[error("{0}")]
    Unusable(String),
}
