//! A job: its definition, its revisions, and how far its schedule has been carried out.

mod check;
mod labels;
pub mod limit;
mod message;
mod pause;
mod planning;
mod polled;
pub mod route;
mod share;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::Timestamp;
use crate::alert::{Alert, Watch};
use crate::ids::{JobId, ShardId};
use crate::limits;
use crate::name::{Name, Namespace};
use crate::params::Params;
use crate::retry::Retry;
use crate::schedule::calendar::Calendar;
use crate::schedule::{self, Schedule, ScheduleCalendar, When};
use crate::task::Task;
use crate::template::{Scope, Template, Values};
use crate::workflow::Workflow;

pub use crate::invalid::Invalid;
pub use limit::Limit;
pub use pause::{Pause, check_reason};
pub use route::{Labels, Route, Strategy};
pub use share::Share;

/// A job as the store keeps it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    pub id: JobId,
    pub namespace: Namespace,
    pub name: Name,
    pub revision: u32,
    pub definition: Arc<Definition>,
    /// `None` means that it is not paused.
    pub pause: Option<Box<Pause>>,
    /// Failed runs in a row, counted while its definition has `pause_after` or an alert for failures.
    pub failures: u32,
    /// What its alerts need to know. `None` means that they need nothing.
    pub watch: Option<Box<Watch>>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub cursor: Cursor,
}

/// Whether a revision of a job fires.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum State {
    Active,
    Paused,
    /// The last revision of a job.
    Deleted,
}

impl State {
    pub fn as_str(self) -> &'static str {
        match self {
            State::Active => "active",
            State::Paused => "paused",
            State::Deleted => "deleted",
        }
    }
}

/// How far a job's schedule has been carried out. It prevents a second run of a due time after runs were pruned.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Cursor {
    /// Every due time up to here has its run or its skip record. It never goes back.
    pub fired_through: Timestamp,
    /// The next due time. `None` means paused, finished, or waiting for the end of a run.
    pub next_due: Option<Timestamp>,
    /// When to act on `next_due`: later than it by the jitter. Of a paused job, when it is resumed by itself.
    pub wake_at: Option<Timestamp>,
    /// Fires so far, by schedule, for `max_runs`.
    pub fires: SmallVec<[u32; 2]>,
    /// The version of the time zone data that `next_due` was computed with. `None` means that there is no next due
    /// time, or that it does not depend on a time zone.
    pub zone_data: Option<Cow<'static, str>>,
}

/// One revision of a job's settings. An ad-hoc run has one too, without schedules.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Definition {
    pub schedules: Vec<Schedule>,
    pub task: Task,
    pub params: Params,
    pub timeout: Option<Duration>,
    /// The time between the request to stop an attempt and its kill. `None` means [`limits::GRACE`].
    pub grace: Option<Duration>,
    pub retry: Retry,
    /// A lost attempt is not retried.
    pub at_most_once: bool,
    pub overlap: Overlap,
    /// How long a lost attempt still counts as running: a worker that cannot be reached may still execute it.
    pub overlap_grace: Option<Duration>,
    pub misfire: Misfire,
    pub priority: u8,
    /// Each of them must allow a run.
    pub limits: Vec<Limit>,
    pub unique: Option<Unique>,
    pub dead_letter: bool,
    /// How many failed runs in a row pause the job. `None` means that they do not.
    pub pause_after: Option<u32>,
    /// The conditions under which people are notified.
    pub alerts: Vec<Alert>,
    pub keep: Keep,
    pub description: String,
    /// What the job belongs to, such as its team: jobs and runs are found by it.
    pub labels: Labels,
    /// The parameters whose values a run is found by.
    pub search: Vec<String>,
    pub route: Route,
    /// `None` means that its runs take turns under the name of their namespace only.
    pub share: Option<Share>,
}

impl Definition {
    /// A definition of a task with all defaults.
    pub fn of(task: Task) -> Self {
        Definition {
            schedules: Vec::new(),
            task,
            params: Params::default(),
            timeout: None,
            grace: None,
            retry: Retry::default(),
            at_most_once: false,
            overlap: Overlap::Skip,
            overlap_grace: None,
            misfire: Misfire::default(),
            priority: 5,
            limits: Vec::new(),
            unique: None,
            dead_letter: true,
            pause_after: None,
            alerts: Vec::new(),
            keep: Keep::default(),
            description: String::new(),
            labels: Labels::new(),
            search: Vec::new(),
            route: Route::default(),
            share: None,
        }
    }
}

impl Definition {
    /// `None` means that its task is not a workflow.
    pub fn workflow(&self) -> Option<&Workflow> {
        match &self.task {
            Task::Workflow(workflow) => Some(workflow),
            _ => None,
        }
    }

    /// Whether its runs have child runs: one for each worker or shard, or one for each step.
    pub fn has_children(&self) -> bool {
        self.route.splits() || self.workflow().is_some()
    }

    /// How many runs of the job may be ready or running at the same time, whatever their keys; `None` means any number.
    pub fn running_max(&self) -> Option<u32> {
        self.limits.iter().filter(|limit| limit.per.is_none()).filter_map(|limit| limit.running).min()
    }
}

impl Definition {
    /// The calendars that its schedules use.
    pub fn calendars(&self) -> impl Iterator<Item = &ScheduleCalendar> {
        self.schedules.iter().filter_map(|schedule| schedule.calendar.as_ref())
    }

    /// A copy with the calendars that `find` gives. `None` means that its schedules already use these.
    pub fn with_calendars(
        &self,
        find: impl Fn(&ScheduleCalendar) -> Option<Arc<Calendar>>,
    ) -> Option<Definition> {
        let is_behind = |keeping: &ScheduleCalendar| {
            find(keeping).is_some_and(|found| keeping.calendar.as_deref() != Some(found.as_ref()))
        };
        if !self.calendars().any(is_behind) {
            return None;
        }
        let mut definition = self.clone();
        for keeping in definition.schedules.iter_mut().filter_map(|schedule| schedule.calendar.as_mut()) {
            if let Some(found) = find(keeping) {
                keeping.calendar = Some(found);
            }
        }
        Some(definition)
    }

    /// Whether the schedules are equal, ignoring the versions of their calendars.
    pub fn has_schedules_of(&self, other: &Definition) -> bool {
        schedule::are_alike(&self.schedules, &other.schedules)
    }
}

/// What happens when a run is due while an earlier run of the same job is active.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Overlap {
    /// The new run is recorded as skipped.
    Skip,
    /// The new run is held.
    Queue,
    /// One run may wait; a further one is skipped.
    QueueOne,
    /// The active run is cancelled; the new one starts when it has ended.
    Replace,
    /// The runs overlap.
    Allow,
}

/// What happens to due times that were missed, for example in an outage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Misfire {
    pub policy: MisfirePolicy,
    /// A due time missed by more than this is skipped whatever the policy.
    pub window: Duration,
    /// A fire up to this late counts as late, not as missed.
    pub grace: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum MisfirePolicy {
    Skip,
    /// The newest missed due time.
    Once,
    /// Every missed due time, at most the newest hundred.
    All,
}

impl Default for Misfire {
    fn default() -> Self {
        Misfire {
            policy: MisfirePolicy::Once,
            window: Duration::from_secs(3600),
            grace: Duration::from_secs(10),
        }
    }
}

/// A key that only one run may hold for a while. It may be a template of the run's parameters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unique {
    pub key: String,
    pub kept: Duration,
}

impl Unique {
    fn template(&self) -> Result<Template, Invalid> {
        Template::parse_in(&self.key, &Scope::KEY)
            .map_err(|error| Invalid::new("unique.key", error.in_text(&self.key)))
    }

    /// The key of a run with these parameters.
    pub fn key_for(&self, params: &Params) -> Result<Arc<str>, Invalid> {
        let template = self.template()?;
        if template.is_literal() {
            return Ok(Arc::from(self.key.as_str()));
        }
        let key = template
            .render(&Values::of_params(&params.0))
            .map_err(|error| Invalid::new("unique.key", error.in_text(&self.key)))?;
        if key.is_empty() || key.len() > limits::KEY_BYTES_MAX || key.chars().any(char::is_control) {
            let message =
                format!("gives no key of 1 to {} bytes without control characters", limits::KEY_BYTES_MAX);
            return Err(Invalid::new("unique.key", message));
        }
        Ok(key.into())
    }
}

/// How much history a job keeps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keep {
    pub runs: u32,
    pub days: u32,
}

impl Default for Keep {
    fn default() -> Self {
        Keep { runs: 1000, days: 30 }
    }
}

/// Checks the description of a job or a calendar.
pub fn check_description(text: &str) -> Result<(), Invalid> {
    if text.len() > limits::DESCRIPTION_BYTES_MAX {
        let message = format!("at most {} bytes", limits::DESCRIPTION_BYTES_MAX);
        return Err(Invalid::new("description", message));
    }
    Ok(())
}

/// The shard of a job.
pub fn shard_of(namespace: &Namespace, name: &Name, shards: u16) -> ShardId {
    ShardId::of(&[namespace.as_str().as_bytes(), name.as_str().as_bytes()], shards)
}

impl Job {
    pub fn shard(&self) -> ShardId {
        self.id.shard()
    }

    pub fn state(&self) -> State {
        if self.is_paused() { State::Paused } else { State::Active }
    }

    /// The first and last due time after `after`, up to `through`, that a calendar excludes.
    pub fn excluded(&self, after: Timestamp, through: Timestamp) -> Option<(Timestamp, Timestamp)> {
        schedule::excluded(&self.definition.schedules, self.created_at, after, through)
    }

    /// Whether a schedule has this instant as a due time.
    pub fn is_due_at(&self, instant: Timestamp) -> bool {
        schedule::any_names(&self.definition.schedules, self.created_at, instant)
    }

    /// Moves the cursor to the first due time after `after`, or to none if all schedules have ended.
    pub fn plan_after(&mut self, after: Timestamp) {
        let next = self.next_due(after);
        self.cursor.next_due = next.map(|(due, _)| due);
        self.cursor.wake_at = next.map(|(due, jitter)| due + jitter);
        let depends = next.is_some() && self.definition.schedules.iter().any(Schedule::depends_on_zone);
        self.cursor.zone_data = depends.then_some(Cow::Borrowed(schedule::ZONE_DATA));
    }

    /// Whether the next due time was computed with older time zone data than this program's.
    pub fn is_outdated(&self) -> bool {
        self.cursor.zone_data.as_deref().is_some_and(|data| data < schedule::ZONE_DATA)
    }

    /// Removes the next due time.
    pub fn unplan(&mut self) {
        self.cursor.next_due = None;
        self.cursor.wake_at = None;
        self.cursor.zone_data = None;
    }

    /// The first due time after `after`, with its jitter.
    fn next_due(&self, after: Timestamp) -> Option<(Timestamp, Duration)> {
        self.open_schedules()
            .filter_map(|(_, schedule)| Some((schedule.next(after, self.created_at)?, schedule.jitter)))
            .min_by_key(|(due, _)| *due)
            .map(|(due, span)| (due, schedule::jitter(span, self.id.0, due)))
    }

    /// The last due time at or before `until`.
    pub fn previous_due(&self, until: Timestamp) -> Option<Timestamp> {
        self.open_schedules().filter_map(|(_, schedule)| schedule.previous(until, self.created_at)).max()
    }

    /// The next due time if the end of a run set it: no schedule can compute it again.
    pub fn hanging_due(&self) -> Option<Timestamp> {
        let due = self.cursor.next_due?;
        let hangs = self.open_schedules().any(|(_, schedule)| matches!(schedule.when, When::AfterFinish(_)));
        let is_named = || {
            self.open_schedules().any(|(_, schedule)| schedule.previous(due, self.created_at) == Some(due))
        };
        (hangs && !is_named()).then_some(due)
    }

    /// A due time in the time zone of its schedule.
    pub fn local(&self, due: Timestamp) -> String {
        let index = self.naming(due).next();
        match index.and_then(|index| self.definition.schedules.get(index)) {
            Some(schedule) => schedule.local(due),
            None => due.to_string(),
        }
    }

    /// Counts a fire for every schedule with this due time: several schedules at one instant make one run.
    pub fn count_fire(&mut self, due: Timestamp) {
        let named: SmallVec<[usize; 2]> = self.naming(due).collect();
        self.cursor.fires.resize(self.definition.schedules.len(), 0);
        for index in named {
            self.cursor.fires[index] = self.cursor.fires[index].saturating_add(1);
        }
    }

    /// Whether all schedules with this due time have used up their `max_runs`.
    pub fn is_used_up(&self, due: Timestamp) -> bool {
        self.is_due_at(due) && self.naming(due).next().is_none()
    }

    /// The open schedules with this due time. If no other schedule has it, `after_finish` set it.
    fn naming(&self, due: Timestamp) -> impl Iterator<Item = usize> {
        let names = move |schedule: &Schedule| schedule.previous(due, self.created_at) == Some(due);
        let is_named = self.open_schedules().any(|(_, schedule)| names(schedule));
        let naming = self.open_schedules().filter(move |(_, schedule)| match schedule.when {
            When::AfterFinish(_) => !is_named,
            _ => names(schedule),
        });
        naming.map(|(index, _)| index)
    }

    /// Whether it has schedules and none of them has another due time. An `after_finish` schedule is open while its
    /// `end` is after the last fire; a schedule without a clock, such as that of an event, is always open.
    pub fn is_finished(&self) -> bool {
        let mut schedules = self.definition.schedules.iter().filter(|one| !matches!(one.when, When::Manual));
        let is_open = |schedule: &Schedule| {
            let waits_for_an_end = matches!(schedule.when, When::AfterFinish(_))
                && schedule.end.is_none_or(|end| end > self.cursor.fired_through);
            waits_for_an_end || schedule.topic().is_some()
        };
        self.cursor.next_due.is_none()
            && schedules.next().is_some()
            && !self.open_schedules().any(|(_, schedule)| is_open(schedule))
    }

    /// The schedules that have not used up their `max_runs`.
    pub fn open_schedules(&self) -> impl Iterator<Item = (usize, &Schedule)> {
        self.definition.schedules.iter().enumerate().filter(|(index, schedule)| {
            let fires = self.cursor.fires.get(*index).copied().unwrap_or(0);
            schedule.max_runs.is_none_or(|max| fires < max)
        })
    }
}
