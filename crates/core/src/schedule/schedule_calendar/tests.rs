//! Schedules that keep to a calendar, against a walk over every candidate.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::schedule::calendar::{Days, Entry, Weekday, Weekly};
use crate::schedule::{Cron, Language, Schedule, When};

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn keeping(zone: &str, days: Days) -> ScheduleCalendar {
    let name: Name = "work".parse().unwrap();
    ScheduleCalendar::of(Arc::new(Calendar { name, version: 1, days }), zone).unwrap()
}

fn workdays(include: &[&str], exclude: &[&str]) -> Days {
    let entries =
        |texts: &[&str]| texts.iter().map(|text| text.parse::<Entry>().unwrap()).collect::<Vec<_>>();
    Days::new(Weekday::ALL[..5].iter().copied().collect(), entries(include), entries(exclude))
}

fn cron(expression: &str, zone: &str, days: Days) -> Schedule {
    let when = When::Cron(Cron::parse(expression, zone).unwrap());
    Schedule { calendar: Some(keeping(zone, days)), ..Schedule::new(when) }
}

#[track_caller]
fn check(schedule: &Schedule, after: &str, expected: &[&str]) {
    let mut due = at(after);
    for expected in expected {
        let next = schedule.next(due, Timestamp::MIN);
        assert_eq!(next, Some(at(expected)), "after {due}");
        assert_eq!(schedule.previous(at(expected), Timestamp::MIN), next);
        due = at(expected);
    }
}

#[test]
fn a_cron_jumps_over_a_holiday_and_fires_on_the_saturday_worked_for_it() {
    let days = workdays(&["2026-10-10"], &["2026-10-01..2026-10-07"]);
    let schedule = cron("0 8 * * *", "Asia/Shanghai", days);
    check(
        &schedule,
        "2026-09-30T00:00:00Z",
        &["2026-10-08T00:00:00Z", "2026-10-09T00:00:00Z", "2026-10-10T00:00:00Z", "2026-10-12T00:00:00Z"],
    );
    assert_eq!(
        schedule.previous(at("2026-10-05T12:00:00Z"), Timestamp::MIN),
        Some(at("2026-09-30T00:00:00Z"))
    );
}

#[test]
fn a_beat_rests_on_days_that_are_out_and_keeps_its_beat() {
    let schedule = Schedule {
        start: Some(at("2026-10-02T00:00:00Z")),
        calendar: Some(keeping("UTC", workdays(&[], &[]))),
        ..Schedule::new(When::Every(Duration::from_secs(11 * 3600)))
    };
    check(
        &schedule,
        "2026-10-02T00:00:00Z",
        &["2026-10-02T11:00:00Z", "2026-10-02T22:00:00Z", "2026-10-05T05:00:00Z", "2026-10-05T16:00:00Z"],
    );
}

#[test]
fn the_zone_of_the_schedule_says_when_a_day_begins() {
    let friday_evening = "2026-10-09T20:00:00Z";
    let days = || workdays(&[], &[]);
    let utc = cron("0 * * * *", "UTC", days());
    let shanghai = cron("0 * * * *", "Asia/Shanghai", days());
    check(&utc, friday_evening, &["2026-10-09T21:00:00Z"]);
    // There it is Saturday already.
    check(&shanghai, friday_evening, &["2026-10-11T16:00:00Z"]);
}

#[test]
fn an_instant_on_a_day_that_is_out_is_refused_and_never_comes() {
    let at_noon = |day: &str| Schedule {
        calendar: Some(keeping("UTC", workdays(&[], &[]))),
        ..Schedule::new(When::At(at(&format!("{day}T12:00:00Z"))))
    };
    assert_eq!(at_noon("2026-10-09").check(), Ok(()));
    let saturday = at_noon("2026-10-10");
    let refused = saturday.check().unwrap_err().to_string();
    assert!(refused.starts_with("2026-10-10 is no day of calendar `work`"), "{refused}");
    assert_eq!(saturday.next(Timestamp::MIN, Timestamp::MIN), None);
    assert_eq!(saturday.previous(Timestamp::MAX, Timestamp::MIN), None);
}

#[test]
fn a_calendar_that_was_not_looked_up_lets_nothing_fire() {
    let named = ScheduleCalendar::named("work".parse().unwrap(), "UTC").unwrap();
    let schedule = Schedule { calendar: Some(named), ..Schedule::new(When::Every(Duration::from_secs(1))) };
    assert_eq!(schedule.next(Timestamp::MIN, Timestamp::MIN), None);
}

#[test]
fn what_waits_for_a_run_or_a_person_keeps_no_calendar() {
    for when in [When::AfterFinish(Duration::from_secs(1)), When::Manual] {
        let schedule = Schedule { calendar: Some(keeping("UTC", workdays(&[], &[]))), ..Schedule::new(when) };
        assert_eq!(schedule.check(), Err(Error::NoDaysToKeep));
    }
}

/// Counted, not timed: how often the schedule is asked is what a search costs.
#[track_caller]
fn asks(keeping: &ScheduleCalendar, schedule: &Schedule, expected: Option<&str>) -> usize {
    let asked = std::cell::Cell::new(0);
    let after = at("2026-01-01T00:00:00Z");
    let next = keeping.next(after, |after| {
        asked.set(asked.get() + 1);
        schedule.next(after, Timestamp::MIN)
    });
    assert_eq!(next, expected.map(at));
    asked.get()
}

#[test]
fn a_schedule_in_words_names_its_calendar() {
    let schedule = Schedule {
        calendar: Some(ScheduleCalendar::named("work".parse().unwrap(), "UTC").unwrap()),
        ..Schedule::new(When::Every(Duration::from_secs(3600)))
    };
    let english = schedule.describe(Language::English);
    assert!(english.ends_with(", only on days of the calendar `work`"), "{english}");
    assert!(schedule.describe(Language::Chinese).contains("`work`"));
}

#[test]
fn a_search_is_bounded_whatever_the_calendar_leaves_out() {
    let never = Days::new(Weekly::NONE, [], []);
    let nothing = Days::new(Weekly::EVERY_DAY, [], ["1970-01-01..9998-12-31".parse::<Entry>().unwrap()]);
    let every_second = Schedule::new(When::Every(Duration::from_secs(1)));
    let sundays = Schedule::new(When::Cron(Cron::parse("0 0 * * SUN", "UTC").unwrap()));
    let leap_days = Schedule::new(When::Cron(Cron::parse("0 0 29 2 *", "UTC").unwrap()));
    for schedule in [&every_second, &sundays, &leap_days] {
        assert_eq!(asks(&keeping("UTC", never.clone()), schedule, None), 1);
        assert_eq!(asks(&keeping("UTC", nothing.clone()), schedule, None), 1);
    }
    // It is Sunday again and again, for fifty years, and never a workday.
    assert!(asks(&keeping("UTC", workdays(&[], &[])), &sundays, None) <= LEAPS_MAX);
    let late = workdays(&["2070-01-05"], &[]);
    assert!(asks(&keeping("UTC", late), &sundays, Some("2070-01-05T00:00:00Z")) <= LEAPS_MAX);
    let only = Days::new(Weekly::NONE, ["2070-01-05".parse::<Entry>().unwrap()], []);
    assert_eq!(asks(&keeping("UTC", only), &every_second, Some("2070-01-05T00:00:00Z")), 2);
}

const ZONES: [&str; 8] = [
    "UTC",
    "Asia/Shanghai",
    "America/New_York",
    "America/St_Johns", // put back at 00:01 until 2011: yesterday comes again
    "America/Sao_Paulo",
    "Australia/Lord_Howe",
    "Pacific/Apia", // skipped 2011-12-30
    "America/Havana",
];

fn schedules() -> impl Strategy<Value = When> {
    const CRONS: [&str; 6] =
        ["*/20 * * * *", "30 23 * * *", "0 0 * * *", "5 0 1,15 * *", "0 12 * * MON", "59 23 * * SAT"];
    prop_oneof![
        proptest::sample::select(&CRONS[..]).prop_map(|text| When::Cron(Cron::parse(text, "UTC").unwrap())),
        (600..200_000u64).prop_map(|seconds| When::Every(Duration::from_secs(seconds))),
    ]
}

/// Around the changes of 2007 to 2012, where the odd ones are.
fn instants() -> impl Strategy<Value = Timestamp> {
    (1_167_609_600_000..1_356_998_400_000i64).prop_map(Timestamp::from_millis)
}

fn some_days() -> impl Strategy<Value = Days> {
    let entry =
        || (13_514..15_706i64, 0..5i64).prop_map(|(first, more)| Entry::Span { first, last: first + more });
    let weekly = proptest::collection::vec(proptest::sample::select(&Weekday::ALL[..]), 0..7);
    let entries = || proptest::collection::vec(entry(), 0..60);
    (weekly, entries(), entries())
        .prop_map(|(weekly, include, exclude)| Days::new(weekly.into_iter().collect(), include, exclude))
}

proptest! {
    #[test]
    fn a_search_finds_what_a_walk_over_every_candidate_finds(
        when in schedules(),
        zone in proptest::sample::select(&ZONES[..]),
        days in some_days(),
        instant in instants(),
    ) {
        let when = match when {
            When::Cron(cron) => When::Cron(Cron::parse(cron.expression(), zone).unwrap()),
            other => other,
        };
        let plain = Schedule::new(when);
        let kept = Schedule { calendar: Some(keeping(zone, days.clone())), ..plain.clone() };
        let tz = jiff::tz::db().get(zone).unwrap();
        let is_in = |due: Timestamp| {
            let date = jiff::Timestamp::from(due).to_zoned(tz.clone()).date();
            days.has(crate::schedule::calendar::day_number(date))
        };
        // Forty days of candidates, each asked by jiff's own idea of its date.
        let end = instant + Duration::from_secs(40 * 86_400);
        let walk = std::iter::successors(plain.next(instant, Timestamp::MIN), |due| plain.next(*due, Timestamp::MIN));
        let found = walk.take_while(|due| *due <= end).find(|due| is_in(*due));
        prop_assert_eq!(kept.next(instant, Timestamp::MIN).filter(|due| *due <= end), found);
        let begin = instant.before(Duration::from_secs(40 * 86_400));
        let walk = std::iter::successors(plain.previous(instant, Timestamp::MIN), |due| {
            plain.previous(one_before(*due), Timestamp::MIN)
        });
        let found = walk.take_while(|due| *due >= begin).find(|due| is_in(*due));
        prop_assert_eq!(kept.previous(instant, Timestamp::MIN).filter(|due| *due >= begin), found);
    }
}
