//! Who an attempt is assigned to: a worker, or the queue that its message goes into.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ids::WorkerId;
use crate::queue::{InvalidName, QueueName};

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "Arc<str>", try_from = "Arc<str>")]
pub enum Assignee {
    Worker(WorkerId),
    Queue(QueueName),
}

/// The prefix of a queue in the text form: names of workers have no blanks.
const QUEUE: &str = "queue ";

impl Assignee {
    /// `None` means that it is a queue.
    pub fn worker(&self) -> Option<&WorkerId> {
        match self {
            Assignee::Worker(worker) => Some(worker),
            Assignee::Queue(_) => None,
        }
    }

    /// The text form without the process number of a worker.
    pub fn name(&self) -> Arc<str> {
        match self {
            Assignee::Worker(worker) => Arc::from(worker.name()),
            Assignee::Queue(_) => self.clone().into(),
        }
    }
}

impl fmt::Display for Assignee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Assignee::Worker(worker) => worker.fmt(f),
            Assignee::Queue(queue) => write!(f, "{QUEUE}{queue}"),
        }
    }
}

impl From<Assignee> for Arc<str> {
    fn from(assignee: Assignee) -> Self {
        match assignee {
            Assignee::Worker(worker) => worker.0,
            Assignee::Queue(_) => Arc::from(assignee.to_string()),
        }
    }
}

impl TryFrom<Arc<str>> for Assignee {
    type Error = InvalidName;

    fn try_from(text: Arc<str>) -> Result<Self, InvalidName> {
        match text.strip_prefix(QUEUE) {
            Some(queue) => Ok(Assignee::Queue(queue.parse()?)),
            None => Ok(Assignee::Worker(WorkerId(text))),
        }
    }
}
