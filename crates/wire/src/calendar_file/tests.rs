//! What a calendar file may say, and what it hears when it may not.

use super::*;

const WORKDAYS: &str = "
calendar: cn-workdays
namespace: payments
description: Statutory holidays of 2026
weekly: [mon, tue, wed, thu, fri]
include: [2026-10-10]                       # worked for the National Day
exclude: [2026-10-01..2026-10-07, 12-25]
";

fn read_one(text: &str) -> Result<Draft, String> {
    let mut read = read_all(text, &Namespace::default()).map_err(|errors| errors[0].to_string())?;
    assert_eq!(read.len(), 1);
    Ok(read.remove(0))
}

#[test]
fn a_calendar_is_read_and_written_back_the_same() {
    let draft = read_one(WORKDAYS).unwrap();
    assert_eq!((draft.namespace.as_str(), draft.name.as_str()), ("payments", "cn-workdays"));
    assert_eq!(draft.description, "Statutory holidays of 2026");
    let record = Record {
        namespace: draft.namespace.clone(),
        calendar: std::sync::Arc::new(Calendar {
            name: draft.name.clone(),
            version: 4,
            days: draft.days.clone(),
        }),
        description: draft.description.clone(),
        updated_at: punctual_core::Timestamp::MIN,
        settled: true,
    };
    let written = crate::yaml::to_string(&CalendarFile::of(&record)).unwrap();
    assert!(written.contains("2026-10-01..2026-10-07"), "{written}");
    assert_eq!(read_one(&written).unwrap(), draft);
    let shown = serde_json::to_string(&crate::rest::Calendar::from(&record)).unwrap();
    assert_eq!(read_one(&shown).unwrap(), draft, "what we said may be sent back");
}

/// What the guide shows first is what people copy.
#[test]
fn the_example_of_the_guide_means_what_it_says() {
    let guide = include_str!("../../../../docs/guides/calendars.md");
    let examples: Vec<&str> =
        guide.split("```yaml\n").skip(1).filter_map(|text| text.split("```").next()).collect();
    let draft = read_one(examples[0]).unwrap();
    let is_in = |day: &str| match day.parse::<Entry>() {
        Ok(Entry::Span { first, .. }) => draft.days.has(first),
        other => panic!("{other:?}"),
    };
    let judged = ["2026-09-30", "2026-10-01", "2026-10-08", "2026-10-10", "2026-10-11"].map(is_in);
    assert_eq!(judged, [true, false, true, true, false]);
    let jobs = crate::job_file::read_all(examples[1], &Namespace::default()).unwrap();
    let names: Vec<&str> = jobs[0].definition.calendars().map(|keeping| keeping.name.as_str()).collect();
    assert_eq!((jobs[0].namespace.as_str(), names), ("payments", vec!["cn-workdays"]));
}

#[test]
fn a_calendar_without_weekdays_has_them_all() {
    let draft = read_one("calendar: rest\nexclude: [12-25]").unwrap();
    assert_eq!(draft.days.weekly(), Weekly::EVERY_DAY);
    let only = read_one("calendar: paydays\nweekly: []\ninclude: [2026-01-15]").unwrap();
    assert_eq!(only.days.weekly(), Weekly::NONE);
}

#[track_caller]
fn check(text: &str, expected: &str) {
    let error = read_one(text).unwrap_err();
    assert!(error.contains(expected), "{text}\n{error}");
}

#[test]
fn what_cannot_be_is_refused_with_its_place_and_field() {
    check("weekly: [mon]", "calendar: a calendar needs a name");
    check("calendar: a b\nweekly: [mon]", "calendar: `a b` has the character ` `");
    check("calendar: work\nnamespace: Payments", "line 2, column 12: namespace: ");
    check(
        "calendar: work\nweekly: [mon, someday]",
        "line 2, column 15: weekly[1]: `someday` is not a weekday",
    );
    check("calendar: work\nweekly: mon", "line 2, column 9: weekly: expected a list");
    check("calendar: work\nweekly: [1]", "weekly[0]: expected a string");
    check(
        "calendar: work\ninclude: [2026-02-30]",
        "include[0]: `2026-02-30` is not a day: there is no such date",
    );
    check("calendar: work\ninclude: 2026-02-20", "include: expected a list");
    check(
        "calendar: work\nexclude: [2026-10-07..2026-10-01]",
        "exclude[0]: `2026-10-07..2026-10-01` is not a day",
    );
    check("calendar: work\nexclude: [{ from: 2026-10-07 }]", "exclude[0]: expected a string");
    check("calendar: work\nexclude: [20261007]", "exclude[0]: expected a string");
    check("calendar: work\ntimezone: UTC", "timezone");
    check("calendar: work\nweekly: []", "weekly: no day is in this calendar");
    check("calendar: work\nweekly: []\nexclude: [12-25]", "weekly: no day is in this calendar");
    check(&format!("calendar: work\nexclude: [{}]", "12-25, ".repeat(4_001)), "exclude: at most 4000 days");
    check(&format!("calendar: work\ninclude: ['{}']", "9".repeat(100)), "include[0]: at most 64 bytes");
    check(&format!("calendar: work\ndescription: {}", "x".repeat(20_000)), "description: at most");
    check("[]", "expected a calendar");
    check("{ calendar: work, ", "line");
}
