//! A busy node gives shards to nodes that are less busy, and takes them back when it is idle; nothing else goes wrong (R32).

use std::time::Duration;

use crate::dice::Dice;
use crate::failover;
use crate::weather::Weather;
use crate::world::{Size, World};

const SIZE: Size = Size { shards: 32, slots: 64, page: 1024, commit_batch: 4096 };
const JOBS: usize = 16;
const PERIOD: Duration = Duration::from_secs(2);
/// After this time every node leads its share of the shards.
const SETTLED: Duration = Duration::from_secs(60);
/// A busy node gives one shard away every ten seconds. An idle node regains a twentieth of its weight every minute.
const BUSY: Duration = Duration::from_secs(60);
const IDLE: Duration = Duration::from_secs(1800);

/// The result of making one node busy for a while.
#[derive(Debug, Clone, Copy)]
pub struct Moved {
    /// The number of shards that the node led before it was busy, after a busy minute, and after half an idle hour.
    pub before: usize,
    pub busy: usize,
    pub after: usize,
    /// The largest delay of a fire.
    pub worst: Duration,
}

/// One node of three is busy for a minute, then idle. Every shard keeps a leader, and no job fires twice.
pub fn busy_node(seed: u64) -> Result<Moved, String> {
    let weather = Weather { nodes: Some(3), workers: 2, ..Weather::fair() };
    let mut world = World::new(Dice::new(seed), SIZE, Some(weather), false);
    world.start_all();
    world.run_for(SETTLED);
    failover::put_jobs(&mut world, JOBS, PERIOD);
    world.run_for(Duration::from_secs(5));
    world.witness.late.take_worst();
    let before = world.shards_led(0);
    world.set_load(0, 95);
    world.run_for(BUSY);
    let (busy, worst) = (world.shards_led(0), world.witness.late.take_worst());
    world.set_load(0, 10);
    world.run_for(IDLE);
    let (after, worst) = (world.shards_led(0), worst.max(world.witness.late.take_worst()));
    match world.broken() {
        Some(what) => Err(what.to_owned()),
        None if !world.is_ready() => Err("not every shard is led".to_owned()),
        None => Ok(Moved { before, busy, after, worst }),
    }
}
