//! A schedule with a calendar: it fires only at instants whose date, in its zone, is an included day.
//!
//! The search leaps: the schedule gives its next instant, the calendar its next included day, and the search goes on
//! from the later one. So the cost depends on the candidates, not on the seconds. It ends after fifty years, like the
//! search of a cron expression.
//!
//! The surprise is a clock that is set back over midnight: a past date comes again. So no leap crosses a change of the
//! zone that is near.

use std::borrow::Cow;
use std::sync::Arc;

use jiff::tz::TimeZone;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Error;
use super::calendar::Calendar;
use super::cron::calendar::DAY;
use super::cron::zone;
use crate::name::Name;
use crate::time::Timestamp;

/// How far a search goes, in days: as far as that of a cron expression.
const SEARCH_DAYS: i64 = 50 * 366;
/// Candidates that a search tries: every Sunday of fifty years. If none of them is included, the schedule and the
/// calendar have no common day.
const LEAPS_MAX: usize = 2_700;

/// The calendar of a schedule, and the zone in which its days begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleCalendar {
    pub name: Name,
    zone: TimeZone,
    /// `None` means that only its name is known, as in a file. The schedule does not fire until it is looked up.
    pub calendar: Option<Arc<Calendar>>,
}

impl ScheduleCalendar {
    /// A calendar that must still be looked up.
    pub fn named(name: Name, zone: &str) -> Result<ScheduleCalendar, Error> {
        Ok(ScheduleCalendar { name, zone: zone::find(zone)?, calendar: None })
    }

    /// A calendar that was looked up.
    pub fn of(calendar: Arc<Calendar>, zone: &str) -> Result<ScheduleCalendar, Error> {
        let named = ScheduleCalendar::named(calendar.name.clone(), zone)?;
        Ok(ScheduleCalendar { calendar: Some(calendar), ..named })
    }

    /// The name of the zone as spelt in the time zone database.
    pub fn zone(&self) -> &str {
        self.zone.iana_name().unwrap_or("UTC")
    }

    /// An instant in the local time of the zone.
    pub(super) fn local(&self, instant: Timestamp) -> String {
        zone::local(&self.zone, instant)
    }

    pub fn version(&self) -> Option<u32> {
        self.calendar.as_ref().map(|calendar| calendar.version)
    }

    /// Whether the date of an instant is an included day.
    pub fn has(&self, instant: Timestamp) -> bool {
        self.calendar.as_ref().is_some_and(|calendar| calendar.days.has(self.day_of(instant)))
    }

    /// The date of an instant, as a number of days since 1970-01-01.
    pub fn day_of(&self, instant: Timestamp) -> i64 {
        let second = instant.as_millis().div_euclid(1000);
        (second + zone::offset(&self.zone, second)).div_euclid(DAY)
    }

    /// The first instant after `after` that `next` gives on an included day.
    pub(super) fn next(
        &self,
        after: Timestamp,
        next: impl Fn(Timestamp) -> Option<Timestamp>,
    ) -> Option<Timestamp> {
        self.find_next(after, self.day_of(after) + SEARCH_DAYS, true, next)
    }

    /// The last instant at or before `until` that `previous` gives on an included day.
    pub(super) fn previous(
        &self,
        until: Timestamp,
        previous: impl Fn(Timestamp) -> Option<Timestamp>,
    ) -> Option<Timestamp> {
        self.find_previous(until, self.day_of(until) - SEARCH_DAYS, true, previous)
    }

    /// The first instant after `after`, up to `through`, that `next` gives on an excluded day.
    pub(super) fn next_excluded(
        &self,
        after: Timestamp,
        through: Timestamp,
        next: impl Fn(Timestamp) -> Option<Timestamp>,
    ) -> Option<Timestamp> {
        // One day more, because a date may come again at a change of the zone.
        let next = |after| next(after).filter(|due| *due <= through);
        self.find_next(after, self.day_of(through) + 1, false, next)
    }

    /// The last instant at or before `until`, after `after`, that `previous` gives on an excluded day.
    pub(super) fn previous_excluded(
        &self,
        until: Timestamp,
        after: Timestamp,
        previous: impl Fn(Timestamp) -> Option<Timestamp>,
    ) -> Option<Timestamp> {
        let previous = |until| previous(until).filter(|due| *due > after);
        self.find_previous(until, self.day_of(after) - 1, false, previous)
    }

    /// Finds an instant on an included day, or an excluded one if `is_in` is false; no day after `last` is searched.
    fn find_next(
        &self,
        after: Timestamp,
        last: i64,
        is_in: bool,
        next: impl Fn(Timestamp) -> Option<Timestamp>,
    ) -> Option<Timestamp> {
        let days = &self.calendar.as_ref()?.days;
        let mut after = after;
        for _ in 0..LEAPS_MAX {
            let due = next(after)?;
            let day = self.day_of(due);
            if days.has(day) == is_in {
                return Some(due);
            }
            let wanted = days.first_from(day + 1, last, is_in);
            let begin = wanted.map(|day| self.begin_after(day, due));
            // At a change that is near, the clock may fall back to a wanted date.
            let change = self.change_near(due).filter(|change| begin.is_none_or(|begin| *change < begin));
            after = one_before(change.or(begin)?).max(due);
        }
        None
    }

    /// The same backwards; no day before `first` is searched.
    fn find_previous(
        &self,
        until: Timestamp,
        first: i64,
        is_in: bool,
        previous: impl Fn(Timestamp) -> Option<Timestamp>,
    ) -> Option<Timestamp> {
        let days = &self.calendar.as_ref()?.days;
        let mut until = until;
        for _ in 0..LEAPS_MAX {
            let due = previous(until)?;
            let day = self.day_of(due);
            if days.has(day) == is_in {
                return Some(due);
            }
            let wanted = days.last_until(day - 1, first, is_in);
            let end = wanted.map(|day| self.end_before(day, due));
            let change = self.changed_near(due).filter(|change| end.is_none_or(|end| *change > end));
            until = change.or(end)?.min(one_before(due));
        }
        None
    }

    /// The first instant after `due` at which a date begins.
    fn begin_after(&self, day: i64, due: Timestamp) -> Timestamp {
        let [first, again] = zone::reached(&self.zone, day * DAY).map(from_second);
        if first > due { first } else { again }
    }

    /// The last instant before `due` at which a date ends.
    fn end_before(&self, day: i64, due: Timestamp) -> Timestamp {
        let [first, again] =
            zone::reached(&self.zone, (day + 1) * DAY).map(|second| one_before(from_second(second)));
        if again < due { again } else { first }
    }

    fn change_near(&self, due: Timestamp) -> Option<Timestamp> {
        let second = due.as_millis().div_euclid(1000);
        let change = zone::change_after(&self.zone, second)?;
        (change - second <= zone::OFFSETS_APART_MAX).then(|| from_second(change))
    }

    /// The last instant before the latest change of the zone, if that is near.
    fn changed_near(&self, due: Timestamp) -> Option<Timestamp> {
        let second = due.as_millis().div_euclid(1000);
        let change = zone::change_until(&self.zone, second)?;
        (second - change <= zone::OFFSETS_APART_MAX).then(|| one_before(from_second(change)))
    }
}

fn from_second(second: i64) -> Timestamp {
    Timestamp::from_millis(second.saturating_mul(1000))
}

pub(super) fn one_before(instant: Timestamp) -> Timestamp {
    Timestamp::from_millis(instant.as_millis().saturating_sub(1))
}

#[derive(Serialize, Deserialize)]
struct Texts<'a> {
    name: Name,
    #[serde(borrow)]
    zone: Cow<'a, str>,
    calendar: Option<Arc<Calendar>>,
}

impl Serialize for ScheduleCalendar {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (name, calendar) = (self.name.clone(), self.calendar.clone());
        Texts { name, zone: self.zone().into(), calendar }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ScheduleCalendar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Texts { name, zone, calendar } = Texts::deserialize(deserializer)?;
        Ok(ScheduleCalendar {
            calendar,
            ..ScheduleCalendar::named(name, &zone).map_err(serde::de::Error::custom)?
        })
    }
}

#[cfg(test)]
mod tests;
