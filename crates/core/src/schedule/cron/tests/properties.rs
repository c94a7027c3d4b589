//! What holds for every expression, zone and instant.

use jiff::civil::{Date, date};
use jiff::tz::TimeZone;
use jiff::{Timestamp as Instant, ToSpan};
use proptest::prelude::*;

use super::super::{Cron, Weekdays, zone};
use super::list;
use super::made_up::{Forms, expressions};
use super::oracle::Expression;
use crate::schedule::Error;
use crate::time::Timestamp;

const ZONES: [&str; 12] = [
    "UTC",
    "America/New_York",
    "America/Sao_Paulo",
    "America/St_Johns",
    "Africa/Casablanca",
    "Asia/Shanghai",
    "Asia/Kathmandu",
    "Asia/Tehran",
    "Australia/Lord_Howe",
    "Europe/Dublin",
    "Pacific/Apia",
    "Pacific/Chatham",
];

/// 1975 to 2075, in milliseconds.
fn instants() -> impl Strategy<Value = Timestamp> {
    (157_766_400_000..3_313_526_400_000i64).prop_map(Timestamp::from_millis)
}

proptest! {
    #[test]
    fn next_and_previous_are_each_others_mirror(
        expression in expressions(Forms::Ours),
        zone in proptest::sample::select(&ZONES[..]),
        instant in instants(),
    ) {
        let Ok(cron) = Cron::parse(&expression.to_string(), zone) else { return Ok(()) };
        if let Some(next) = cron.next(instant) {
            prop_assert!(next > instant);
            prop_assert_eq!(cron.previous(next), Some(next));
            prop_assert_eq!(cron.next(one_before(next)), Some(next));
            // Nothing lies between, whichever side is asked.
            prop_assert_eq!(cron.previous(one_before(next)), cron.previous(instant));
        }
        if let Some(previous) = cron.previous(instant) {
            prop_assert!(previous <= instant);
            prop_assert_eq!(cron.next(one_before(previous)), Some(previous));
            prop_assert_eq!(cron.next(previous), cron.next(instant));
        }
    }

    #[test]
    fn an_expression_is_refused_exactly_when_its_day_never_comes(expression in expressions(Forms::Ours)) {
        let text = expression.to_string();
        let mut days = date(1970, 1, 1).series(1.day()).take_while(|day| day.year() < 2100);
        let comes = days.any(|day| expression.matches_day(day));
        let parsed = Cron::parse(&text, "UTC").map(|_| ());
        prop_assert_eq!(parsed, if comes { Ok(()) } else { Err(Error::Never(text)) });
    }

    #[test]
    fn ten_days_of_minutes_in_a_zone_are_what_the_slow_walk_finds(
        expression in expressions(Forms::Ours),
        zone in proptest::sample::select(&ZONES[..]),
        start in instants(),
    ) {
        let expression = Expression { second: None, year: None, ..expression };
        let Ok(cron) = Cron::parse(&expression.to_string(), zone) else { return Ok(()) };
        let from = start.as_millis().div_euclid(60_000) * 60;
        check_window(&cron, &expression, from, from + 10 * 86_400, 60)?;
    }

    #[test]
    fn no_text_makes_the_parser_or_the_search_panic(
        text in "[-*/,0-9LWH#?()A-Z ]{0,40}|([-*/,0-9LWH#?]{1,5} ){4,6}[-*/,0-9LWH#?]{1,5}|\\PC{0,60}",
        instant in any::<i64>(),
    ) {
        for numbering in [Weekdays::Unix, Weekdays::Quartz] {
            if let Ok(cron) = Cron::parse_with(&text, "Europe/London", numbering, Some("key")) {
                let _ = cron.next(Timestamp::from_millis(instant));
                let _ = cron.previous(Timestamp::from_millis(instant));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn the_next_occurrence_is_the_one_a_walk_by_seconds_finds(
        expression in expressions(Forms::Ours),
        instant in instants(),
    ) {
        let text = expression.to_string();
        let Ok(cron) = Cron::parse(&text, "UTC") else { return Ok(()) };
        let start = instant.as_millis().div_euclid(1000) + 1;
        prop_assert_eq!(cron.next(instant), first_in_utc(&expression, start), "{} after {}", text, instant);
    }
}

/// Compares the occurrences between two seconds with the slow walk: one after the other, backwards, and
/// asked for from instants in between.
pub(super) fn check_window(
    cron: &Cron,
    expression: &Expression,
    from: i64,
    until: i64,
    step: i64,
) -> Result<(), TestCaseError> {
    let zone = zone::find(cron.zone()).unwrap();
    // The slow walk must have seen the clock before the window begins.
    let mut expected = expression.fires(&zone, from - 36 * 3600, until, step);
    expected.retain(|second| *second >= from);
    let expected: Vec<_> = expected.iter().map(|second| Timestamp::from_millis(second * 1000)).collect();
    let (first, last) = (Timestamp::from_millis(from * 1000), Timestamp::from_millis(until * 1000));

    let forwards = |due: &Timestamp| cron.next(*due).filter(|due| *due <= last);
    let found: Vec<_> = std::iter::successors(forwards(&one_before(first)), forwards).collect();
    prop_assert!(found == expected, "{cron:?} forwards: {} is not {}", list(&found), list(&expected));

    let backwards = |due: &Timestamp| cron.previous(one_before(*due)).filter(|due| *due >= first);
    let mut found: Vec<_> = std::iter::successors(backwards(&one_after(last)), backwards).collect();
    found.reverse();
    prop_assert!(found == expected, "{cron:?} backwards: {} is not {}", list(&found), list(&expected));

    for probe in 0..40 {
        let now = Timestamp::from_millis(from * 1000 + (until - from) * 25 * probe + 500);
        let passed = expected.partition_point(|due| *due <= now);
        let next = cron.next(now).filter(|due| *due <= last);
        prop_assert_eq!(next, expected.get(passed).copied(), "{:?} after {}", cron, now);
        let previous = cron.previous(now).filter(|due| *due >= first);
        let before = passed.checked_sub(1).map(|at| expected[at]);
        prop_assert_eq!(previous, before, "{:?} until {}", cron, now);
    }
    Ok(())
}

fn first_in_utc(expression: &Expression, start: i64) -> Option<Timestamp> {
    let mut day: Date = TimeZone::UTC.to_datetime(Instant::from_second(start).unwrap()).date();
    let end = if expression.year.is_some() { 2099 } else { day.year() + 50 };
    while day.year() <= end {
        if expression.matches_day(day) {
            let midnight = TimeZone::UTC.to_timestamp(day.at(0, 0, 0, 0)).unwrap().as_second();
            let mut seconds = (midnight.max(start)..midnight + 86_400).filter(|second| {
                expression.matches(TimeZone::UTC.to_datetime(Instant::from_second(*second).unwrap()))
            });
            if let Some(second) = seconds.next() {
                return Some(Timestamp::from_millis(second * 1000));
            }
        }
        day = day.tomorrow().unwrap();
    }
    None
}

fn one_after(instant: Timestamp) -> Timestamp {
    Timestamp::from_millis(instant.as_millis() + 1)
}

fn one_before(instant: Timestamp) -> Timestamp {
    Timestamp::from_millis(instant.as_millis() - 1)
}
