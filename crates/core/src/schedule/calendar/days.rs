//! The rule of a calendar: whether a day is included.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::super::cron::calendar::month_of;
use super::{Entry, Weekday, Weekly};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Days {
    weekly: Weekly,
    include: Set,
    exclude: Set,
}

/// Which rule decides about a day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Included,
    Excluded,
    /// By its weekday.
    Weekly {
        is_in: bool,
    },
}

impl Verdict {
    pub fn is_in(self) -> bool {
        match self {
            Verdict::Included => true,
            Verdict::Excluded => false,
            Verdict::Weekly { is_in } => is_in,
        }
    }
}

impl Days {
    pub fn new(
        weekly: Weekly,
        include: impl IntoIterator<Item = Entry>,
        exclude: impl IntoIterator<Item = Entry>,
    ) -> Days {
        Days { weekly, include: Set::of(include), exclude: Set::of(exclude) }
    }

    pub fn judge(&self, day: i64) -> Verdict {
        if self.include.has(day) {
            Verdict::Included
        } else if self.exclude.has(day) {
            Verdict::Excluded
        } else {
            Verdict::Weekly { is_in: self.weekly.has(Weekday::of(day)) }
        }
    }

    pub fn has(&self, day: i64) -> bool {
        self.judge(day).is_in()
    }

    /// Whether any day may be included. False is certain; true is not.
    pub fn may_have_any(&self) -> bool {
        self.weekly != Weekly::NONE || !self.include.is_empty()
    }

    /// The first day from `from` to `until` that is included, or excluded if `is_in` is false.
    pub fn first_from(&self, from: i64, until: i64, is_in: bool) -> Option<i64> {
        if is_in && !self.may_have_any() {
            return None;
        }
        (from..=until).find(|day| self.has(*day) == is_in)
    }

    /// The last day from `until` back to `from` that is included, or excluded if `is_in` is false.
    pub fn last_until(&self, until: i64, from: i64, is_in: bool) -> Option<i64> {
        if is_in && !self.may_have_any() {
            return None;
        }
        (from..=until).rev().find(|day| self.has(*day) == is_in)
    }

    pub fn weekly(&self) -> Weekly {
        self.weekly
    }

    /// In order; ranges that touch or overlap are merged.
    pub fn include(&self) -> impl Iterator<Item = Entry> {
        self.include.entries()
    }

    pub fn exclude(&self) -> impl Iterator<Item = Entry> {
        self.exclude.entries()
    }
}

/// A set of days, as the fewest possible ranges.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Set {
    /// Separate and in order, both ends included.
    spans: Box<[(i64, i64)]>,
    /// One bit per day, by month, for days of every year. `None` means no such day.
    yearly: Option<Box<[u32; 12]>>,
}

impl Set {
    fn of(entries: impl IntoIterator<Item = Entry>) -> Set {
        let mut spans = Vec::new();
        let mut yearly: Option<Box<[u32; 12]>> = None;
        for entry in entries {
            match entry {
                Entry::Span { first, last } => spans.push((first, last)),
                Entry::Yearly { month, day } => {
                    let months = yearly.get_or_insert_default();
                    months[usize::from(month - 1)] |= 1 << day;
                }
            }
        }
        spans.sort_unstable();
        let mut apart: Vec<(i64, i64)> = Vec::with_capacity(spans.len());
        for (first, last) in spans {
            match apart.last_mut() {
                Some(before) if first <= before.1 + 1 => before.1 = before.1.max(last),
                _ => apart.push((first, last)),
            }
        }
        Set { spans: apart.into(), yearly }
    }

    fn is_empty(&self) -> bool {
        self.spans.is_empty() && self.yearly.is_none()
    }

    fn has(&self, day: i64) -> bool {
        let after = self.spans.partition_point(|(first, _)| *first <= day);
        if after > 0 && self.spans[after - 1].1 >= day {
            return true;
        }
        self.yearly.as_ref().is_some_and(|months| {
            let (month, day) = month_of(day);
            months[month.month as usize - 1] & (1 << day) != 0
        })
    }

    fn entries(&self) -> impl Iterator<Item = Entry> {
        let spans = self.spans.iter().map(|(first, last)| Entry::Span { first: *first, last: *last });
        let months = self.yearly.iter().flat_map(|months| (1u8..).zip(months.iter()));
        let yearly = months.flat_map(|(month, bits)| {
            let days = (1u8..=31).filter(move |day| bits & (1 << day) != 0);
            days.map(move |day| Entry::Yearly { month, day })
        });
        spans.chain(yearly)
    }
}

/// The stored form: texts as users write them, which outlive any change of the layout here.
#[derive(Serialize, Deserialize)]
struct Texts<'a> {
    #[serde(borrow)]
    weekly: Vec<Cow<'a, str>>,
    #[serde(borrow)]
    include: Vec<Cow<'a, str>>,
    #[serde(borrow)]
    exclude: Vec<Cow<'a, str>>,
}

impl Serialize for Days {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Texts {
            weekly: self.weekly.days().map(|day| day.as_str().into()).collect(),
            include: self.include().map(|entry| entry.to_string().into()).collect(),
            exclude: self.exclude().map(|entry| entry.to_string().into()).collect(),
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Days {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let texts = Texts::deserialize(deserializer)?;
        let entries = |texts: &[Cow<'_, str>]| {
            let entries = texts.iter().map(|text| text.parse::<Entry>());
            entries.collect::<Result<Vec<_>, _>>().map_err(serde::de::Error::custom)
        };
        let weekly = texts.weekly.iter().map(|text| text.parse::<Weekday>());
        Ok(Days::new(
            weekly.collect::<Result<_, _>>().map_err(serde::de::Error::custom)?,
            entries(&texts.include)?,
            entries(&texts.exclude)?,
        ))
    }
}
