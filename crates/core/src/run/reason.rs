//! Why a run is in its state, in words for users.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Cause;
use crate::name::Name;
use crate::retry::Failed;

/// Why a run is in its state, where the state alone does not say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reason {
    /// An earlier run of the job was still active.
    Overlap,
    /// Too many runs of the job were already waiting.
    HeldTooMany,
    Cancelled(Cause),
    /// Its worker was lost, and the job demands at-most-once execution.
    LostAtMostOnce,
    /// Its worker was lost too often: the run itself may kill its workers.
    LostTooOften,
    /// It was moved too often without a new checkpoint.
    MovedTooOften,
    /// Its worker did not stop it when it was to be moved.
    NotStopped,
    /// It is ready, and no present worker fits: this is what the closest one lacks.
    NoWorkerFits(Lack),
    /// The only worker that it may go to has been absent for a lease.
    WorkerGone,
    /// It is a broadcast, and more workers fit than it may have child runs.
    TooManyWorkers,
    /// Some of its child runs did not succeed; `first` is the index of the first of them.
    Children {
        failed: u32,
        total: u32,
        first: u32,
    },
    /// Attempts were left, but `retry.on` does not list this failure.
    NotRetried(Failed),
    /// Some steps of the workflow failed; `first` is the first of them as written.
    Steps {
        failed: u32,
        total: u32,
        first: Name,
    },
    /// Too many runs led to it, each started by the one before.
    ChainTooLong,
    /// Its parameters would be too long, with what started it.
    ParamsTooLong,
    /// Its steps succeeded, and the output of the workflow cannot be evaluated.
    WorkflowOutput,
}

/// Why no worker fits: the requirement that the closest worker does not meet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Lack {
    /// No worker is connected.
    Workers,
    /// No worker executes tasks of this kind.
    Kind(Box<str>),
    Function(Name),
    /// The labels that a worker lacks, in the form `disk=ssd`.
    Labels {
        worker: Box<str>,
        labels: Vec<Box<str>>,
    },
    /// The only worker that it may go to is not connected.
    Worker(Box<str>),
}

impl Reason {
    /// The first words of the text of [`Reason::NoWorkerFits`].
    pub const NO_WORKER_FITS: &'static str = "no worker fits";
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lack::Workers => f.write_str("none is connected"),
            Lack::Kind(kind) => write!(f, "none allows `{kind}` tasks"),
            Lack::Function(name) => write!(f, "none has the function `{name}`"),
            Lack::Labels { worker, labels } => {
                let word = if labels.len() == 1 { "label" } else { "labels" };
                write!(f, "`{worker}` is the nearest and lacks the {word} `{}`", labels.join("`, `"))
            }
            Lack::Worker(name) => write!(f, "it is for `{name}` only, which is not connected"),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::NoWorkerFits(lack) => return write!(f, "{}: {lack}", Reason::NO_WORKER_FITS),
            Reason::NotRetried(Failed::Timeout) => {
                "stopped at its timeout, and not tried again: `retry.on` does not name `timeout`"
            }
            Reason::NotRetried(Failed::Error) => "not tried again: `retry.on` does not name `error`",
            Reason::NotRetried(Failed::Status(status)) => {
                return write!(f, "not tried again after status {status}: `retry.on` does not name it");
            }
            Reason::Children { failed, total, first } => {
                return write!(
                    f,
                    "{failed} of {total} child runs did not succeed, the first of them is that of index {first}"
                );
            }
            Reason::Steps { failed, total, first } => {
                return write!(f, "{failed} of {total} steps failed, the first of them is `{first}`");
            }
            Reason::ChainTooLong => "chain_too_long: too many runs led to it, each started by the one before",
            Reason::ParamsTooLong => "its parameters would be too long, with what started it",
            Reason::WorkflowOutput => "its steps succeeded, but its `output` cannot be evaluated",
            Reason::TooManyWorkers => {
                "more workers fit than a broadcast may reach: narrow its `route.selector`"
            }
            Reason::WorkerGone => "its worker is gone, and it is meant for no other",
            Reason::Overlap => "an earlier run of the job was still active",
            Reason::HeldTooMany => "too many runs of the job were waiting already",
            Reason::Cancelled(Cause::User) => "cancelled on request",
            Reason::Cancelled(Cause::UserNow) => "cancelled on request, at once",
            Reason::Cancelled(Cause::Timeout) => "stopped at its timeout",
            Reason::Cancelled(Cause::Replaced) => "replaced by a newer run",
            Reason::Cancelled(Cause::JobDeleted) => "its job was deleted",
            Reason::Cancelled(Cause::Outdated) => "its attempt was given up",
            Reason::Cancelled(Cause::Moved) => "moved to another worker",
            Reason::MovedTooOften => "moved_too_often: it was moved too often without a new checkpoint",
            Reason::NotStopped => "its worker did not stop it when it was to be moved",
            Reason::LostAtMostOnce => "its worker was lost, and it may run at most once",
            Reason::LostTooOften => "its worker was lost too often",
        })
    }
}
