//! Compares our results with those of the `croner` crate where the two dialects agree: any expression in UTC, and one
//! fixed time or a plain wildcard over the clock changes of the zones. When clocks change, croner treats a list of fixed
//! times as an interval.

use croner::parser::CronParser;
use jiff::Zoned;
use jiff::civil::DateTime;
use jiff::tz::Offset;
use proptest::prelude::*;

use super::super::{Cron, zone};
use super::changes::{Change, changes};
use super::made_up::{Forms, expressions};
use crate::schedule::Error;
use crate::time::Timestamp;

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn croner_finds_the_same_occurrences(
        expression in expressions(Forms::Common),
        start in 1_577_836_800..2_524_608_000i64, // 2020 to 2050
    ) {
        let text = expression.to_string();
        let theirs = CronParser::new().parse(&text).unwrap();
        let ours = match Cron::parse(&text, "UTC") {
            Ok(cron) => cron,
            Err(error) => {
                prop_assert_eq!(error, Error::Never(text.clone()));
                return Ok(());
            }
        };
        let mut due = Timestamp::from_millis(start * 1000);
        for _ in 0..10 {
            let expected = theirs.find_next_occurrence(&civil(due), false).ok().map(instant);
            let found = ours.next(due);
            prop_assert_eq!(found, expected, "{} after {}", text, due);
            let Some(found) = found else { break };
            due = found;
        }
        let mut due = Timestamp::from_millis(start * 1000);
        for _ in 0..3 {
            let expected = theirs.find_previous_occurrence(&civil(due), true).ok().map(instant);
            let expected = expected.filter(|expected| *expected >= Timestamp::MIN);
            let found = ours.previous(due);
            prop_assert_eq!(found, expected, "{} until {}", text, due);
            let Some(found) = found else { break };
            due = Timestamp::from_millis(found.as_millis() - 1000);
        }
    }
}

/// What both read alike when a clock is put back, and the ones among them that follow elapsed time.
const ALIKE: [&str; 8] = [
    "* * * * *",
    "*/15 * * * *",
    "30 * * * *",
    "30 2 * * *",
    "0 2 * * *",
    "15 1 * * *",
    "30 0 * * *",
    "0 0 * * *",
];
const FOLLOWING: usize = 3;

#[test]
fn croner_passes_every_change_of_every_zone_alike() {
    let (changes, zones) = changes(2000, 2040);
    assert!(zones >= 60, "{zones}");
    let mut compared = 0;
    for (at, change) in changes.iter().enumerate() {
        if change.shift < 0 {
            compared += same_fires(change, ALIKE[at % ALIKE.len()], 3 * 3600, 24);
        } else {
            compared += same_fires(change, ALIKE[at % FOLLOWING], 3 * 3600, 24);
            // Once its search has walked into a gap, croner fires at the end of it whatever the fixed time is. So it
            // is asked just before the gap for a time inside.
            let zone = zone::find(&change.zone).unwrap();
            let inside = change.second + zone::offset(&zone, change.second - 1) + change.shift / 2;
            let (hour, minute) = (inside.rem_euclid(86_400) / 3600, inside.rem_euclid(3600) / 60);
            compared += same_fires(change, &format!("{minute} {hour} * * *"), 60, 1);
        }
    }
    assert!(compared > 50_000, "{compared}");
}

/// Compares a few fires from so many seconds before a change.
fn same_fires(change: &Change, text: &str, before: i64, count: usize) -> usize {
    // Croner gives up on a gap of more than two hours, such as a skipped day.
    if change.shift.abs() > 7200 {
        return 0;
    }
    let theirs = CronParser::new().parse(text).unwrap();
    let ours = Cron::parse(text, &change.zone).unwrap();
    let zone = zone::find(&change.zone).unwrap();
    let mut due = Timestamp::from_millis((change.second - before) * 1000);
    for _ in 0..count {
        let from = Zoned::new(due.into(), zone.clone());
        let expected = theirs.find_next_occurrence(&from, false).unwrap().timestamp().into();
        assert_eq!(ours.next(due), Some(expected), "{text} after {due} in {}", change.zone);
        due = expected;
    }
    count
}

fn civil(instant: Timestamp) -> DateTime {
    Offset::UTC.to_datetime(instant.into())
}

fn instant(civil: DateTime) -> Timestamp {
    Offset::UTC.to_timestamp(civil).unwrap().into()
}
