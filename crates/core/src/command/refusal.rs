//! Why a command is refused.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::ids::{IncidentId, RunId};
use crate::job;
use crate::lock;
use crate::name::{Name, Namespace};
use crate::run::Status;

/// Why a command was refused. A refused command changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    #[error("no job `{name}` in namespace `{namespace}`")]
    NoSuchJob { namespace: Namespace, name: Name },
    #[error("no run {0}")]
    NoSuchRun(RunId),
    #[error("run {0} is not a dead letter")]
    NotADeadLetter(RunId),
    #[error("job `{0}` exists already")]
    JobExists(Name),
    #[error("job `{name}` is at revision {actual}, not {expected}: read it again and repeat the edit")]
    WrongRevision { name: Name, expected: u32, actual: u32 },
    #[error("no calendar `{name}` in namespace `{namespace}`")]
    NoSuchCalendar { namespace: Namespace, name: Name },
    #[error("calendar `{0}` exists already")]
    CalendarExists(Name),
    #[error("`{name}` is at version {actual}, not {expected}: read it again and repeat the edit")]
    WrongVersion { name: Name, expected: u32, actual: u32 },
    #[error("job `{job}` uses calendar `{calendar}`: change or delete that job first")]
    CalendarInUse { calendar: Name, job: Name },
    #[error("no descriptor `{name}` in namespace `{namespace}`")]
    NoSuchDescriptor { namespace: Namespace, name: Name },
    #[error("descriptor `{0}` exists already")]
    DescriptorExists(Name),
    #[error("run {run} is {status}: {hint}")]
    WrongState { run: RunId, status: Status, hint: Cow<'static, str> },
    #[error("run {0} is not a workflow, so it has no steps")]
    NotAWorkflow(RunId),
    #[error("the workflow of run {run} has no step `{step}`")]
    NoSuchStep { run: RunId, step: Name },
    #[error("step `{step}` is {state}: {hint}")]
    WrongStep { step: Name, state: Cow<'static, str>, hint: Cow<'static, str> },
    #[error("run {0} has a newer attempt: this one was given up and should stop")]
    OutdatedToken(RunId),
    #[error(
        "no incident {0}: it is not known, or it was over more than a week ago; \
         `punctual incident list --all` shows the others"
    )]
    NoSuchIncident(IncidentId),
    #[error("incident {0} is over, so it cannot be acknowledged or silenced")]
    IncidentOver(IncidentId),
    #[error("{0}")]
    Invalid(#[from] job::Invalid),
    #[error("job `{0}` is paused: resume it, and what waits for it goes on")]
    JobPaused(Name),
    #[error(transparent)]
    Lock(#[from] lock::LockRefusal),
    #[error("this node holds as many live runs as it may: try again when some have finished")]
    TooManyRuns,
}
