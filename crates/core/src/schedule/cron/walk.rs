//! The search over the local calendar, without a zone.
//!
//! Local time is counted in seconds from 1970-01-01 00:00 on the local clock. The search finds a day month by
//! month in the mask of its days, and the time of day by the next bit of hour, minute and second.

use super::calendar::{DAY, Month, month_of};
use super::days::Days;
use super::field;

/// How many years a search looks ahead or back. The rarest day, a given weekday on 29 February, recurs after
/// at most 40 years, if a century year without a leap day is in between.
const YEARS_AHEAD: i64 = 50;
/// The range of a year field, which bounds the search where there is one.
const YEAR_MIN: i64 = field::YEAR.low as i64;
const YEAR_MAX: i64 = field::YEAR.high as i64;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern {
    pub(super) seconds: u64,
    pub(super) minutes: u64,
    pub(super) hours: u64,
    pub(super) days: Days,
    pub(super) months: u64,
    pub(super) years: Option<Years>,
    /// Whether second, minute and hour have no open element; see "When clocks change" in the parent.
    pub(super) fixed: bool,
}

impl Pattern {
    /// The first match at or after a local time.
    pub(super) fn first_from(&self, local: i64) -> Option<i64> {
        let (day, time) = (local.div_euclid(DAY), local.rem_euclid(DAY));
        let (month, day_of_month) = month_of(day);
        if self.allows(month)
            && has(self.days.mask(month).into(), day_of_month)
            && let Some(time) = self.time_from(time)
        {
            return Some(day * DAY + time);
        }
        let day = self.day_from(month, day_of_month + 1)?;
        Some(day * DAY + self.time_from(0)?)
    }

    /// The last match at or before a local time.
    pub(super) fn last_until(&self, local: i64) -> Option<i64> {
        let (day, time) = (local.div_euclid(DAY), local.rem_euclid(DAY));
        let (month, day_of_month) = month_of(day);
        if self.allows(month)
            && has(self.days.mask(month).into(), day_of_month)
            && let Some(time) = self.time_until(time)
        {
            return Some(day * DAY + time);
        }
        let day = self.day_until(month, day_of_month - 1)?;
        Some(day * DAY + self.time_until(DAY - 1)?)
    }

    /// Whether any day can match. The 28 years after 1970 contain every kind of year; with a year field the search
    /// ends at its last year.
    pub(super) fn ever_occurs(&self) -> bool {
        self.day_from(Month { year: 1970, month: 1 }, 1).is_some()
    }

    fn allows(&self, month: Month) -> bool {
        has(self.months, month.month) && self.years.as_ref().is_none_or(|years| years.contains(month.year))
    }

    /// The first matching day at or after a day of a month, which may be one past its end.
    fn day_from(&self, mut month: Month, day_of_month: u32) -> Option<i64> {
        let end = if self.years.is_some() { YEAR_MAX } else { month.year + YEARS_AHEAD };
        let mut from = day_of_month;
        while month.year <= end {
            if self.allows(month)
                && let Some(day) = first(self.days.mask(month).into(), from)
            {
                return Some(month.first_day() + i64::from(day) - 1);
            }
            from = 1;
            month = match first(self.months, month.month + 1) {
                Some(next) => Month { month: next, ..month },
                None => Month { year: month.year + 1, month: self.months.trailing_zeros() },
            };
        }
        None
    }

    /// The last matching day at or before a day of a month, which may be 0.
    fn day_until(&self, mut month: Month, day_of_month: u32) -> Option<i64> {
        let mut until = day_of_month;
        if self.years.is_some() && month.year > YEAR_MAX {
            (month, until) = (Month { year: YEAR_MAX, month: 12 }, 31);
        }
        let end = if self.years.is_some() { YEAR_MIN } else { month.year - YEARS_AHEAD };
        while month.year >= end {
            if self.allows(month)
                && let Some(day) = last(self.days.mask(month).into(), until)
            {
                return Some(month.first_day() + i64::from(day) - 1);
            }
            until = 31;
            month = match last(self.months, month.month - 1) {
                Some(previous) => Month { month: previous, ..month },
                None => Month { year: month.year - 1, month: self.months.ilog2() },
            };
        }
        None
    }

    fn time_from(&self, time: i64) -> Option<i64> {
        let (hour, minute, second) = split(time);
        if has(self.hours, hour) {
            if has(self.minutes, minute)
                && let Some(second) = first(self.seconds, second)
            {
                return Some(join(hour, minute, second));
            }
            if let Some(minute) = first(self.minutes, minute + 1) {
                return Some(join(hour, minute, self.seconds.trailing_zeros()));
            }
        }
        let hour = first(self.hours, hour + 1)?;
        Some(join(hour, self.minutes.trailing_zeros(), self.seconds.trailing_zeros()))
    }

    fn time_until(&self, time: i64) -> Option<i64> {
        let (hour, minute, second) = split(time);
        if has(self.hours, hour) {
            if has(self.minutes, minute)
                && let Some(second) = last(self.seconds, second)
            {
                return Some(join(hour, minute, second));
            }
            if minute > 0
                && let Some(minute) = last(self.minutes, minute - 1)
            {
                return Some(join(hour, minute, self.seconds.ilog2()));
            }
        }
        let hour = last(self.hours, hour.checked_sub(1)?)?;
        Some(join(hour, self.minutes.ilog2(), self.seconds.ilog2()))
    }
}

/// A set of years in the range of a year field.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Years([u64; 3]);

impl Years {
    pub(super) fn insert(&mut self, year: u16) {
        let bit = usize::from(year - field::YEAR.low);
        self.0[bit / 64] |= 1 << (bit % 64);
    }

    pub(super) fn contains(&self, year: i64) -> bool {
        usize::try_from(year - YEAR_MIN)
            .is_ok_and(|bit| self.0.get(bit / 64).is_some_and(|word| word >> (bit % 64) & 1 == 1))
    }
}

fn has(set: u64, value: u32) -> bool {
    set >> value & 1 == 1
}

/// The lowest member of a set at or above `from`, which is at most 60.
fn first(set: u64, from: u32) -> Option<u32> {
    let rest = set & (u64::MAX << from);
    (rest != 0).then(|| rest.trailing_zeros())
}

/// The highest member of a set at or below `until`, which is at most 59.
fn last(set: u64, until: u32) -> Option<u32> {
    (set & (u64::MAX >> (63 - until))).checked_ilog2()
}

/// Hour, minute and second of a time of day. It is below a day, so the casts are exact.
fn split(time: i64) -> (u32, u32, u32) {
    let time = time as u32;
    (time / 3600, time / 60 % 60, time % 60)
}

fn join(hour: u32, minute: u32, second: u32) -> i64 {
    i64::from(hour * 3600 + minute * 60 + second)
}
