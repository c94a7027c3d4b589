//! One line of `include` or `exclude`: a day, a range of days, or a day of every year.

use std::fmt;
use std::str::FromStr;

use jiff::civil::Date;

use super::super::cron::calendar::{Month, month_of};

/// The years of a date: the same as those of an instant.
const YEAR_MIN: i16 = 1970;
const YEAR_MAX: i16 = 9998;
/// Bytes of the longest entry, `YYYY-MM-DD..YYYY-MM-DD`, and some to spare; a longer text is not parsed.
const TEXT_MAX: usize = 32;

/// Days are counted from 1970-01-01.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Entry {
    /// Both ends included; a single day is a range of one.
    Span { first: i64, last: i64 },
    /// The same day of every year; 02-29 exists only in leap years.
    Yearly { month: u8, day: u8 },
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a day: {why}; write 2026-10-01, 2026-10-01..2026-10-07 or, for every year, 12-25")]
pub struct NotADay {
    text: String,
    why: &'static str,
}

impl FromStr for Entry {
    type Err = NotADay;

    fn from_str(text: &str) -> Result<Self, NotADay> {
        let refused = |why| NotADay { text: text.chars().take(TEXT_MAX).collect(), why };
        if text.len() > TEXT_MAX {
            return Err(refused("it is too long"));
        }
        if let Some((first, last)) = text.split_once("..") {
            let (first, last) = (date(first).map_err(refused)?, date(last).map_err(refused)?);
            if first > last {
                return Err(refused("the span ends before it begins"));
            }
            return Ok(Entry::Span { first, last });
        }
        if text.len() == "12-25".len() {
            return yearly(text).map_err(refused);
        }
        let day = date(text).map_err(refused)?;
        Ok(Entry::Span { first: day, last: day })
    }
}

fn date(text: &str) -> Result<i64, &'static str> {
    let shape = "a date is written year-month-day, with two digits for month and day";
    let bytes = text.as_bytes();
    let fits = bytes.len() == 10
        && bytes.iter().enumerate().all(|(index, byte)| match index {
            4 | 7 => *byte == b'-',
            _ => byte.is_ascii_digit(),
        });
    if !fits {
        return Err(shape);
    }
    let date: Date = text.parse().map_err(|_| "there is no such date")?;
    if !(YEAR_MIN..=YEAR_MAX).contains(&date.year()) {
        return Err("the year is outside 1970 to 9998");
    }
    Ok(day_number(date))
}

fn yearly(text: &str) -> Result<Entry, &'static str> {
    let shape = "a day of every year is written month-day, with two digits each";
    let (month, day) = text.split_once('-').ok_or(shape)?;
    let number = |text: &str| {
        let digits = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        if digits { text.parse::<u8>().map_err(|_| shape) } else { Err(shape) }
    };
    let (month, day) = (number(month)?, number(day)?);
    // Checked in a leap year, because 02-29 is valid.
    let exists = (1..=12).contains(&month)
        && (1..=Month { year: 2000, month: u32::from(month) }.len()).contains(&u32::from(day));
    if exists { Ok(Entry::Yearly { month, day }) } else { Err("there is no such day in any year") }
}

/// A date as a number of days since 1970-01-01.
pub fn day_number(date: Date) -> i64 {
    let month = Month { year: i64::from(date.year()), month: u32::from(date.month().unsigned_abs()) };
    month.first_day() + i64::from(date.day()) - 1
}

/// `2026-10-01`
pub fn day_text(day: i64) -> String {
    let (month, day) = month_of(day);
    format!("{:04}-{:02}-{day:02}", month.year, month.month)
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Entry::Span { first, last } if first == last => f.write_str(&day_text(first)),
            Entry::Span { first, last } => write!(f, "{}..{}", day_text(first), day_text(last)),
            Entry::Yearly { month, day } => write!(f, "{month:02}-{day:02}"),
        }
    }
}
