//! T-24: eight hours without a node, ten thousand jobs, a thousand of them due each second.

use std::time::Duration;

#[test]
fn an_eight_hour_outage_plans_each_job_once() {
    const JOBS: u64 = 10_000;
    let away = Duration::from_secs(8 * 3600);
    let cost = punctual_sim::outage(usize::try_from(JOBS).unwrap(), away).unwrap();
    assert!(cost.ready_after < Duration::from_secs(1), "{cost:?}");
    assert!(cost.caught_up_after < Duration::from_secs(5), "{cost:?}");
    // Jobs that are due every second are planned again in each second that the others need.
    let beats = JOBS / 10 * (1 + cost.caught_up_after.as_secs());
    assert!((JOBS..=JOBS + beats).contains(&cost.looks), "{cost:?}");
    // `once` makes one run per job, `skip` none; all other missed fires are one record.
    assert!((JOBS / 2..=JOBS / 2 + beats).contains(&cost.runs), "{cost:?}");
    assert!((JOBS..=JOBS + beats).contains(&cost.records), "{cost:?}");
}

#[test]
fn a_longer_outage_costs_no_more() {
    let cost = |hours: u64| punctual_sim::outage(300, Duration::from_secs(hours * 3600)).unwrap();
    let (short, long) = (cost(2), cost(200));
    assert_eq!((short.looks, short.runs, short.records), (long.looks, long.runs, long.records));
}
