//! Requests between the shard of a run and the shard of the queue that its message goes to.

use crate::attempt::Assignment;
use crate::queue::{EndNotice, QueueKey, Sender};

/// What a node must do between a run and a queue. It retries until it succeeds, or until another node leads the shard
/// and starts the request again.
#[derive(Debug, Clone, PartialEq)]
pub enum CrossShardRequest {
    /// Add the message of this attempt to its queue.
    Deliver(Box<Assignment>),
    /// Delete it again, because its run is being stopped.
    Withdraw { sender: Sender, queue: QueueKey },
    /// Tell a sender how its message ended, and then confirm that to the shard of the queue.
    Tell(EndNotice),
}
