//! The largest delay of a fire when one node of three departs, six times in a row.

use std::time::Duration;

use punctual_sim::{Departure, failover};

const FAILOVER: Duration = Duration::from_secs(3);
const EPSILON: Duration = Duration::from_secs(1);
/// Maximum delay of a fire when a process dies: the other nodes notice it at their next renewal, five of them per lease.
const NOTICED: Duration = Duration::from_secs(1);
/// Maximum delay of a fire when a node stops properly: it hands its shards over at once.
const HAND_OVER: Duration = Duration::from_millis(500);

fn worst(departure: Departure, seeds: u64) -> Duration {
    let late =
        (1..=seeds).map(|seed| failover(seed, departure, 6).unwrap_or_else(|broken| panic!("{broken}")));
    late.max().unwrap_or_default()
}

#[test]
fn a_node_that_dies_delays_no_fire_by_more_than_a_renewal() {
    let worst = worst(Departure::Killed, 2);
    assert!(
        worst < NOTICED,
        "its address refuses connections: no node waits for its lease or hands it shards: {worst:?}"
    );
}

#[test]
fn a_machine_that_vanishes_delays_no_fire_beyond_failover_and_epsilon() {
    let worst = worst(Departure::Vanished, 2);
    assert!((FAILOVER..FAILOVER + EPSILON).contains(&worst), "{worst:?}");
}

#[test]
fn a_paused_node_delays_no_fire_beyond_failover_and_epsilon() {
    let worst = worst(Departure::Stopped, 2);
    assert!((FAILOVER..FAILOVER + EPSILON).contains(&worst), "{worst:?}");
}

#[test]
fn a_node_that_leaves_delays_no_fire_by_half_a_second() {
    let worst = worst(Departure::Leaves, 4);
    assert!(worst < HAND_OVER, "{worst:?}");
}
