//! Each element of the dialect, in UTC.

use super::super::{Cron, Weekdays};
use super::{at, check_cron};
use crate::time::Timestamp;

/// After the last second of 2029, which ends on a Monday; 2030-01-01 is a Tuesday.
const EVE: &str = "2029-12-31T23:59:59Z";

#[track_caller]
fn check(expression: &str, expected: &[&str]) {
    check_cron(&Cron::parse(expression, "UTC").unwrap(), EVE, expected);
}

#[track_caller]
fn check_quartz(expression: &str, expected: &[&str]) {
    let cron = Cron::parse_with(expression, "UTC", Weekdays::Quartz, None).unwrap();
    check_cron(&cron, EVE, expected);
}

/// Two ways to write the same.
#[track_caller]
fn check_same(one: &str, other: &str) {
    let (one, other) = (Cron::parse(one, "UTC").unwrap(), Cron::parse(other, "UTC").unwrap());
    assert_eq!(one.pattern, other.pattern, "{one:?} and {other:?}");
}

#[test]
fn five_fields_start_with_the_minute() {
    check("30 9 * * *", &["2030-01-01T09:30:00Z", "2030-01-02T09:30:00Z"]);
}

#[test]
fn six_fields_start_with_the_second() {
    check("15 30 9 * * *", &["2030-01-01T09:30:15Z", "2030-01-02T09:30:15Z"]);
}

#[test]
fn seven_fields_end_with_the_year() {
    check("0 0 0 1 1 * 2032,2040", &["2032-01-01T00:00:00Z", "2040-01-01T00:00:00Z"]);
    check("0 0 0 1 1 * 2031-2035/2", &["2031-01-01T00:00:00Z", "2033-01-01T00:00:00Z"]);
    let once = Cron::parse("0 0 0 1 1 * 2032", "UTC").unwrap();
    assert_eq!(once.next(at(EVE)), Some(at("2032-01-01T00:00:00Z")));
    assert_eq!(once.next(at("2032-01-01T00:00:00Z")), None);
    let over = Cron::parse("0 0 0 1 1 * 2020", "UTC").unwrap();
    assert_eq!(over.next(at(EVE)), None);
    assert_eq!(over.previous(at(EVE)), Some(at("2020-01-01T00:00:00Z")));
    assert_eq!(over.previous(at("9000-01-01T00:00:00Z")), Some(at("2020-01-01T00:00:00Z")));
    assert_eq!(over.previous(at("2019-01-01T00:00:00Z")), None);
}

#[test]
fn a_star_is_every_value() {
    check("* * * * *", &["2030-01-01T00:00:00Z", "2030-01-01T00:01:00Z"]);
    check("* * * * * *", &["2030-01-01T00:00:00Z", "2030-01-01T00:00:01Z"]);
}

#[test]
fn a_list_is_each_of_its_elements_in_any_order() {
    check("45,15 0 * * *", &["2030-01-01T00:15:00Z", "2030-01-01T00:45:00Z", "2030-01-02T00:15:00Z"]);
    check_same("0 1,2,3,9 * * *", "0 9,1-3,2 * * *");
}

#[test]
fn a_range_holds_both_its_ends() {
    check("0 22-23 * * *", &["2030-01-01T22:00:00Z", "2030-01-01T23:00:00Z", "2030-01-02T22:00:00Z"]);
}

#[test]
fn a_range_may_run_over_the_end_of_its_field() {
    check("0 22-1 * * *", &["2030-01-01T00:00:00Z", "2030-01-01T01:00:00Z", "2030-01-01T22:00:00Z"]);
    check("0 0 30-2 * *", &["2030-01-01T00:00:00Z", "2030-01-02T00:00:00Z", "2030-01-30T00:00:00Z"]);
    check_same("0 0 * NOV-FEB *", "0 0 * 1,2,11,12 *");
    check_same("0 0 * * FRI-MON", "0 0 * * 0,1,5,6");
    check_same("0 0 * * 6-2", "0 0 * * 0,1,2,6");
    check_same("50-10/10 * * * *", "50,0,10 * * * *");
}

#[test]
fn a_step_counts_from_the_start_of_its_range() {
    check("*/20 0 * * *", &["2030-01-01T00:00:00Z", "2030-01-01T00:20:00Z", "2030-01-01T00:40:00Z"]);
    check("5-30/20 0 * * *", &["2030-01-01T00:05:00Z", "2030-01-01T00:25:00Z", "2030-01-02T00:05:00Z"]);
    check("5/20 0 * * *", &["2030-01-01T00:05:00Z", "2030-01-01T00:25:00Z", "2030-01-01T00:45:00Z"]);
    check_same("0/60 * * * *", "*/60 * * * *");
    check_same("0 0 1/10 * *", "0 0 1,11,21,31 * *");
}

#[test]
fn names_stand_for_numbers_in_any_case() {
    check_same("0 0 1 JAN,jul,Dec *", "0 0 1 1,7,12 *");
    check_same("0 0 * * mon-FRI", "0 0 * * 1-5");
    check_same("0 0 * * Sun", "0 0 * * 0");
}

#[test]
fn sunday_is_both_0_and_7() {
    check_same("0 0 * * 7", "0 0 * * 0");
    check_same("0 0 * * 5-7", "0 0 * * 0,5,6");
    check_same("0 0 * * 7-2", "0 0 * * 0-2");
    check_same("0 0 * * 7#2", "0 0 * * 0#2");
    check_same("0 0 * * 0-7", "0 0 * * 0-6");
    check_same("0 0 * * 7/3", "0 0 * * 0,3,6");
}

#[test]
fn quartz_counts_weekdays_from_one() {
    check_quartz("0 0 0 ? * 1", &["2030-01-06T00:00:00Z", "2030-01-13T00:00:00Z"]);
    check_quartz("0 0 0 ? * 7", &["2030-01-05T00:00:00Z", "2030-01-12T00:00:00Z"]);
    check_quartz("0 0 0 ? * 2-6", &["2030-01-01T00:00:00Z", "2030-01-02T00:00:00Z", "2030-01-03T00:00:00Z"]);
    check_quartz("0 0 0 ? * SUN", &["2030-01-06T00:00:00Z", "2030-01-13T00:00:00Z"]);
    check_quartz("0 0 0 ? * 6#3", &["2030-01-18T00:00:00Z", "2030-02-15T00:00:00Z"]);
    check_quartz("0 0 0 ? * 7-1", &["2030-01-05T00:00:00Z", "2030-01-06T00:00:00Z", "2030-01-12T00:00:00Z"]);
    check_quartz("@weekly", &["2030-01-06T00:00:00Z", "2030-01-13T00:00:00Z"]);
}

#[test]
fn l_is_the_last_day_of_the_month() {
    check("0 0 L * *", &["2030-01-31T00:00:00Z", "2030-02-28T00:00:00Z", "2030-03-31T00:00:00Z"]);
    check("0 0 l 2 *", &["2030-02-28T00:00:00Z", "2031-02-28T00:00:00Z", "2032-02-29T00:00:00Z"]);
}

#[test]
fn l_minus_n_is_so_many_days_before_it() {
    check("0 0 L-3 * *", &["2030-01-28T00:00:00Z", "2030-02-25T00:00:00Z", "2030-03-28T00:00:00Z"]);
    check("0 0 L-30 * *", &["2030-01-01T00:00:00Z", "2030-03-01T00:00:00Z", "2030-05-01T00:00:00Z"]);
}

#[test]
fn lw_is_the_last_working_day_of_the_month() {
    check("0 0 LW * *", &["2030-01-31T00:00:00Z", "2030-02-28T00:00:00Z", "2030-03-29T00:00:00Z"]);
}

#[test]
fn n_w_is_the_working_day_nearest_to_n_in_its_month() {
    // Saturday the 15th of June falls back to the 14th, Sunday the 15th of September moves on to the 16th.
    check("0 0 15W 6,9 *", &["2030-06-14T00:00:00Z", "2030-09-16T00:00:00Z"]);
    // Saturday the 1st may not fall back into another month, nor Sunday the last move on.
    check("0 0 1W 6 *", &["2030-06-03T00:00:00Z", "2031-06-02T00:00:00Z"]);
    check("0 0 31W 3 *", &["2030-03-29T00:00:00Z", "2031-03-31T00:00:00Z"]);
    check("0 0 31W * *", &["2030-01-31T00:00:00Z", "2030-03-29T00:00:00Z", "2030-05-31T00:00:00Z"]);
    check("0 0 L-2W 6 *", &["2030-06-28T00:00:00Z", "2031-06-27T00:00:00Z"]);
}

#[test]
fn n_l_is_the_last_such_weekday_of_the_month() {
    check("0 0 * * 5L", &["2030-01-25T00:00:00Z", "2030-02-22T00:00:00Z", "2030-03-29T00:00:00Z"]);
    check("0 0 * * FRIL,sunl", &["2030-01-25T00:00:00Z", "2030-01-27T00:00:00Z", "2030-02-22T00:00:00Z"]);
}

#[test]
fn n_hash_k_is_the_kth_such_weekday_of_the_month() {
    check("0 0 * * TUE#1", &["2030-01-01T00:00:00Z", "2030-02-05T00:00:00Z", "2030-03-05T00:00:00Z"]);
    check("0 0 * * 2#5", &["2030-01-29T00:00:00Z", "2030-04-30T00:00:00Z", "2030-07-30T00:00:00Z"]);
}

#[test]
fn a_question_mark_leaves_a_day_field_free() {
    check_same("0 0 ? * MON", "0 0 * * MON");
    check_same("0 0 13 * ?", "0 0 13 * *");
}

#[test]
fn either_day_is_enough_when_both_fields_are_restricted() {
    check("0 0 13 * FRI", &["2030-01-04T00:00:00Z", "2030-01-11T00:00:00Z", "2030-01-13T00:00:00Z"]);
    check("0 0 L * 1#1", &["2030-01-07T00:00:00Z", "2030-01-31T00:00:00Z", "2030-02-04T00:00:00Z"]);
}

#[test]
fn both_days_must_agree_when_one_field_starts_with_a_star() {
    check("0 0 */2 * MON", &["2030-01-07T00:00:00Z", "2030-01-21T00:00:00Z", "2030-02-11T00:00:00Z"]);
    check("0 0 13 * */5", &["2030-01-13T00:00:00Z", "2030-09-13T00:00:00Z", "2030-10-13T00:00:00Z"]);
}

#[test]
fn a_nickname_stands_for_its_fields() {
    check_same("@hourly", "0 * * * *");
    check_same("@daily", "0 0 * * *");
    check_same("@midnight", "0 0 * * *");
    check_same("@Weekly", "0 0 * * 0");
    check_same("@monthly", "0 0 1 * *");
    check_same("@yearly", "0 0 1 1 *");
    check_same("@ANNUALLY", "0 0 1 1 *");
}

#[test]
fn space_around_and_between_fields_does_not_matter() {
    let cron = Cron::parse("  0\t1   * * *  ", "utc").unwrap();
    assert_eq!((cron.expression(), cron.zone()), ("0\t1   * * *", "UTC"));
    assert_eq!(cron.pattern, Cron::parse("0 1 * * *", "UTC").unwrap().pattern);
}

#[test]
fn a_leap_day_on_a_monday_is_found_across_a_century_without_one() {
    let cron = Cron::parse("0 0 ? 2 MON#5", "UTC").unwrap();
    check_cron(&cron, EVE, &["2044-02-29T00:00:00Z", "2072-02-29T00:00:00Z", "2112-02-29T00:00:00Z"]);
    let cron = Cron::parse("* * ? 2 MON#5", "America/New_York").unwrap();
    check_cron(&cron, "2072-03-01T12:00:00Z", &["2112-02-29T05:00:00Z", "2112-02-29T05:01:00Z"]);
}

#[test]
fn nothing_is_due_outside_the_years_an_instant_can_name() {
    let yearly = Cron::parse("0 0 1 1 *", "Asia/Tokyo").unwrap();
    let minutely = Cron::parse("* * * * *", "America/New_York").unwrap();
    let last = Timestamp::MAX.as_millis();
    for cron in [&yearly, &minutely] {
        for millis in [i64::MIN, -1, 0, last - 90_000_000, last - 100_000, last, i64::MAX] {
            let instant = Timestamp::from_millis(millis);
            let named = Timestamp::MIN..=Timestamp::MAX;
            assert!(cron.next(instant).is_none_or(|due| due > instant && named.contains(&due)));
            assert!(cron.previous(instant).is_none_or(|due| due <= instant && named.contains(&due)));
        }
    }
    assert_eq!(minutely.next(Timestamp::MAX), None);
    assert_eq!(yearly.previous(at("1970-01-01T12:00:00Z")), None);
    assert_eq!(yearly.next(Timestamp::from_millis(i64::MIN)), Some(at("1970-12-31T15:00:00Z")));
}
