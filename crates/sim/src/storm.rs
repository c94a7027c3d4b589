//! Runs one world from one seed: a storm (faults and commands), a calm in which the world catches up, and rest.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use punctual_core::planted::{self, Fault};

use crate::dice::Dice;
use crate::traffic::Traffic;
use crate::witness::Seen;
use crate::world::{Size, World};

/// How long the storm lasts, in virtual time.
const STORM: Duration = Duration::from_secs(240);
/// How long the world has to catch up, and after that to finish every run.
const CALM: Duration = Duration::from_secs(150);
const REST: Duration = Duration::from_secs(400);
/// The part of the calm in which faults heal, and consumers finish what they began in the storm.
const HEALING: Duration = Duration::from_secs(60);
/// Consumers continue in turns of this length while a queue is too long for the calm.
const TURN: Duration = Duration::from_secs(20);
/// The time for every queue to answer with its counts.
const COUNT: Duration = Duration::from_secs(2);

const SIZE: Size = Size { shards: 4, slots: 4, page: 4, commit_batch: 24 };

/// A broken promise: the seed, the time, and what it means for a user.
#[derive(Debug)]
pub struct Failure {
    pub seed: u64,
    pub at: String,
    pub what: String,
}

/// How a world is run.
#[derive(Debug, Clone, Copy, Default)]
pub struct Settings {
    /// Print every event.
    pub trace: bool,
    /// Leave queues out even if the seed has them.
    pub without_queues: bool,
    /// A fault that the simulation should find.
    pub planted: Option<Fault>,
}

/// Runs one world from a seed to its end.
pub fn run(seed: u64, settings: Settings) -> Result<Seen, Failure> {
    simulate(seed, settings).map(|world| world.witness.seen)
}

/// A hash of everything that happened in a seed's world and of its final store: the same seed gives the same hash.
pub fn digest(seed: u64) -> Result<u64, Failure> {
    simulate(seed, Settings::default()).map(|world| world.digest())
}

fn simulate(seed: u64, settings: Settings) -> Result<World, Failure> {
    let dice = Dice::new(seed);
    let traffic = Traffic::of(dice.apart()).filter(|_| !settings.without_queues);
    let mut world = World::new(dice, SIZE, None, settings.trace).with_traffic(traffic);
    planted::plant(settings.planted);
    let lived = catch_unwind(AssertUnwindSafe(|| {
        world.start_all();
        world.begin_storm();
        world.run_for(STORM);
        world.end_storm();
        world.run_for(HEALING);
        world.begin_starvation_checks();
        world.run_for(CALM - HEALING);
        world.check_caught_up();
        world.pause_all();
        world.cancel_backfills();
        world.empty_queues(TURN);
        world.close_traffic();
        world.close_locks();
        world.run_for(REST);
        world.count_queues();
        world.run_for(COUNT);
        world.check_at_rest();
    }));
    planted::plant(None);
    let what = match lived {
        Ok(()) => world.broken().map(str::to_owned),
        Err(panic) => {
            let said = panic.downcast_ref::<String>().map(String::as_str);
            let said = said.or_else(|| panic.downcast_ref::<&str>().copied());
            Some(format!("the node panicked: {}", said.unwrap_or("no message")))
        }
    };
    match what {
        Some(what) => Err(Failure { seed, at: world.clock().to_string(), what }),
        None => Ok(world),
    }
}
