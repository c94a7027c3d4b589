//! One field of an expression: a list of elements, each a span of values.
//!
//! An element is `base[/step]`, where base is `*`, a value, a range or an `H`. The elements of day fields only
//! (`L`, `W`, `#`) are handled in `days`.

use super::super::Error;
use super::Weekdays;
use crate::hash;

/// A field's name and values.
#[derive(Debug)]
pub(super) struct Kind {
    pub(super) name: &'static str,
    pub(super) low: u16,
    pub(super) high: u16,
    /// Where `*` ends: at `high`, except that 7 is a second number for Sunday.
    end: u16,
    /// Where `H` ends: for days, at the last day that every month has.
    spread_end: u16,
    /// Whether it starts again after its end. Years do not, so they have no wrapping range and no `H`.
    wraps: bool,
    names: &'static [&'static str],
    /// The value of the first name.
    name_base: u16,
}

const MONTHS: [&str; 12] =
    ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

const fn numbers(name: &'static str, low: u16, high: u16) -> Kind {
    Kind { name, low, high, end: high, spread_end: high, wraps: true, names: &[], name_base: 0 }
}

const fn weekdays(low: u16) -> Kind {
    Kind { end: low + 6, spread_end: low + 6, names: &WEEKDAYS, name_base: low, ..numbers("weekday", low, 7) }
}

pub(super) static SECOND: Kind = numbers("second", 0, 59);
pub(super) static MINUTE: Kind = numbers("minute", 0, 59);
pub(super) static HOUR: Kind = numbers("hour", 0, 23);
pub(super) static DAY: Kind = Kind { spread_end: 28, ..numbers("day", 1, 31) };
pub(super) static MONTH: Kind = Kind { names: &MONTHS, name_base: 1, ..numbers("month", 1, 12) };
pub(super) static YEAR: Kind = Kind { wraps: false, ..numbers("year", 1970, 2099) };
static UNIX_WEEKDAY: Kind = weekdays(0);
static QUARTZ_WEEKDAY: Kind = weekdays(1);

impl Kind {
    pub(super) fn weekday(numbering: Weekdays) -> &'static Kind {
        match numbering {
            Weekdays::Unix => &UNIX_WEEKDAY,
            Weekdays::Quartz => &QUARTZ_WEEKDAY,
        }
    }

    /// The number of values before they start again.
    fn cycle(&self) -> u16 {
        self.end - self.low + 1
    }

    pub(super) fn malformed(&self, text: &str, hint: &'static str) -> Error {
        Error::Malformed { field: self.name, text: text.to_owned(), hint }
    }

    /// A number or a name.
    pub(super) fn value(&self, text: &str) -> Result<u16, Error> {
        if text.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic()) {
            let position = self.names.iter().position(|name| name.eq_ignore_ascii_case(text));
            // There are at most twelve names, so the cast keeps the position.
            return position.map(|at| at as u16 + self.name_base).ok_or_else(|| self.unknown(text));
        }
        self.check(text, number(text).ok_or_else(|| self.unknown(text))?)
    }

    /// Refuses a number out of range; `text` is how it was written.
    pub(super) fn check(&self, text: &str, number: u16) -> Result<u16, Error> {
        if !(self.low..=self.high).contains(&number) {
            let (low, high) = (self.low, self.high);
            return Err(Error::OutOfRange { field: self.name, text: text.to_owned(), low, high });
        }
        Ok(number)
    }

    fn unknown(&self, text: &str) -> Error {
        let hint = if self.names.is_empty() {
            "write a number, a range like 1-5, a step like */5, or a list of them"
        } else {
            "write a number, a short English name like JAN or MON, a range, a step like */2, or a list of them"
        };
        self.malformed(text, hint)
    }
}

/// Digits only: `u16::from_str` would accept a sign. Too many digits give a number that is out of range.
pub(super) fn number(text: &str) -> Option<u16> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(text.parse().unwrap_or(u16::MAX))
}

/// The values `first`, `first + step`, ... up to `last`; a `last` below `first` is in the next cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    first: u16,
    last: u16,
    step: u16,
    /// An open element; see "When clocks change" in the parent.
    pub(super) open: bool,
}

impl Span {
    pub(super) fn parse(kind: &Kind, text: &str, spread_key: Option<&str>) -> Result<Span, Error> {
        let (base, step) = match text.split_once('/') {
            Some((base, step)) => (base, Some(parse_step(kind, text, step)?)),
            None => (text, None),
        };
        if base == "*" {
            return Ok(Span { first: kind.low, last: kind.end, step: step.unwrap_or(1), open: true });
        }
        if base.starts_with(['H', 'h']) {
            return spread(kind, text, base, step, spread_key);
        }
        if let Some((first, last)) = base.split_once('-') {
            return range(kind, text, (kind.value(first)?, kind.value(last)?), step);
        }
        let first = kind.value(base)?;
        Ok(match step {
            Some(step) => Span { first, last: kind.end, step, open: true },
            None => Span { first, last: first, step: 1, open: false },
        })
    }

    pub(super) fn values(self, kind: &Kind) -> impl Iterator<Item = u16> {
        (0..=self.distance(kind)).step_by(usize::from(self.step)).map(move |at| {
            let value = self.first + at;
            if value > kind.high { value - kind.cycle() } else { value }
        })
    }

    fn distance(self, kind: &Kind) -> u16 {
        let last = if self.last < self.first { self.last + kind.cycle() } else { self.last };
        last - self.first
    }
}

fn parse_step(kind: &Kind, text: &str, step: &str) -> Result<u16, Error> {
    let step = number(step).ok_or_else(|| kind.malformed(text, "write the step after `/` as a number"))?;
    if step == 0 || step > kind.cycle() {
        return Err(kind.malformed(text, "a step is at least 1 and at most the size of the field"));
    }
    Ok(step)
}

fn range(kind: &Kind, text: &str, (first, last): (u16, u16), step: Option<u16>) -> Result<Span, Error> {
    if first > last && !kind.wraps {
        return Err(kind.malformed(text, "write the earlier year first"));
    }
    let span = Span { first, last, step: step.unwrap_or(1), open: false };
    Ok(Span { open: span.distance(kind) + 1 >= kind.cycle(), ..span })
}

/// `H`, `H(a-b)`, `H/n`, `H(a-b)/n`.
fn spread(
    kind: &Kind,
    text: &str,
    base: &str,
    step: Option<u16>,
    spread_key: Option<&str>,
) -> Result<Span, Error> {
    let bounds = base.get(1..).unwrap_or_default();
    let hint = "write H, H/n, H(a-b) or H(a-b)/n";
    let (low, high) = if bounds.is_empty() {
        (kind.low, kind.spread_end)
    } else {
        let inner = bounds.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
        let (low, high) =
            inner.and_then(|inner| inner.split_once('-')).ok_or_else(|| kind.malformed(text, hint))?;
        (kind.value(low)?, kind.value(high)?)
    };
    if !kind.wraps || low > high {
        return Err(kind.malformed(text, if kind.wraps { hint } else { "a year cannot be spread" }));
    }
    let key = spread_key.ok_or_else(|| Error::NoSpreadKey { field: kind.name, text: text.to_owned() })?;
    let choices = step.unwrap_or(u16::MAX).min(high - low + 1);
    let pick = hash::stable(&[b"spread", key.as_bytes(), kind.name.as_bytes()]) % u64::from(choices);
    // Below `choices`, so the cast keeps it.
    let first = low + pick as u16;
    Ok(match step {
        Some(step) => Span { first, last: high, step, open: low == kind.low && high >= kind.end },
        None => Span { first, last: first, step: 1, open: false },
    })
}
