//! Pings: runs of programs outside Punctual.

use std::sync::Arc;

use punctual_core::alert::{Condition, Incident, Subject};
use punctual_core::change::Row;
use punctual_core::command::{Answer, Command, Ping, Refusal, Signal};
use punctual_core::hold::{Fires, Hold, Scope};
use punctual_core::ids::{RunId, ShardId};
use punctual_core::job::{Definition, Overlap, Pause};
use punctual_core::name::Namespace;
use punctual_core::run::{Cause, Reason, Run, Status, Trigger};
use punctual_core::task::{self, Task};

use crate::support::{Rig, cancel, delete, manual, name, pause, resume, retry, span, start};

/// A ping with a period of an hour and no grace.
fn ping() -> Definition {
    let ping = task::Ping { period: span("1h"), grace: Some(span("0s")), key: 1 };
    Definition { alerts: ping.alerts().to_vec(), ..Definition::of(Task::Ping(ping)) }
}

fn report(signal: Signal, run: Option<RunId>) -> Ping {
    let (namespace, name) = (Namespace::default(), name("job"));
    Ping { namespace, name, signal, run, exit_code: None, text: Box::default() }
}

fn rig() -> Rig {
    let mut rig = Rig::new(1);
    rig.put("job", ping());
    rig
}

impl Rig {
    #[track_caller]
    fn ping(&mut self, ping: Ping) -> Arc<Run> {
        match self.ask(Command::Ping(ping)) {
            Ok(Answer::Run(run)) => run,
            other => panic!("{other:?}"),
        }
    }

    fn open_incidents(&self) -> Vec<Arc<Incident>> {
        let rows = self.rows.all().filter_map(|row| match row {
            Row::Incident(incident) if incident.is_open() => Some(Arc::clone(incident)),
            _ => None,
        });
        rows.collect()
    }
}

#[test]
fn a_start_and_a_success_are_one_run() {
    let mut rig = rig();
    let begun = rig.ping(report(Signal::Started, None));
    assert_eq!((begun.status(), begun.trigger), (Status::Running, Trigger::Ping));
    assert_eq!(begun.started_at, Some(rig.now));
    assert_eq!(begun.assignee.as_ref().map(ToString::to_string).as_deref(), Some("ping job"));
    assert!(rig.orders().is_empty(), "no worker gets it");
    rig.advance("10m");
    rig.reload();
    let ended = rig.ping(Ping { text: "copied 7 files".into(), ..report(Signal::Succeeded, None) });
    assert_eq!((ended.id, ended.status()), (begun.id, Status::Succeeded));
    assert_eq!((ended.started_at, ended.finished_at), (begun.started_at, Some(rig.now)));
    assert_eq!(&*ended.output, "copied 7 files");
    assert_eq!(rig.runs("job").len(), 1);
}

#[test]
fn an_end_without_a_start_is_a_run_that_has_ended() {
    let mut rig = rig();
    let failure = Ping { exit_code: Some(3), text: "disk full".into(), ..report(Signal::Failed, None) };
    let ended = rig.ping(failure);
    assert_eq!((ended.status(), ended.exit_code, &*ended.error), (Status::Failed, Some(3), "disk full"));
    assert_eq!((ended.started_at, ended.finished_at), (Some(rig.now), Some(rig.now)));
    assert!(!rig.is_dead_letter(ended.id), "it cannot be replayed here");
    rig.ping(report(Signal::Succeeded, None));
    assert_eq!(rig.statuses("job"), [Status::Failed, Status::Succeeded]);
}

#[test]
fn a_repeated_end_of_a_named_run_changes_nothing() {
    let mut rig = rig();
    let run = Some(rig.ping(report(Signal::Started, None)).id);
    rig.ping(report(Signal::Succeeded, run));
    rig.reload();
    assert_eq!(rig.ping(report(Signal::Failed, run)).status(), Status::Succeeded);
    assert_eq!(rig.runs("job").len(), 1);
    rig.put("other", manual());
    let other = rig.start("other");
    let refused = rig.ask(Command::Ping(report(Signal::Succeeded, Some(other))));
    assert_eq!(refused, Err(Refusal::NoSuchRun(other)), "it belongs to another job");
    assert_eq!(rig.status(other), Status::Running);
}

#[test]
fn a_second_start_replaces_a_run_without_an_end() {
    let mut rig = rig();
    let first = rig.ping(report(Signal::Started, None)).id;
    let second = rig.ping(report(Signal::Started, None)).id;
    let replaced = rig.run(first);
    assert_eq!(replaced.status(), Status::Cancelled);
    assert_eq!(replaced.reason, Some(Reason::Cancelled(Cause::Replaced)));
    assert_eq!(rig.status(second), Status::Running);
    assert!(rig.open_incidents().is_empty());
}

#[test]
fn runs_overlap_if_the_job_allows_it() {
    let mut rig = rig();
    rig.put("job", Definition { overlap: Overlap::Allow, ..ping() });
    let [first, second] = [(); 2].map(|()| rig.ping(report(Signal::Started, None)).id);
    assert_eq!(rig.ping(report(Signal::Succeeded, None)).id, second, "the newest one");
    assert_eq!(rig.ping(report(Signal::Succeeded, Some(first))).id, first);
}

#[test]
fn a_run_without_an_end_ends_at_its_timeout() {
    let mut rig = rig();
    rig.put("job", Definition { timeout: Some(span("10m")), ..ping() });
    let run = rig.ping(report(Signal::Started, None)).id;
    rig.reload();
    rig.advance("10m");
    assert_eq!(rig.status(run), Status::TimedOut);
    let cancelled = rig.ping(report(Signal::Started, None)).id;
    rig.ask(cancel(cancelled)).unwrap();
    assert_eq!(rig.status(cancelled), Status::Cancelled);
    let deleted = rig.ping(report(Signal::Started, None)).id;
    rig.ask(delete("job")).unwrap();
    assert_eq!(rig.status(deleted), Status::Cancelled);
    let refused = rig.ask(Command::Ping(report(Signal::Succeeded, None)));
    assert!(matches!(refused, Err(Refusal::NoSuchJob { .. })), "{refused:?}");
}

#[test]
fn a_ping_is_recorded_under_a_hold() {
    let mut rig = rig();
    let pause = Pause { reason: Box::default(), by: None, since: rig.now, until: None };
    let hold = Hold { scope: Scope::Everything, pause, fires: Fires::Skip };
    rig.ask(Command::Hold { shard: ShardId(0), hold: Box::new(hold) }).unwrap();
    let run = rig.ping(report(Signal::Started, None)).id;
    assert_eq!(rig.status(run), Status::Running);
    rig.reload();
    assert_eq!(rig.ping(report(Signal::Succeeded, None)).id, run);
    assert_eq!(rig.status(run), Status::Succeeded);
}

#[test]
fn a_missing_success_opens_an_incident_and_the_next_one_ends_it() {
    let mut rig = rig();
    rig.advance("59m");
    rig.ping(report(Signal::Succeeded, None));
    rig.advance("59m");
    assert!(rig.open_incidents().is_empty());
    rig.advance("1m");
    assert_eq!(rig.open_incidents().len(), 1);
    rig.ping(report(Signal::Failed, None));
    let conditions: Vec<String> = rig
        .open_incidents()
        .iter()
        .filter_map(|incident| match &incident.subject {
            Subject::Job { on, .. } => Some(on.word().to_owned()),
            Subject::Channel(_) => None,
        })
        .collect();
    assert_eq!(conditions, ["missing", "failed"]);
    rig.ping(report(Signal::Succeeded, None));
    assert!(rig.open_incidents().is_empty());
}

#[test]
fn a_paused_ping_is_recorded_and_notifies_nobody() {
    let mut rig = rig();
    rig.ask(pause("job")).unwrap();
    rig.ping(report(Signal::Failed, None));
    rig.advance("5h");
    assert_eq!((rig.statuses("job"), rig.open_incidents().len()), (vec![Status::Failed], 0));
    rig.ask(resume("job")).unwrap();
    rig.advance("59m");
    assert!(rig.open_incidents().is_empty(), "the period begins again");
    rig.advance("1m");
    assert_eq!(rig.open_incidents().len(), 1);
}

#[test]
fn a_run_that_takes_too_long_opens_an_incident() {
    let mut rig = rig();
    let mut definition = ping();
    definition.alerts[0].on = Condition::Long { by: span("5m") };
    rig.put("job", definition);
    rig.ping(report(Signal::Started, None));
    rig.advance("5m");
    assert_eq!(rig.open_incidents().len(), 1);
    rig.ping(report(Signal::Succeeded, None));
    assert!(rig.open_incidents().is_empty());
}

#[test]
fn nothing_here_starts_a_ping() {
    let mut rig = rig();
    let is_invalid = |answer| matches!(answer, Err(Refusal::Invalid(_)));
    assert!(is_invalid(rig.ask(Command::RunJob(start("job")))));
    let run = rig.ping(report(Signal::Failed, None)).id;
    let refused = rig.ask(Command::RetryRun(retry(run)));
    assert!(matches!(refused, Err(Refusal::WrongState { .. })), "{refused:?}");
    let begun = rig.ping(report(Signal::Started, None)).id;
    rig.put("job", manual());
    assert_eq!(rig.status(begun), Status::Cancelled, "no end can be reported any more");
    assert!(is_invalid(rig.ask(Command::Ping(report(Signal::Succeeded, None)))), "it is a ping no more");
}
