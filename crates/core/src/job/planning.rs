//! When a job is due next after it was created, edited or resumed. The engine and the preview of an edit share these rules.

use std::sync::Arc;
use std::time::Duration;

use super::{Cursor, Definition, Job};
use crate::Timestamp;
use crate::ids::JobId;
use crate::name::{Name, Namespace};
use crate::schedule::When;

impl Job {
    /// A job that is created now.
    pub fn new(
        id: JobId,
        namespace: Namespace,
        name: Name,
        definition: Arc<Definition>,
        now: Timestamp,
    ) -> Job {
        // One millisecond ago, so that a job may fire in the instant of its creation.
        let cursor = Cursor { fired_through: now.before(Duration::from_millis(1)), ..Cursor::default() };
        let (created_at, updated_at) = (now, now);
        let mut job = Job {
            id,
            namespace,
            name,
            revision: 1,
            definition,
            pause: None,
            failures: 0,
            watch: None,
            created_at,
            updated_at,
            cursor,
        };
        job.plan_from(false, now);
        job.watch_from(now);
        job
    }

    /// Takes a new definition. The due times after `now` are those of the new schedules. `has_fires` says whether a run
    /// that a schedule made is active.
    ///
    /// Returns whether a due time of `after_finish` may have been lost and has to be planned from the end of the last run.
    pub fn revise(&mut self, definition: Arc<Definition>, has_fires: bool, now: Timestamp) -> bool {
        let same_schedule = self.definition.schedules == definition.schedules;
        // Only the calendars differ: fires are counted on, and a due time that follows from the end of a run stays.
        let only_days = !same_schedule && self.definition.has_schedules_of(&definition);
        let hanging = if only_days { self.hanging_due() } else { None };
        self.revision += 1;
        let same_alerts = self.definition.alerts == definition.alerts;
        self.definition = definition;
        if !same_alerts {
            self.watch_from(now);
        }
        self.updated_at = now;
        if !same_schedule && !only_days {
            self.cursor.fires.clear();
        }
        if self.is_paused() || same_schedule {
            return false;
        }
        if only_days {
            self.replan(hanging, now);
            return hanging.is_none() && !has_fires;
        }
        self.plan_from(has_fires, now);
        false
    }

    /// Plans the first due time after `now` with other calendars or time zone data. `hanging` follows from the end of a
    /// run and stays.
    pub fn replan(&mut self, hanging: Option<Timestamp>, now: Timestamp) {
        self.plan_after(now.max(self.cursor.fired_through));
        self.plan_at_most(hanging);
    }

    /// Plans the first due time after `now`. A job with `after_finish` starts at once, unless one of its runs is active: the
    /// end of that run plans the next one.
    pub fn plan_from(&mut self, has_fires: bool, now: Timestamp) {
        let after = now.max(self.cursor.fired_through);
        self.plan_after(after);
        if has_fires {
            return;
        }
        // A due time is used once: this one was fired before the edit.
        let earliest =
            if after == self.cursor.fired_through { after + Duration::from_millis(1) } else { after };
        let begins =
            self.open_schedules().filter(|(_, schedule)| matches!(schedule.when, When::AfterFinish(_)));
        let firsts =
            begins.map(|(_, schedule)| (schedule.start.unwrap_or(earliest).max(earliest), schedule.end));
        let first =
            firsts.filter(|(first, end)| end.is_none_or(|end| *first <= end)).map(|(first, _)| first).min();
        self.plan_at_most(first);
    }

    /// The job is due at this instant, unless it is due earlier.
    fn plan_at_most(&mut self, due: Option<Timestamp>) {
        if let Some(due) = due.filter(|due| self.cursor.next_due.is_none_or(|next| *due < next)) {
            self.cursor.next_due = Some(due);
            self.cursor.wake_at = Some(due);
        }
    }
}
