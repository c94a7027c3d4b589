//! How late the latest fire is when one node of three goes, six times in a row.

use std::time::Duration;

use punctual_sim::{Farewell, failover};

const FAILOVER: Duration = Duration::from_secs(3);
const EPSILON: Duration = Duration::from_secs(1);

fn worst(farewell: Farewell) -> Duration {
    let late = (1..=2).map(|seed| failover(seed, farewell, 6).unwrap_or_else(|broken| panic!("{broken}")));
    late.max().unwrap_or_default()
}

#[test]
fn a_node_that_dies_delays_no_fire_beyond_failover_and_epsilon() {
    let worst = worst(Farewell::Killed);
    assert!(worst < FAILOVER, "its address refuses, so nobody waits for its lease: {worst:?}");
}

#[test]
fn a_machine_that_vanishes_delays_no_fire_beyond_failover_and_epsilon() {
    let worst = worst(Farewell::Vanished);
    assert!((FAILOVER..FAILOVER + EPSILON).contains(&worst), "{worst:?}");
}

#[test]
fn a_node_that_stands_still_past_its_lease_delays_no_fire_beyond_failover_and_epsilon() {
    let worst = worst(Farewell::Stopped);
    assert!((FAILOVER..FAILOVER + EPSILON).contains(&worst), "{worst:?}");
}

#[test]
fn a_node_that_leaves_delays_no_fire_by_a_second() {
    let worst = worst(Farewell::Leaves);
    assert!(worst < EPSILON, "{worst:?}");
}
