//! What people ask for, by dice: every kind of command, on few names so that they collide.

use std::sync::Arc;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::command::{Command, Expect, Key, PutJob, RetryRun, RunJob, Submit};
use punctual_core::ids::RunId;
use punctual_core::job::{Definition, Misfire, MisfirePolicy, Overlap};
use punctual_core::name::{Name, Namespace};
use punctual_core::retry::{Backoff, Retry};
use punctual_core::schedule::{Cron, Schedule, When};
use punctual_core::task::Task;

use crate::dice::Dice;

pub(crate) const NAMES: [&str; 10] =
    ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa"];

pub(crate) fn command(dice: &mut Dice, known: &[RunId], now: Timestamp) -> Command {
    let namespace = Namespace::default();
    let run = dice.pick(known).copied().unwrap_or(RunId(1));
    match dice.below(20) {
        0..=3 => Command::PutJob(PutJob {
            namespace,
            name: name(dice),
            definition: Arc::new(definition(dice, true, now)),
            expect: if dice.below(5) < 3 { Expect::Absent } else { Expect::Anything },
        }),
        4 => Command::PauseJob { namespace, name: name(dice) },
        5 | 6 => Command::ResumeJob { namespace, name: name(dice) },
        7 => Command::DeleteJob { namespace, name: name(dice), expect: Expect::Anything },
        8..=10 => {
            let (due, key) = (due(dice, now), key(dice));
            Command::RunJob(RunJob { namespace, name: name(dice), params: None, due, key })
        }
        11..=15 => Command::Submit(Submit {
            namespace,
            definition: Arc::new(definition(dice, false, now)),
            due: due(dice, now),
            key: key(dice),
            spread: dice.below(1000),
        }),
        16 | 17 => Command::CancelRun { namespace, run },
        18 => Command::RetryRun(RetryRun { namespace, run, params: None, key: key(dice) }),
        _ => Command::DiscardDeadLetter { namespace, run },
    }
}

fn name(dice: &mut Dice) -> Name {
    let name = dice.pick(&NAMES).copied().unwrap_or("alpha");
    name.parse().expect("the names above are names")
}

fn due(dice: &mut Dice, now: Timestamp) -> Option<Timestamp> {
    match dice.below(4) {
        0 => Some(now + Duration::from_millis(dice.below(120_000))),
        1 => Some(now + Duration::from_millis(dice.below(500))),
        _ => None,
    }
}

fn key(dice: &mut Dice) -> Option<Key> {
    dice.one_in(3).then(|| Key {
        text: Arc::from(format!("key-{}", dice.below(8))),
        kept: Duration::from_secs(1 + dice.below(60)),
    })
}

fn definition(dice: &mut Dice, scheduled: bool, now: Timestamp) -> Definition {
    let at_most_once = dice.one_in(6);
    let attempts = if at_most_once { 1 } else { u32::try_from(1 + dice.below(4)).unwrap_or(1) };
    let overlaps = [Overlap::Skip, Overlap::Queue, Overlap::QueueOne, Overlap::Replace, Overlap::Allow];
    let policies = [MisfirePolicy::Skip, MisfirePolicy::Once, MisfirePolicy::All];
    Definition {
        schedules: if scheduled { schedules(dice, now) } else { Vec::new() },
        at_most_once,
        retry: Retry {
            attempts,
            delay: Duration::from_millis(dice.below(5_000)),
            backoff: *dice.pick(&[Backoff::Fixed, Backoff::Linear, Backoff::Exponential]).unwrap_or(&Backoff::Fixed),
            max_delay: Duration::from_secs(20),
            jitter_percent: u8::try_from(dice.below(50)).unwrap_or(0),
            priority: dice.one_in(3).then_some(7),
        },
        timeout: dice.one_in(3).then(|| Duration::from_millis(500 + dice.below(20_000))),
        overlap: *dice.pick(&overlaps).unwrap_or(&Overlap::Skip),
        misfire: Misfire {
            policy: *dice.pick(&policies).unwrap_or(&MisfirePolicy::Once),
            window: Duration::from_secs(dice.below(120)),
            grace: Duration::from_millis(dice.below(15_000)),
        },
        priority: u8::try_from(dice.below(10)).unwrap_or(5),
        running_max: dice.one_in(4).then(|| u32::try_from(1 + dice.below(3)).unwrap_or(1)),
        dead_letter: !dice.one_in(4),
        ..Definition::of(Task::Noop)
    }
}

fn schedules(dice: &mut Dice, now: Timestamp) -> Vec<Schedule> {
    let count = 1 + dice.below(2);
    (0..count).map(|_| schedule(dice, now)).collect()
}

fn schedule(dice: &mut Dice, now: Timestamp) -> Schedule {
    let when = match dice.below(7) {
        0 => When::Cron(Cron::parse("*/5 * * * * *", "UTC").expect("a plain cron")),
        1 => When::Cron(Cron::parse("* * * * *", "Asia/Shanghai").expect("a plain cron")),
        2 => When::At(now + Duration::from_millis(dice.below(60_000))),
        3 => When::AfterFinish(Duration::from_millis(500 + dice.below(10_000))),
        4 => When::Every(Duration::from_millis(200 + dice.below(400))),
        _ => When::Every(Duration::from_millis(700 + dice.below(30_000))),
    };
    let mut schedule = Schedule::new(when);
    if dice.one_in(4) {
        schedule.jitter = Duration::from_millis(dice.below(3_000));
    }
    if dice.one_in(5) {
        schedule.max_runs = Some(u32::try_from(1 + dice.below(20)).unwrap_or(1));
    }
    if dice.one_in(6) {
        schedule.end = Some(now + Duration::from_millis(dice.below(300_000)));
    }
    schedule
}
