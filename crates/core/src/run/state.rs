//! The states of a run and their names.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Assignee;
use crate::Timestamp;
use crate::ids::Token;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum State {
    Waiting {
        wait: Wait,
    },
    Ready {
        since: Timestamp,
    },
    Running {
        assignee: Assignee,
        token: Token,
        since: Timestamp,
        cancelling: Option<Cause>,
    },
    Succeeded,
    Failed,
    TimedOut,
    Cancelled,
    Skipped,
    /// Running as child runs or as the steps of a workflow, without a slot of its own.
    Split {
        since: Timestamp,
        cancelling: Option<Cause>,
    },
}

/// What a waiting run waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Wait {
    /// Its due time. Only these runs are paged from the store; all others stay in memory.
    Due(Timestamp),
    /// The end of a retry's delay.
    Backoff(Timestamp),
    /// An earlier run of its job, by the overlap policy.
    Overlap,
    /// The end of a hold.
    Hold,
    /// A place or a start under the limit of its job with this index.
    Limit(u8),
    /// Further events, until this time at most. Then it starts like a run that is due.
    Events(Timestamp),
}

/// Why a running attempt is being stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    User,
    /// Like `User`, but without a grace period.
    UserNow,
    Timeout,
    Replaced,
    JobDeleted,
    /// The attempt was given up, and a newer one may be running.
    Outdated,
    /// The run goes on with its next attempt.
    Moved,
}

impl Cause {
    /// Whether it replaces an earlier cause. A timeout and a move allow a next attempt, all other causes forbid it.
    pub fn replaces(self, earlier: Cause) -> bool {
        let weight = |cause| match cause {
            Cause::Timeout | Cause::Moved => 0,
            Cause::User | Cause::Replaced | Cause::JobDeleted | Cause::Outdated => 1,
            Cause::UserNow => 2,
        };
        weight(self) > weight(earlier)
    }

    /// Whether it also cancels the work that a service has accepted. Otherwise the work goes on for the next attempt.
    pub fn cancels_accepted_work(self) -> bool {
        match self {
            Cause::User | Cause::UserNow | Cause::Timeout | Cause::Replaced | Cause::JobDeleted => true,
            Cause::Outdated | Cause::Moved => false,
        }
    }
}

impl State {
    pub fn status(&self) -> Status {
        match self {
            State::Waiting { .. } => Status::Waiting,
            State::Ready { .. } => Status::Ready,
            State::Running { .. } | State::Split { .. } => Status::Running,
            State::Succeeded => Status::Succeeded,
            State::Failed => Status::Failed,
            State::TimedOut => Status::TimedOut,
            State::Cancelled => Status::Cancelled,
            State::Skipped => Status::Skipped,
        }
    }
}

/// The name of a state, without its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Status {
    Waiting,
    Ready,
    Running,
    Succeeded,
    Failed,
    TimedOut,
    Cancelled,
    Skipped,
}

impl Status {
    pub const ALL: [Status; 8] = [
        Status::Waiting,
        Status::Ready,
        Status::Running,
        Status::Succeeded,
        Status::Failed,
        Status::TimedOut,
        Status::Cancelled,
        Status::Skipped,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Status::Waiting => "waiting",
            Status::Ready => "ready",
            Status::Running => "running",
            Status::Succeeded => "succeeded",
            Status::Failed => "failed",
            Status::TimedOut => "timed_out",
            Status::Cancelled => "cancelled",
            Status::Skipped => "skipped",
        }
    }

    pub fn parse(text: &str) -> Option<Status> {
        Status::ALL.into_iter().find(|status| status.as_str() == text)
    }

    pub fn is_terminal(self) -> bool {
        !matches!(self, Status::Waiting | Status::Ready | Status::Running)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
