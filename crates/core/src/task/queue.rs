//! `task.queue`: a message for a queue in the namespace of its job.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::queue::QueueName;

/// The time to live of a message if neither the task nor a timeout sets it.
pub const TTL_DEFAULT: Duration = Duration::from_secs(24 * 3600);
/// The longest default retry interval. The default is a tenth of the time to live, at least a second.
pub const RETRY_DEFAULT: Duration = Duration::from_secs(300);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enqueue {
    pub name: QueueName,
    /// A template. `None` means the parameters of the run, as JSON.
    pub body: Option<String>,
    /// How long after its creation it is queued.
    pub delay: Duration,
    /// How long a consumer may take before the message is delivered again. Zero means at-most-once delivery. `None`
    /// means the default.
    pub retry: Option<Duration>,
    /// `None` means as long as the run may take.
    pub ttl: Option<Duration>,
    /// `None` means the priority of the job.
    pub priority: Option<u8>,
}

impl Enqueue {
    /// A message with the run's parameters.
    pub fn of(name: QueueName) -> Self {
        Enqueue { name, body: None, delay: Duration::ZERO, retry: None, ttl: None, priority: None }
    }
}
