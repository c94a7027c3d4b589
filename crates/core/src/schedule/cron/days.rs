//! The matching days of a month, from the day and the weekday field together.
//!
//! A month is a mask with bit n for day n. Every form of both fields is turned into such a mask by shifts,
//! so that a whole month takes a few instructions.

use super::super::Error;
use super::Weekdays;
use super::calendar::Month;
use super::field::{self, Kind, Span};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Days {
    pub(super) of_month: OfMonth,
    pub(super) of_week: OfWeek,
    /// Vixie's rule: both fields are restricted, so a match of either is enough.
    pub(super) either: bool,
}

impl Days {
    pub(super) fn parse(
        day: &str,
        weekday: &str,
        numbering: Weekdays,
        spread_key: Option<&str>,
    ) -> Result<Days, Error> {
        Ok(Days {
            of_month: OfMonth::parse(day, spread_key)?,
            of_week: OfWeek::parse(weekday, numbering, spread_key)?,
            either: !is_free(day) && !is_free(weekday),
        })
    }

    /// The matching days of a month.
    pub(super) fn mask(&self, month: Month) -> u32 {
        let (len, first_weekday) = (month.len(), month.first_weekday());
        let of_month = self.of_month.mask(len, first_weekday);
        let of_week = self.of_week.mask(len, first_weekday);
        let mask = if self.either { of_month | of_week } else { of_month & of_week };
        mask & days_up_to(len)
    }
}

fn is_free(text: &str) -> bool {
    text == "?" || text.starts_with('*')
}

/// Bits 1 to `len`.
fn days_up_to(len: u32) -> u32 {
    (u32::MAX >> (31 - len)) & !1
}

/// The day field. In `last` and `last_nearest`, bit n is the n-th day before the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct OfMonth {
    pub(super) plain: u32,
    /// `nW`
    pub(super) nearest: u32,
    /// `L`, `L-n`
    pub(super) last: u32,
    /// `LW`, `L-nW`
    pub(super) last_nearest: u32,
}

impl OfMonth {
    fn parse(text: &str, spread_key: Option<&str>) -> Result<OfMonth, Error> {
        let mut days = OfMonth::default();
        if text == "?" {
            days.plain = days_up_to(31);
            return Ok(days);
        }
        for element in text.split(',') {
            let (base, nearest) = match element.strip_suffix(['W', 'w']) {
                Some(base) => (base, true),
                None => (element, false),
            };
            if let Some(rest) = base.strip_prefix(['L', 'l']) {
                let before = days_before_last(element, rest)?;
                *(if nearest { &mut days.last_nearest } else { &mut days.last }) |= 1 << before;
            } else if nearest {
                let hint = "write one day before W, like 15W, or LW";
                let day = field::number(base).ok_or_else(|| field::DAY.malformed(element, hint))?;
                days.nearest |= 1 << field::DAY.check(base, day)?;
            } else {
                for day in Span::parse(&field::DAY, element, spread_key)?.values(&field::DAY) {
                    days.plain |= 1 << day;
                }
            }
        }
        Ok(days)
    }

    fn mask(&self, len: u32, first_weekday: u32) -> u32 {
        let mut mask = self.plain;
        if self.last != 0 {
            // Reversed, bit n of `last` becomes day `len - n`.
            mask |= self.last.reverse_bits() >> (31 - len);
        }
        let mut near = self.nearest & days_up_to(len);
        if self.last_nearest != 0 {
            near |= self.last_nearest.reverse_bits() >> (31 - len) & !1;
        }
        while near != 0 {
            mask |= 1 << nearest_workday(near.trailing_zeros(), len, first_weekday);
            near &= near - 1;
        }
        mask
    }
}

/// The `n` of `L-n`; `rest` is the text after the `L`.
fn days_before_last(element: &str, rest: &str) -> Result<u16, Error> {
    if rest.is_empty() {
        return Ok(0);
    }
    let hint = "write L, L-n with n from 1 to 30, or LW";
    let before = rest.strip_prefix('-').and_then(field::number).filter(|n| (1..=30).contains(n));
    before.ok_or_else(|| field::DAY.malformed(element, hint))
}

/// The Monday-to-Friday day nearest to `day` in the same month.
fn nearest_workday(day: u32, len: u32, first_weekday: u32) -> u32 {
    match (first_weekday + day - 1) % 7 {
        6 if day > 1 => day - 1,
        6 => day + 2,
        0 if day < len => day + 1,
        0 => day - 2,
        _ => day,
    }
}

/// The weekday field: sets of weekdays, where bit 0 is Sunday.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct OfWeek {
    pub(super) plain: u8,
    /// `n#k`, at index k - 1.
    pub(super) nth: [u8; 5],
    /// `nL`
    pub(super) last: u8,
}

impl OfWeek {
    fn parse(text: &str, numbering: Weekdays, spread_key: Option<&str>) -> Result<OfWeek, Error> {
        let mut week = OfWeek::default();
        if text == "?" {
            week.plain = 0x7f;
            return Ok(week);
        }
        let kind = Kind::weekday(numbering);
        let bit = |value: u16| match numbering {
            Weekdays::Unix => 1u8 << (value % 7),
            Weekdays::Quartz => 1u8 << (value - 1),
        };
        for element in text.split(',') {
            if let Some((weekday, count)) = element.split_once('#') {
                let hint = "write the count after # as a number from 1 to 5";
                let count = field::number(count).filter(|count| (1..=5).contains(count));
                let count = count.ok_or_else(|| kind.malformed(element, hint))?;
                week.nth[usize::from(count) - 1] |= bit(kind.value(weekday)?);
            } else if let Some(weekday) = element.strip_suffix(['L', 'l']) {
                if weekday.is_empty() {
                    return Err(kind.malformed(
                        element,
                        "write the weekday before it, like FRIL, or name the day, like SAT",
                    ));
                }
                week.last |= bit(kind.value(weekday)?);
            } else {
                for weekday in Span::parse(kind, element, spread_key)?.values(kind) {
                    week.plain |= bit(weekday);
                }
            }
        }
        Ok(week)
    }

    fn mask(&self, len: u32, first_weekday: u32) -> u32 {
        let mut mask = every_week(self.plain, first_weekday);
        for (weeks, set) in (0..).zip(self.nth) {
            if set != 0 {
                mask |= every_week(set, first_weekday) & (0xfe << (7 * weeks));
            }
        }
        if self.last != 0 {
            mask |= every_week(self.last, first_weekday) & (0x7f << (len - 6));
        }
        mask
    }
}

/// The days of a month that fall on a set of weekdays.
fn every_week(set: u8, first_weekday: u32) -> u32 {
    // Rotated so that bit 0 is the weekday of the 1st, then repeated five times from day 1.
    let set = u64::from(set);
    let week = ((set >> first_weekday) | (set << (7 - first_weekday))) & 0x7f;
    let weeks = week << 1 | week << 8 | week << 15 | week << 22 | week << 29;
    // Days past the 31st are cut off.
    (weeks & 0xffff_fffe) as u32
}
