//! How an attempt ended.

use serde::{Deserialize, Serialize};

use crate::Timestamp;
use crate::retry::Failed;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    pub end: End,
    pub started_at: Timestamp,
    pub exit_code: Option<i32>,
    /// The result, cut to its limit by the worker and again by the node.
    pub output: Box<str>,
    pub error: Box<str>,
    /// How the attempt failed; not used if it succeeded.
    pub failed: Failed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    Succeeded,
    /// It failed, or was stopped because the node asked.
    Failed,
    /// The worker stopped it at its timeout. The worker measures the timeout itself, because its node may be cut off
    /// from the store and unable to send an order.
    TimedOut,
    /// The worker stopped it because it takes no more work: the run goes on elsewhere.
    Yielded,
}

impl Outcome {
    pub fn succeeded(started_at: Timestamp) -> Self {
        Outcome {
            end: End::Succeeded,
            started_at,
            exit_code: None,
            output: Box::default(),
            error: Box::default(),
            failed: Failed::default(),
        }
    }

    pub fn failed(started_at: Timestamp, error: impl Into<Box<str>>) -> Self {
        Outcome { end: End::Failed, error: error.into(), ..Outcome::succeeded(started_at) }
    }
}
