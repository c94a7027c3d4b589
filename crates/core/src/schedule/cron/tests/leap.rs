//! Leap seconds: time is Unix time, which does not have them.

use super::super::Cron;
use super::at;
use crate::time::Timestamp;

/// The last second of some days that were one second longer.
const LONGER_DAYS: [&str; 6] = [
    "1972-06-30T23:59:59Z",
    "1990-12-31T23:59:59Z",
    "2005-12-31T23:59:59Z",
    "2008-12-31T23:59:59Z",
    "2012-06-30T23:59:59Z",
    "2016-12-31T23:59:59Z",
];

#[test]
fn a_leap_second_neither_doubles_nor_swallows_a_fire() {
    let secondly = Cron::parse("* * * * * *", "UTC").unwrap();
    let daily = Cron::parse("@daily", "UTC").unwrap();
    for last in LONGER_DAYS.map(at) {
        let midnight = Timestamp::from_millis(last.as_millis() + 1000);
        assert_eq!(secondly.next(last), Some(midnight));
        assert_eq!(secondly.previous(Timestamp::from_millis(midnight.as_millis() - 1)), Some(last));
        assert_eq!(daily.next(last), Some(midnight));
        assert_eq!(daily.next(midnight), Some(Timestamp::from_millis(midnight.as_millis() + 86_400_000)));
    }
}

#[test]
fn the_leap_second_itself_is_the_second_before_midnight() {
    assert_eq!(at("2016-12-31T23:59:60Z"), at("2016-12-31T23:59:59Z"));
    let last = Cron::parse("59 59 23 31 12 *", "UTC").unwrap();
    assert_eq!(last.next(at("2016-12-31T23:59:58Z")), Some(at("2016-12-31T23:59:60Z")));
    assert_eq!(last.next(at("2016-12-31T23:59:60Z")), Some(at("2017-12-31T23:59:59Z")));
}
