//! How late a fire can be when a node of a cluster dies or leaves and nothing else goes wrong (T-01 on virtual time).

use std::sync::Arc;
use std::time::Duration;

use punctual_core::command::{Command, Expect};
use punctual_core::job::{Definition, Misfire, MisfirePolicy, Overlap};
use punctual_core::schedule::{Schedule, When};
use punctual_core::task::Task;

use crate::dice::Dice;
use crate::weather::Weather;
use crate::workload;
use crate::world::{Departure, Size, World};

const SIZE: Size = Size { shards: 16, slots: 64, page: 1024, commit_batch: 4096 };
const JOBS: usize = 60;
const PERIOD: Duration = Duration::from_millis(200);
/// The time between two departures: long enough for a new node to get its share of the shards back.
const GAP: Duration = Duration::from_secs(8);

/// Makes the nodes of a cluster of three depart in turn, `times` times in all, and come back. Returns the largest delay of
/// a fire.
pub fn failover(seed: u64, departure: Departure, times: usize) -> Result<Duration, String> {
    let weather = Weather { nodes: Some(3), workers: 2, ..Weather::fair() };
    let mut world = World::new(Dice::new(seed), SIZE, Some(weather), false);
    world.start_all();
    world.run_for(Duration::from_secs(6));
    put_jobs(&mut world, JOBS, PERIOD);
    world.run_for(GAP);
    world.witness.late.take_worst();
    for turn in 0..times {
        world.depart(turn % 3, departure);
        world.run_for(GAP);
        world.come_back(turn % 3);
        world.run_for(GAP);
    }
    // A shard that is being handed back has no leader for a moment: wait until every hand-over is done.
    world.run_for(GAP * 4);
    match world.broken() {
        Some(what) => Err(what.to_owned()),
        None if !world.is_ready() => Err("the cluster did not recover by itself".to_owned()),
        None => Ok(world.witness.late.take_worst()),
    }
}

/// Puts jobs with about this period.
pub(crate) fn put_jobs(world: &mut World, jobs: usize, period: Duration) {
    for index in 0..jobs {
        world.ask(put(index, period));
    }
}

fn put(index: usize, period: Duration) -> Command {
    let definition = Definition {
        schedules: vec![Schedule::new(When::Every(period + Duration::from_millis(index as u64)))],
        overlap: Overlap::Allow,
        misfire: Misfire {
            policy: MisfirePolicy::All,
            window: Duration::from_secs(3600),
            grace: Duration::from_secs(60),
        },
        ..Definition::of(Task::Shell("true".to_owned()))
    };
    workload::put(workload::name(index), Arc::new(definition), Expect::Absent)
}
