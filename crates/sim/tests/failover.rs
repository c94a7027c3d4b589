//! How late the latest fire is when one node of three goes, six times in a row.

use std::time::Duration;

use punctual_sim::{Farewell, failover};

const FAILOVER: Duration = Duration::from_secs(3);
const EPSILON: Duration = Duration::from_secs(1);
/// How late a fire may be because a node leaves: nobody died, and everybody could be told.
const HAND_OVER: Duration = Duration::from_millis(500);

fn worst(farewell: Farewell, seeds: u64) -> Duration {
    let late =
        (1..=seeds).map(|seed| failover(seed, farewell, 6).unwrap_or_else(|broken| panic!("{broken}")));
    late.max().unwrap_or_default()
}

#[test]
fn a_node_that_dies_delays_no_fire_beyond_failover_and_epsilon() {
    let worst = worst(Farewell::Killed, 2);
    assert!(worst < FAILOVER, "its address refuses, so nobody waits for its lease: {worst:?}");
}

#[test]
fn a_machine_that_vanishes_delays_no_fire_beyond_failover_and_epsilon() {
    let worst = worst(Farewell::Vanished, 2);
    assert!((FAILOVER..FAILOVER + EPSILON).contains(&worst), "{worst:?}");
}

#[test]
fn a_node_that_stands_still_past_its_lease_delays_no_fire_beyond_failover_and_epsilon() {
    let worst = worst(Farewell::Stopped, 2);
    assert!((FAILOVER..FAILOVER + EPSILON).contains(&worst), "{worst:?}");
}

#[test]
fn a_node_that_leaves_delays_no_fire_by_half_a_second() {
    let worst = worst(Farewell::Leaves, 4);
    assert!(worst < HAND_OVER, "{worst:?}");
}
