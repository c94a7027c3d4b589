//! Requests between the shard of a run and the shard of the queue or job that its attempt goes to.

use serde::{Deserialize, Serialize};

use crate::attempt::Assignment;
use crate::command::RunJob;
use crate::ids::RunId;
use crate::name::{Name, Namespace};
use crate::queue::{EndNotice, QueueKey, Sender};

/// What a node must do between two shards. It retries until it succeeds, or until another node leads the shard and
/// starts the request again.
#[derive(Debug, Clone, PartialEq)]
pub enum CrossShardRequest {
    /// Add the message of this attempt to its queue.
    Deliver(Box<Assignment>),
    /// Delete it again, because its run is being stopped.
    Withdraw { sender: Sender, queue: QueueKey },
    /// Start a run of another job for this attempt.
    Call { sender: Sender, run: Box<RunJob> },
    /// Cancel it again, because the run that waits for it is being stopped.
    CancelCall(CancelCall),
    /// Tell a sender how its message or its run ended, and then confirm that to the shard of the notice.
    Tell(EndNotice),
}

/// Cancels the run that an attempt has started. If there is none yet, none is started later.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CancelCall {
    pub sender: Sender,
    pub namespace: Namespace,
    pub job: Name,
    /// `None` means that the attempt does not know whether a run was started.
    pub called: Option<RunId>,
    /// Without a grace period.
    pub now: bool,
}
