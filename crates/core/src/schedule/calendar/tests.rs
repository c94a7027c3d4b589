//! The rule about days, against the same rule said slowly.

use jiff::ToSpan;
use jiff::civil::{Date, date};
use proptest::prelude::*;

use super::*;

fn days(weekly: &[&str], include: &[&str], exclude: &[&str]) -> Days {
    let entries =
        |texts: &[&str]| texts.iter().map(|text| text.parse::<Entry>().unwrap()).collect::<Vec<_>>();
    let weekly = weekly.iter().map(|text| text.parse::<Weekday>().unwrap()).collect();
    Days::new(weekly, entries(include), entries(exclude))
}

fn workdays(include: &[&str], exclude: &[&str]) -> Days {
    days(&["mon", "tue", "wed", "thu", "fri"], include, exclude)
}

#[track_caller]
fn check(days: &Days, day: &str, is_in: bool) {
    let number = day_number(day.parse().unwrap());
    assert_eq!(days.has(number), is_in, "{day} ({})", Weekday::of(number));
}

/// The National Day holiday of 2026 with the Saturday that is worked for it.
#[test]
fn a_working_saturday_makes_up_for_a_holiday() {
    let days = workdays(&["2026-10-10"], &["2026-10-01..2026-10-07"]);
    for (day, is_in) in [
        ("2026-09-30", true),
        ("2026-10-01", false),
        ("2026-10-07", false),
        ("2026-10-08", true),
        ("2026-10-10", true),
        ("2026-10-11", false),
        ("2026-10-17", false),
    ] {
        check(&days, day, is_in);
    }
}

#[test]
fn included_days_beat_excluded_days_and_both_beat_weekdays() {
    let days = days(&["mon"], &["2026-12-25", "02-29"], &["12-25", "2028-02-01..2028-03-31", "2026-11-16"]);
    check(&days, "2026-12-25", true);
    check(&days, "2027-12-25", false);
    check(&days, "2028-02-29", true);
    check(&days, "2028-02-28", false);
    check(&days, "2026-11-16", false);
    check(&days, "2026-11-23", true);
}

#[test]
fn a_set_is_kept_as_few_spans_as_say_it_and_in_order() {
    let days = workdays(
        &["12-25", "2026-01-05", "2026-01-03", "2026-01-04", "01-01", "2026-01-04..2026-01-09"],
        &[],
    );
    let written: Vec<String> = days.include().map(|entry| entry.to_string()).collect();
    assert_eq!(written, ["2026-01-03..2026-01-09", "01-01", "12-25"]);
}

#[test]
fn what_is_no_day_is_refused_with_a_reason() {
    for (text, why) in [
        ("", "written year-month-day"),
        ("today", "month-day, with two digits"),
        ("2026-1-1", "two digits"),
        ("2026-02-29", "no such date"),
        ("2026-13-01", "no such date"),
        ("1969-12-31", "outside 1970 to 9998"),
        ("9999-01-01", "outside 1970 to 9998"),
        ("2026-10-07..2026-10-01", "ends before it begins"),
        ("2026-10-01..", "written year-month-day"),
        ("2026-10-01...2026-10-02", "written year-month-day"),
        ("12-24..12-26", "written year-month-day"),
        ("02-30", "in any year"),
        ("00-10", "in any year"),
        ("13-01", "in any year"),
        ("+1-01", "two digits"),
        ("2026-10-01T00:00:00Z", "written year-month-day"),
        ("2026-10-01..2026-10-07..2026-10-09", "too long"),
        ("２０２６-10-01", "written year-month-day"),
    ] {
        let error = text.parse::<Entry>().unwrap_err().to_string();
        assert!(error.contains(why), "{text}: {error}");
        assert!(error.contains("write 2026-10-01"), "{error}");
    }
    assert!("friday".parse::<Weekday>().unwrap_err().to_string().contains("write mon, tue"));
    assert_eq!("FRI".parse::<Weekday>(), Ok(Weekday::Friday));
}

#[test]
fn a_calendar_reads_back_as_it_was_kept() {
    let days = workdays(&["2026-10-10"], &["2026-10-01..2026-10-07", "12-25"]);
    let calendar = Calendar { name: "cn-workdays".parse().unwrap(), version: 3, days };
    let json = serde_json::to_string(&calendar).unwrap();
    assert_eq!(
        json,
        r#"{"name":"cn-workdays","version":3,"days":{"weekly":["mon","tue","wed","thu","fri"],"include":["2026-10-10"],"exclude":["2026-10-01..2026-10-07","12-25"]}}"#
    );
    assert_eq!(serde_json::from_str::<Calendar>(&json).unwrap(), calendar);
    assert_eq!(postcard::from_bytes::<Calendar>(&postcard::to_stdvec(&calendar).unwrap()).unwrap(), calendar);
}

/// 2020 to 2032, with three leap years in it.
fn a_day() -> impl Strategy<Value = Date> {
    (0..4_748i32).prop_map(|days| date(2020, 1, 1) + days.days())
}

fn an_entry() -> impl Strategy<Value = Entry> {
    prop_oneof![
        (a_day(), 0..40i64).prop_map(|(day, more)| {
            let first = day_number(day);
            Entry::Span { first, last: first + more }
        }),
        a_day().prop_map(|day| Entry::Yearly {
            month: day.month().unsigned_abs(),
            day: day.day().unsigned_abs()
        }),
    ]
}

proptest! {
    #[test]
    fn every_day_is_judged_as_the_entries_say_one_by_one(
        weekly in proptest::collection::vec(proptest::sample::select(&Weekday::ALL[..]), 0..7),
        include in proptest::collection::vec(an_entry(), 0..12),
        exclude in proptest::collection::vec(an_entry(), 0..12),
    ) {
        let days = Days::new(weekly.iter().copied().collect(), include.clone(), exclude.clone());
        let names = |entries: &[Entry], day: Date| entries.iter().any(|entry| match *entry {
            Entry::Span { first, last } => (first..=last).contains(&day_number(day)),
            Entry::Yearly { month, day: of } => {
                (day.month().unsigned_abs(), day.day().unsigned_abs()) == (month, of)
            }
        });
        for day in date(2019, 11, 1).series(1.day()).take(5_000) {
            let weekday = Weekday::ALL[usize::from(day.weekday().to_monday_zero_offset().unsigned_abs())];
            let is_in = names(&include, day) || (!names(&exclude, day) && weekly.contains(&weekday));
            prop_assert_eq!(days.has(day_number(day)), is_in, "{}", day);
            prop_assert_eq!(day_text(day_number(day)), day.to_string());
        }
        let texts = serde_json::to_string(&days).unwrap();
        prop_assert_eq!(serde_json::from_str::<Days>(&texts).unwrap(), days);
    }
}
