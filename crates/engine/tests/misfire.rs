//! Fires that were missed: the policy decides, and whatever the outage it is one look at the schedule.

use std::time::Duration;

use punctual_core::change::SkipReason;
use punctual_core::job::{Definition, Misfire, MisfirePolicy, Overlap};
use punctual_core::run::{Status, Trigger};
use punctual_core::schedule::Schedule;

use crate::support::{Rig, after_finish, at, every, on, once_at, span};

fn job(schedules: impl IntoIterator<Item = Schedule>, policy: MisfirePolicy) -> Definition {
    let misfire = Misfire { policy, grace: Duration::ZERO, window: span("1h") };
    Definition { overlap: Overlap::Allow, misfire, ..on(schedules) }
}

/// After an outage that ends five seconds past the last due time: the runs that were made, and the range records.
fn check(policy: MisfirePolicy, outage: &str, dues: &[i64], skipped: &[(i64, i64)]) {
    let mut rig = Rig::new(0);
    rig.put("job", job([every("10s")], policy));
    rig.outage(outage);
    assert_eq!((rig.dues("job"), rig.skipped()), (dues.to_vec(), skipped.to_vec()));
    assert!(rig.runs("job").iter().all(|run| run.trigger == Trigger::Misfire));
    assert!(rig.skips().iter().all(|skip| skip.reason == SkipReason::Misfire));
    rig.advance("5s");
    let next = crate::support::seconds(rig.now);
    assert_eq!(rig.dues("job").last(), Some(&next), "and it goes on with the next due time");
}

#[test]
fn skip_records_what_was_missed_and_makes_nothing() {
    check(MisfirePolicy::Skip, "45s", &[], &[(10, 40)]);
}

#[test]
fn once_makes_the_newest_under_its_own_due_time() {
    check(MisfirePolicy::Once, "45s", &[40], &[(10, 30)]);
    check(MisfirePolicy::Once, "15s", &[10], &[]);
}

#[test]
fn all_makes_every_one_of_them() {
    check(MisfirePolicy::All, "45s", &[10, 20, 30, 40], &[]);
}

#[test]
fn all_makes_a_hundred_at_most_and_one_record_of_the_rest() {
    let newest: Vec<i64> = (101..=200).map(|beat| beat * 10).collect();
    check(MisfirePolicy::All, "2005s", &newest, &[(10, 1000)]);
}

#[test]
fn nothing_older_than_the_window_is_made_up_for() {
    let mut rig = Rig::new(0);
    let mut nightly = job([every("40m")], MisfirePolicy::All);
    nightly.misfire.window = span("1h");
    rig.put("job", nightly);
    rig.outage("170m");
    assert_eq!(rig.dues("job"), [120 * 60, 160 * 60]);
    assert_eq!(rig.skipped(), [(40 * 60, 80 * 60)]);

    let mut rig = Rig::new(0);
    rig.put("job", job([once_at("10s")], MisfirePolicy::Once));
    rig.outage("2h");
    assert_eq!((rig.dues("job"), rig.skipped()), (vec![], vec![(10, 10)]));
    assert!(rig.skips().iter().all(|skip| skip.reason == SkipReason::Misfire));
}

#[test]
fn a_fire_within_the_grace_is_only_late() {
    for (outage, trigger) in [("20s", Trigger::Schedule), ("20001ms", Trigger::Misfire)] {
        let mut rig = Rig::new(0);
        let mut late = job([once_at("10s")], MisfirePolicy::Once);
        late.misfire.grace = span("10s");
        rig.put("job", late);
        rig.outage(outage);
        assert_eq!(rig.runs("job")[0].trigger, trigger, "after {outage}");
    }
}

#[test]
fn late_fires_come_one_by_one_after_the_missed_ones() {
    let mut rig = Rig::new(0);
    let mut late = job([every("5s")], MisfirePolicy::Once);
    late.misfire.grace = span("10s");
    rig.put("job", late);
    rig.outage("62s");
    assert_eq!((rig.dues("job"), rig.skipped()), (vec![50, 55, 60], vec![(5, 45)]));
}

#[test]
fn a_year_of_missed_seconds_is_one_run_and_one_record() {
    let mut rig = Rig::new(1);
    rig.put("job", job([every("1s")], MisfirePolicy::Once));
    rig.advance("1s");
    rig.succeed_all();
    let (batches, rows) = (rig.batches.len(), rig.rows.all().count());
    rig.outage("365d");
    assert_eq!((rig.runs("job").len(), rig.skips().len()), (2, 1));
    assert_eq!(rig.rows.all().count(), rows + 7, "one run, one record and the statistics of two hours");
    assert_eq!(rig.batches.len(), batches + 1, "in one batch");
    assert_eq!(
        rig.batches[batches].changes.len(),
        10,
        "with the job's cursor, and without the recent counts"
    );
}

#[test]
fn a_thousand_jobs_a_year_late_cost_one_record_each() {
    let mut rig = Rig::new(0);
    for index in 0..1000 {
        rig.put(&format!("job-{index}"), job([every("1s")], MisfirePolicy::Skip));
    }
    rig.outage("365d");
    assert_eq!((rig.all_runs().len(), rig.skips().len()), (0, 1000));
}

#[test]
fn max_runs_holds_while_several_schedules_are_made_up_for() {
    let mut rig = Rig::new(0);
    let twice = Schedule { max_runs: Some(2), ..every("10s") };
    rig.put("job", job([twice, every("35s")], MisfirePolicy::All));
    rig.outage("75s");
    assert_eq!(rig.dues("job"), [10, 20, 35, 70]);
}

#[test]
fn missed_fires_meet_the_overlap_policy_too() {
    let mut rig = Rig::new(1);
    rig.put("job", Definition { overlap: Overlap::Skip, ..job([every("10s")], MisfirePolicy::All) });
    rig.outage("35s");
    assert_eq!(rig.statuses("job"), [Status::Running, Status::Skipped, Status::Skipped]);
}

#[test]
fn an_after_finish_that_was_missed_and_skipped_goes_on() {
    for (policy, outage) in [(MisfirePolicy::Skip, "1m"), (MisfirePolicy::Once, "2h")] {
        let mut rig = Rig::new(1);
        rig.put("job", job([after_finish("10s")], policy));
        rig.succeed_all();
        rig.outage(outage);
        assert_eq!(rig.skipped(), [(10, 10)], "{policy:?}");
        rig.advance("10s");
        assert_eq!(rig.dues("job"), [0, crate::support::seconds(at(outage)) + 10], "{policy:?}");
    }
}
