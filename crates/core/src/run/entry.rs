//! The history of a run, entry by entry.

use serde::{Deserialize, Serialize};

use super::Status;
use crate::Timestamp;
use crate::ids::Token;

/// One change of a run, stored with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    pub at: Timestamp,
    pub to: Status,
    pub what: What,
    pub token: Token,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum What {
    Created,
    Due,
    Held,
    Assigned,
    CancelAsked,
    MoveAsked,
    Ended,
    Failed,
    Lost,
    Skipped,
    /// The worker preferred by its route had no free slot, so it goes to another.
    PassedOver,
    /// Its attempt has ended, or was never started, and the next one goes to another worker.
    Moved,
    /// It was split into child runs, or its first steps start.
    Split,
    /// The only worker that it may go to is gone.
    WorkerGone,
    /// Its message is in its queue.
    Delivered,
    /// No further step of the workflow starts.
    Paused,
    Resumed,
}

impl What {
    pub fn as_str(self) -> &'static str {
        match self {
            What::Created => "created",
            What::Due => "due",
            What::Held => "held",
            What::Assigned => "assigned",
            What::CancelAsked => "cancel_asked",
            What::MoveAsked => "move_asked",
            What::Ended => "ended",
            What::Failed => "failed",
            What::Lost => "lost",
            What::Skipped => "skipped",
            What::PassedOver => "passed_over",
            What::Moved => "moved",
            What::Split => "split",
            What::WorkerGone => "worker_gone",
            What::Delivered => "delivered",
            What::Paused => "paused",
            What::Resumed => "resumed",
        }
    }
}
