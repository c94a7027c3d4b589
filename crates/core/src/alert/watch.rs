//! What a job remembers for alerts that need more than its last run: when a run last succeeded and which runs failed, and
//! when to look next.
//!
//! It is part of the job's row, so that a job far in the future needs no memory: its row comes into memory when it is due
//! to be checked, like one that is due to fire.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Alert, Condition, Deadline};
use crate::Timestamp;
use crate::job::{Definition, Job};
use crate::run::{Run, Status};
use crate::schedule::When;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watch {
    /// When a run last succeeded. Before the first success, when the watch began.
    succeeded_at: Timestamp,
    /// The newest due time whose run has succeeded.
    succeeded_due: Timestamp,
    /// When the last runs failed, the newest last, as many as the alerts need.
    failed: Vec<Timestamp>,
    /// For each alert of the job: when it was last checked, or the watch began.
    checked: Vec<Timestamp>,
    /// When a deadline or a missing success is checked next. `None` means never, or that the job is paused.
    pub check_at: Option<Timestamp>,
}

impl Definition {
    fn needs_watch(&self) -> bool {
        self.alerts.iter().any(|alert| {
            matches!(
                alert.on,
                Condition::FailedOften { .. } | Condition::Deadline(_) | Condition::Missing { .. }
            )
        })
    }

    /// Whether failed runs in a row are counted.
    pub(crate) fn counts_failures(&self) -> bool {
        let is_failed = |alert: &Alert| matches!(alert.on, Condition::Failed { .. });
        self.pause_after.is_some() || self.alerts.iter().any(is_failed)
    }

    /// Whether its due times follow from a clock alone.
    fn has_clock(&self) -> bool {
        let is_clock = |when: &When| matches!(when, When::Cron(_) | When::Every(_) | When::At(_));
        self.schedules.iter().any(|schedule| is_clock(&schedule.when))
    }
}

impl Job {
    /// When a timer must bring the job into memory: for its next due time, or to check an alert.
    pub fn timer_at(&self) -> Option<Timestamp> {
        let check_at = self.watch.as_ref().and_then(|watch| watch.check_at);
        self.cursor.wake_at.into_iter().chain(check_at).min()
    }

    /// Begins to watch, or goes on after an edit, a pause or a resume: what was before `now` is not checked any more.
    pub(crate) fn watch_from(&mut self, now: Timestamp) {
        if !self.definition.needs_watch() {
            self.watch = None;
            return;
        }
        let mut watch = self.watch.take().unwrap_or_else(|| {
            Box::new(Watch {
                succeeded_at: now,
                succeeded_due: Timestamp::MIN,
                failed: Vec::new(),
                checked: Vec::new(),
                check_at: None,
            })
        });
        watch.checked = vec![now; self.definition.alerts.len()];
        self.watch = Some(watch);
        self.plan_check();
    }

    /// Remembers how a run has ended.
    pub fn watch_end(&mut self, ended: &Run, now: Timestamp) {
        let Some(watch) = &mut self.watch else { return };
        match ended.status() {
            Status::Succeeded => {
                watch.succeeded_at = now;
                watch.succeeded_due = watch.succeeded_due.max(ended.due);
            }
            Status::Failed | Status::TimedOut => {
                let most = self.definition.alerts.iter().map(|alert| match alert.on {
                    Condition::FailedOften { of, .. } => of as usize,
                    _ => 0,
                });
                watch.failed.push(now);
                let extra = watch.failed.len().saturating_sub(most.max().unwrap_or_default());
                watch.failed.drain(..extra);
            }
            _ => return,
        }
        self.plan_check();
    }

    /// Whether `of` runs have failed since `from`.
    pub fn has_failed_often(&self, of: u32, from: Timestamp) -> bool {
        let Some(watch) = &self.watch else { return false };
        watch.failed.iter().filter(|at| **at > from).count() >= of as usize
    }

    /// Checks deadlines and missing successes up to now. Returns the alerts whose condition holds.
    pub fn check_alerts(&mut self, now: Timestamp) -> Vec<Alert> {
        let Some(mut watch) = self.watch.take() else { return Vec::new() };
        let mut found = Vec::new();
        let checked = std::mem::take(&mut watch.checked);
        for (alert, since) in self.definition.alerts.iter().zip(checked) {
            let (through, holds) = match &alert.on {
                Condition::Missing { within } if watch.succeeded_at.max(since) + *within <= now => {
                    (now, true)
                }
                Condition::Deadline(deadline) => self.check_deadline(deadline, &watch, (since, now)),
                _ => (since, false),
            };
            watch.checked.push(through);
            found.extend(holds.then(|| alert.clone()));
        }
        self.watch = Some(watch);
        self.plan_check();
        found
    }

    /// The last deadline up to now, and whether one since `since` was missed.
    fn check_deadline(
        &self,
        deadline: &Deadline,
        watch: &Watch,
        (since, now): (Timestamp, Timestamp),
    ) -> (Timestamp, bool) {
        let (mut before, mut is_missed) = (since, false);
        while let Some(at) = deadline.next(before).filter(|at| *at <= now) {
            let last_due = self.previous_due(at.before(Duration::from_millis(1)));
            is_missed |= match self.definition.has_clock() {
                true => last_due.is_some_and(|due| due > before) && watch.succeeded_due <= before,
                // Each deadline needs a success of its own.
                false => watch.succeeded_at <= before,
            };
            before = at;
        }
        (before, is_missed)
    }

    fn plan_check(&mut self) {
        let is_paused = self.is_paused();
        let Some(watch) = &mut self.watch else { return };
        let next = |(alert, checked): (&Alert, &Timestamp)| match &alert.on {
            Condition::Missing { within } => Some(watch.succeeded_at.max(*checked) + *within),
            Condition::Deadline(deadline) => deadline.next(*checked),
            _ => None,
        };
        let next = self.definition.alerts.iter().zip(&watch.checked).filter_map(next).min();
        watch.check_at = next.filter(|_| !is_paused);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::alert::REPEAT;
    use crate::ids::{JobId, RunId};
    use crate::job::Pause;
    use crate::run::{Origin, State, Trigger};
    use crate::schedule::{Cron, Schedule};
    use crate::task::Task;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn job(schedule: Option<&str>, on: Condition) -> Job {
        let mut definition = Definition::of(Task::Noop);
        let cron = |text| Schedule::new(When::Cron(Cron::parse(text, "UTC").unwrap()));
        definition.schedules = schedule.map(cron).into_iter().collect();
        definition.alerts = vec![Alert { on, to: Vec::new(), repeat: REPEAT }];
        let created = at("2030-01-01T00:00:00Z");
        Job::new(JobId(1), "a".parse().unwrap(), "job".parse().unwrap(), Arc::new(definition), created)
    }

    fn end(job: &mut Job, state: State, due: &str, now: &str) {
        let origin = Origin::Job { id: job.id, name: job.name.clone(), revision: 1 };
        let mut run = Run::new(RunId(7), job.namespace.clone(), origin, Trigger::Schedule, at(due), at(due));
        run.state = state;
        job.watch_end(&run, at(now));
    }

    fn check(job: &mut Job, now: &str) -> bool {
        !job.check_alerts(at(now)).is_empty()
    }

    #[test]
    fn a_deadline_needs_a_success_of_its_day() {
        let deadline = Box::new(Deadline::parse("06:00", "UTC").unwrap());
        let mut job = job(Some("0 1 * * MON-FRI"), Condition::Deadline(deadline));
        // The first of January 2030 is a Tuesday.
        assert_eq!(job.timer_at(), Some(at("2030-01-01T01:00:00Z")));
        assert!(check(&mut job, "2030-01-01T06:00:00Z"), "nothing has succeeded");
        end(&mut job, State::Succeeded, "2030-01-02T01:00:00Z", "2030-01-02T05:59:00Z");
        assert!(!check(&mut job, "2030-01-02T06:00:00Z"));
        end(&mut job, State::Failed, "2030-01-03T01:00:00Z", "2030-01-03T02:00:00Z");
        assert!(check(&mut job, "2030-01-03T06:00:00Z"), "only a success counts");
        end(&mut job, State::Succeeded, "2030-01-04T01:00:00Z", "2030-01-04T02:00:00Z");
        assert!(!check(&mut job, "2030-01-06T06:00:00Z"), "nothing is due at the weekend");
        assert!(check(&mut job, "2030-01-08T07:00:00Z"), "a deadline that passed unseen counts");
    }

    #[test]
    fn a_job_without_a_clock_owes_a_success_a_day() {
        let deadline = Box::new(Deadline::parse("06:00", "UTC").unwrap());
        let mut job = job(None, Condition::Deadline(deadline));
        assert_eq!(job.timer_at(), Some(at("2030-01-01T06:00:00Z")));
        end(&mut job, State::Succeeded, "2030-01-01T02:00:00Z", "2030-01-01T02:00:01Z");
        assert!(!check(&mut job, "2030-01-01T06:00:00Z"));
        assert!(check(&mut job, "2030-01-02T06:00:00Z"));
    }

    #[test]
    fn a_missing_success_is_found_once_a_span() {
        let within = Duration::from_secs(3600);
        let mut job = job(None, Condition::Missing { within });
        assert!(!check(&mut job, "2030-01-01T00:59:59Z"));
        assert!(check(&mut job, "2030-01-01T01:00:00Z"));
        assert_eq!(job.timer_at(), Some(at("2030-01-01T02:00:00Z")));
        end(&mut job, State::Succeeded, "2030-01-01T01:10:00Z", "2030-01-01T01:10:00Z");
        assert_eq!(job.timer_at(), Some(at("2030-01-01T02:10:00Z")));
    }

    #[test]
    fn a_paused_job_is_not_checked() {
        let mut job = job(None, Condition::Missing { within: Duration::from_secs(3600) });
        let since = at("2030-01-01T00:30:00Z");
        job.pause(Pause { reason: "".into(), by: None, since, until: None });
        assert_eq!(job.timer_at(), None);
        job.resume(false, at("2030-01-01T05:00:00Z"));
        assert_eq!(job.timer_at(), Some(at("2030-01-01T06:00:00Z")));
    }

    #[test]
    fn failures_count_within_their_span() {
        let mut job = job(None, Condition::FailedOften { of: 2, within: Duration::from_secs(3600) });
        let has_failed = |job: &Job, from: &str| job.has_failed_often(2, at(from));
        for now in ["2030-01-01T01:00:00Z", "2030-01-01T02:00:00Z", "2030-01-01T02:30:00Z"] {
            end(&mut job, State::Failed, now, now);
        }
        assert!(has_failed(&job, "2030-01-01T01:30:00Z"));
        assert!(!has_failed(&job, "2030-01-01T02:00:00Z"), "one of them is too old");
        assert_eq!(job.watch.unwrap().failed.len(), 2, "older failures are forgotten");
    }
}
