//! The days of a week.

use std::fmt;
use std::str::FromStr;

/// Monday first, as ISO counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Weekday {
    Monday,
    Tuesday,
    Wednesday,
    Thursday,
    Friday,
    Saturday,
    Sunday,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a weekday; write mon, tue, wed, thu, fri, sat or sun")]
pub struct NotAWeekday(String);

impl Weekday {
    pub const ALL: [Weekday; 7] = [
        Weekday::Monday,
        Weekday::Tuesday,
        Weekday::Wednesday,
        Weekday::Thursday,
        Weekday::Friday,
        Weekday::Saturday,
        Weekday::Sunday,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Weekday::Monday => "mon",
            Weekday::Tuesday => "tue",
            Weekday::Wednesday => "wed",
            Weekday::Thursday => "thu",
            Weekday::Friday => "fri",
            Weekday::Saturday => "sat",
            Weekday::Sunday => "sun",
        }
    }

    /// The weekday of a day counted from 1970-01-01, which was a Thursday.
    pub fn of(day: i64) -> Weekday {
        // The remainder is below 7, so the cast keeps it.
        Weekday::ALL[(day + 3).rem_euclid(7) as usize]
    }
}

impl fmt::Display for Weekday {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Weekday {
    type Err = NotAWeekday;

    fn from_str(text: &str) -> Result<Self, NotAWeekday> {
        let found = Weekday::ALL.into_iter().find(|day| day.as_str().eq_ignore_ascii_case(text));
        found.ok_or_else(|| NotAWeekday(text.chars().take(32).collect()))
    }
}

/// A set of weekdays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Weekly(u8);

impl Weekly {
    pub const EVERY_DAY: Weekly = Weekly(0b111_1111);
    pub const NONE: Weekly = Weekly(0);

    pub fn has(self, day: Weekday) -> bool {
        self.0 & (1 << day as u8) != 0
    }

    pub fn days(self) -> impl Iterator<Item = Weekday> {
        Weekday::ALL.into_iter().filter(move |day| self.has(*day))
    }
}

impl FromIterator<Weekday> for Weekly {
    fn from_iter<I: IntoIterator<Item = Weekday>>(days: I) -> Self {
        Weekly(days.into_iter().fold(0, |bits, day| bits | 1 << day as u8))
    }
}
