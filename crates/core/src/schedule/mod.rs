//! When a job is due.
//!
//! A [`Schedule`] turns what users wrote into instants: `next` and `previous` are pure, take every
//! instant they need, and never read a clock. `plan` asks `next` for the due time it arms; the misfire
//! policy asks `previous` for the newest missed due time.
//!
//! The surprise: `after_finish` has no occurrences of its own. Its due time depends on the end of a run,
//! which only `settle` knows, so both functions return `None` for it. The same holds for `after` and `event`, which
//! have no due times: see [`crate::topic`].

pub mod calendar;
mod cron;
mod describe;
mod duration;
mod error;
mod every;
mod on_topic;
mod schedule_calendar;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::hash;
use crate::time::Timestamp;

pub use cron::zone::DATA as ZONE_DATA;
pub use cron::{Cron, EXPRESSION_MAX, Weekdays, ZONE_MAX};
pub use describe::{Language, UnknownLanguage};
pub use duration::{DURATION_MAX, format_duration, parse_duration};
pub use error::Error;
pub use on_topic::{After, Ends, Gather, OnEvent, Topic};
pub use schedule_calendar::ScheduleCalendar;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schedule {
    pub when: When,
    /// No occurrence before this instant, which is itself allowed. `every` counts from here.
    pub start: Option<Timestamp>,
    /// No occurrence after this instant, which is itself allowed.
    pub end: Option<Timestamp>,
    /// A run may start up to this much (exclusive) after its due time; see [`jitter`].
    pub jitter: Duration,
    /// How often this schedule may fire in all. The caller counts.
    pub max_runs: Option<u32>,
    /// If set, fires only on the days of this calendar.
    pub calendar: Option<ScheduleCalendar>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum When {
    Cron(Cron),
    Every(Duration),
    /// This long after the end of the last run.
    AfterFinish(Duration),
    /// Once.
    At(Timestamp),
    /// Only when a client asks.
    Manual,
    /// When a run of another job ends.
    After(After),
    Event(Box<OnEvent>),
}

impl Schedule {
    /// An instant in the schedule's time zone; in UTC if the schedule names no zone.
    pub fn local(&self, instant: Timestamp) -> String {
        match (&self.when, &self.calendar) {
            (When::Cron(cron), _) => cron.local(instant),
            (_, Some(keeping)) => keeping.local(instant),
            (_, None) => instant.to_string(),
        }
    }

    /// A schedule without bounds, jitter or calendar.
    pub fn new(when: When) -> Schedule {
        Schedule { when, start: None, end: None, jitter: Duration::ZERO, max_runs: None, calendar: None }
    }

    /// Refuses a schedule that would never fire or fire without pause. The fields are public, so every schedule
    /// from outside must be checked once.
    pub fn check(&self) -> Result<(), Error> {
        if let When::Every(period) | When::AfterFinish(period) = &self.when
            && period.as_millis() == 0
        {
            return Err(Error::PeriodTooShort);
        }
        if let (Some(start), Some(end)) = (self.start, self.end)
            && start > end
        {
            return Err(Error::EndBeforeStart { start, end });
        }
        let at = if let When::At(at) = self.when { Some(at) } else { None };
        for instant in [at, self.start, self.end].into_iter().flatten() {
            if !(Timestamp::MIN..=Timestamp::MAX).contains(&instant) {
                return Err(Error::InstantOutOfRange);
            }
        }
        if self.max_runs == Some(0) {
            return Err(Error::NoRuns);
        }
        if self.topic().is_some() && !self.jitter.is_zero() {
            return Err(Error::NoJitter);
        }
        if let When::Event(event) = &self.when {
            event.check()?;
        }
        self.check_calendar()
    }

    /// Refuses a single instant on an excluded day: it would never fire, and the user can still fix it.
    fn check_calendar(&self) -> Result<(), Error> {
        match (&self.calendar, &self.when) {
            (Some(_), When::AfterFinish(_) | When::Manual | When::After(_) | When::Event(_)) => {
                Err(Error::NoDaysToKeep)
            }
            (Some(keeping), When::At(at)) if keeping.calendar.is_some() && !keeping.has(*at) => {
                let (day, name) = (calendar::day_text(keeping.day_of(*at)), keeping.name.to_string());
                Err(Error::DayOut { day, calendar: name })
            }
            _ => Ok(()),
        }
    }

    /// The first occurrence after `after`; `None` means never again. `every` counts from `start`, else
    /// from `created`. `max_runs` is ignored.
    pub fn next(&self, after: Timestamp, created: Timestamp) -> Option<Timestamp> {
        // One millisecond before `start`, so that `start` itself can be found.
        let after = match self.start {
            Some(start) if start > after => Timestamp::from_millis(start.as_millis().saturating_sub(1)),
            _ => after,
        };
        let due = match &self.calendar {
            None => self.when_next(after, created)?,
            Some(keeping) => keeping.next(after, |after| self.when_next(after, created))?,
        };
        (self.end.is_none_or(|end| due <= end)).then_some(due)
    }

    /// The last occurrence at or before `until`, within `start` and `end`.
    pub fn previous(&self, until: Timestamp, created: Timestamp) -> Option<Timestamp> {
        let until = self.end.map_or(until, |end| end.min(until));
        let due = match &self.calendar {
            None => self.when_previous(until, created)?,
            Some(keeping) => keeping.previous(until, |until| self.when_previous(until, created))?,
        };
        (self.start.is_none_or(|start| due >= start)).then_some(due)
    }

    /// The first instant after `after`, up to `through`, that the calendar excludes.
    fn next_excluded(&self, after: Timestamp, through: Timestamp, created: Timestamp) -> Option<Timestamp> {
        let keeping = self.calendar.as_ref()?;
        let after = self.start.map_or(after, |start| after.max(schedule_calendar::one_before(start)));
        let through = self.end.map_or(through, |end| end.min(through));
        keeping.next_excluded(after, through, |after| self.when_next(after, created))
    }

    /// The last instant at or before `until`, after `after`, that the calendar excludes.
    fn previous_excluded(&self, until: Timestamp, after: Timestamp, created: Timestamp) -> Option<Timestamp> {
        let keeping = self.calendar.as_ref()?;
        let after = self.start.map_or(after, |start| after.max(schedule_calendar::one_before(start)));
        let until = self.end.map_or(until, |end| end.min(until));
        keeping.previous_excluded(until, after, |until| self.when_previous(until, created))
    }

    /// What starts the job instead of a clock. `None` means that it has due times, or is started by hand.
    pub fn topic(&self) -> Option<Topic> {
        match &self.when {
            When::After(after) => Some(Topic::Job(after.job.clone())),
            When::Event(event) => Some(event.topic.clone()),
            When::Cron(_) | When::Every(_) | When::AfterFinish(_) | When::At(_) | When::Manual => None,
        }
    }

    /// Whether newer time zone data may change its due times.
    pub fn depends_on_zone(&self) -> bool {
        let is_local = |zone: &str| zone != "UTC";
        let by_cron = matches!(&self.when, When::Cron(cron) if is_local(cron.zone()));
        by_cron || self.calendar.as_ref().is_some_and(|keeping| is_local(keeping.zone()))
    }

    /// The next occurrence, ignoring the calendar.
    fn when_next(&self, after: Timestamp, created: Timestamp) -> Option<Timestamp> {
        match &self.when {
            When::Cron(cron) => cron.next(after),
            When::Every(period) => every::next(self.origin(created), *period, after),
            When::At(at) => Some(*at).filter(|at| *at > after),
            When::AfterFinish(_) | When::Manual | When::After(_) | When::Event(_) => None,
        }
    }

    fn when_previous(&self, until: Timestamp, created: Timestamp) -> Option<Timestamp> {
        match &self.when {
            When::Cron(cron) => cron.previous(until),
            When::Every(period) => every::previous(self.origin(created), *period, until),
            When::At(at) => Some(*at).filter(|at| *at <= until),
            When::AfterFinish(_) | When::Manual | When::After(_) | When::Event(_) => None,
        }
    }

    fn origin(&self, created: Timestamp) -> every::Origin {
        self.start.map_or(every::Origin::Created(created), every::Origin::Start)
    }
}

impl When {
    /// Parses the value of `cron:`. That includes `@every 90s` of Go's cron, which is no cron expression; it becomes
    /// [`When::Every`].
    pub fn parse_cron(
        expression: &str,
        zone: &str,
        weekdays: Weekdays,
        spread_key: Option<&str>,
    ) -> Result<When, Error> {
        let text = expression.trim();
        match text.split_once(|c: char| c.is_ascii_whitespace()) {
            Some((word, period)) if word.eq_ignore_ascii_case("@every") => {
                let period = parse_duration(period.trim_start())?;
                if period.is_zero() { Err(Error::PeriodTooShort) } else { Ok(When::Every(period)) }
            }
            _ => Cron::parse_with(text, zone, weekdays, spread_key).map(When::Cron),
        }
    }
}

/// Whether the schedules are equal, ignoring the versions of their calendars.
pub fn are_alike(some: &[Schedule], others: &[Schedule]) -> bool {
    let plain = |schedule: &Schedule| {
        let mut plain = schedule.clone();
        if let Some(keeping) = &mut plain.calendar {
            keeping.calendar = None;
        }
        plain
    };
    some.len() == others.len() && some.iter().zip(others).all(|(a, b)| a == b || plain(a) == plain(b))
}

/// Whether one of the schedules has this instant as an occurrence.
pub fn any_names(schedules: &[Schedule], created: Timestamp, instant: Timestamp) -> bool {
    schedules.iter().any(|schedule| schedule.previous(instant, created) == Some(instant))
}

/// How many excluded instants that another schedule has too are skipped at most.
const MEETINGS_MAX: usize = 100;

/// The first instant after `after`, up to `through`, that a calendar excludes from one schedule and that no other
/// schedule has. `None` also if other schedules have the first hundred of them.
pub fn next_excluded(
    schedules: &[Schedule],
    created: Timestamp,
    after: Timestamp,
    through: Timestamp,
) -> Option<Timestamp> {
    let mut after = after;
    for _ in 0..MEETINGS_MAX {
        let found = schedules.iter().filter_map(|schedule| schedule.next_excluded(after, through, created));
        let first = found.min()?;
        if !any_names(schedules, created, first) {
            return Some(first);
        }
        after = first;
    }
    None
}

/// The first and last instant after `after`, up to `through`, that calendars exclude.
pub fn excluded(
    schedules: &[Schedule],
    created: Timestamp,
    after: Timestamp,
    through: Timestamp,
) -> Option<(Timestamp, Timestamp)> {
    if through <= after {
        return None;
    }
    let first = next_excluded(schedules, created, after, through)?;
    let last = schedules.iter().filter_map(|schedule| schedule.previous_excluded(through, after, created));
    Some((first, last.max().unwrap_or(first)))
}

/// How long after `due` the run starts. A hash of the job and the due time, so it is the same on every node and after
/// every restart. Less than `span`, in whole milliseconds.
pub fn jitter(span: Duration, job: i64, due: Timestamp) -> Duration {
    let span = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    if span == 0 {
        return Duration::ZERO;
    }
    let hash = hash::stable(&[b"jitter", &job.to_le_bytes(), &due.as_millis().to_le_bytes()]);
    Duration::from_millis(hash % span)
}

#[cfg(test)]
mod tests;
