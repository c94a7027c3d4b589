//! Schedules as a whole: bounds, beats, jitter, and how they are kept.

use std::time::Duration;

use proptest::prelude::*;

use super::*;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn ms(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn cron(expression: &str) -> Schedule {
    Schedule::new(When::Cron(Cron::parse(expression, "UTC").unwrap()))
}

fn every(millis: u64) -> Schedule {
    Schedule::new(When::Every(Duration::from_millis(millis)))
}

#[test]
fn a_cron_keeps_to_its_start_and_end_and_both_may_fire() {
    let (start, end) = (at("2030-01-02T00:00:00Z"), at("2030-01-04T00:00:00Z"));
    let schedule = Schedule { start: Some(start), end: Some(end), ..cron("0 0 * * *") };
    assert_eq!(schedule.next(at("2029-01-01T00:00:00Z"), ms(0)), Some(start));
    assert_eq!(schedule.next(start, ms(0)), Some(at("2030-01-03T00:00:00Z")));
    assert_eq!(schedule.next(at("2030-01-03T00:00:00Z"), ms(0)), Some(end));
    assert_eq!(schedule.next(end, ms(0)), None);
    assert_eq!(schedule.previous(at("2031-01-01T00:00:00Z"), ms(0)), Some(end));
    assert_eq!(schedule.previous(start, ms(0)), Some(start));
    assert_eq!(schedule.previous(at("2030-01-01T23:59:59Z"), ms(0)), None);
}

#[test]
fn a_start_between_two_seconds_does_not_let_the_earlier_one_fire() {
    let schedule = Schedule { start: Some(at("2030-01-01T00:00:00.500Z")), ..cron("* * * * * *") };
    assert_eq!(schedule.next(ms(0), ms(0)), Some(at("2030-01-01T00:00:01Z")));
    assert_eq!(schedule.previous(at("2030-01-01T00:00:00.900Z"), ms(0)), None);
}

#[test]
fn a_beat_counted_from_creation_first_fires_one_period_later() {
    let schedule = every(30_000);
    assert_eq!(schedule.next(ms(5_000), ms(5_000)), Some(ms(35_000)));
    assert_eq!(schedule.next(ms(0), ms(5_000)), Some(ms(35_000)));
    assert_eq!(schedule.previous(ms(34_999), ms(5_000)), None);
    assert_eq!(schedule.previous(ms(35_000), ms(5_000)), Some(ms(35_000)));
}

#[test]
fn a_beat_counted_from_its_start_fires_at_the_start() {
    let schedule = Schedule { start: Some(ms(7_000)), ..every(30_000) };
    assert_eq!(schedule.next(ms(0), ms(5_000)), Some(ms(7_000)));
    assert_eq!(schedule.next(ms(7_000), ms(5_000)), Some(ms(37_000)));
    assert_eq!(schedule.previous(ms(7_000), ms(5_000)), Some(ms(7_000)));
}

#[test]
fn a_late_fire_does_not_move_the_beat() {
    let schedule = every(30_000);
    assert_eq!(schedule.next(ms(44_321), ms(0)), Some(ms(60_000)));
    assert_eq!(schedule.previous(ms(10_000_000_000_123), ms(0)), Some(ms(9_999_999_990_000)));
}

#[test]
fn a_beat_ends_with_its_end_and_with_time_itself() {
    let schedule = Schedule { end: Some(ms(60_000)), ..every(30_000) };
    assert_eq!(schedule.next(ms(30_000), ms(0)), Some(ms(60_000)));
    assert_eq!(schedule.next(ms(60_000), ms(0)), None);
    assert_eq!(schedule.previous(ms(1_000_000), ms(0)), Some(ms(60_000)));
    assert_eq!(every(u64::MAX).next(ms(0), ms(0)), None);
    assert_eq!(every(1).next(Timestamp::MAX, ms(0)), None);
    assert_eq!(every(1).previous(ms(i64::MAX), ms(0)), Some(Timestamp::MAX));
    assert_eq!(every(0).next(ms(0), ms(0)), None);
}

#[test]
fn a_single_instant_comes_once() {
    let schedule = Schedule::new(When::At(ms(1_000)));
    assert_eq!(schedule.next(ms(999), ms(0)), Some(ms(1_000)));
    assert_eq!(schedule.next(ms(1_000), ms(0)), None);
    assert_eq!(schedule.previous(ms(1_000), ms(0)), Some(ms(1_000)));
    assert_eq!(schedule.previous(ms(999), ms(0)), None);
    let late = Schedule { start: Some(ms(1_001)), ..schedule.clone() };
    assert_eq!((late.next(ms(0), ms(0)), late.previous(ms(2_000), ms(0))), (None, None));
    let early = Schedule { end: Some(ms(999)), ..schedule };
    assert_eq!((early.next(ms(0), ms(0)), early.previous(ms(2_000), ms(0))), (None, None));
}

#[test]
fn what_hangs_on_a_run_or_on_a_person_has_no_occurrences() {
    for when in [When::AfterFinish(Duration::from_secs(5)), When::Manual] {
        let schedule = Schedule::new(when);
        assert_eq!((schedule.next(ms(0), ms(0)), schedule.previous(ms(9_000), ms(0))), (None, None));
    }
}

#[test]
fn a_schedule_that_makes_no_sense_is_refused() {
    let refused = |schedule: Schedule| schedule.check().unwrap_err().to_string();
    assert_eq!(refused(every(0)), "a period must be at least 1ms");
    assert_eq!(refused(Schedule::new(When::AfterFinish(Duration::ZERO))), "a period must be at least 1ms");
    assert_eq!(
        refused(Schedule::new(When::Every(Duration::from_micros(5)))),
        "a period must be at least 1ms"
    );
    assert_eq!(
        refused(Schedule { start: Some(ms(2_000)), end: Some(ms(1_000)), ..every(1) }),
        "end 1970-01-01T00:00:01.000Z is before start 1970-01-01T00:00:02.000Z"
    );
    assert_eq!(
        refused(Schedule::new(When::At(ms(-1)))),
        "an instant of the schedule lies outside the years 1970 to 9999"
    );
    assert_eq!(
        refused(Schedule { max_runs: Some(0), ..every(1) }),
        "max_runs is 0, so the schedule would never fire; leave it out or make the schedule manual"
    );
    assert_eq!(Schedule { start: Some(ms(1_000)), end: Some(ms(1_000)), ..cron("@daily") }.check(), Ok(()));
}

#[test]
fn every_is_read_where_cron_is_written() {
    let read = |text| When::parse_cron(text, "Asia/Shanghai", Weekdays::Unix, None);
    assert_eq!(read("@every 1m30s"), Ok(When::Every(Duration::from_secs(90))));
    assert_eq!(read(" @EVERY  90s "), Ok(When::Every(Duration::from_secs(90))));
    assert_eq!(read("0 1 * * *"), Ok(When::Cron(Cron::parse("0 1 * * *", "Asia/Shanghai").unwrap())));
    assert_eq!(read("@every 0s"), Err(Error::PeriodTooShort));
    assert!(matches!(read("@every soon"), Err(Error::Duration { .. })));
    assert!(matches!(read("@every"), Err(Error::Nickname(_))));
}

#[test]
fn a_jitter_never_changes() {
    // Nodes of different versions must agree when a run starts.
    let found: Vec<_> =
        (0..4).map(|job| jitter(Duration::from_secs(30), job, ms(1_000)).as_millis()).collect();
    assert_eq!(found, [9_028, 27_552, 2_504, 26_822]);
    assert_eq!(jitter(Duration::ZERO, 1, ms(1_000)), Duration::ZERO);
}

#[test]
fn a_jitter_is_spread_evenly() {
    let mut counts = [0u32; 10];
    for job in 0..10_000 {
        let delay = jitter(Duration::from_millis(1_000), job, at("2030-01-01T00:00:00Z"));
        counts[delay.as_millis() as usize / 100] += 1;
    }
    assert!(counts.iter().all(|count| (850..1_150).contains(count)), "{counts:?}");
}

#[test]
fn a_schedule_that_was_stored_before_there_were_calendars_is_still_read() {
    let json = serde_json::to_string(&every(1_500)).unwrap();
    let older = json.replace(r#","calendar":null"#, "");
    assert_ne!(older, json);
    assert_eq!(serde_json::from_str::<Schedule>(&older).unwrap(), every(1_500));
}

#[test]
fn a_schedule_comes_back_from_json_and_postcard_as_it_was() {
    let whens = [
        When::Cron(Cron::parse_with("0 H * * 2L", "Asia/Tokyo", Weekdays::Quartz, Some("job")).unwrap()),
        When::Every(Duration::from_millis(1_500)),
        When::AfterFinish(Duration::from_secs(600)),
        When::At(ms(1_234)),
        When::Manual,
    ];
    for when in whens {
        let schedule = Schedule {
            when,
            start: Some(ms(1)),
            end: None,
            jitter: Duration::from_secs(30),
            max_runs: Some(3),
            calendar: None,
        };
        let json = serde_json::to_string(&schedule).unwrap();
        assert_eq!(serde_json::from_str::<Schedule>(&json).unwrap(), schedule);
        let bytes = postcard::to_stdvec(&schedule).unwrap();
        assert_eq!(postcard::from_bytes::<Schedule>(&bytes).unwrap(), schedule);
    }
}

proptest! {
    #[test]
    fn next_and_previous_agree_on_every_beat(
        period in 1..10_000_000u64,
        origin in 0..10_000_000i64,
        started in any::<bool>(),
        now in 0..100_000_000i64,
    ) {
        let schedule = Schedule { start: started.then_some(ms(origin)), ..every(period) };
        let next = schedule.next(ms(now), ms(origin)).unwrap();
        prop_assert!(next > ms(now));
        prop_assert_eq!((next.as_millis() - origin).rem_euclid(period as i64), 0);
        prop_assert_eq!(schedule.previous(next, ms(origin)), Some(next));
        let before = schedule.previous(ms(next.as_millis() - 1), ms(origin));
        prop_assert_eq!(before, schedule.previous(ms(now), ms(origin)));
        if let Some(before) = before {
            prop_assert_eq!(before + Duration::from_millis(period), next);
        }
    }

    #[test]
    fn a_jitter_stays_below_its_span(span in 1..10_000_000u64, job in any::<i64>(), due in any::<i64>()) {
        let span = Duration::from_millis(span);
        prop_assert!(jitter(span, job, ms(due)) < span);
    }
}
