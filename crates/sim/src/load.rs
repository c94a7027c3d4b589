//! A node that is busy gives shards to one that is not, and takes them back when it is idle, in otherwise fair weather (R32).

use std::time::Duration;

use crate::dice::Dice;
use crate::failover;
use crate::weather::Weather;
use crate::world::{Size, World};

const SIZE: Size = Size { shards: 32, slots: 64, page: 1024, commit_batch: 4096 };
const JOBS: usize = 16;
const PERIOD: Duration = Duration::from_secs(2);
/// Until every node has its share.
const SETTLED: Duration = Duration::from_secs(60);
/// A shard goes every ten seconds while the node is busy; a twentieth of its weight comes back every minute.
const BUSY: Duration = Duration::from_secs(60);
const IDLE: Duration = Duration::from_secs(1800);

/// What a busy spell of one node does.
#[derive(Debug, Clone, Copy)]
pub struct Moved {
    /// Shards that the node led before it was busy, when it had been busy for a minute, and after half an hour of rest.
    pub before: usize,
    pub busy: usize,
    pub after: usize,
    /// How late the latest fire was because of it.
    pub worst: Duration,
}

/// One node of three is busy for a minute, and then idle. Every shard is led all the time, and nothing fires twice.
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
