//! The meaning of an expression, independent of a language: the sets of its fields, grouped as people would say them.
//!
//! Made from the bit sets and not from the text, so that `1,2,3` and `3,1-2` have the same outline and an `H` has its
//! picked value. Only the time of day is parsed again, because the sets do not tell whether a step is open.

use std::fmt;

use super::Cron;
use super::days::{self, OfMonth, OfWeek};
use super::field;
use super::parse::{self, Field};

/// How many times of day are listed one by one; more are described by a rule.
const CLOCKS_MAX: usize = 6;
/// How many consecutive values become a range, and how many equally spaced values a step.
const RANGE_MIN: u16 = 3;
const STEPS_MIN: usize = 4;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::schedule) struct Outline {
    pub(in crate::schedule) time: Time,
    /// `None` means any day.
    pub(in crate::schedule) days: Option<Days>,
    /// 1 to 12. Empty means any month.
    pub(in crate::schedule) months: Vec<Part>,
    /// Empty means any year.
    pub(in crate::schedule) years: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::schedule) enum Time {
    /// At these times of the day.
    Clocks(Vec<Clock>),
    /// Every `step` hours from one time of day to another, both included.
    Hours { first: Clock, last: Clock, step: u16 },
    /// Every `step` hours from a time of day on; `even` means that the interval also holds across midnight.
    HoursFrom { first: Clock, step: u16, even: bool },
    /// A pattern of minutes or seconds in some hours. No seconds means at the full minute.
    Beat { seconds: Option<Values>, minutes: Values, hours: Values },
}

/// A time of day. No second means at the full minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::schedule) struct Clock {
    pub(in crate::schedule) hour: u16,
    pub(in crate::schedule) minute: u16,
    pub(in crate::schedule) second: Option<u16>,
}

impl fmt::Display for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02}:{:02}", self.hour, self.minute)?;
        self.second.map_or(Ok(()), |second| write!(f, ":{second:02}"))
    }
}

/// The values of a second, minute or hour field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::schedule) enum Values {
    Every,
    /// From `first` to the end of the field; `even` means that the interval also holds across the end.
    Steps {
        first: u16,
        step: u16,
        even: bool,
    },
    Some(Vec<Part>),
}

/// A part of a set. `Steps` is always the only part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::schedule) enum Part {
    One(u16),
    /// Both ends included; the last may be in the next cycle.
    Range(u16, u16),
    Steps {
        first: u16,
        last: u16,
        step: u16,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::schedule) enum Days {
    OfMonth(DaysOfMonth),
    OfWeek(DaysOfWeek),
    Either(DaysOfMonth, DaysOfWeek),
    Both(DaysOfMonth, DaysOfWeek),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::schedule) struct DaysOfMonth {
    pub(in crate::schedule) plain: Vec<Part>,
    /// Counted as days before the last.
    pub(in crate::schedule) last: Vec<u16>,
    /// The Monday-to-Friday day nearest to these.
    pub(in crate::schedule) nearest: Vec<u16>,
    /// The Monday-to-Friday day nearest to this many days before the last.
    pub(in crate::schedule) last_nearest: Vec<u16>,
}

/// Weekdays from 1, Monday, to 7, Sunday.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::schedule) struct DaysOfWeek {
    pub(in crate::schedule) plain: Vec<Part>,
    /// A weekday, and its number in the month.
    pub(in crate::schedule) nth: Vec<(u16, u16)>,
    pub(in crate::schedule) last: Vec<u16>,
}

impl Cron {
    pub(in crate::schedule) fn outline(&self) -> Outline {
        let times = parse::times_of(&self.expression, self.spread_key.as_deref());
        let [second, minute, hour] = times.expect("a cron was read from this text before");
        let pattern = &self.pattern;
        Outline {
            time: time(second, minute, hour),
            days: days(&pattern.days),
            months: match members(pattern.months) {
                all if all.len() == 12 => Vec::new(),
                some => grouped(&some, Some((1, 12)), false),
            },
            years: pattern.years.as_ref().map_or(Vec::new(), |years| {
                let named = field::YEAR.low..=field::YEAR.high;
                grouped(&named.filter(|year| years.contains((*year).into())).collect::<Vec<_>>(), None, true)
            }),
        }
    }
}

fn time(second: Field, minute: Field, hour: Field) -> Time {
    let seconds = Values::of(second, 60, false);
    let minutes = Values::of(minute, 60, false);
    let hours = Values::of(hour, 24, true);
    let at_zero = seconds == Values::Some(vec![Part::One(0)]);
    if let (Values::Some(_), Values::Some(_)) = (&seconds, &minutes) {
        let clock = |hour, minute, second| Clock { hour, minute, second: (!at_zero).then_some(second) };
        let [second, minute, hour] = [second, minute, hour].map(|field| members(field.bits));
        let single = minute.len() == 1 && second.len() == 1;
        let at = |hour| clock(hour, minute[0], second[0]);
        match &hours {
            Values::Some(parts) => match parts[..] {
                [Part::Range(first, last)] if single && hour.len() >= STEPS_MIN => {
                    return Time::Hours { first: at(first), last: at(last), step: 1 };
                }
                [Part::Steps { first, last, step }] if single && hour.len() >= STEPS_MIN => {
                    return Time::Hours { first: at(first), last: at(last), step };
                }
                _ if single || hour.len() * minute.len() * second.len() <= CLOCKS_MAX => {
                    let mut clocks = Vec::new();
                    for &hour in &hour {
                        for &minute in &minute {
                            clocks.extend(second.iter().map(|&second| clock(hour, minute, second)));
                        }
                    }
                    return Time::Clocks(clocks);
                }
                _ => {}
            },
            &Values::Steps { first, step, even } if single => {
                return Time::HoursFrom { first: at(first), step, even };
            }
            _ => {}
        }
    }
    Time::Beat { seconds: (!at_zero).then_some(seconds), minutes, hours }
}

impl Values {
    fn of(field: Field, cycle: u16, wraps: bool) -> Values {
        let values = members(field.bits);
        if field.open && values.len() == usize::from(cycle) {
            return Values::Every;
        }
        if let (true, Some(step)) = (field.open, distance(&values))
            && values[values.len() - 1] + step >= cycle
        {
            let first = values[0];
            return Values::Steps { first, step, even: first < step && cycle.is_multiple_of(step) };
        }
        Values::Some(grouped(&values, wraps.then_some((0, cycle - 1)), true))
    }
}

fn days(days: &days::Days) -> Option<Days> {
    let (any_month, any_week) = (days.of_month.plain == 0xffff_fffe, days.of_week.plain == 0x7f);
    let of_month = || DaysOfMonth::of(&days.of_month);
    let of_week = || DaysOfWeek::of(&days.of_week);
    match (any_month, any_week) {
        _ if days.either => Some(Days::Either(of_month(), of_week())),
        (true, true) => None,
        (true, false) => Some(Days::OfWeek(of_week())),
        (false, true) => Some(Days::OfMonth(of_month())),
        (false, false) => Some(Days::Both(of_month(), of_week())),
    }
}

impl DaysOfMonth {
    fn of(days: &OfMonth) -> DaysOfMonth {
        DaysOfMonth {
            plain: grouped(&members(days.plain.into()), None, true),
            last: members(days.last.into()),
            nearest: members(days.nearest.into()),
            last_nearest: members(days.last_nearest.into()),
        }
    }

    /// Whether it has a day other than by its number.
    pub(in crate::schedule) fn has_special(&self) -> bool {
        !(self.last.is_empty() && self.nearest.is_empty() && self.last_nearest.is_empty())
    }
}

impl DaysOfWeek {
    fn of(days: &OfWeek) -> DaysOfWeek {
        let nth = (1..).zip(days.nth);
        DaysOfWeek {
            plain: grouped(&from_monday(days.plain), Some((1, 7)), false),
            nth: nth
                .flat_map(|(count, set)| from_monday(set).into_iter().map(move |day| (day, count)))
                .collect(),
            last: from_monday(days.last),
        }
    }
}

/// Turns a set with Sunday as 0 into one with Sunday as 7.
fn from_monday(set: u8) -> Vec<u16> {
    members((u64::from(set) | u64::from(set & 1) << 7) & !1)
}

fn members(set: u64) -> Vec<u16> {
    (0..64).filter(|value| set >> value & 1 == 1).collect()
}

/// The distance between the values if it is always the same. `None` also for fewer than two.
fn distance(values: &[u16]) -> Option<u16> {
    let step = values.get(1)? - values[0];
    values.windows(2).all(|pair| pair[1] - pair[0] == step).then_some(step)
}

/// Groups ordered values, at least one, into ranges, a step and single values. `cycle` is the first and last value of a
/// field in which a range may wrap.
fn grouped(values: &[u16], cycle: Option<(u16, u16)>, steps: bool) -> Vec<Part> {
    if let (true, Some(step @ 2..)) = (steps && values.len() >= STEPS_MIN, distance(values)) {
        return vec![Part::Steps { first: values[0], last: values[values.len() - 1], step }];
    }
    let mut rows: Vec<(u16, u16)> = Vec::new();
    for &value in values {
        match rows.last_mut() {
            Some((_, last)) if *last + 1 == value => *last = value,
            _ => rows.push((value, value)),
        }
    }
    let mut wrapped = None;
    if let (Some((low, end)), [(first, until), .., (from, last)]) = (cycle, &rows[..])
        && (low, end) == (*first, *last)
        && (until - first + 1) + (last - from + 1) >= RANGE_MIN
    {
        wrapped = Some(Part::Range(*from, *until));
        rows.remove(0);
        rows.pop();
    }
    let mut parts = Vec::new();
    for (first, last) in rows {
        if last - first + 1 >= RANGE_MIN {
            parts.push(Part::Range(first, last));
        } else {
            parts.extend((first..=last).map(Part::One));
        }
    }
    parts.extend(wrapped);
    parts
}
