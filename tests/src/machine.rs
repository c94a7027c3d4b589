//! How much of the machine was there for us: what others took of its processors is no fault of the process under test.
//!
//! A bound that a test holds a cluster to is the one that users are promised, on a machine that has time. Tests run beside each
//! other, and the host may give its processors to other guests: what that took is allowed on top. The kernel does not tell whose
//! processes waited, so where those of one test wait for each other that is allowed too.

use std::fs;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::wait;

/// In hundredths of a second, as Linux counts in `/proc/stat`.
const TICK: Duration = Duration::from_millis(10);
/// How long the sleeper wants to sleep.
const NAP: Duration = Duration::from_millis(5);

/// The machine, watched from a moment on.
#[derive(Debug)]
pub struct Machine {
    before: Duration,
    sleeper: Sleeper,
}

impl Machine {
    pub fn watched() -> Machine {
        Machine { before: taken_in_all(), sleeper: Sleeper::start() }
    }

    /// How long, since then, a task that was ready to run had no processor: as the kernel reports it, up to two seconds
    /// late, or as a thread of ours measures it, whichever is more.
    pub fn taken(&self) -> Duration {
        taken_in_all().saturating_sub(self.before).max(self.sleeper.overslept())
    }
}

/// A thread that sleeps for a moment again and again, and knows by how much it was woken late.
#[derive(Debug)]
struct Sleeper {
    /// `None` means that the thread is to end.
    ask: Option<Sender<Sender<Duration>>>,
    thread: Option<JoinHandle<()>>,
}

impl Sleeper {
    fn start() -> Sleeper {
        let (ask, asked) = mpsc::channel::<Sender<Duration>>();
        let thread = thread::spawn(move || {
            let mut overslept = Duration::ZERO;
            loop {
                let began = wait::now();
                let woken = asked.recv_timeout(NAP);
                overslept += began.elapsed().saturating_sub(2 * NAP);
                match woken {
                    Ok(answer) => drop(answer.send(overslept)),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        });
        Sleeper { ask: Some(ask), thread: Some(thread) }
    }

    fn overslept(&self) -> Duration {
        let (answer, answered) = mpsc::channel();
        let asked = self.ask.as_ref().is_some_and(|ask| ask.send(answer).is_ok());
        if asked { answered.recv().unwrap_or_default() } else { Duration::ZERO }
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        drop(self.ask.take());
        self.thread.take().map(JoinHandle::join);
    }
}

/// Since the machine started; nothing where the kernel does not tell.
fn taken_in_all() -> Duration {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    waited(&read("/proc/pressure/cpu")) + stolen(&read("/proc/stat"))
}

/// How long some process was ready and had to wait, from the first line of the kernel's account of pressure.
fn waited(pressure: &str) -> Duration {
    let total = pressure.lines().next().and_then(|some| some.rsplit_once("total="));
    Duration::from_micros(total.and_then(|(_, micros)| micros.trim().parse().ok()).unwrap_or(0))
}

/// How long the host ran other guests on our processors, from the eighth number of the first line.
fn stolen(stat: &str) -> Duration {
    let ticks = stat.lines().next().and_then(|cpu| cpu.split_whitespace().nth(8));
    TICK * ticks.and_then(|ticks| ticks.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says_is_read() {
        let pressure = "some avg10=50.53 avg60=57.89 avg300=47.22 total=21433278\nfull avg10=0.00 total=7\n";
        assert_eq!(waited(pressure), Duration::from_micros(21_433_278));
        assert_eq!(stolen("cpu  1 2 3 4 5 6 7 150 9 10\ncpu0 1 2\n"), Duration::from_millis(1500));
    }

    #[test]
    fn the_sleeper_never_reports_less_than_before() {
        let machine = Machine::watched();
        let first = machine.sleeper.overslept();
        assert!(machine.sleeper.overslept() >= first);
        assert!(machine.taken() >= first);
    }

    #[test]
    fn where_it_says_nothing_nothing_is_allowed() {
        assert_eq!((waited(""), stolen("")), (Duration::ZERO, Duration::ZERO));
    }
}
