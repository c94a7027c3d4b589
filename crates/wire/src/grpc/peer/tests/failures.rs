//! A sample of every refusal and every failure.

use punctual_core::ids::{Fence, IncidentId};
use punctual_core::lock::LockRefusal;

use super::*;

pub(super) fn refusals() -> Vec<Refusal> {
    let (namespace, name) = (namespace(), name());
    vec![
        Refusal::NoSuchJob { namespace: namespace.clone(), name: name.clone() },
        Refusal::NoSuchRun(RUN),
        Refusal::NotADeadLetter(RUN),
        Refusal::JobExists(name.clone()),
        Refusal::WrongRevision { name: name.clone(), expected: 1, actual: 2 },
        Refusal::NoSuchCalendar { namespace, name: name.clone() },
        Refusal::CalendarExists(name.clone()),
        Refusal::NoSuchDescriptor { namespace: Namespace::default(), name: name.clone() },
        Refusal::DescriptorExists(name.clone()),
        Refusal::WrongVersion { name: name.clone(), expected: 1, actual: 2 },
        Refusal::CalendarInUse { calendar: name.clone(), job: name },
        Refusal::WrongState { run: RUN, status: Status::TimedOut, hint: "it has ended already".into() },
        Refusal::NotAWorkflow(RUN),
        Refusal::JobPaused("settle".parse().unwrap()),
        Refusal::NoSuchStep { run: RUN, step: "load".parse().unwrap() },
        Refusal::WrongStep { step: "load".parse().unwrap(), state: "open".into(), hint: "skip it".into() },
        Refusal::OutdatedToken(RUN),
        Refusal::Invalid(Invalid::new("task.process.command[2]", "say \"it\" again")),
        Refusal::NoSuchIncident(IncidentId(7)),
        Refusal::IncidentOver(IncidentId(7)),
        Refusal::TooManyRuns,
        Refusal::Lock(LockRefusal::Locked {
            name: "l".parse().unwrap(),
            owner: "host".into(),
            expires_at: NOW,
        }),
        Refusal::Lock(LockRefusal::OutdatedFence { name: "l".parse().unwrap(), fence: Fence(7) }),
    ]
}

named! { refusal_names: Refusal =>
    Refusal::NoSuchJob { .. } => "no such job",
    Refusal::NoSuchRun(_) => "no such run",
    Refusal::NotADeadLetter(_) => "not a dead letter",
    Refusal::JobExists(_) => "job exists",
    Refusal::WrongRevision { .. } => "wrong revision",
    Refusal::NoSuchCalendar { .. } => "no such calendar",
    Refusal::CalendarExists(_) => "calendar exists",
    Refusal::NoSuchDescriptor { .. } => "no such descriptor",
    Refusal::DescriptorExists(_) => "descriptor exists",
    Refusal::WrongVersion { .. } => "wrong version",
    Refusal::CalendarInUse { .. } => "calendar in use",
    Refusal::WrongState { .. } => "wrong state",
    Refusal::NotAWorkflow(_) => "not a workflow",
    Refusal::JobPaused(_) => "job paused",
    Refusal::NoSuchStep { .. } => "no such step",
    Refusal::WrongStep { .. } => "wrong step",
    Refusal::OutdatedToken(_) => "outdated token",
    Refusal::Invalid(_) => "invalid",
    Refusal::NoSuchIncident(_) => "no such incident",
    Refusal::IncidentOver(_) => "incident over",
    Refusal::TooManyRuns => "too many runs",
    Refusal::Lock(_) => "lock",
}

pub(super) fn failures() -> Vec<Failure> {
    let text = || "why \u{0}".to_owned();
    let others = [
        Failure::NotLed(text()),
        Failure::Unavailable(text()),
        Failure::Unknown(text()),
        Failure::Full(text()),
    ];
    refusals().into_iter().map(Failure::Refused).chain(others).collect()
}

named! { failure_names: Failure =>
    Failure::Refused(_) => "refused",
    Failure::NotLed(_) => "not led",
    Failure::Unavailable(_) => "unavailable",
    Failure::Unknown(_) => "unknown",
    Failure::Full(_) => "full",
}
