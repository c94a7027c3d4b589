//! Parses an expression into bit sets.
//!
//! Allocates only for an error, because a node parses a million expressions at a takeover.

use super::super::Error;
use super::days::Days;
use super::field::{self, Kind, Span};
use super::walk::{Pattern, Years};
use super::{EXPRESSION_MAX, Weekdays};

pub(super) fn pattern(text: &str, numbering: Weekdays, spread_key: Option<&str>) -> Result<Pattern, Error> {
    if text.len() > EXPRESSION_MAX {
        return Err(Error::TooLong { what: "cron expression", len: text.len(), max: EXPRESSION_MAX });
    }
    let text = if text.starts_with('@') { nickname(text)? } else { text };
    let [second, minute, hour, day, month, weekday, year] = fields(text)?;
    let [second, minute, hour] = times([second, minute, hour], spread_key)?;
    let pattern = Pattern {
        seconds: second.bits,
        minutes: minute.bits,
        hours: hour.bits,
        days: Days::parse(day, weekday, numbering, spread_key)?,
        months: Field::parse(&field::MONTH, month, spread_key)?.bits,
        years: years(year)?,
        fixed: !(second.open || minute.open || hour.open),
    };
    if pattern.ever_occurs() { Ok(pattern) } else { Err(Error::Never(text.to_owned())) }
}

/// The second, minute and hour field of an expression that was parsed before.
pub(super) fn times_of(text: &str, spread_key: Option<&str>) -> Result<[Field; 3], Error> {
    let text = if text.starts_with('@') { nickname(text)? } else { text };
    let [second, minute, hour, ..] = fields(text)?;
    times([second, minute, hour], spread_key)
}

fn times([second, minute, hour]: [&str; 3], spread_key: Option<&str>) -> Result<[Field; 3], Error> {
    Ok([
        Field::parse(&field::SECOND, second, spread_key)?,
        Field::parse(&field::MINUTE, minute, spread_key)?,
        Field::parse(&field::HOUR, hour, spread_key)?,
    ])
}

/// With weekdays by name, because a nickname means the same in every numbering.
fn nickname(text: &str) -> Result<&'static str, Error> {
    const NICKNAMES: [(&str, &str); 7] = [
        ("@hourly", "0 * * * *"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@weekly", "0 0 * * SUN"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
    ];
    let known = NICKNAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
    known.map(|(_, fields)| *fields).ok_or_else(|| Error::Nickname(text.to_owned()))
}

/// The seven fields; missing ones get their default.
fn fields(text: &str) -> Result<[&str; 7], Error> {
    let mut found = ["*"; 7];
    let mut count = 0;
    for field in text.split_ascii_whitespace() {
        if let Some(place) = found.get_mut(count) {
            *place = field;
        }
        count += 1;
    }
    match count {
        5 => {
            let [minute, hour, day, month, weekday, year, _] = found;
            Ok(["0", minute, hour, day, month, weekday, year])
        }
        6 | 7 => Ok(found),
        found => Err(Error::FieldCount { found }),
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Field {
    pub(super) bits: u64,
    pub(super) open: bool,
}

impl Field {
    fn parse(kind: &Kind, text: &str, spread_key: Option<&str>) -> Result<Field, Error> {
        let mut field = Field { bits: 0, open: false };
        for element in text.split(',') {
            let span = Span::parse(kind, element, spread_key)?;
            span.values(kind).for_each(|value| field.bits |= 1 << value);
            field.open |= span.open;
        }
        Ok(field)
    }
}

/// `None` means any year.
fn years(text: &str) -> Result<Option<Years>, Error> {
    if text == "*" {
        return Ok(None);
    }
    let mut years = Years::default();
    for element in text.split(',') {
        Span::parse(&field::YEAR, element, None)?.values(&field::YEAR).for_each(|year| years.insert(year));
    }
    Ok(Some(years))
}
