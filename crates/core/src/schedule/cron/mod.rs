//! Cron expressions in a time zone.
//!
//! # The dialect
//!
//! Five fields, `minute hour day month weekday`; six with a leading `second`; seven with a trailing `year`.
//!
//! | field | values | besides `*`, `a`, `a-b`, `*/n`, `a/n`, `a-b/n` and lists of them |
//! | --- | --- | --- |
//! | second, minute | 0-59 | `H` |
//! | hour | 0-23 | `H` |
//! | day | 1-31 | `?`, `L` last, `L-n` the n-th before it, `LW` last Monday-to-Friday day, `nW` and `L-nW` the one nearest to that day in its month, `H` (1-28) |
//! | month | 1-12, JAN-DEC | `H` |
//! | weekday | 0-7, SUN-SAT (0 and 7 are Sunday; Quartz: 1-7 from Sunday) | `?`, `nL` the last of its month, `n#k` the k-th, `H` |
//! | year | 1970-2099 | |
//!
//! Upper and lower case mean the same. A range may wrap (`FRI-MON`, `22-2`), except for years. `a/n` runs from `a` to the
//! end of the field. `H` is one value picked by a hash of the spread key and the field, `H(a-b)` one of a
//! range, `H/n` and `H(a-b)/n` a step with a picked offset: many jobs written alike do not fire at once.
//! Nicknames: `@hourly @daily @midnight @weekly @monthly @yearly @annually`.
//!
//! # Day and weekday
//!
//! Vixie's rule. A day field is *free* if it is `?` or starts with `*`, otherwise it is *restricted*. If both
//! are restricted, a day matches when **either** matches (`0 0 13 * FRI`: every 13th and every Friday).
//! In all other cases **both** must match (`0 0 */2 * MON`: Mondays on odd days).
//!
//! # When clocks change
//!
//! An element is *open* if it is `*`, a step without an upper end (`*/n`, `a/n`, `H/n`) or a range over the
//! whole field. An expression is *fixed* if second, minute and hour have no open element.
//!
//! - A **fixed** expression fires the first time the local clock reaches **or passes** one of its times. So
//!   a time inside a gap fires at the end of the gap (several of them once), and a repeated time fires in
//!   the first pass only.
//! - Any other expression fires **whenever** the local clock shows one of its times. So in a fold it fires in
//!   both passes, and a time inside a gap, which the clock never shows, does not fire.
//!
//! # Cost
//!
//! A field is a bit set and the days of a month are one mask, so a search steps by months, not by minutes; a
//! time that comes every forty years is found in microseconds. An expression that never occurs is refused.

pub(super) mod calendar;
mod days;
mod field;
mod outline;
mod parse;
mod walk;
pub(super) mod zone;

use std::borrow::Cow;
use std::fmt;

use jiff::tz::TimeZone;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Error;
use crate::time::Timestamp;
pub(super) use outline::{Clock, Days, DaysOfMonth, DaysOfWeek, Outline, Part, Time, Values};
use walk::Pattern;

/// Bytes of an expression.
pub const EXPRESSION_MAX: usize = 256;
/// Bytes of the name of a zone.
pub const ZONE_MAX: usize = 64;

/// How weekdays are numbered. The names are the same in both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Weekdays {
    /// 0 to 7 from Sunday to Sunday.
    #[default]
    Unix,
    /// 1 to 7 from Sunday to Saturday, as in Quartz.
    Quartz,
}

#[derive(Clone, PartialEq, Eq)]
pub struct Cron {
    expression: Box<str>,
    spread_key: Option<Box<str>>,
    zone: TimeZone,
    weekdays: Weekdays,
    pattern: Pattern,
}

impl Cron {
    pub fn parse(expression: &str, zone: &str) -> Result<Cron, Error> {
        Cron::parse_with(expression, zone, Weekdays::Unix, None)
    }

    pub fn parse_with(
        expression: &str,
        zone: &str,
        weekdays: Weekdays,
        spread_key: Option<&str>,
    ) -> Result<Cron, Error> {
        let expression = expression.trim_ascii();
        Ok(Cron {
            pattern: parse::pattern(expression, weekdays, spread_key)?,
            expression: expression.into(),
            spread_key: spread_key.map(Into::into),
            zone: zone::find(zone)?,
            weekdays,
        })
    }

    /// The first occurrence after `after`. `None` means none within fifty years.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        if after >= Timestamp::MAX {
            return None;
        }
        let after = after.as_millis().max(-1).div_euclid(1000);
        let due = if self.pattern.fixed {
            let local = self.pattern.first_from(zone::seen(&self.zone, after) + 1)?;
            zone::first_reached(&self.zone, local)
        } else {
            self.next_shown(after + 1)?
        };
        instant(due)
    }

    /// The last occurrence at or before `until`. `None` means none within fifty years.
    pub fn previous(&self, until: Timestamp) -> Option<Timestamp> {
        if until < Timestamp::MIN {
            return None;
        }
        let until = until.min(Timestamp::MAX).as_millis().div_euclid(1000);
        let due = if self.pattern.fixed {
            let local = self.pattern.last_until(zone::seen(&self.zone, until))?;
            zone::first_reached(&self.zone, local)
        } else {
            self.previous_shown(until)?
        };
        instant(due)
    }

    pub fn expression(&self) -> &str {
        &self.expression
    }

    /// The name of the zone as spelt in the time zone database.
    pub fn zone(&self) -> &str {
        self.zone.iana_name().unwrap_or("UTC")
    }

    /// An instant in the local time of the zone, with its offset from UTC.
    pub fn local(&self, instant: Timestamp) -> String {
        zone::local(&self.zone, instant)
    }

    pub fn weekdays(&self) -> Weekdays {
        self.weekdays
    }

    pub fn spread_key(&self) -> Option<&str> {
        self.spread_key.as_deref()
    }

    /// The first second at or after `from` whose local time matches. Between two changes of the zone the
    /// local clock runs evenly, so the search goes from one such period to the next.
    fn next_shown(&self, mut from: i64) -> Option<i64> {
        loop {
            let offset = zone::offset(&self.zone, from);
            let due = self.pattern.first_from(from + offset)? - offset;
            let Some(change) = zone::change_after(&self.zone, from).filter(|change| *change <= due) else {
                return Some(due);
            };
            // If the change is not near, the clock cannot fall back behind `from`, so nothing matches until about
            // `due`, however many changes are between.
            let far = change - from > zone::OFFSETS_APART_MAX;
            from = if far { change.max(due - zone::OFFSETS_APART_MAX) } else { change };
        }
    }

    /// `next_shown`, backwards: the last second at or before `until`.
    fn previous_shown(&self, mut until: i64) -> Option<i64> {
        loop {
            let offset = zone::offset(&self.zone, until);
            let due = self.pattern.last_until(until + offset)? - offset;
            let Some(change) = zone::change_until(&self.zone, until).filter(|change| *change > due) else {
                return Some(due);
            };
            let far = until - change > zone::OFFSETS_APART_MAX;
            until = if far { (change - 1).min(due + zone::OFFSETS_APART_MAX) } else { change - 1 };
        }
    }
}

fn instant(second: i64) -> Option<Timestamp> {
    let instant = Timestamp::from_millis(second.checked_mul(1000)?);
    (Timestamp::MIN..=Timestamp::MAX).contains(&instant).then_some(instant)
}

impl fmt::Debug for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cron({:?} in {})", self.expression, self.zone())
    }
}

/// The stored form: texts, because bit sets would tie every row to the layout of this version.
#[derive(Serialize, Deserialize)]
struct Texts<'a> {
    #[serde(borrow)]
    expression: Cow<'a, str>,
    #[serde(borrow)]
    zone: Cow<'a, str>,
    weekdays: Weekdays,
    #[serde(borrow)]
    spread_key: Option<Cow<'a, str>>,
}

impl Serialize for Cron {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Texts {
            expression: self.expression().into(),
            zone: self.zone().into(),
            weekdays: self.weekdays,
            spread_key: self.spread_key().map(Into::into),
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Cron {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let texts = Texts::deserialize(deserializer)?;
        Cron::parse_with(&texts.expression, &texts.zone, texts.weekdays, texts.spread_key.as_deref())
            .map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests;
