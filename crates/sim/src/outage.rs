//! An outage of several hours with thousands of jobs. Most jobs missed one fire, some missed thousands.
//!
//! The cost must depend on the number of jobs and not on the length of the outage: each job is planned once, has at most
//! one run (if its policy is `once`), and one record of its other missed fires.

use std::sync::Arc;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::command::{Command, Expect};
use punctual_core::job::{Definition, Misfire, MisfirePolicy, Overlap};
use punctual_core::schedule::{Schedule, When};
use punctual_core::task::Task;
use punctual_store::{JobFilter, Reads};

use crate::dice::Dice;
use crate::weather::Weather;
use crate::workload;
use crate::world::{Size, World, at_once};

const SIZE: Size = Size { shards: 3, slots: 64, page: 1024, commit_batch: 4096 };
/// Every tenth job is due every second, the others every hour.
const SECONDLY_EVERY: usize = 10;
const STEP: Duration = Duration::from_millis(5);
const PATIENCE: Duration = Duration::from_secs(60);

/// The cost of an outage.
#[derive(Debug, Clone, Copy)]
pub struct Cost {
    /// From the start of the node until it leads every shard.
    pub ready_after: Duration,
    /// From the start of the node until no job owes a fire from the outage.
    pub caught_up_after: Duration,
    /// How often rows of jobs were written until then.
    pub looks: u64,
    /// Runs made for fires that were missed in the outage.
    pub runs: u64,
    /// Records of missed due times that get no run.
    pub records: u64,
}

/// Runs `jobs` jobs for a while, stops the node for the time `away`, and measures the cost of its return.
pub fn outage(jobs: usize, away: Duration) -> Result<Cost, String> {
    let mut world = World::new(Dice::new(24), SIZE, Some(Weather::fair()), false);
    world.start(0);
    world.run_for(Duration::from_secs(1));
    for index in 0..jobs {
        world.ask(put(index));
    }
    world.run_for(Duration::from_secs(20));
    world.crash(0);
    world.run_for(away);
    let (before, back_at) = (world.witness.seen, world.clock());
    world.start(0);
    let ready_after = wait(&mut world, World::is_ready)?;
    let caught_up_after = ready_after + wait(&mut world, |world| owes_nothing(world, back_at))?;
    let seen = world.witness.seen;
    Ok(Cost {
        ready_after,
        caught_up_after,
        looks: seen.job_rows - before.job_rows,
        runs: seen.misfires - before.misfires,
        records: seen.skips - before.skips,
    })
}

fn put(index: usize) -> Command {
    let period = if index.is_multiple_of(SECONDLY_EVERY) { 1 } else { 3600 };
    let policy = if index.is_multiple_of(2) { MisfirePolicy::Once } else { MisfirePolicy::Skip };
    let definition = Definition {
        schedules: vec![Schedule::new(When::Every(Duration::from_secs(period)))],
        overlap: Overlap::Allow,
        // No grace, so that every fire in the outage counts as missed.
        misfire: Misfire { policy, window: Duration::from_secs(24 * 3600), grace: Duration::ZERO },
        ..Definition::of(Task::Shell("true".to_owned()))
    };
    workload::put(workload::name(index), Arc::new(definition), Expect::Absent)
}

fn wait(world: &mut World, until: impl Fn(&World) -> bool) -> Result<Duration, String> {
    let mut waited = Duration::ZERO;
    while !until(world) {
        world.run_for(STEP);
        waited += STEP;
        match world.broken() {
            Some(what) => return Err(what.to_owned()),
            None if waited > PATIENCE => {
                return Err(format!("the condition is still false after {PATIENCE:?}"));
            }
            None => {}
        }
    }
    Ok(waited)
}

fn owes_nothing(world: &World, since: Timestamp) -> bool {
    let jobs = at_once(world.store.jobs(&JobFilter::default(), None, usize::MAX)).unwrap_or_default();
    jobs.iter().all(|job| job.cursor.next_due.is_none_or(|due| due > since))
}
