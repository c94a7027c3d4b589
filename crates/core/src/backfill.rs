//! A backfill: a run whose child runs are the runs that the schedule of a job would have had in a span of time.
//!
//! It is executed like a split run: its due times are the items of its only step, and each child run has a row among the
//! steps. Its own row has the list of due times, so an edit of the job or of a calendar changes no backfill that has begun.
//!
//! The surprise: a child run of a backfill is no part of a run but a whole run of its job. It can be split itself, have
//! steps, and be tried again.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Timestamp;
use crate::job::{Definition, Invalid, Job, Overlap};
use crate::limits::{BACKFILL_MAX, BACKFILL_RUNNING_MAX};
use crate::run::{Run, Trigger};

/// What is recorded of a backfill when it begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backfill {
    /// The beginning of the span, which belongs to it.
    pub from: Timestamp,
    /// The end of the span, which does not belong to it.
    pub to: Timestamp,
    /// The due times of the child runs, in the order in which these start.
    pub dues: Box<[Timestamp]>,
    /// How many child runs are active at once. `None` means the default of the job.
    pub running: Option<u32>,
}

impl Backfill {
    /// How many child runs are active at once under this definition: never more than the job may have running, because a
    /// child run that waits for a limit would only wait before others.
    pub fn parallel(&self, definition: &Definition) -> u32 {
        let default = if definition.overlap == Overlap::Allow { BACKFILL_RUNNING_MAX } else { 1 };
        let wanted = self.running.or(definition.running_max()).unwrap_or(default);
        wanted.min(definition.running_max().unwrap_or(BACKFILL_RUNNING_MAX)).clamp(1, BACKFILL_RUNNING_MAX)
    }
}

impl Run {
    /// Whether it is a backfill, with the runs of a span of time as its child runs.
    pub fn is_backfill(&self) -> bool {
        self.trigger == Trigger::Backfill && self.part_of.is_none()
    }

    /// Whether it is a child run of a backfill.
    pub fn is_backfilled(&self) -> bool {
        self.trigger == Trigger::Backfill && self.part_of.is_some()
    }

    /// Whether it is a run of its job by itself: no backfill, no part of a split run and no step of a workflow.
    pub fn is_whole(&self) -> bool {
        self.is_backfilled() || (self.parent().is_none() && !self.is_backfill())
    }
}

impl Job {
    /// The due times of its schedules from `from` to before `to`, whatever their `max_runs`.
    pub fn due_times(&self, from: Timestamp, to: Timestamp) -> Result<Vec<Timestamp>, Invalid> {
        let mut dues = Vec::new();
        let mut after = from.before(Duration::from_millis(1));
        while let Some(due) = self.due_after(after).filter(|due| *due < to) {
            if dues.len() == BACKFILL_MAX {
                let message = format!("the job has more than {BACKFILL_MAX} due times from {from} to {to}");
                return Err(Invalid::new("to", message));
            }
            dues.push(due);
            after = due;
        }
        Ok(dues)
    }

    fn due_after(&self, after: Timestamp) -> Option<Timestamp> {
        let schedules = self.definition.schedules.iter();
        schedules.filter_map(|schedule| schedule.next(after, self.created_at)).min()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::ids::JobId;
    use crate::job::Limit;
    use crate::name::Namespace;
    use crate::schedule::{Schedule, Weekdays, When};
    use crate::task::Task;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn job(schedules: Vec<Schedule>) -> Job {
        let definition = Definition { schedules, ..Definition::of(Task::Noop) };
        let name = "report".parse().unwrap();
        Job::new(JobId(1), Namespace::default(), name, Arc::new(definition), at("2026-06-01T00:00:00Z"))
    }

    fn cron(text: &str, zone: &str) -> Schedule {
        Schedule::new(When::parse_cron(text, zone, Weekdays::default(), None).unwrap())
    }

    #[test]
    fn due_times_begin_with_the_span_and_end_before_its_end() {
        let daily = job(vec![cron("0 1 * * *", "UTC")]);
        let found = daily.due_times(at("2026-03-01T01:00:00Z"), at("2026-03-04T01:00:00Z")).unwrap();
        let days = ["2026-03-01T01:00:00Z", "2026-03-02T01:00:00Z", "2026-03-03T01:00:00Z"];
        assert_eq!(found, days.map(at));
    }

    #[test]
    fn due_times_keep_the_time_zone_and_meet_once() {
        let two = job(vec![cron("30 2 * * *", "America/New_York"), cron("30 7 * * *", "UTC")]);
        // In New York, the clocks go from 2:00 to 3:00 on 8 March 2026.
        let found = two.due_times(at("2026-03-07T00:00:00Z"), at("2026-03-10T00:00:00Z")).unwrap();
        assert!(found.is_sorted_by(|before, after| before < after), "{found:?}");
        assert!(found.contains(&at("2026-03-07T07:30:00Z")) && found.contains(&at("2026-03-09T06:30:00Z")));
    }

    #[test]
    fn more_due_times_than_the_limit_are_refused() {
        let minutely = job(vec![cron("* * * * *", "UTC")]);
        let from = at("2026-01-01T00:00:00Z");
        let to = |minutes: u64| from + Duration::from_secs(60 * minutes);
        let most = u64::try_from(BACKFILL_MAX).unwrap();
        assert_eq!(minutely.due_times(from, to(most)).unwrap().len(), BACKFILL_MAX);
        assert_eq!(minutely.due_times(from, to(most + 1)).unwrap_err().field, "to");
    }

    #[test]
    fn a_backfill_has_as_many_active_runs_as_its_job_may_have() {
        let running = |running: Option<u32>, overlap, limit: Option<u32>| {
            let dues = Box::default();
            let backfill = Backfill { from: Timestamp::MIN, to: Timestamp::MAX, dues, running };
            let limits = limit.map(Limit::of_running).into_iter().collect();
            backfill.parallel(&Definition { overlap, limits, ..Definition::of(Task::Noop) })
        };
        assert_eq!(running(None, Overlap::Skip, None), 1);
        assert_eq!(running(None, Overlap::Allow, None), BACKFILL_RUNNING_MAX);
        assert_eq!(running(None, Overlap::Skip, Some(3)), 3);
        assert_eq!(running(Some(9), Overlap::Allow, Some(3)), 3);
        assert_eq!(running(Some(9), Overlap::Skip, None), 9);
    }
}
