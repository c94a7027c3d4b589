//! The slow walk: what an expression means, written a second time and on purpose without a single clever
//! step. It shares no code with the search it checks: a tree that is printed for the one and asked value
//! by value by the other, with jiff's own calendar.

use std::fmt;

use jiff::ToSpan;
use jiff::civil::{Date, DateTime, Weekday};
use jiff::tz::TimeZone;

#[derive(Debug, Clone)]
pub(super) enum Item {
    All,
    Question,
    One(i64),
    Range(i64, i64),
    /// `*/n`
    Steps(i64),
    /// `a/n`
    From(i64, i64),
    /// `a-b/n`
    RangeSteps(i64, i64, i64),
    /// `L-n`
    Last(i64),
    /// `LW`
    LastWorkday,
    /// `nW`
    Nearest(i64),
    /// `nL`
    LastOf(i64),
    /// `n#k`
    Nth(i64, i64),
}

#[derive(Debug, Clone)]
pub(super) struct Field {
    pub(super) low: i64,
    /// The last value of `*`.
    pub(super) high: i64,
    pub(super) items: Vec<Item>,
}

/// Second, minute, hour, day, month, weekday, year; the first and the last may be absent.
#[derive(Clone)]
pub(super) struct Expression {
    pub(super) second: Option<Field>,
    pub(super) minute: Field,
    pub(super) hour: Field,
    pub(super) day: Field,
    pub(super) month: Field,
    pub(super) weekday: Field,
    pub(super) year: Option<Field>,
}

impl Expression {
    pub(super) fn matches(&self, local: DateTime) -> bool {
        self.matches_day(local.date())
            && self.hour.holds(local.hour().into())
            && self.minute.holds(local.minute().into())
            && self.second.as_ref().map_or(local.second() == 0, |field| field.holds(local.second().into()))
    }

    pub(super) fn matches_day(&self, date: Date) -> bool {
        let day = self.day.holds(date.day().into()) || self.day.items.iter().any(|item| is_day(item, date));
        let number = i64::from(date.weekday().to_sunday_zero_offset());
        let weekday = self.weekday.holds(number)
            || (number == 0 && self.weekday.holds(7))
            || self.weekday.items.iter().any(|item| is_weekday(item, date));
        let day_matches =
            if self.day.is_free() || self.weekday.is_free() { day && weekday } else { day || weekday };
        day_matches
            && self.month.holds(date.month().into())
            && self.year.as_ref().is_none_or(|year| year.holds(date.year().into()))
    }

    /// Whether it fires by fixed local times rather than by elapsed time.
    pub(super) fn is_fixed(&self) -> bool {
        !(self.second.as_ref().is_some_and(Field::is_open) || self.minute.is_open() || self.hour.is_open())
    }

    /// The fires from one instant to another, both in seconds and included, looking at every `step`-th
    /// second. The start must lie some way from any change of the zone.
    pub(super) fn fires(&self, zone: &TimeZone, from: i64, until: i64, step: i64) -> Vec<i64> {
        let local = |second| zone.to_datetime(jiff::Timestamp::from_second(second).unwrap());
        let mut highest = local(from - step);
        let mut fires = Vec::new();
        for second in (from..=until).step_by(step.try_into().unwrap()) {
            let now = local(second);
            let mut fire = false;
            if self.is_fixed() {
                // All the clock reached or passed since it was last this far: usually one time, none in
                // the second pass of a fold, many behind a gap.
                while highest < now {
                    highest += step.seconds();
                    fire |= self.matches(highest);
                }
            } else {
                fire = self.matches(now);
            }
            if fire {
                fires.push(second);
            }
        }
        fires
    }
}

impl Field {
    fn holds(&self, value: i64) -> bool {
        self.items.iter().any(|item| match *item {
            Item::All | Item::Question => true,
            Item::One(one) => value == one,
            Item::Range(first, last) => self.in_range(value, first, last),
            Item::Steps(step) => (value - self.low) % step == 0,
            Item::From(first, step) => self.in_range(value, first, self.high) && (value - first) % step == 0,
            Item::RangeSteps(first, last, step) => {
                let count = self.high - self.low + 1;
                let distance = if value >= first { value - first } else { value + count - first };
                self.in_range(value, first, last) && distance % step == 0
            }
            _ => false,
        })
    }

    fn in_range(&self, value: i64, first: i64, last: i64) -> bool {
        if first <= last { first <= value && value <= last } else { value >= first || value <= last }
    }

    fn is_open(&self) -> bool {
        self.items.iter().any(|item| match *item {
            Item::All | Item::Steps(_) | Item::From(..) => true,
            Item::Range(first, last) | Item::RangeSteps(first, last, _) => {
                (self.low..=self.high).all(|value| self.in_range(value, first, last))
            }
            _ => false,
        })
    }

    pub(super) fn is_free(&self) -> bool {
        matches!(self.items[0], Item::All | Item::Steps(_) | Item::Question)
    }
}

fn is_day(item: &Item, date: Date) -> bool {
    let len = i64::from(date.days_in_month());
    let day = i64::from(date.day());
    match *item {
        Item::Last(before) => day == len - before,
        Item::LastWorkday => {
            is_workday(date) && (day + 1..=len).all(|later| !is_workday(with_day(date, later)))
        }
        Item::Nearest(wanted) => {
            let workdays = (1..=len).filter(|day| is_workday(with_day(date, *day)));
            wanted <= len && workdays.min_by_key(|day| (day - wanted).abs()) == Some(day)
        }
        _ => false,
    }
}

fn is_weekday(item: &Item, date: Date) -> bool {
    let number = i64::from(date.weekday().to_sunday_zero_offset());
    match *item {
        Item::LastOf(weekday) => {
            number == weekday % 7 && date.checked_add(7.days()).unwrap().month() != date.month()
        }
        Item::Nth(weekday, count) => {
            let same =
                (1..=date.day()).filter(|day| with_day(date, (*day).into()).weekday() == date.weekday());
            number == weekday % 7 && same.count() as i64 == count
        }
        _ => false,
    }
}

fn is_workday(date: Date) -> bool {
    !matches!(date.weekday(), Weekday::Saturday | Weekday::Sunday)
}

fn with_day(date: Date, day: i64) -> Date {
    date.with().day(day.try_into().unwrap()).build().unwrap()
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(second) = &self.second {
            write!(f, "{second} ")?;
        }
        let Expression { minute, hour, day, month, weekday, .. } = self;
        write!(f, "{minute} {hour} {day} {month} {weekday}")?;
        self.year.as_ref().map_or(Ok(()), |year| write!(f, " {year}"))
    }
}

impl fmt::Debug for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, item) in self.items.iter().enumerate() {
            f.write_str(if at > 0 { "," } else { "" })?;
            match *item {
                Item::All => write!(f, "*"),
                Item::Question => write!(f, "?"),
                Item::One(value) => write!(f, "{value}"),
                Item::Range(first, last) => write!(f, "{first}-{last}"),
                Item::Steps(step) => write!(f, "*/{step}"),
                Item::From(first, step) => write!(f, "{first}/{step}"),
                Item::RangeSteps(first, last, step) => write!(f, "{first}-{last}/{step}"),
                Item::Last(0) => write!(f, "L"),
                Item::Last(before) => write!(f, "L-{before}"),
                Item::LastWorkday => write!(f, "LW"),
                Item::Nearest(day) => write!(f, "{day}W"),
                Item::LastOf(weekday) => write!(f, "{weekday}L"),
                Item::Nth(weekday, count) => write!(f, "{weekday}#{count}"),
            }?;
        }
        Ok(())
    }
}
