//! What can go wrong in a store, by what the caller can do about it.

use punctual_core::ids::{Epoch, ShardId};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Expected: someone else leads the shard now. Step down.
    #[error("shard {shard} is no longer led in epoch {epoch}")]
    Fenced { shard: ShardId, epoch: Epoch },
    /// Known to be rolled back: send it again as it is.
    #[error("the transaction was rolled back: {0}")]
    RolledBack(String),
    /// Known to be rolled back, because somebody else holds rows of this shard for longer than can be waited for: send the
    /// rest, and this one by and by.
    #[error("rows of shard {shard} are held by somebody else's transaction")]
    Blocked { shard: ShardId },
    /// The store will not take these changes of this shard, however often they are sent.
    #[error("the store refused a change of shard {shard}: {what}")]
    Refused { shard: ShardId, what: String },
    /// The outcome of a commit is not known: acquire and load before anything else is said.
    #[error("the outcome of a commit is unknown: {0}")]
    Unknown(String),
    /// There is no room: nothing was written, and writing works again when there is.
    #[error("the store is full: {0}")]
    Full(String),
    /// Passing: try again. Nothing was written.
    #[error("the store is unreachable: {0}")]
    Unreachable(String),
    /// The store cannot be used as it is: the message says what to do.
    #[error("{0}")]
    Unusable(String),
}
