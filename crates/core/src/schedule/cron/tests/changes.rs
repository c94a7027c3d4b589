//! Changes of every zone, held against the slow walk.

use std::collections::HashSet;

use jiff::Timestamp as Instant;
use jiff::civil::date;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

use super::super::Cron;
use super::full;
use super::made_up::in_the_small_hours;
use super::oracle::Expression;
use super::properties::check_window;

/// A second at which a zone changes, and by how much.
pub(super) struct Change {
    pub(super) zone: String,
    pub(super) second: i64,
    pub(super) shift: i64,
}

#[test]
fn every_change_of_every_zone_is_passed_as_the_slow_walk_passes_it() {
    let (changes, zones) = changes(2000, 2040);
    assert!(zones >= 60, "{zones}");
    assert!(changes.len() > 5000, "{}", changes.len());
    let samples = samples(4000);
    for (at, change) in changes.iter().enumerate() {
        // A few made-up expressions for each change, so that all changes meet all sorts in the end.
        let each = if full() { 40 } else { 4 };
        for sample in 0..each {
            check_minutes(change, &samples[(at * each + sample) % samples.len()]);
        }
    }
}

#[test]
fn changes_of_the_past_and_of_the_next_generations_are_passed_likewise() {
    let samples = samples(1000);
    for years in [(1970, 1999), (2041, 2100)] {
        let (changes, _) = changes(years.0, years.1);
        for (change, expression) in changes.iter().step_by(5).zip(samples.iter().cycle()) {
            check_minutes(change, expression);
        }
    }
}

#[test]
fn a_change_is_passed_in_seconds_as_the_slow_walk_passes_it() {
    let samples = samples(120);
    let (changes, _) = changes(1970, 2040);
    for (change, expression) in changes.iter().step_by(changes.len() / 120).zip(samples.iter().cycle()) {
        check(change, expression, change.shift.abs() + 300, 1);
    }
}

fn check_minutes(change: &Change, expression: &Expression) {
    // Before 1972 some clocks, such as Liberia's, were off by seconds; a walk by minutes would miss them.
    if change.second % 60 == 0 && change.shift % 60 == 0 {
        let expression = Expression { second: None, ..expression.clone() };
        check(change, &expression, change.shift.abs() + 2 * 3600, 60);
    }
}

#[track_caller]
fn check(change: &Change, expression: &Expression, margin: i64, step: i64) {
    let Ok(cron) = Cron::parse(&expression.to_string(), &change.zone) else { return };
    let result = check_window(&cron, expression, change.second - margin, change.second + margin, step);
    result.unwrap_or_else(|error| {
        panic!("at the change of {} in second {}: {error}", change.zone, change.second)
    });
}

/// The changes from one year to another of the zones that differ in them, and the number of these zones.
pub(super) fn changes(first: i16, last: i16) -> (Vec<Change>, usize) {
    let database = TimeZoneDatabase::bundled();
    let mut known = HashSet::new();
    let mut all = Vec::new();
    for name in database.available() {
        let changes = changes_of(&database.get(name.as_str()).unwrap(), first, last);
        if known.insert(changes.clone()) {
            let change = |&(second, shift): &(i64, i64)| Change { zone: name.to_string(), second, shift };
            all.extend(changes.iter().map(change));
        }
    }
    (all, known.len())
}

fn changes_of(zone: &TimeZone, first: i16, last: i16) -> Vec<(i64, i64)> {
    let start_of = |year| TimeZone::UTC.to_timestamp(date(year, 1, 1).at(0, 0, 0, 0)).unwrap();
    let offset = |second| i64::from(zone.to_offset(Instant::from_second(second).unwrap()).seconds());
    zone.following(start_of(first))
        .map(|change| change.timestamp())
        .take_while(|change| *change < start_of(last + 1))
        .map(|change| (change.as_second(), offset(change.as_second()) - offset(change.as_second() - 1)))
        .collect()
}

pub(super) fn samples(count: usize) -> Vec<Expression> {
    let mut runner = TestRunner::deterministic();
    (0..count).map(|_| in_the_small_hours().new_tree(&mut runner).unwrap().current()).collect()
}
