//! Alerts: when incidents open and end, and which notices are written with them.

use std::sync::Arc;
use std::time::Duration;

use punctual_core::alert::{
    ActOnIncident, Alert, Condition, Deadline, Incident, IncidentAct, NoteChannel, Notification, Occasion,
    REPEAT,
};
use punctual_core::attempt::{Outcome, Report};
use punctual_core::change::Row;
use punctual_core::command::{Command, Refusal};
use punctual_core::cross_shard::CrossShardRequest;
use punctual_core::ids::{IncidentId, RunId};
use punctual_core::job::{Definition, Overlap};
use punctual_core::limits::INCIDENTS_KEPT;
use punctual_core::name::Namespace;
use punctual_core::queue::{Ask, Content, EndNotice};
use punctual_core::run::Trigger;
use punctual_engine::Effect;

use crate::support::{Rig, at, delete, discard, every, manual, name, on, pause, span, start};

fn alerting(conditions: impl IntoIterator<Item = Condition>) -> Definition {
    with_alerts(manual(), conditions)
}

fn with_alerts(definition: Definition, conditions: impl IntoIterator<Item = Condition>) -> Definition {
    let alert = |on| Alert { on, to: vec![name("ops")], repeat: REPEAT };
    Definition { alerts: conditions.into_iter().map(alert).collect(), ..definition }
}

/// A rig with a job that is started by hand.
fn rig(conditions: impl IntoIterator<Item = Condition>) -> Rig {
    let mut rig = Rig::new(9);
    rig.put("job", Definition { overlap: Overlap::Allow, ..alerting(conditions) });
    rig
}

fn fails(rig: &mut Rig, error: &str) -> RunId {
    let run = rig.start("job");
    break_with(rig, run, error);
    run
}

fn break_with(rig: &mut Rig, run: RunId, error: &str) {
    let token = rig.run(run).token;
    rig.report_outcome(run, token, Outcome::failed(rig.now, error));
}

fn succeeds(rig: &mut Rig) {
    let run = rig.start("job");
    rig.succeed(run);
}

fn incidents(rig: &Rig) -> Vec<Arc<Incident>> {
    let rows = rig.rows.all().filter_map(|row| match row {
        Row::Incident(incident) => Some(Arc::clone(incident)),
        _ => None,
    });
    rows.collect()
}

fn only(rig: &Rig) -> Arc<Incident> {
    let all = incidents(rig);
    assert_eq!(all.len(), 1, "{all:?}");
    Arc::clone(&all[0])
}

/// The notices sent so far, each once.
fn sent(rig: &Rig) -> Vec<Notification> {
    let notices = rig.effects.iter().filter_map(|effect| match effect {
        Effect::CrossShard(CrossShardRequest::Tell(EndNotice { content: Content::Notify(sent), .. })) => {
            Some((**sent).clone())
        }
        _ => None,
    });
    notices.collect()
}

fn occasions(rig: &Rig) -> Vec<Occasion> {
    sent(rig).iter().map(|notification| notification.occasion).collect()
}

fn act(rig: &mut Rig, incident: IncidentId, act: IncidentAct) -> Result<(), Refusal> {
    let (namespace, by) = (Namespace::default(), Some("ops".into()));
    let ask = ActOnIncident { namespace, incident, act, by, comment: "known".into() };
    rig.ask(Command::ActOnIncident(ask)).map(|_| ())
}

#[test]
fn many_failures_with_one_error_are_notified_once() {
    let mut rig = rig([Condition::Failed { after: 2 }]);
    fails(&mut rig, "order 1 was refused");
    assert!(incidents(&rig).is_empty(), "one failure is not two");
    let last = (0..20).map(|order| fails(&mut rig, &format!("order {order} was refused"))).last();
    assert_eq!(occasions(&rig), [Occasion::Opened]);
    let incident = only(&rig);
    assert_eq!((incident.count, incident.run, &*incident.error), (20, last, "order 19 was refused"));
    succeeds(&mut rig);
    assert_eq!(occasions(&rig), [Occasion::Opened, Occasion::Ended]);
    assert!(!only(&rig).is_open());
    fails(&mut rig, "order 7 was refused");
    assert_eq!(incidents(&rig).len(), 1, "the success began a new row of failures");
}

#[test]
fn another_error_is_notified_once() {
    let mut rig = rig([Condition::Failed { after: 1 }]);
    for error in ["disk 1 full", "disk 2 full", "no route to host 7", "disk 3 full", "no route to host 8"] {
        fails(&mut rig, error);
    }
    assert_eq!(occasions(&rig), [Occasion::Opened, Occasion::Changed]);
    assert_eq!(only(&rig).notified, 2);
}

#[test]
fn an_open_incident_survives_a_load() {
    let mut rig = rig([Condition::Failed { after: 1 }]);
    fails(&mut rig, "disk full");
    rig.reload();
    fails(&mut rig, "disk full");
    assert_eq!(only(&rig).count, 2);
    assert_eq!(rig.pool.incidents(&Namespace::default()), 1);
    rig.reload();
    succeeds(&mut rig);
    assert!(!only(&rig).is_open());
    assert_eq!(rig.pool.incidents(&Namespace::default()), 0);
}

#[test]
fn a_notice_is_sent_until_it_is_confirmed() {
    let mut rig = rig([Condition::Failed { after: 1 }]);
    fails(&mut rig, "disk full");
    let number = |rig: &Rig| {
        rig.effects.iter().rev().find_map(|effect| match effect {
            Effect::CrossShard(CrossShardRequest::Tell(notice)) => Some(notice.number),
            _ => None,
        })
    };
    let first = number(&rig).expect("a notice");
    rig.reload();
    rig.advance("1s");
    assert_eq!((sent(&rig).len(), number(&rig)), (2, Some(first)), "the same notice again");
    rig.ask(Command::Queue(Ask::Told { notice: first })).expect("confirmed");
    rig.reload();
    assert_eq!(sent(&rig).len(), 2);
}

#[test]
fn an_incident_is_repeated_until_it_is_acknowledged() {
    let mut rig = rig([Condition::Failed { after: 1 }]);
    fails(&mut rig, "disk full");
    rig.advance("25h");
    rig.reload();
    rig.advance("24h");
    assert_eq!(occasions(&rig)[..3], [Occasion::Opened, Occasion::Repeated, Occasion::Opened]);
    let repeated = |rig: &Rig| only(rig).notified;
    assert_eq!(repeated(&rig), 3);
    let id = only(&rig).id;
    act(&mut rig, id, IncidentAct::Acknowledge).expect("acknowledged");
    rig.advance("72h");
    assert_eq!(repeated(&rig), 3);
    fails(&mut rig, "no route to host");
    assert_eq!(repeated(&rig), 4, "another error is news");
    succeeds(&mut rig);
    assert_eq!(
        (repeated(&rig), act(&mut rig, id, IncidentAct::Acknowledge)),
        (5, Err(Refusal::IncidentOver(id)))
    );
}

#[test]
fn nothing_is_sent_while_an_incident_is_silenced() {
    let mut rig = rig([Condition::Failed { after: 1 }]);
    fails(&mut rig, "disk full");
    let id = only(&rig).id;
    act(&mut rig, id, IncidentAct::Silence(Some(at("48h")))).expect("silenced");
    fails(&mut rig, "no route to host");
    rig.advance("47h");
    rig.reload();
    assert_eq!(only(&rig).notified, 1);
    rig.advance("2h");
    assert_eq!(only(&rig).notified, 2, "it goes on when the silence ends");
    assert!(only(&rig).silence.is_none());
    let refused = act(&mut rig, id, IncidentAct::Silence(Some(at("1h"))));
    assert!(matches!(refused, Err(Refusal::Invalid(invalid)) if invalid.field == "until"));
    assert_eq!(
        act(&mut rig, IncidentId(7), IncidentAct::Acknowledge),
        Err(Refusal::NoSuchIncident(IncidentId(7)))
    );
}

#[test]
fn a_new_error_during_a_silence_is_notified_at_its_end() {
    let mut rig = rig([Condition::Failed { after: 1 }]);
    fails(&mut rig, "disk full");
    let id = only(&rig).id;
    act(&mut rig, id, IncidentAct::Acknowledge).expect("acknowledged");
    act(&mut rig, id, IncidentAct::Silence(Some(at("48h")))).expect("silenced");
    fails(&mut rig, "no route to host");
    assert_eq!(only(&rig).notified, 1);
    rig.advance("49h");
    assert_eq!(only(&rig).notified, 2);
    fails(&mut rig, "no route to host");
    assert_eq!(only(&rig).notified, 2, "it is known now");
}

#[test]
fn an_incident_that_is_over_is_listed_for_a_week() {
    let mut rig = rig([Condition::Failed { after: 1 }]);
    fails(&mut rig, "disk full");
    succeeds(&mut rig);
    rig.advance_by(INCIDENTS_KEPT - Duration::from_secs(60));
    assert!(!only(&rig).is_open());
    rig.advance("2m");
    assert!(incidents(&rig).is_empty());
}

#[test]
fn failures_within_a_span_open_an_incident() {
    let mut rig = rig([Condition::FailedOften { of: 3, within: span("1h") }]);
    for _ in 0..2 {
        fails(&mut rig, "timeout");
        succeeds(&mut rig);
        rig.advance("25m");
    }
    rig.reload();
    assert!(incidents(&rig).is_empty());
    fails(&mut rig, "timeout");
    assert!(only(&rig).is_open());
    succeeds(&mut rig);
    assert!(only(&rig).is_open(), "three runs have failed within the hour");
    rig.advance("30m");
    succeeds(&mut rig);
    assert!(!only(&rig).is_open());
}

#[test]
fn a_run_that_does_not_start_is_late() {
    let mut rig = Rig::new(0);
    rig.put("job", with_alerts(on([every("1h")]), [Condition::Late { by: span("1m") }]));
    rig.advance("3630s");
    assert!(incidents(&rig).is_empty());
    rig.reload();
    rig.advance("30s");
    assert_eq!(only(&rig).run, rig.runs("job").first().map(|run| run.id));
    rig.join(1);
    rig.settle();
    rig.succeed_all();
    assert!(only(&rig).is_open(), "it has started late");
    rig.advance("1h");
    assert!(!only(&rig).is_open(), "the next run has started in time");
    assert_eq!(only(&rig).count, 2, "it was late when it waited, and when it started");
}

#[test]
fn a_late_run_that_is_cancelled_ends_the_incident() {
    let mut rig = Rig::new(0);
    rig.put("job", alerting([Condition::Late { by: span("1m") }]));
    let run = rig.start("job");
    rig.advance("2m");
    assert!(only(&rig).is_open());
    rig.ask(crate::support::cancel(run)).expect("cancelled");
    assert!(!only(&rig).is_open());
}

#[test]
fn a_run_that_takes_long_opens_an_incident_until_it_ends() {
    let mut rig = rig([Condition::Long { by: span("30m") }]);
    let (short, long) = (rig.start("job"), rig.start("job"));
    rig.advance("20m");
    rig.succeed(short);
    rig.reload();
    rig.advance("9m");
    assert!(incidents(&rig).is_empty());
    rig.advance("1m");
    assert_eq!(only(&rig).run, Some(long));
    rig.succeed(long);
    assert!(!only(&rig).is_open());
}

#[test]
fn a_run_that_was_reported_to_start_later_is_long_later() {
    let mut rig = rig([Condition::Long { by: span("30m") }]);
    let run = rig.start("job");
    rig.advance("1s");
    let (token, at) = (rig.run(run).token, rig.now);
    rig.tell(Report::Started { run, token, at });
    rig.advance("29m59s");
    assert!(incidents(&rig).is_empty());
    rig.advance("1s");
    assert_eq!(only(&rig).run, Some(run));
}

#[test]
fn a_dead_letter_is_over_when_it_is_decided() {
    let mut rig = rig([Condition::DeadLetter]);
    let (first, second) = (fails(&mut rig, "disk full"), fails(&mut rig, "disk full"));
    assert_eq!(occasions(&rig), [Occasion::Opened]);
    rig.ask(discard(first)).expect("discarded");
    assert!(only(&rig).is_open());
    rig.ask(discard(second)).expect("discarded");
    assert_eq!(occasions(&rig), [Occasion::Opened, Occasion::Ended]);
}

#[test]
fn a_missing_success_is_found_though_its_job_is_far_away() {
    let within = span("26h");
    let mut rig = rig([Condition::Missing { within }]);
    rig.advance("25h");
    rig.reload();
    assert!(incidents(&rig).is_empty());
    rig.advance("1h");
    assert_eq!((occasions(&rig), only(&rig).run), (vec![Occasion::Opened], None));
    rig.advance("27h");
    assert_eq!(only(&rig).count, 2, "one incident");
    succeeds(&mut rig);
    assert!(!only(&rig).is_open());
}

#[test]
fn a_deadline_without_a_success_opens_an_incident() {
    let deadline = || Condition::Deadline(Box::new(Deadline::parse("06:00", "UTC").unwrap()));
    let mut rig = Rig::new(2);
    rig.put("job", with_alerts(on([every("24h")]), [deadline()]));
    rig.advance("24h");
    rig.advance("5h");
    assert!(incidents(&rig).is_empty(), "the first run of the day is still running");
    rig.advance("1h");
    assert!(only(&rig).is_open());
    assert_eq!(rig.runs("job")[0].trigger, Trigger::Schedule);
    rig.succeed_all();
    assert!(!only(&rig).is_open());
}

#[test]
fn a_pause_stops_the_checks_of_a_job() {
    let mut rig = rig([Condition::Missing { within: span("1h") }]);
    rig.ask(pause("job")).expect("paused");
    rig.advance("48h");
    assert!(incidents(&rig).is_empty());
}

#[test]
fn a_condition_that_is_removed_ends_its_incident() {
    let mut rig = rig([Condition::Failed { after: 1 }, Condition::DeadLetter]);
    fails(&mut rig, "disk full");
    assert_eq!(incidents(&rig).len(), 2);
    rig.put("job", alerting([Condition::DeadLetter]));
    let open = |rig: &Rig| incidents(rig).iter().filter(|incident| incident.is_open()).count();
    assert_eq!(open(&rig), 1);
    rig.ask(delete("job")).expect("deleted");
    assert_eq!(open(&rig), 0);
    assert_eq!(occasions(&rig).iter().filter(|one| **one == Occasion::Ended).count(), 2);
}

#[test]
fn an_edit_of_an_alert_reaches_its_open_incident() {
    let mut rig = rig([Condition::Failed { after: 1 }]);
    fails(&mut rig, "disk full");
    let edited = Alert { on: Condition::Failed { after: 1 }, to: vec![name("team")], repeat: span("2h") };
    rig.put("job", Definition { alerts: vec![edited], overlap: Overlap::Allow, ..manual() });
    assert_eq!((only(&rig).to.clone(), only(&rig).repeat), (vec![name("team")], span("2h")));
    assert_eq!(occasions(&rig), [Occasion::Opened], "an edit is no news");
    rig.advance("2h");
    let last = sent(&rig).pop().expect("sent");
    assert_eq!((last.occasion, last.channel), (Occasion::Repeated, name("team")));
}

#[test]
fn an_alert_without_channels_goes_to_the_default_ones() {
    let mut rig = Rig::new(2);
    rig.pool.set_channels(vec![name("mail"), name("chat")]);
    let mut definition = alerting([Condition::Failed { after: 1 }]);
    definition.alerts[0].to.clear();
    rig.put("job", definition);
    fails(&mut rig, "disk full");
    let channels: Vec<_> = sent(&rig).iter().map(|sent| sent.channel.to_string()).collect();
    assert_eq!(channels, ["mail", "chat"]);
    assert_eq!(only(&rig).notified, 1, "one notification through two channels");
}

#[test]
fn a_failing_channel_is_an_incident_that_others_hear_of() {
    let mut rig = Rig::new(2);
    rig.pool.set_channels(vec![name("mail"), name("chat")]);
    let (namespace, channel) = (Namespace::default(), name("chat"));
    let note = |error: Option<&str>| {
        let (namespace, channel) = (namespace.clone(), channel.clone());
        Command::NoteChannel(NoteChannel { namespace, channel, error: error.map(Into::into) })
    };
    for error in ["status 500", "status 502"] {
        rig.ask(note(Some(error))).expect("noted");
    }
    assert_eq!(sent(&rig).iter().map(|sent| sent.channel.to_string()).collect::<Vec<_>>(), ["mail"]);
    rig.ask(note(None)).expect("noted");
    assert_eq!(occasions(&rig), [Occasion::Opened, Occasion::Ended]);
}

#[test]
fn a_part_of_another_run_causes_no_incident() {
    use punctual_core::job::{Route, Strategy};
    let mut rig = Rig::new(4);
    let route = Route { strategy: Strategy::RoundRobin, shards: Some(2), ..Route::default() };
    let definition = alerting([Condition::Failed { after: 1 }]);
    rig.put("job", Definition { route, ..definition });
    rig.ask(Command::RunJob(start("job"))).expect("started");
    for run in rig.running() {
        break_with(&mut rig, run, "disk full");
    }
    assert_eq!(only(&rig).count, 1, "only the split run counts");
}
