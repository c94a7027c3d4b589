//! A calendar that changes: the old days decide every due time up to the change, the new ones every later one.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use punctual_core::Timestamp;
use punctual_core::change::SkipReason;
use punctual_core::command::{Answer, Command, Made, Refusal};
use punctual_core::job::{Definition, Misfire, MisfirePolicy, Overlap};
use punctual_core::name::Namespace;
use punctual_core::run::Origin;
use punctual_core::schedule::calendar::{Calendar, Days, Entry, Weekly};
use punctual_core::schedule::{Schedule, ScheduleCalendar};
use punctual_engine::Settings;

use crate::support::{
    Rig, START, after_finish, at, delete, every, name, on, once_at, pause, put, resume, seconds, span,
};

const HOUR: i64 = 3_600;

/// The day on which every test begins, counted from 1970-01-01.
fn first_day() -> i64 {
    START.as_millis() / 86_400_000
}

/// Every day is in but these, counted from the beginning of the test.
fn without(version: u32, out: &[i64]) -> Arc<Calendar> {
    let out = out.iter().map(|day| Entry::Span { first: first_day() + day, last: first_day() + day });
    Arc::new(Calendar { name: name("work"), version, days: Days::new(Weekly::EVERY_DAY, [], out) })
}

fn keeping(schedule: Schedule, calendar: &Arc<Calendar>) -> Schedule {
    let keeping = ScheduleCalendar::of(Arc::clone(calendar), "UTC").expect("a zone");
    Schedule { calendar: Some(keeping), ..schedule }
}

fn replan(job: &str, calendar: &Arc<Calendar>) -> Command {
    let calendar = Some(Arc::clone(calendar));
    Command::ReplanJob { namespace: Namespace::default(), name: name(job), calendar }
}

fn next_due(rig: &Rig, job: &str) -> Option<i64> {
    rig.job(job).expect("the job is stored").cursor.next_due.map(|due| seconds(due) / HOUR)
}

/// The due times of a job's runs in hours, each with the revision that decided it.
fn decided(rig: &Rig, job: &str) -> Vec<(i64, u32)> {
    let of = |origin: &Origin| match origin {
        Origin::Job { revision, .. } => *revision,
        Origin::AdHoc(_) => 0,
    };
    rig.runs(job).iter().map(|run| (seconds(run.due) / HOUR, of(&run.origin))).collect()
}

#[test]
fn a_job_fires_only_on_the_days_of_its_calendar() {
    let mut rig = Rig::new(0);
    let definition = on([keeping(every("8h"), &without(1, &[1, 2]))]);
    rig.put("job", Definition { overlap: Overlap::Allow, ..definition });
    rig.advance("96h");
    assert_eq!(rig.dues("job"), [8, 16, 72, 80, 88, 96].map(|hour| hour * HOUR));
    let skips: Vec<_> = rig.skips().iter().map(|skip| (skip.reason, skip.from, skip.to)).collect();
    assert_eq!(skips, [(SkipReason::Calendar, at("24h"), at("64h"))], "one record, whatever the number");
}

#[test]
fn excluded_due_times_are_on_record_up_to_an_edit_a_pause_and_a_deletion() {
    let excluded = |end: Command| {
        let mut rig = Rig::new(0);
        rig.put("job", on([keeping(every("8h"), &without(1, &[1, 2]))]));
        rig.advance("33h");
        rig.ask(end).expect("the revision ends");
        let skips: Vec<_> = rig.skips().iter().map(|skip| (skip.reason, skip.from, skip.to)).collect();
        skips
    };
    let on_day_one = (SkipReason::Calendar, at("24h"), at("32h"));
    for end in [pause("job"), delete("job"), replan("job", &without(2, &[]))] {
        assert_eq!(excluded(end), [on_day_one]);
    }
    let dropped = (SkipReason::Edited, at("72h"), at("72h"));
    let mut both = excluded(put("job", on([once_at("100h")])));
    both.sort_by_key(|skip| skip.1);
    assert_eq!(both, [on_day_one, dropped]);
}

#[test]
fn an_outage_over_excluded_days_leaves_two_records() {
    let mut rig = Rig::new(0);
    let definition = on([keeping(every("8h"), &without(1, &[1]))]);
    let misfire = Misfire { policy: MisfirePolicy::Skip, ..Misfire::default() };
    rig.put("job", Definition { misfire, ..definition });
    rig.outage("60h");
    let mut skips: Vec<_> = rig.skips().iter().map(|skip| (skip.reason, skip.from, skip.to)).collect();
    skips.sort_by_key(|skip| skip.1);
    let missed = (SkipReason::Misfire, at("8h"), at("56h"));
    assert_eq!(skips, [missed, (SkipReason::Calendar, at("24h"), at("40h"))]);
}

#[test]
fn an_instant_that_another_schedule_names_is_not_excluded() {
    let mut rig = Rig::new(0);
    let definition = on([keeping(every("8h"), &without(1, &[1])), every("12h")]);
    rig.put("job", Definition { overlap: Overlap::Allow, ..definition });
    rig.advance("48h");
    let skips: Vec<_> = rig.skips().iter().map(|skip| (skip.from, skip.to)).collect();
    assert_eq!(skips, [(at("32h"), at("32h")), (at("40h"), at("40h"))], "24 is the other's too");
}

#[test]
fn excluding_a_day_moves_the_next_fire() {
    let mut rig = Rig::new(0);
    rig.put("job", on([keeping(every("24h"), &without(1, &[]))]));
    assert_eq!(next_due(&rig, "job"), Some(24));
    rig.ask(replan("job", &without(2, &[1, 2, 3]))).expect("re-planned");
    assert_eq!(next_due(&rig, "job"), Some(96));
    rig.ask(replan("job", &without(3, &[1]))).expect("re-planned");
    assert_eq!(next_due(&rig, "job"), Some(48));
    let job = rig.job("job").expect("the job is stored");
    assert_eq!(
        (job.revision, job.definition.schedules[0].calendar.as_ref().and_then(ScheduleCalendar::version)),
        (3, Some(3))
    );
}

#[test]
fn a_due_time_at_the_change_is_the_old_calendars() {
    let mut rig = Rig::new(0);
    let definition = on([keeping(every("24h"), &without(1, &[]))]);
    rig.put("job", Definition { overlap: Overlap::Allow, ..definition });
    rig.pass("24h");
    rig.ask(replan("job", &without(2, &[1, 3]))).expect("re-planned");
    rig.advance("72h");
    assert_eq!(decided(&rig, "job"), [(24, 1), (48, 2), (96, 2)]);
}

#[test]
fn a_job_beyond_the_horizon_follows_too() {
    let mut rig = Rig::with(1, 0, Settings { page: 4, ..Settings::default() });
    for n in 1..=20 {
        rig.put(&format!("near-{n}"), on([once_at(&format!("{n}m"))]));
    }
    rig.put("far", on([keeping(every("240h"), &without(1, &[]))]));
    assert_eq!(next_due(&rig, "far"), Some(240));
    rig.ask(replan("far", &without(2, &[10]))).expect("re-planned");
    assert_eq!(next_due(&rig, "far"), Some(480));
    rig.ask(replan("far", &without(3, &[20]))).expect("re-planned");
    assert_eq!(next_due(&rig, "far"), Some(240));
    rig.reload();
    rig.advance("500h");
    assert_eq!(decided(&rig, "far"), [(240, 3)], "one fire, by one calendar; the day of the second is out");
}

#[test]
fn an_older_or_the_same_version_changes_nothing() {
    let mut rig = Rig::new(0);
    let calendar = without(5, &[1]);
    rig.put("job", on([keeping(every("24h"), &calendar)]));
    for calendar in [calendar, without(4, &[])] {
        let answer = rig.ask(replan("job", &calendar));
        assert!(matches!(answer, Ok(Answer::Job { made: Made::Unchanged, .. })), "{answer:?}");
    }
    let other = Arc::new(Calendar { name: name("rest"), ..(*without(9, &[])).clone() });
    assert!(matches!(rig.ask(replan("job", &other)), Ok(Answer::Job { made: Made::Unchanged, .. })));
    assert!(matches!(rig.ask(replan("nobody", &other)), Err(Refusal::NoSuchJob { .. })));
    assert_eq!(rig.job("job").map(|job| job.revision), Some(1));
}

#[test]
fn a_calendar_that_was_not_looked_up_is_refused() {
    let mut rig = Rig::new(0);
    let named = ScheduleCalendar::named(name("work"), "UTC").expect("a zone");
    let answer = rig.ask(put("job", on([Schedule { calendar: Some(named), ..every("1h") }])));
    let Err(Refusal::Invalid(invalid)) = answer else { panic!("{answer:?}") };
    assert_eq!(invalid.field, "schedule.calendar");
    assert!(rig.job("job").is_none());
}

#[test]
fn a_change_does_not_start_the_count_of_max_runs_again() {
    let mut rig = Rig::new(0);
    let twice = Schedule { max_runs: Some(2), ..every("24h") };
    let definition = on([keeping(twice, &without(1, &[]))]);
    rig.put("job", Definition { overlap: Overlap::Allow, ..definition });
    rig.advance("24h");
    rig.ask(replan("job", &without(2, &[2]))).expect("re-planned");
    rig.advance("240h");
    assert_eq!(decided(&rig, "job"), [(24, 1), (72, 2)]);
}

#[test]
fn a_change_while_a_job_is_paused_counts_when_it_goes_on() {
    let mut rig = Rig::new(0);
    rig.put("job", on([keeping(every("24h"), &without(1, &[]))]));
    rig.ask(pause("job")).expect("paused");
    rig.pass("1h");
    rig.ask(replan("job", &without(2, &[1]))).expect("re-planned");
    assert_eq!(next_due(&rig, "job"), None);
    rig.ask(resume("job")).expect("resumed");
    assert_eq!(next_due(&rig, "job"), Some(48));
}

#[test]
fn what_hangs_on_the_end_of_a_run_stays_where_it_is() {
    let mut rig = Rig::new(1);
    let schedules = [after_finish("2h"), keeping(every("24h"), &without(1, &[]))];
    rig.put("job", on(schedules));
    rig.advance("1h");
    rig.succeed_all();
    assert_eq!(next_due(&rig, "job"), Some(3));
    rig.ask(replan("job", &without(2, &[1]))).expect("re-planned");
    assert_eq!(next_due(&rig, "job"), Some(3), "neither put off nor begun at once");
    rig.advance("2h");
    assert_eq!(rig.dues("job"), [0, 3 * HOUR]);
}

#[test]
fn what_a_nearer_fire_stood_before_is_planned_again_when_that_goes() {
    let mut rig = Rig::new(1);
    rig.put("job", on([after_finish("30h"), keeping(every("24h"), &without(1, &[]))]));
    rig.advance("1h");
    rig.succeed_all();
    assert_eq!(next_due(&rig, "job"), Some(24));
    rig.ask(replan("job", &without(2, &[1, 2, 3, 4]))).expect("re-planned");
    assert_eq!(next_due(&rig, "job"), Some(31));
}

#[derive(Debug, Clone)]
enum Step {
    Advance(u64),
    /// Time during which nobody was there: even all of them in a row miss fewer fires than are made up for.
    Outage(u64),
    /// These days are out from now on.
    Days(Vec<i64>),
    /// All memory is lost, as in a crash.
    Reload,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (1..60u64).prop_map(Step::Advance),
        1 => (1..30u64).prop_map(Step::Outage),
        3 => proptest::collection::vec(0..30i64, 0..20).prop_map(Step::Days),
        1 => Just(Step::Reload),
    ];
    proptest::collection::vec(step, 1..14)
}

proptest! {
    /// Each beat is decided by the days that were in force when it came, once: whatever changes, fails or pages between.
    #[test]
    fn every_fire_is_decided_once_by_the_days_in_force(steps in steps(), page in 2..8usize) {
        let mut rig = Rig::with(1, 0, Settings { page, ..Settings::default() });
        for n in 1..=30 {
            rig.put(&format!("other-{n}"), on([once_at(&format!("{}h", n * 7))]));
        }
        let misfire = Misfire { policy: MisfirePolicy::All, window: span("10000h"), grace: span("10s") };
        let mut version = 1;
        let mut in_force: Vec<(Timestamp, Arc<Calendar>)> = vec![(START, without(version, &[]))];
        let definition = on([keeping(every("5h"), &in_force[0].1)]);
        rig.put("job", Definition { misfire, overlap: Overlap::Allow, ..definition });
        for step in steps {
            match step {
                Step::Advance(hours) => rig.advance_by(Duration::from_secs(hours * 3_600)),
                Step::Outage(hours) => rig.pass(&format!("{hours}h")),
                Step::Reload => rig.reload(),
                Step::Days(out) => {
                    version += 1;
                    let calendar = without(version, &out);
                    in_force.push((rig.now, Arc::clone(&calendar)));
                    rig.ask(replan("job", &calendar)).expect("re-planned");
                }
            }
        }
        rig.settle();
        let expected = (1..).map(|n| n * 5).take_while(|hour| at(&format!("{hour}h")) <= rig.now).filter(|hour| {
            let due = at(&format!("{hour}h"));
            let (_, calendar) = in_force.iter().rfind(|(since, _)| *since < due).expect("the first one");
            calendar.days.has(first_day() + hour / 24)
        });
        let mut dues: Vec<i64> = rig.dues("job").iter().map(|due| due / HOUR).collect();
        dues.sort_unstable();
        prop_assert_eq!(dues.clone(), expected.collect::<Vec<_>>());
        let id = rig.job("job").expect("the job is stored").id;
        let excluded = rig.skips().into_iter().filter(|skip| skip.job == id);
        prop_assert!(excluded.clone().all(|skip| skip.reason == SkipReason::Calendar), "nothing else was passed over");
        // Of the beats up to the last fire every one has a run or is in a record.
        let last = dues.last().copied().unwrap_or(0);
        for hour in (1..).map(|n| n * 5).take_while(|hour| *hour < last) {
            let due = at(&format!("{hour}h"));
            let recorded = excluded.clone().any(|skip| skip.from <= due && due <= skip.to);
            prop_assert!(dues.contains(&hour) || recorded, "{hour}h has neither a run nor a record");
        }
    }
}
