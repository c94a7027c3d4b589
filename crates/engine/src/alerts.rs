//! Alerts: incidents open when a condition of a job begins to hold, and end when it holds no more.
//!
//! The end of a run is a cause, and so are its first start, a deadline, and the time without a success. The incident and
//! a notice for each of its channels are written in the commit of their cause. So a notification is neither lost nor
//! made again, whatever fails. A run of a step counts for the alerts of its step. Parts of a split run and everything in a
//! backfill cause nothing.
//!
//! settle, state, deadline ──cause──▶ alerts ──notice──▶ end_notices

pub(crate) mod incidents;

use std::sync::Arc;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::alert::{
    ActOnIncident, Alert, Condition, Incident, IncidentAct, NoteChannel, Notification, Occasion, REPEAT,
    Silence, Subject,
};
use punctual_core::command::{Answer, Refusal};
use punctual_core::cut;
use punctual_core::ids::{IncidentId, JobId, RunId};
use punctual_core::job::{Definition, Invalid, check_reason};
use punctual_core::limits::{EARLIER_ERROR_BYTES_MAX, INCIDENTS_MAX, PAUSE_MAX};
use punctual_core::name::{Name, Namespace};
use punctual_core::planted::{Fault, is_planted};
use punctual_core::queue::Content;
use punctual_core::run::{Run, State, Status, Wait};
use punctual_core::workflow::ByHand;

use crate::Shard;
use crate::deadline::Deadline;
use crate::event::Context;
use crate::intake::Reply;

/// A job with alerts, or a step of its workflow with alerts.
struct Watched {
    job: JobId,
    /// The path of the step. `None` means the job.
    step: Option<Arc<str>>,
    /// The definition with the alerts.
    definition: Arc<Definition>,
}

impl Watched {
    fn alerts(&self) -> &[Alert] {
        &self.definition.alerts
    }

    fn is_about(&self, on: &Condition, incident: &Incident) -> bool {
        matches!(&incident.subject, Subject::Job { step, on: of, .. } if *step == self.step && of == on)
    }
}

/// A condition that is met.
struct Met<'a> {
    namespace: &'a Namespace,
    subject: Subject,
    to: &'a [Name],
    repeat: Duration,
    run: Option<RunId>,
    error: &'a str,
}

impl Shard {
    pub(crate) fn load_incidents(&mut self, incidents: Vec<Arc<Incident>>, cx: &mut Context<'_>) {
        if is_planted(Fault::IncidentsAreForgotten) {
            return;
        }
        for incident in incidents {
            if incident.is_open() {
                cx.pool.incident_opened(&incident.namespace, self.id);
            }
            self.incidents.add(incident);
        }
    }

    /// What the run counts for. `None` means that no alert is about it. `own` is the definition of the run.
    fn watched(&self, run: &Run, own: &Arc<Definition>) -> Option<Watched> {
        let job = &self.jobs.get(&run.job()?)?.job;
        let (step, definition) = match &run.step {
            None if run.parent().is_none() && !run.is_backfill() => (None, &job.definition),
            Some(of) if run.part_of.is_none() => (Some(Arc::clone(&of.path)), own),
            _ => return None,
        };
        let counts = !definition.alerts.is_empty() && !self.is_in_backfill(run);
        counts.then(|| Watched { job: job.id, step, definition: Arc::clone(definition) })
    }

    fn is_in_backfill(&self, run: &Run) -> bool {
        let mut parent = run.parent();
        while let Some(live) = parent.and_then(|parent| self.runs.get(&parent)) {
            if live.run.is_backfilled() {
                return true;
            }
            parent = live.run.parent();
        }
        false
    }

    /// Looks at a run that has entered a state. `is_new` says that it was not loaded in this state.
    pub(crate) fn watch_state(&mut self, id: RunId, is_new: bool, cx: &mut Context<'_>) {
        let Some(live) = self.runs.get(&id) else { return };
        let Some(watched) = self.watched(&live.run, &live.definition) else { return };
        let run = Arc::clone(&live.run);
        let (first, late_from) = (run.first_start(), run.late_from());
        match (&run.state, first) {
            (State::Waiting { wait: Wait::Overlap | Wait::Limit(_) } | State::Ready { .. }, None) => {
                for by in spans(&watched, |on| if let Condition::Late { by } = on { Some(*by) } else { None })
                {
                    self.deadlines.insert(cx.elapsed_at(late_from + by), Deadline::Late(id, by));
                }
            }
            (State::Running { .. } | State::Split { .. }, Some(since)) => {
                for by in spans(&watched, |on| if let Condition::Long { by } = on { Some(*by) } else { None })
                {
                    self.deadlines.insert(cx.elapsed_at(since + by), Deadline::Long(id, by));
                }
                if is_new && run.attempt <= 1 {
                    self.run_started(&watched, &run, cx);
                }
            }
            _ => {}
        }
    }

    /// A run has started for the first time: late, or in time.
    fn run_started(&mut self, watched: &Watched, run: &Run, cx: &mut Context<'_>) {
        for alert in watched.alerts() {
            let Condition::Late { by } = alert.on else { continue };
            if run.late_from() + by <= cx.now {
                self.met(watched, alert, Some((run, "")), cx);
            } else if self.is_no_more(watched, &alert.on, |run| is_late(run, by, cx.now)) {
                self.is_over(watched, &alert.on, cx);
            }
        }
    }

    /// A run should have started by now.
    pub(crate) fn late_is_due(&mut self, id: RunId, by: Duration, cx: &mut Context<'_>) {
        self.span_passed(id, &Condition::Late { by }, |run| run.first_start().is_none(), cx);
    }

    /// A run should have ended by now.
    pub(crate) fn long_is_due(&mut self, id: RunId, by: Duration, cx: &mut Context<'_>) {
        let now = cx.now;
        let since = self.runs.get(&id).and_then(|live| live.run.first_start());
        if let Some(at) = since.map(|since| since + by).filter(|at| *at > now) {
            // Its worker has reported a later start than the assignment.
            self.deadlines.insert(cx.elapsed_at(at), Deadline::Long(id, by));
        }
        self.span_passed(id, &Condition::Long { by }, |run| is_long(run, by, now), cx);
    }

    fn span_passed(&mut self, id: RunId, on: &Condition, holds: impl Fn(&Run) -> bool, cx: &mut Context<'_>) {
        let Some(live) = self.runs.get(&id).filter(|live| holds(&live.run)) else { return };
        let Some(watched) = self.watched(&live.run, &live.definition) else { return };
        let run = Arc::clone(&live.run);
        if let Some(alert) = watched.alerts().iter().find(|alert| alert.on == *on) {
            self.met(&watched, alert, Some((&run, "")), cx);
        }
    }

    /// Whether an incident is open whose condition holds for no run any more.
    fn is_no_more(&self, watched: &Watched, on: &Condition, holds: impl Fn(&Run) -> bool) -> bool {
        let mut open = self.incidents.open_of(Some(watched.job));
        // Most of the time none is open, and there may be many runs.
        open.any(|incident| watched.is_about(on, incident)) && !self.any_run(watched, holds)
    }

    fn any_run(&self, watched: &Watched, is_it: impl Fn(&Run) -> bool) -> bool {
        let Some(path) = &watched.step else {
            let Some(live) = self.jobs.get(&watched.job) else { return false };
            let mut runs = live.held.iter().map(|(_, run)| run).chain(&live.active);
            return runs.any(|run| self.runs.get(run).is_some_and(|live| is_it(&live.run)));
        };
        self.runs.values().any(|live| {
            let is_its = live.run.step.as_ref().is_some_and(|step| step.path == *path);
            is_its && live.run.part_of.is_none() && live.run.job() == Some(watched.job) && is_it(&live.run)
        })
    }

    /// A run has ended: it meets conditions of its job or its step, or ends what earlier runs have met. `own` is the
    /// definition of the run.
    pub(crate) fn alert_end(
        &mut self,
        ended: &Run,
        own: &Arc<Definition>,
        is_dead: bool,
        cx: &mut Context<'_>,
    ) {
        let Some(watched) = self.watched(ended, own) else { return };
        let (job, is_step) = (watched.job, watched.step.is_some());
        if !is_step && self.jobs.get(&job).is_some_and(|live| live.job.watch.is_some()) {
            self.edit_job(job, |job| job.watch_end(ended, cx.now));
        }
        let has_failed = matches!(ended.status(), Status::Failed | Status::TimedOut);
        let has_succeeded = ended.status() == Status::Succeeded && !is_planted(Fault::SuccessEndsNothing);
        let error = if ended.error.is_empty() { ended.status().as_str() } else { &ended.error };
        for alert in watched.alerts() {
            let Some(row) = self.jobs.get(&job).map(|live| &live.job) else { return };
            let (is_met, is_over) = match alert.on {
                // A step does not count its failures.
                Condition::Failed { after } => {
                    (has_failed && (is_step || row.failures >= after), has_succeeded)
                }
                Condition::FailedOften { of, within } => {
                    let often = row.has_failed_often(of, cx.now.before(within));
                    (has_failed && often, has_succeeded && !often)
                }
                Condition::DeadLetter => (is_dead, false),
                Condition::Missing { .. } | Condition::Deadline(_) => (false, has_succeeded),
                Condition::Long { by } => {
                    (false, self.is_no_more(&watched, &alert.on, |run| is_long(run, by, cx.now)))
                }
                Condition::Late { by } => {
                    let never_started = ended.first_start().is_none();
                    let is_late = |run: &Run| is_late(run, by, cx.now);
                    (false, never_started && self.is_no_more(&watched, &alert.on, is_late))
                }
            };
            if is_met {
                self.met(&watched, alert, Some((ended, error)), cx);
            } else if is_over {
                self.is_over(&watched, &alert.on, cx);
            }
        }
    }

    /// A dead letter was replayed or discarded. The newest one ends the incident.
    pub(crate) fn letter_decided(&mut self, run: &Run, cx: &mut Context<'_>) {
        let Some(job) = run.job() else { return };
        let is_its = |incident: &Incident| {
            let is_letter = matches!(&incident.subject, Subject::Job { on: Condition::DeadLetter, .. });
            is_letter && incident.run == Some(run.id)
        };
        self.end_where(job, is_its, cx);
    }

    /// Checks the deadlines of a job, and whether a success is missing.
    pub(crate) fn check_alerts(&mut self, id: JobId, cx: &mut Context<'_>) {
        let mut found = Vec::new();
        self.edit_job(id, |job| found = job.check_alerts(cx.now));
        let Some(definition) = self.jobs.get(&id).map(|live| Arc::clone(&live.job.definition)) else {
            return;
        };
        let watched = Watched { job: id, step: None, definition };
        for alert in found {
            self.met(&watched, &alert, None, cx);
        }
    }

    /// Ends the incidents of conditions that the job and its steps have no more. `None` means that the job was deleted.
    pub(crate) fn end_removed(&mut self, job: JobId, kept: Option<&Definition>, cx: &mut Context<'_>) {
        let is_kept = |incident: &Incident| {
            let Subject::Job { step, on, .. } = &incident.subject else { return true };
            kept.is_some_and(|definition| has_condition(definition, step.as_deref(), on))
        };
        self.end_where(job, |incident| !is_kept(incident), cx);
    }

    /// Gives the open incidents of a job the channels and the `repeat` of its edited alerts.
    pub(crate) fn follow_edited(&mut self, job: JobId, definition: &Definition) {
        let edited = self.incidents.open_of(Some(job)).filter_map(|incident| {
            let Subject::Job { step, on, .. } = &incident.subject else { return None };
            let alert = definition.alerts_of(step.as_deref()).iter().find(|alert| alert.on == *on)?;
            let Alert { to, repeat, .. } = alert.clone();
            let is_edited = (&incident.to, incident.repeat) != (&to, repeat);
            is_edited.then(|| Incident { to, repeat, ..(**incident).clone() })
        });
        for incident in edited.collect::<Vec<_>>() {
            self.incidents.write(incident);
        }
    }

    fn met(&mut self, watched: &Watched, alert: &Alert, cause: Option<(&Run, &str)>, cx: &mut Context<'_>) {
        let Some(job) = self.jobs.get(&watched.job).map(|live| Arc::clone(&live.job)) else { return };
        // The owner of a paused ping knows that its program does not run as usual.
        if job.is_paused() && job.definition.ping().is_some() {
            return;
        }
        // A workflow is executed to its end as it was when it started, also after an edit has removed the alert.
        if !has_condition(&job.definition, watched.step.as_deref(), &alert.on) {
            return;
        }
        let (id, name, step) = (job.id, job.name.clone(), watched.step.clone());
        let subject = Subject::Job { id, name, step, on: alert.on.clone() };
        let (namespace, to, repeat) = (&job.namespace, alert.to.as_slice(), alert.repeat);
        let (run, error) = (cause.map(|(run, _)| run.id), cause.map_or("", |(_, error)| error));
        self.open_or_go_on(Met { namespace, subject, to, repeat, run, error }, cx);
    }

    /// Opens an incident, unless one is open about the same. Then only a new error is notified.
    fn open_or_go_on(&mut self, met: Met<'_>, cx: &mut Context<'_>) {
        let open = self.incidents.find(met.namespace, &met.subject).map(|incident| (**incident).clone());
        let mut incident = match open {
            Some(incident) => incident,
            None if cx.pool.incidents(met.namespace) >= INCIDENTS_MAX => return,
            None => {
                cx.pool.incident_opened(met.namespace, self.id);
                Incident {
                    id: IncidentId(self.ids.next(cx.now)),
                    namespace: met.namespace.clone(),
                    subject: met.subject,
                    opened_at: cx.now,
                    ended_at: None,
                    last_at: cx.now,
                    count: 0,
                    run: None,
                    error: Box::default(),
                    fingerprints: Vec::new(),
                    to: Vec::new(),
                    repeat: met.repeat,
                    notified_at: cx.now,
                    notified: 0,
                    acknowledged: None,
                    silence: None,
                }
            }
        };
        let is_new = incident.count == 0;
        incident.count += 1;
        (incident.last_at, incident.run) = (cx.now, met.run);
        (incident.to, incident.repeat) = (met.to.to_vec(), met.repeat);
        incident.error = cut::keep_end(met.error, EARLIER_ERROR_BYTES_MAX).into();
        // A new error during a silence is noted at its end, when it is notified.
        let is_changed =
            !incident.is_silent(cx.now) && incident.note_error() || is_planted(Fault::FailureIsNotifiedAgain);
        if is_new {
            self.notify_people(&mut incident, Occasion::Opened, cx);
        } else if is_changed {
            self.notify_people(&mut incident, Occasion::Changed, cx);
        }
        self.incidents.write(incident);
    }

    /// Ends the incident of a condition that holds no more, if it is open.
    fn is_over(&mut self, watched: &Watched, on: &Condition, cx: &mut Context<'_>) {
        self.end_where(watched.job, |incident| watched.is_about(on, incident), cx);
    }

    fn end_where(&mut self, job: JobId, is_it: impl Fn(&Incident) -> bool, cx: &mut Context<'_>) {
        let open = self.incidents.open_of(Some(job)).filter(|incident| is_it(incident));
        for id in open.map(|incident| incident.id).collect::<Vec<_>>() {
            self.end_incident(id, cx);
        }
    }

    fn end_incident(&mut self, id: IncidentId, cx: &mut Context<'_>) {
        let Some(mut incident) = self.incidents.get(id).map(|incident| (**incident).clone()) else { return };
        incident.ended_at = Some(cx.now);
        cx.pool.incident_ended(&incident.namespace, self.id);
        if !is_planted(Fault::EndIsNotNotified) {
            self.notify_people(&mut incident, Occasion::Ended, cx);
        }
        self.incidents.write(incident);
    }

    /// Writes a notice for each channel of an incident, unless it is silenced.
    fn notify_people(&mut self, incident: &mut Incident, occasion: Occasion, cx: &Context<'_>) {
        if incident.is_silent(cx.now) {
            return;
        }
        incident.notified_at = cx.now;
        incident.notified += 1;
        let channels = if incident.to.is_empty() { cx.pool.channels() } else { &incident.to };
        let is_about = |channel: &Name| matches!(&incident.subject, Subject::Channel(of) if of == channel);
        for channel in channels.iter().filter(|channel| !is_about(channel)) {
            let (channel, incident) = (channel.clone(), incident.clone());
            let notification = Notification { channel, occasion, at: cx.now, incident };
            self.notify(Content::Notify(Box::new(notification)), cx);
        }
    }

    /// Looks at the next incident that must be repeated, whose silence ends, or that is forgotten. Returns whether there
    /// was one.
    pub(crate) fn incident_is_due(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(due) = self.incidents.pop(cx.now) else { return false };
        let incident = due.and_then(|id| self.incidents.get(id)).map(|incident| (**incident).clone());
        if let Some(mut incident) = incident {
            incident.silence = None;
            if incident.note_error() {
                self.notify_people(&mut incident, Occasion::Changed, cx);
            } else if incident.acknowledged.is_none() {
                self.notify_people(&mut incident, Occasion::Repeated, cx);
            }
            self.incidents.write(incident);
        }
        true
    }

    pub(crate) fn act_on_incident(&mut self, ask: ActOnIncident, cx: &mut Context<'_>) -> Reply {
        let ActOnIncident { namespace, incident: id, act, by, comment } = ask;
        check_reason(&comment).map_err(|invalid| Invalid { field: "comment".into(), ..invalid })?;
        let known = self.incidents.get(id).filter(|incident| incident.namespace == namespace);
        let mut incident = (**known.ok_or(Refusal::NoSuchIncident(id))?).clone();
        if !incident.is_open() {
            return Err(Refusal::IncidentOver(id));
        }
        let by = ByHand { by, at: cx.now, comment };
        match act {
            IncidentAct::Acknowledge => incident.acknowledged = Some(Box::new(by)),
            IncidentAct::Silence(None) => incident.silence = None,
            IncidentAct::Silence(Some(until)) if until <= cx.now => {
                return Err(Invalid::new("until", "is in the past").into());
            }
            IncidentAct::Silence(Some(until)) if until.since(cx.now) > PAUSE_MAX => {
                return Err(Invalid::new("until", "is more than a year from now").into());
            }
            IncidentAct::Silence(Some(until)) => {
                incident.silence = Some(Box::new(Silence { until, by }));
            }
        }
        self.incidents.write(incident.clone());
        Ok(Answer::Incident(Arc::new(incident)))
    }

    /// Notes that a channel fails, or works again. Other channels are told about it.
    pub(crate) fn note_channel(&mut self, note: &NoteChannel, cx: &mut Context<'_>) -> Reply {
        let NoteChannel { namespace, channel, error } = note;
        let subject = Subject::Channel(channel.clone());
        match error {
            Some(error) => {
                let (to, repeat) = (&[][..], REPEAT);
                self.open_or_go_on(Met { namespace, subject, to, repeat, run: None, error }, cx);
            }
            None => {
                let open = self.incidents.find(namespace, &subject).map(|incident| incident.id);
                if let Some(id) = open {
                    self.end_incident(id, cx);
                }
            }
        }
        Ok(Answer::Noted)
    }
}

fn has_condition(definition: &Definition, step: Option<&str>, on: &Condition) -> bool {
    definition.alerts_of(step).iter().any(|alert| alert.on == *on)
}

fn is_late(run: &Run, by: Duration, now: Timestamp) -> bool {
    run.first_start().is_none() && run.late_from() + by <= now
}

fn is_long(run: &Run, by: Duration, now: Timestamp) -> bool {
    run.first_start().is_some_and(|since| since + by <= now)
}

fn spans(watched: &Watched, of: impl Fn(&Condition) -> Option<Duration>) -> Vec<Duration> {
    watched.alerts().iter().filter_map(|alert| of(&alert.on)).collect()
}
