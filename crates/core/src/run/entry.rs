//! What happened to a run, step by step.

use serde::{Deserialize, Serialize};

use super::Status;
use crate::Timestamp;
use crate::ids::Token;

/// One change of a run, as it is kept with it.
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
    Ended,
    Failed,
    Lost,
    Skipped,
    /// The worker that its route names first had no free slot, so it goes to another.
    PassedOver,
    /// Its worker takes nothing more and had not begun: it goes to another.
    Moved,
    /// It goes on in its children.
    Split,
    /// The only worker that it may go to is gone.
    WorkerGone,
    /// Its message is in its queue.
    Delivered,
}

impl What {
    pub fn as_str(self) -> &'static str {
        match self {
            What::Created => "created",
            What::Due => "due",
            What::Held => "held",
            What::Assigned => "assigned",
            What::CancelAsked => "cancel_asked",
            What::Ended => "ended",
            What::Failed => "failed",
            What::Lost => "lost",
            What::Skipped => "skipped",
            What::PassedOver => "passed_over",
            What::Moved => "moved",
            What::Split => "split",
            What::WorkerGone => "worker_gone",
            What::Delivered => "delivered",
        }
    }
}
