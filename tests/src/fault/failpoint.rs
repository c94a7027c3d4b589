//! Processes that die where they are told to.

use std::collections::VecDeque;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{Resource, Rlimit, setrlimit};

use crate::{Cli, binary};

/// The variable that tells a process where to die.
pub const VARIABLE: &str = "FAILPOINTS";
/// A process that dies at a point ends by this signal.
pub const ABORTED: i32 = 6;
/// How many lives a process may take to come by a point: some of them need the right company.
const LIVES_MAX: u32 = 6;
/// What happens all the time is passed a few times first, so that a process dies in the midst of its work.
const OFTEN: [&str; 6] = ["commit", "command", "report", "timer", "answer", "order"];

/// What happens about once in a life is not waited for twice.
const ONCE: [&str; 7] = ["acquire", "leave", "release", "announced", "linked", "welcomed", "admitted"];

/// All points of the binary under test.
#[track_caller]
pub fn points() -> Vec<String> {
    // The deaths of this test are wanted: nobody looks at their remains.
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    setrlimit(Resource::Core, none).expect("a limit can be lowered");
    let printed = Cli::run(Command::new(binary::path()).arg("failpoints")).ok();
    printed.lines().map(str::to_owned).collect()
}

/// A point, and how often it is passed before the process dies there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Death {
    pub point: String,
    pub off: u32,
    lives: u32,
}

impl Death {
    pub fn at(point: &str, off: u32) -> Death {
        Death { point: point.to_owned(), off, lives: 0 }
    }

    /// What `FAILPOINTS` is to say.
    pub fn plan(&self) -> String {
        format!("{}={}*off->abort", self.point, self.off)
    }

    /// The line that a process prints when it dies there.
    pub fn last_words(&self) -> String {
        format!("failpoint {}: abort", self.point)
    }

    /// Only a process that is asked to end comes by there.
    pub fn is_at_leaving(&self) -> bool {
        self.point.contains(".leave.") || self.point.contains(".release.")
    }
}

/// The deaths that are still to be died.
#[derive(Debug)]
pub struct Walk {
    left: Mutex<VecDeque<Death>>,
    unreached: Mutex<Vec<String>>,
}

impl Walk {
    /// Every point that is wanted, so many times.
    pub fn over(wanted: impl Fn(&str) -> bool, times: u32) -> Walk {
        let points: Vec<String> = points().into_iter().filter(|point| wanted(point)).collect();
        assert!(!points.is_empty(), "there is nothing to walk over: is it a release?");
        let passes = (0..times).flat_map(|pass| points.iter().map(move |point| death(point, pass)));
        Walk { left: Mutex::new(passes.collect()), unreached: Mutex::default() }
    }

    pub fn next(&self) -> Option<Death> {
        lock(&self.left).pop_front()
    }

    /// A life ended without coming by its point: there are others, up to a limit.
    pub fn missed(&self, mut death: Death) {
        death.lives += 1;
        // Some come by once in a life only.
        death.off = 0;
        if death.lives < LIVES_MAX {
            lock(&self.left).push_back(death);
        } else {
            lock(&self.unreached).push(death.point);
        }
    }

    pub fn unreached(&self) -> Vec<String> {
        lock(&self.unreached).clone()
    }
}

fn death(point: &str, pass: u32) -> Death {
    let is = |kind: &[&str]| point.split('.').any(|part| kind.contains(&part));
    let off = match (is(&ONCE), is(&OFTEN)) {
        (true, _) => 0,
        (false, true) => 10 + 2 * pass,
        (false, false) => pass % 2,
    };
    Death::at(point, off)
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
