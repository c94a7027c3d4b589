//! Why a run is where it is, in words for people.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Cause;

/// Why a run ended as it did, where its state alone does not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reason {
    /// An earlier run of the job was still active.
    Overlap,
    /// Too many runs of the job were waiting already.
    HeldTooMany,
    Cancelled(Cause),
    /// Its worker vanished, and the job asks for at most once.
    LostAtMostOnce,
    /// Its worker vanished too often: the run may be what kills it.
    LostTooOften,
    /// It is ready, and no worker that is here takes it.
    NoWorkerFits,
    /// The only worker that it may go to has been gone for a lease.
    WorkerGone,
    /// It is a broadcast, and more workers fit than it may have child runs.
    TooManyWorkers,
    /// Of its child runs so many did not succeed.
    Children {
        failed: u32,
        total: u32,
        first: u32,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::Children { failed, total, first } => {
                return write!(
                    f,
                    "{failed} of {total} child runs did not succeed, the first of them is that of index {first}"
                );
            }
            Reason::TooManyWorkers => {
                "more workers fit than a run may have child runs: narrow its `route.selector`"
            }
            Reason::WorkerGone => "its worker is gone, and it is meant for no other",
            Reason::Overlap => "an earlier run of the job was still active",
            Reason::HeldTooMany => "too many runs of the job were waiting already",
            Reason::Cancelled(Cause::User) => "cancelled on request",
            Reason::Cancelled(Cause::Timeout) => "stopped at its timeout",
            Reason::Cancelled(Cause::Replaced) => "replaced by a newer run",
            Reason::Cancelled(Cause::JobDeleted) => "its job was deleted",
            Reason::Cancelled(Cause::Outdated) => "its attempt was given up",
            Reason::LostAtMostOnce => "its worker was lost, and it may run at most once",
            Reason::LostTooOften => "its worker was lost too often",
            Reason::NoWorkerFits => {
                "no worker that is here takes it: none allows its kind of task, has the function that it names and bears \
                 the labels of its `route.selector`"
            }
        })
    }
}
