//! Who an attempt is assigned to: a worker, the queue that its message goes into, the job that it starts, or the program
//! outside Punctual that reports by pings.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ids::WorkerId;
use crate::name::Name;
use crate::queue::QueueName;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "Arc<str>", try_from = "Arc<str>")]
pub enum Assignee {
    Worker(WorkerId),
    Queue(QueueName),
    Job(Name),
    /// The job whose key the program has.
    Ping(Name),
}

/// The prefixes in the text form: names of workers have no blanks.
const QUEUE: &str = "queue ";
const JOB: &str = "job ";
const PING: &str = "ping ";

impl Assignee {
    /// `None` means that it is no worker.
    pub fn worker(&self) -> Option<&WorkerId> {
        match self {
            Assignee::Worker(worker) => Some(worker),
            Assignee::Queue(_) | Assignee::Job(_) | Assignee::Ping(_) => None,
        }
    }

    /// The job that the attempt starts. `None` means that it starts none.
    pub fn job(&self) -> Option<&Name> {
        match self {
            Assignee::Job(job) => Some(job),
            Assignee::Worker(_) | Assignee::Queue(_) | Assignee::Ping(_) => None,
        }
    }

    /// The text form without the process number of a worker.
    pub fn name(&self) -> Arc<str> {
        match self {
            Assignee::Worker(worker) => Arc::from(worker.name()),
            Assignee::Queue(_) | Assignee::Job(_) | Assignee::Ping(_) => self.clone().into(),
        }
    }
}

impl fmt::Display for Assignee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Assignee::Worker(worker) => worker.fmt(f),
            Assignee::Queue(queue) => write!(f, "{QUEUE}{queue}"),
            Assignee::Job(job) => write!(f, "{JOB}{job}"),
            Assignee::Ping(job) => write!(f, "{PING}{job}"),
        }
    }
}

impl From<Assignee> for Arc<str> {
    fn from(assignee: Assignee) -> Self {
        match assignee {
            Assignee::Worker(worker) => worker.0,
            assignee => Arc::from(assignee.to_string()),
        }
    }
}

impl TryFrom<Arc<str>> for Assignee {
    type Error = String;

    fn try_from(text: Arc<str>) -> Result<Self, String> {
        if let Some(queue) = text.strip_prefix(QUEUE) {
            return queue.parse().map(Assignee::Queue).map_err(|error| format!("{error}"));
        }
        if let Some(job) = text.strip_prefix(PING) {
            return job.parse().map(Assignee::Ping).map_err(|error| format!("{error}"));
        }
        match text.strip_prefix(JOB) {
            Some(job) => job.parse().map(Assignee::Job).map_err(|error| format!("{error}")),
            None => Ok(Assignee::Worker(WorkerId(text))),
        }
    }
}
