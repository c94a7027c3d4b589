//! What is said, read as a person would: `cases.txt` has an expression, its words in English, its words in Chinese.

use super::super::{Weekdays, parse_duration};
use super::*;

/// What `H` is picked by in these cases.
const JOB: &str = "default/nightly";
const CASES: &str = include_str!("cases.txt");

#[test]
fn an_expression_reads_as_a_person_would_say_it() {
    let cases: Vec<&str> = CASES.split("\n\n").map(str::trim).filter(|case| !case.starts_with('#')).collect();
    assert!(cases.len() >= 120, "{}", cases.len());
    for case in cases {
        let [written, english, chinese] = case.lines().map(str::trim).collect::<Vec<_>>()[..] else {
            panic!("a case has three lines: {case}");
        };
        let (expression, zone, weekdays) = match written.split_once(" | ") {
            Some((expression, "quartz")) => (expression, "UTC", Weekdays::Quartz),
            Some((expression, zone)) => (expression, zone, Weekdays::Unix),
            None => (written, "UTC", Weekdays::Unix),
        };
        let when = When::parse_cron(expression, zone, weekdays, Some(JOB)).unwrap();
        assert_eq!(when.describe(Language::English), english, "{written}");
        assert_eq!(when.describe(Language::Chinese), chinese, "{written}");
    }
}

#[track_caller]
fn check(schedule: &Schedule, english: &str, chinese: &str) {
    assert_eq!(schedule.describe(Language::English), english);
    assert_eq!(schedule.describe(Language::Chinese), chinese);
}

#[test]
fn a_schedule_that_is_no_cron_has_words_too() {
    let every = |text| Schedule::new(When::Every(parse_duration(text).unwrap()));
    let after = |text| Schedule::new(When::AfterFinish(parse_duration(text).unwrap()));
    check(&every("30s"), "every 30 seconds", "每 30 秒");
    check(&every("1m"), "every minute", "每分钟");
    check(&every("1d12h"), "every 1 day and 12 hours", "每 1 天 12 小时");
    check(&every("2w"), "every 2 weeks", "每 2 周");
    check(&every("8d"), "every 8 days", "每 8 天");
    check(&every("500ms"), "every 500 milliseconds", "每 500 毫秒");
    check(&after("10m"), "10 minutes after each run has finished", "每次运行结束 10 分钟后");
    check(
        &after("1h30m"),
        "1 hour and 30 minutes after each run has finished",
        "每次运行结束 1 小时 30 分钟后",
    );
    let at = Schedule::new(When::At("2026-12-01T08:00:00+08:00".parse().unwrap()));
    check(&at, "once, at 2026-12-01T00:00:00Z", "仅一次，2026-12-01T00:00:00Z");
    check(&Schedule::new(When::Manual), "only when someone starts it", "仅在有人启动时运行");
}

#[test]
fn bounds_are_said_after_the_rule() {
    let cron = When::parse_cron("0 1 * * *", "Asia/Shanghai", Weekdays::Unix, None).unwrap();
    let schedule = Schedule {
        start: Some("2030-01-01T00:00:00Z".parse().unwrap()),
        end: Some("2031-01-01T00:00:00.500Z".parse().unwrap()),
        jitter: Duration::from_secs(30),
        max_runs: Some(3),
        ..Schedule::new(cron)
    };
    check(
        &schedule,
        "at 01:00 every day (Asia/Shanghai), not before 2030-01-01T00:00:00Z, not after \
         2031-01-01T00:00:00.500Z, at most 3 times, each up to 30 seconds later",
        "每天 01:00（Asia/Shanghai 时间），不早于 2030-01-01T00:00:00Z，不晚于 2031-01-01T00:00:00.500Z，\
         最多 3 次，每次最多推迟 30 秒",
    );
    let once = Schedule { max_runs: Some(1), ..Schedule::new(When::Every(Duration::from_secs(1))) };
    check(&once, "every second, at most once", "每秒，最多 1 次");
}

#[test]
fn a_language_is_named_by_its_code() {
    assert_eq!("en".parse(), Ok(Language::English));
    assert_eq!("zh".parse(), Ok(Language::Chinese));
    assert_eq!("de".parse::<Language>(), Err(UnknownLanguage));
}
