//! The sweep: worlds from seeds 1 to `SEEDS` (200 by default), in four parts that can run in parallel.
//!
//! A part stops at its first broken promise and prints how to replay it. It also checks that faults really happened: a
//! sweep without faults would prove nothing.

use punctual_sim::{Seen, Settings};

const PARTS: u64 = 4;

fn seeds() -> u64 {
    std::env::var("SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(200)
}

fn sweep(part: u64) {
    let mut total = Seen::default();
    let mut worlds = 0;
    for seed in (1..=seeds()).filter(|seed| seed % PARTS == part) {
        match punctual_sim::run(seed, Settings::default()) {
            Ok(seen) => total += seen,
            Err(failure) => {
                panic!("seed {seed}, at {}: {}\nreplay it: make sim SEED={seed}", failure.at, failure.what)
            }
        }
        worlds += 1;
    }
    // In a few worlds, not every kind of event happens.
    if worlds >= 25 {
        let quiet: Vec<_> = total.counts().into_iter().filter(|(_, count)| *count < worlds).collect();
        assert!(quiet.is_empty(), "in {worlds} worlds these events were too rare: {quiet:?}");
        assert!(total.due_times > 100 * worlds, "too few due times were checked: {total:?}");
    }
}

#[test]
fn all_promises_hold_in_the_first_quarter_of_worlds() {
    sweep(0);
}

#[test]
fn all_promises_hold_in_the_second_quarter_of_worlds() {
    sweep(1);
}

#[test]
fn all_promises_hold_in_the_third_quarter_of_worlds() {
    sweep(2);
}

#[test]
fn all_promises_hold_in_the_fourth_quarter_of_worlds() {
    sweep(3);
}

#[test]
fn the_same_seed_gives_the_same_world() {
    for seed in [3, 11, 19] {
        let digest = || punctual_sim::digest(seed).map_err(|failure| failure.what);
        assert_eq!(digest(), digest(), "seed {seed}");
    }
    assert_ne!(punctual_sim::digest(3).ok(), punctual_sim::digest(11).ok(), "two seeds gave the same world");
}
