//! Schedules in English.

use std::time::Duration;

use super::super::cron::{Clock, Days, DaysOfMonth, DaysOfWeek, Outline, Part, Time, Values};
use super::{Bounds, counts, instant};
use crate::time::Timestamp;
use crate::topic::{After, Ends, Gather, OnEvent, Topic};

pub(super) const MANUAL: &str = "only when someone starts it";

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const UNITS: [&str; 6] = ["week", "day", "hour", "minute", "second", "millisecond"];

pub(super) fn every(period: Duration) -> String {
    match counts(period)[..] {
        [(1, unit)] => format!("every {}", UNITS[unit]),
        _ => format!("every {}", span(period)),
    }
}

pub(super) fn after_finish(pause: Duration) -> String {
    format!("{} after each run has finished", span(pause))
}

pub(super) fn after(after: &After) -> String {
    let ends = match after.on {
        Ends::Succeeded => "succeeds",
        Ends::Failed => "fails",
        Ends::Ended => "ends",
    };
    format!("when a run of job `{}` {ends}", after.job)
}

pub(super) fn event(event: &OnEvent) -> String {
    let key = event.key.as_ref().map_or(String::new(), |key| format!(" with key `{key}`"));
    let gather = match event.gather {
        None => String::new(),
        Some(Gather::Debounce(quiet)) => format!(", when none has come for {}", span(quiet)),
        Some(Gather::Batch { max, within }) => {
            format!(", up to {max} of them together, within {}", span(within))
        }
    };
    match &event.topic {
        Topic::Queue(queue) => format!("on a message in queue `{queue}`{gather}"),
        Topic::Event(name) | Topic::Job(name) => format!("on event `{name}`{key}{gather}"),
    }
}

pub(super) fn at(at: Timestamp) -> String {
    format!("once, at {}", instant(at))
}

pub(super) fn bounded(mut text: String, bounds: &Bounds<'_>) -> String {
    if let Some(calendar) = bounds.calendar {
        text += &format!(", only on days of the calendar `{calendar}`");
    }
    if let Some(start) = bounds.start {
        text += &format!(", not before {}", instant(start));
    }
    if let Some(end) = bounds.end {
        text += &format!(", not after {}", instant(end));
    }
    match bounds.max_runs {
        Some(1) => text += ", at most once",
        Some(max) => text += &format!(", at most {max} times"),
        None => {}
    }
    if let Some(jitter) = bounds.jitter {
        text += &format!(", each up to {} later", span(jitter));
    }
    text
}

pub(super) fn cron(outline: &Outline, zone: &str) -> String {
    let mut text = time(&outline.time);
    let date = date(outline);
    // Without a comma, "every 5 minutes from 09:00 to 17:59 from Monday to Friday" is hard to read.
    if !date.is_empty() && text.contains(" from ") {
        text.push(',');
    }
    text += &date;
    if !outline.years.is_empty() {
        text += &format!(", {}", years(&outline.years));
    }
    format!("{text} ({zone})")
}

fn time(time: &Time) -> String {
    match time {
        Time::Clocks(clocks) => format!("at {}", list(clocks.iter().map(ToString::to_string))),
        Time::Hours { first, last, step } => {
            format!("every {} from {first} to {last}", counted(*step, "hour"))
        }
        Time::HoursFrom { first, step, even } => {
            let day = if *even { "" } else { " of each day" };
            format!("every {} from {first}{day}", counted(*step, "hour"))
        }
        Time::Beat { seconds: None, minutes, hours } => {
            let beat = beat(minutes, "minute", "hour");
            // Only a list of minutes needs "of every hour".
            let of_hours = matches!(minutes, Values::Some(parts) if !is_steps(parts));
            beat + &hours_of(hours, of_hours, is_plain(minutes))
        }
        Time::Beat { seconds: Some(seconds), minutes, hours } => {
            let of = if matches!(seconds, Values::Some(_)) { "of" } else { "in" };
            let minutes_said = match minutes {
                Values::Every if of == "of" && !is_steps_of(seconds) => " of every minute".to_owned(),
                Values::Every => String::new(),
                Values::Steps { first, step, .. } => {
                    format!(" {of} every {} minute from minute {first}", nth(*step))
                }
                Values::Some(parts) => match parts[..] {
                    [Part::Steps { first, last, step }] => {
                        format!(" {of} every {} minute from minute {first} to minute {last}", nth(step))
                    }
                    _ => format!(" {of} {}", numbered("minute", parts)),
                },
            };
            let plain = *minutes == Values::Every && is_plain(seconds);
            beat(seconds, "second", "minute")
                + &minutes_said
                + &hours_of(hours, *minutes != Values::Every, plain)
        }
    }
}

/// The text of a second or minute field.
fn beat(values: &Values, unit: &str, whole: &str) -> String {
    match values {
        Values::Every => format!("every {unit}"),
        Values::Steps { first: 0, step, even: true } => format!("every {}", counted(*step, unit)),
        Values::Steps { first, step, .. } => {
            format!("every {} from {unit} {first} of each {whole}", counted(*step, unit))
        }
        Values::Some(parts) => match parts[..] {
            [Part::Steps { first, last, step }] => {
                format!("every {} from {unit} {first} to {unit} {last} of each {whole}", counted(step, unit))
            }
            _ => format!("at {}", numbered(unit, parts)),
        },
    }
}

/// The hours. `of_hours`: "of every hour" must be added; `plain`: the hours may follow without a comma.
fn hours_of(hours: &Values, of_hours: bool, plain: bool) -> String {
    match hours {
        Values::Every => if of_hours { " of every hour" } else { "" }.to_owned(),
        Values::Steps { first, step, .. } => format!(" of every {} hour from {first:02}:00", nth(*step)),
        Values::Some(parts) => match parts[..] {
            [Part::Steps { first, last, step }] => {
                format!(" of every {} hour from {first:02}:00 to {last:02}:59", nth(step))
            }
            _ => {
                let windows = parts.iter().map(|part| {
                    let (first, last) = ends(*part);
                    let last = Clock { hour: last, minute: 59, second: None };
                    format!("from {first:02}:00 to {last}")
                });
                format!("{} {}", if plain { "" } else { "," }, list(windows))
            }
        },
    }
}

/// Days and months. The name of a single month replaces "the month".
fn date(outline: &Outline) -> String {
    let Outline { time, days, months, .. } = outline;
    let Some(days) = days else {
        let daily = !matches!(
            time,
            Time::HoursFrom { .. } | Time::Beat { hours: Values::Every | Values::Steps { .. }, .. }
        );
        let daily = if daily { " every day" } else { "" };
        return if months.is_empty() { daily.to_owned() } else { format!("{daily} {}", in_months(months)) };
    };
    let month = match (days, &months[..]) {
        (Days::OfMonth(days), [Part::One(month)]) => match (&days.plain[..], days.has_special()) {
            ([Part::One(day)], false) => return format!(" on {day} {}", month_name(*month)),
            _ => Some(*month),
        },
        (Days::OfWeek(days), [Part::One(month)]) if days.plain.is_empty() => Some(*month),
        _ => None,
    };
    let of = month.map_or("the month", month_name);
    let text = match days {
        Days::OfMonth(month) => days_of_month(month, of),
        Days::OfWeek(week) => days_of_week(week, of),
        Days::Either(month, week) => format!("{} or {}", days_of_month(month, of), days_of_week(week, of)),
        Days::Both(month, week) => {
            format!("{}, but only {}", days_of_month(month, of), days_of_week(week, of))
        }
    };
    if months.is_empty() || month.is_some() {
        format!(" {text}")
    } else {
        format!(" {text}, {}", in_months(months))
    }
}

fn days_of_month(days: &DaysOfMonth, of: &str) -> String {
    let before_last = |before: u16| match before {
        0 => "the last day".to_owned(),
        1 => "the day before the last".to_owned(),
        _ => format!("the {} day before the last", nth(before)),
    };
    let mut said = Vec::new();
    match days.plain[..] {
        [] => {}
        [Part::Steps { first, last, step }] if last + step > 31 => {
            said.push(format!("every {} day from day {first}", nth(step)));
        }
        [Part::Steps { first, last, step }] => {
            said.push(format!("every {} day from day {first} to day {last}", nth(step)));
        }
        _ => said.push(numbered("day", &days.plain)),
    }
    said.extend(days.last.iter().map(|before| before_last(*before)));
    said.extend(days.nearest.iter().map(|day| format!("the Monday-to-Friday day nearest to day {day}")));
    said.extend(days.last_nearest.iter().map(|before| match before {
        0 => "the last Monday-to-Friday day".to_owned(),
        before => format!("the Monday-to-Friday day nearest to {}", before_last(*before)),
    }));
    format!("on {} of {of}", list(said.into_iter()))
}

fn days_of_week(days: &DaysOfWeek, of: &str) -> String {
    let mut said = Vec::new();
    match days.plain[..] {
        [] => {}
        [Part::Range(first, last)] => said.push(format!("from {} to {}", weekday(first), weekday(last))),
        _ => said.push(format!("on {}", list(days.plain.iter().map(|part| named(*part, weekday))))),
    }
    let counted = days.nth.iter().map(|(day, count)| format!("the {} {}", nth(*count), weekday(*day)));
    let last = days.last.iter().map(|day| format!("the last {}", weekday(*day)));
    let special: Vec<String> = counted.chain(last).collect();
    if !special.is_empty() {
        said.push(format!("on {} of {of}", list(special.into_iter())));
    }
    said.join(" and ")
}

fn in_months(months: &[Part]) -> String {
    match months[..] {
        [Part::Range(first, last)] => format!("from {} to {}", month_name(first), month_name(last)),
        _ => format!("in {}", list(months.iter().map(|part| named(*part, month_name)))),
    }
}

fn years(years: &[Part]) -> String {
    match years[..] {
        [Part::Range(first, last)] => format!("from {first} to {last}"),
        [Part::Steps { first, last, step }] => {
            format!("in every {} year from {first} to {last}", nth(step))
        }
        _ => format!("in {}", numbers(years)),
    }
}

/// `minute 5`, `minutes 5, 10 and 20 to 30`.
fn numbered(unit: &str, parts: &[Part]) -> String {
    let plural = if matches!(parts, [Part::One(_)]) { "" } else { "s" };
    format!("{unit}{plural} {}", numbers(parts))
}

fn numbers(parts: &[Part]) -> String {
    list(parts.iter().map(|part| match ends(*part) {
        (first, last) if first == last => first.to_string(),
        (first, last) => format!("{first} to {last}"),
    }))
}

fn named(part: Part, name: fn(u16) -> &'static str) -> String {
    match ends(part) {
        (first, last) if first == last => name(first).to_owned(),
        (first, last) => format!("{} to {}", name(first), name(last)),
    }
}

fn ends(part: Part) -> (u16, u16) {
    match part {
        Part::One(value) => (value, value),
        Part::Range(first, last) | Part::Steps { first, last, .. } => (first, last),
    }
}

fn is_steps(parts: &[Part]) -> bool {
    matches!(parts, [Part::Steps { .. }])
}

fn is_steps_of(values: &Values) -> bool {
    matches!(values, Values::Some(parts) if is_steps(parts))
}

/// An interval without an offset or a list: `every minute`, `every 5 minutes`.
fn is_plain(values: &Values) -> bool {
    matches!(values, Values::Every | Values::Steps { first: 0, even: true, .. })
}

fn month_name(month: u16) -> &'static str {
    MONTHS[usize::from(month) - 1]
}

fn weekday(day: u16) -> &'static str {
    WEEKDAYS[usize::from(day) - 1]
}

/// `hour`, `2 hours`: what may follow "every".
fn counted(count: u16, unit: &str) -> String {
    if count == 1 { unit.to_owned() } else { format!("{count} {unit}s") }
}

fn span(span: Duration) -> String {
    list(counts(span).into_iter().map(|(count, unit)| {
        let plural = if count == 1 { "" } else { "s" };
        format!("{count} {}{plural}", UNITS[unit])
    }))
}

fn nth(number: u16) -> String {
    let ending = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{number}{ending}")
}

/// `a`, `a and b`, `a, b and c`.
fn list(items: impl Iterator<Item = String>) -> String {
    let mut items: Vec<String> = items.collect();
    match (items.pop(), items.is_empty()) {
        (None, _) => String::new(),
        (Some(last), true) => last,
        (Some(last), false) => format!("{} and {last}", items.join(", ")),
    }
}
