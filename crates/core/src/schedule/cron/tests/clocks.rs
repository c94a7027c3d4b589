//! What happens when clocks change. The rule is in the parent module; these are its known cases.

use super::super::Cron;
use super::check_cron;

#[track_caller]
fn check(expression: &str, zone: &str, after: &str, expected: &[&str]) {
    check_cron(&Cron::parse(expression, zone).unwrap(), after, expected);
}

const NEW_YORK: &str = "America/New_York";
/// 2026-03-08: 01:59:59 EST is followed by 03:00:00 EDT.
const SPRING: &str = "2026-03-08T00:00:00-05:00";
/// 2026-11-01: 01:59:59 EDT is followed by 01:00:00 EST.
const AUTUMN: &str = "2026-11-01T00:00:00-04:00";

#[test]
fn a_fixed_time_inside_a_gap_fires_at_its_end() {
    let expected = ["2026-03-08T03:00:00-04:00", "2026-03-09T02:30:00-04:00"];
    check("30 2 * * *", NEW_YORK, SPRING, &expected);
}

#[test]
fn several_fixed_times_inside_a_gap_fire_once() {
    let expected = ["2026-03-08T03:00:00-04:00", "2026-03-09T02:00:00-04:00", "2026-03-09T02:15:00-04:00"];
    check("0,15,30 2 * * *", NEW_YORK, SPRING, &expected);
    check("10-40/10 2 8 3 *", NEW_YORK, SPRING, &["2026-03-08T03:00:00-04:00", "2027-03-08T02:10:00-05:00"]);
}

#[test]
fn a_time_at_the_end_of_the_gap_and_one_inside_it_are_one_fire() {
    let expected = ["2026-03-08T03:00:00-04:00", "2026-03-08T03:30:00-04:00", "2026-03-09T02:00:00-04:00"];
    check("0,30 2,3 * * *", NEW_YORK, SPRING, &expected);
}

#[test]
fn a_repeated_fixed_time_fires_in_the_first_pass_only() {
    let expected = ["2026-11-01T01:30:00-04:00", "2026-11-02T01:30:00-05:00"];
    check("30 1 * * *", NEW_YORK, AUTUMN, &expected);
    // Asked in the middle of the second pass, too.
    check("30 1 * * *", NEW_YORK, "2026-11-01T01:10:00-05:00", &["2026-11-02T01:30:00-05:00"]);
    let cron = Cron::parse("30 1 * * *", NEW_YORK).unwrap();
    let until = super::at("2026-11-01T01:10:00-05:00");
    assert_eq!(cron.previous(until), Some(super::at("2026-11-01T01:30:00-04:00")));
}

#[test]
fn a_wildcard_fires_in_both_passes_of_a_fold() {
    let expected = [
        "2026-11-01T00:30:00-04:00",
        "2026-11-01T01:30:00-04:00",
        "2026-11-01T01:30:00-05:00",
        "2026-11-01T02:30:00-05:00",
    ];
    check("30 * * * *", NEW_YORK, AUTUMN, &expected);
    let expected = ["2026-11-01T01:00:00-04:00", "2026-11-01T01:30:00-04:00", "2026-11-01T01:00:00-05:00"];
    check("*/30 1 * * *", NEW_YORK, AUTUMN, &expected);
}

#[test]
fn a_wildcard_does_not_fire_for_what_the_clock_never_shows() {
    let expected = ["2026-03-08T01:30:00-05:00", "2026-03-08T03:30:00-04:00"];
    check("30 * * * *", NEW_YORK, "2026-03-08T01:00:00-05:00", &expected);
    check("*/30 2 * * *", NEW_YORK, SPRING, &["2026-03-09T02:00:00-04:00", "2026-03-09T02:30:00-04:00"]);
    let expected = ["2026-03-08T00:00:00-05:00", "2026-03-08T04:00:00-04:00", "2026-03-08T06:00:00-04:00"];
    check("0 */2 * * *", NEW_YORK, "2026-03-07T23:30:00-05:00", &expected);
}

#[test]
fn a_range_over_the_whole_field_is_a_wildcard_and_a_shorter_one_is_not() {
    let both = ["2026-11-01T01:30:00-04:00", "2026-11-01T01:30:00-05:00", "2026-11-01T02:30:00-05:00"];
    check("30 0-23 * * *", NEW_YORK, "2026-11-01T01:00:00-04:00", &both);
    check("30 12-11 * * *", NEW_YORK, "2026-11-01T01:00:00-04:00", &both);
    let once = ["2026-11-01T01:30:00-04:00", "2026-11-01T02:30:00-05:00"];
    check("30 0-22 * * *", NEW_YORK, "2026-11-01T01:00:00-04:00", &once);
}

#[test]
fn seconds_follow_elapsed_time_over_both_changes() {
    let expected = ["2026-03-08T01:59:59-05:00", "2026-03-08T03:00:00-04:00"];
    check("* * * * * *", NEW_YORK, "2026-03-08T01:59:58-05:00", &expected);
    let expected = ["2026-11-01T01:59:59-04:00", "2026-11-01T01:00:00-05:00"];
    check("* * * * * *", NEW_YORK, "2026-11-01T01:59:58-04:00", &expected);
}

#[test]
fn lord_howe_changes_by_half_an_hour() {
    // 2026-10-04: 01:59:59 +10:30 is followed by 02:30:00 +11:00.
    let expected = ["2026-10-04T02:30:00+11:00", "2026-10-05T02:15:00+11:00"];
    check("15 2 * * *", "Australia/Lord_Howe", "2026-10-04T00:00:00+10:30", &expected);
    // 2026-04-05: 01:59:59 +11:00 is followed by 01:30:00 +10:30.
    let expected = ["2026-04-05T01:45:00+11:00", "2026-04-06T01:45:00+10:30"];
    check("45 1 * * *", "Australia/Lord_Howe", "2026-04-05T00:00:00+11:00", &expected);
    let expected = ["2026-04-05T01:45:00+11:00", "2026-04-05T01:45:00+10:30", "2026-04-05T02:45:00+10:30"];
    check("45 * * * *", "Australia/Lord_Howe", "2026-04-05T01:00:00+11:00", &expected);
}

#[test]
fn a_day_that_a_country_skipped_fires_at_the_start_of_the_next() {
    // Samoa went from 29 to 31 December 2011 at midnight.
    let expected = ["2011-12-29T09:00:00-10:00", "2011-12-31T00:00:00+14:00", "2011-12-31T09:00:00+14:00"];
    check("0 9 * * *", "Pacific/Apia", "2011-12-29T00:00:00-10:00", &expected);
    check("0 9 30 12 *", "Pacific/Apia", "2011-12-29T00:00:00-10:00", &expected[1..2]);
    let expected = ["2011-12-29T23:00:00-10:00", "2011-12-31T00:00:00+14:00"];
    check("0 * * * *", "Pacific/Apia", "2011-12-29T22:30:00-10:00", &expected);
}

#[test]
fn midnight_fires_where_the_day_starts_at_one() {
    // 2026-03-08 in Havana starts at 01:00.
    let expected = ["2026-03-08T01:00:00-04:00", "2026-03-09T00:00:00-04:00"];
    check("0 0 * * *", "America/Havana", "2026-03-07T12:00:00-05:00", &expected);
}

#[test]
fn a_rule_that_no_table_holds_is_followed_far_ahead() {
    let expected = ["2090-03-12T03:00:00-04:00", "2090-03-13T02:30:00-04:00"];
    check("30 2 * * *", NEW_YORK, "2090-03-12T00:00:00-05:00", &expected);
}
