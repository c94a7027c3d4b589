//! One world from one seed: a storm, a calm in which everything is made up for, and rest.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use punctual_core::planted::{self, Fault};

use crate::dice::Dice;
use crate::traffic::Traffic;
use crate::witness::Seen;
use crate::world::{Size, World};

/// How long faults and commands go on, in virtual time.
const STORM: Duration = Duration::from_secs(240);
/// How long the world then has to catch up, and after that to come to rest.
const CALM: Duration = Duration::from_secs(150);
const REST: Duration = Duration::from_secs(400);
/// Until all that was wrong is put right, and what consumers had begun in the storm is done.
const HEALING: Duration = Duration::from_secs(60);
/// Consumers go on for so long at a time where a line became too long for the calm.
const TURN: Duration = Duration::from_secs(20);
/// For the queues to say how they are.
const COUNT: Duration = Duration::from_secs(2);

const SIZE: Size = Size { shards: 4, slots: 4, page: 4, commit_batch: 24 };

/// What broke, when, and what it means for a user.
#[derive(Debug)]
pub struct Failure {
    pub seed: u64,
    pub at: String,
    pub what: String,
}

/// How a world is looked at.
#[derive(Debug, Clone, Copy, Default)]
pub struct Settings {
    /// Everything that happens is told.
    pub trace: bool,
    /// Nobody uses queues, whatever the seed says: its world is what it was before there were any.
    pub without_queues: bool,
    /// A fault that is to be found.
    pub planted: Option<Fault>,
}

/// Runs one world from a seed to its end.
pub fn run(seed: u64, settings: Settings) -> Result<Seen, Failure> {
    live_through(seed, settings).map(|world| world.witness.seen)
}

/// A number for all that a seed's world saw and left behind: the same seed gives the same number.
pub fn digest(seed: u64) -> Result<u64, Failure> {
    live_through(seed, Settings::default()).map(|world| world.digest())
}

fn live_through(seed: u64, settings: Settings) -> Result<World, Failure> {
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
        world.look_at_who_waits();
        world.run_for(CALM - HEALING);
        world.check_caught_up();
        world.pause_all();
        world.empty_queues(TURN);
        world.close_traffic();
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
            Some(format!("the node panicked: {}", said.unwrap_or("without a word")))
        }
    };
    match what {
        Some(what) => Err(Failure { seed, at: world.clock().to_string(), what }),
        None => Ok(world),
    }
}
