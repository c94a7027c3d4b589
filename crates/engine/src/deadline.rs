//! The deadlines of a shard, which only expire: the wheel holds them.

use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::ids::{JobId, RunId, Token};
use punctual_core::queue::QueueNumber;

/// How long a start or a progress may stay unwritten when no other change causes a commit.
pub(crate) const LAZY_MAX: Duration = Duration::from_secs(1);
/// When it causes a commit of its own: a little before, so that it is stored in time.
pub(crate) const LAZY_DUE: Duration = Duration::from_millis(960);

/// A timer of the wheel, in elapsed time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deadline {
    Backoff(RunId),
    /// A run may have gathered its events.
    Events(RunId),
    Timeout(RunId, Token),
    /// A lost attempt no longer counts as running.
    Lost(RunId, Token),
    /// The worker of an attempt should have stopped it by now.
    Overdue(RunId, Token),
    /// Its worker has not stopped it, and has had the time to say so.
    NotStopped(RunId, Token),
    /// A run is late by this much, unless it has started.
    Late(RunId, Duration),
    /// A run has taken so long, unless it has ended.
    Long(RunId, Duration),
    /// Try again to split a run that could not be split at once, or to start the rest of a fan-out.
    Split(RunId),
    /// The timeout of a workflow, which covers all its steps.
    WorkflowTimeout(RunId),
    /// The only worker that may take a run has been absent for too long.
    Gone(RunId),
    /// The lazy changes of runs must be written now.
    Lazy,
    /// The lazy changes of delivered messages must be written now.
    Delivered,
    /// A rate of the job may allow further runs at this time.
    RateAllows(JobId, Timestamp),
    /// What some rates have used up is free again at this time.
    RatesFree(Timestamp),
    /// The rate of a queue may allow its next delivery.
    QueueOpens(QueueNumber),
    /// A message may have been first in its queue for too long.
    StillFirst(QueueNumber),
    /// The next runs that holds have freed may start.
    Freed,
    /// Rows of holds that have ended may be deleted.
    HoldsEnded,
    /// Unused queues may leave memory.
    Unused,
}
