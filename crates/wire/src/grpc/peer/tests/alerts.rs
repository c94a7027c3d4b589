//! Samples of alerts, incidents and pings.

use punctual_core::alert::{
    ActOnIncident, Alert, Condition, Deadline, Incident, IncidentAct, NoteChannel, Silence, Subject,
};
use punctual_core::command::{Ping, Signal};
use punctual_core::ids::IncidentId;
use punctual_core::workflow::ByHand;

use super::*;

pub(super) fn an_alert() -> Alert {
    let deadline = Deadline::parse("06:00", "Asia/Shanghai").unwrap();
    Alert { on: Condition::Deadline(Box::new(deadline)), to: vec![name()], repeat: Duration::from_secs(60) }
}

pub(super) fn an_incident() -> Incident {
    Incident {
        id: IncidentId(i64::MAX),
        namespace: namespace(),
        subject: Subject::Job { id: JobId(7), name: name(), step: Some("a/b".into()), on: an_alert().on },
        opened_at: NOW,
        ended_at: Some(NOW),
        last_at: NOW,
        count: u64::MAX,
        run: Some(RUN),
        error: "it \"broke\"".into(),
        fingerprints: vec![u64::MAX],
        to: vec![name()],
        repeat: Duration::from_secs(60),
        notified_at: NOW,
        notified: 3,
        acknowledged: None,
        silence: Some(Box::new(Silence {
            until: NOW,
            by: ByHand { by: Some("ops".into()), at: NOW, comment: "known".into() },
        })),
    }
}

pub(super) fn incident_commands() -> Vec<Command> {
    vec![
        Command::ActOnIncident(ActOnIncident {
            namespace: namespace(),
            incident: IncidentId(i64::MAX),
            act: IncidentAct::Silence(Some(NOW)),
            by: Some("ops".into()),
            comment: "known".into(),
        }),
        Command::Ping(Ping {
            namespace: namespace(),
            name: name(),
            signal: Signal::Failed,
            run: Some(RUN),
            exit_code: Some(-1),
            text: "disk full".into(),
        }),
        Command::NoteChannel(NoteChannel {
            namespace: namespace(),
            channel: name(),
            error: Some("status 500".into()),
        }),
    ]
}
