//! What is refused, and what is said about it.

use super::super::{Cron, Weekdays};

#[track_caller]
fn check(expression: &str, message: &str) {
    let error = Cron::parse(expression, "UTC").unwrap_err();
    assert_eq!(error.to_string(), message, "{expression}");
}

#[test]
fn a_value_beyond_its_field_is_named_with_the_range() {
    check("61 * * * *", "minute field: `61` is out of range 0-59");
    check("60 0 * * * *", "second field: `60` is out of range 0-59");
    check("0 24 * * *", "hour field: `24` is out of range 0-23");
    check("0 0 0 * *", "day field: `0` is out of range 1-31");
    check("0 0 40W * *", "day field: `40` is out of range 1-31");
    check("0 0 1-32 * *", "day field: `32` is out of range 1-31");
    check("0 0 * 13 *", "month field: `13` is out of range 1-12");
    check("0 0 * * 8", "weekday field: `8` is out of range 0-7");
    check("0 0 0 * * ? 2100", "year field: `2100` is out of range 1970-2099");
    check("99999999999 * * * *", "minute field: `99999999999` is out of range 0-59");
    let quartz = Cron::parse_with("0 0 0 ? * 0", "UTC", Weekdays::Quartz, None).unwrap_err();
    assert_eq!(quartz.to_string(), "weekday field: `0` is out of range 1-7");
}

#[test]
fn what_is_not_understood_is_answered_with_what_would_be() {
    let numbers = "write a number, a range like 1-5, a step like */5, or a list of them";
    let names =
        "write a number, a short English name like JAN or MON, a range, a step like */2, or a list of them";
    check("x * * * *", &format!("minute field: `x` is not understood; {numbers}"));
    check("1,,2 * * * *", &format!("minute field: `` is not understood; {numbers}"));
    check("+1 * * * *", &format!("minute field: `+1` is not understood; {numbers}"));
    check("? * * * *", &format!("minute field: `?` is not understood; {numbers}"));
    check("0 0 * FEBR *", &format!("month field: `FEBR` is not understood; {names}"));
    check("0 0 * * LUN", &format!("weekday field: `LUN` is not understood; {names}"));
    let step = "a step is at least 1 and at most the size of the field";
    check("*/0 * * * *", &format!("minute field: `*/0` is not understood; {step}"));
    check("*/61 * * * *", &format!("minute field: `*/61` is not understood; {step}"));
    check("*/x * * * *", "minute field: `*/x` is not understood; write the step after `/` as a number");
    check("0 0 L-31 * *", "day field: `L-31` is not understood; write L, L-n with n from 1 to 30, or LW");
    check("0 0 1-5W * *", "day field: `1-5W` is not understood; write one day before W, like 15W, or LW");
    let count = "write the count after # as a number from 1 to 5";
    check("0 0 * * 1#6", &format!("weekday field: `1#6` is not understood; {count}"));
    let last = "write the weekday before it, like FRIL, or name the day, like SAT";
    check("0 0 * * L", &format!("weekday field: `L` is not understood; {last}"));
    check("0 0 0 * * ? 2030-2026", "year field: `2030-2026` is not understood; write the earlier year first");
    check(
        "@reboot",
        "`@reboot` is not a nickname; use @hourly, @daily, @weekly, @monthly, @yearly or `every`",
    );
}

#[test]
fn the_number_of_fields_is_five_to_seven() {
    let hint = "write 5 (minute first), 6 (second first) or 7 (year last)";
    check("", &format!("cron expression has 0 fields; {hint}"));
    check("* * * *", &format!("cron expression has 4 fields; {hint}"));
    check("* * * * * * * *", &format!("cron expression has 8 fields; {hint}"));
}

#[test]
fn a_day_that_never_comes_is_refused() {
    let why = "never occurs: none of its months has such a day";
    check("0 0 30 2 *", &format!("`0 0 30 2 *` {why}"));
    check("0 0 31 4,6,9,11 *", &format!("`0 0 31 4,6,9,11 *` {why}"));
    check("0 0 L-29 2 *", &format!("`0 0 L-29 2 *` {why}"));
    check("0 0 0 29 2 ? 2025-2027", &format!("`0 0 0 29 2 ? 2025-2027` {why}"));
    check("0 0 0 ? 2 MON#5 2030-2043", &format!("`0 0 0 ? 2 MON#5 2030-2043` {why}"));
    assert!(Cron::parse("0 0 0 ? 2 MON#5 2030-2044", "UTC").is_ok());
    // Either day is enough here, and Mondays do come.
    assert!(Cron::parse("0 0 30 2 MON", "UTC").is_ok());
}

#[test]
fn texts_over_their_limit_are_refused_unread() {
    let long = format!("0{} * * * *", ",0".repeat(125));
    check(&long, "cron expression is 259 bytes long; at most 256 are allowed");
    let zone = Cron::parse("* * * * *", &"a".repeat(65)).unwrap_err();
    assert_eq!(zone.to_string(), "time zone is 65 bytes long; at most 64 are allowed");
}

#[test]
fn a_zone_is_an_iana_name() {
    for zone in ["", "CEST", "+08:00", "Mars/Olympus", "Etc/Unknown", "../../etc/passwd"] {
        let error = Cron::parse("* * * * *", zone).unwrap_err();
        let expected = format!("unknown time zone `{zone}`; write an IANA name such as Asia/Shanghai or UTC");
        assert_eq!(error.to_string(), expected);
    }
    assert_eq!(Cron::parse("* * * * *", "asia/shanghai").unwrap().zone(), "Asia/Shanghai");
}

#[test]
fn a_spread_needs_a_key() {
    check("H * * * *", "minute field: `H` needs a key to spread by, such as the name of the job");
}
