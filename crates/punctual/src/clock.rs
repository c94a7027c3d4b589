//! The system clock, and a watcher that notices when it is set.
//!
//! A node sleeps until something is due, perhaps for a day. If the clock is set meanwhile, the node has to
//! evaluate its timers again. A timer on the wall clock is cancelled by the kernel when the clock is set,
//! also after a suspend; that is the only use of this timer. Where this does not work (a clock faked for one
//! process), the clock is read at intervals.

use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::OwnedFd;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use punctual_core::Timestamp;
use punctual_core::time::Clock;
use punctual_node::Nudge;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, read};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tracing::{debug, warn};

/// Later than any due time.
const NEVER: Timespec = Timespec { tv_sec: Timestamp::MAX.as_millis() / 1000, tv_nsec: 0 };
/// The interval of clock checks without such a timer.
const UNTOLD: Duration = Duration::from_secs(1);
/// The bytes of a timer read: how often it has expired.
const COUNT_BYTES: usize = 8;

/// The system clock.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock {
    began: Instant,
}

impl SystemClock {
    #[expect(clippy::disallowed_methods, reason = "someone has to look at the clock, and it is here")]
    pub fn new() -> SystemClock {
        SystemClock { began: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> SystemClock {
        SystemClock::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        now()
    }

    /// Does not advance while the machine is suspended, so that a suspend does not count as silence.
    fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    fn until(&self, instant: Timestamp) -> Duration {
        let at = Duration::from_millis(u64::try_from(instant.as_millis()).unwrap_or(0));
        at.saturating_sub(since_epoch())
    }
}

/// The system time, for the command line only, never for a node's decisions.
pub fn now() -> Timestamp {
    Timestamp::from_millis(i64::try_from(since_epoch().as_millis()).unwrap_or(i64::MAX))
}

#[expect(clippy::disallowed_methods, reason = "someone has to look at the clock, and it is here")]
fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Wakes a node whenever the clock was set, and at intervals, until it is dropped.
#[derive(Debug)]
pub struct Watcher {
    /// Closing this pipe stops the thread. `None` means that it is closing.
    alive: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    pub fn start(nudge: Nudge, look: Duration) -> io::Result<Watcher> {
        let (timer, look) = match timer_until(NEVER) {
            Ok(timer) => (Some(timer), look),
            Err(error) => {
                warn!(%error, "the system does not tell when its clock is set; it is looked at every second");
                (None, look.min(UNTOLD))
            }
        };
        let (closing, alive) = io::pipe()?;
        let thread = thread::Builder::new().name("clock".to_owned());
        let thread = thread.spawn(move || {
            while let Some(told) = wait(timer.as_ref(), &closing, look) {
                debug!(?told, "a look at the clock");
                nudge.clock_was_set();
            }
        })?;
        Ok(Watcher { alive: Some(alive), thread: Some(thread) })
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.alive = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported already.
            let _ = thread.join();
        }
    }
}

/// Why to read the clock.
#[derive(Debug, PartialEq, Eq)]
enum Told {
    WasSet,
    ItIsTime,
}

/// Blocks until there is a reason to read the clock. `None` means that the watcher closes.
fn wait(timer: Option<&OwnedFd>, closing: &PipeReader, look: Duration) -> Option<Told> {
    let look = Timespec::try_from(look).ok();
    loop {
        let mut watched = vec![PollFd::new(closing, PollFlags::IN)];
        watched.extend(timer.map(|timer| PollFd::new(timer, PollFlags::IN)));
        match poll(&mut watched, look.as_ref()) {
            Ok(0) => return Some(Told::ItIsTime),
            Ok(_) if !watched[0].revents().is_empty() => return None,
            // A read clears the event, whether the timer was cancelled or has expired.
            Ok(_) => match timer.map(|timer| read(timer, &mut [0; COUNT_BYTES])) {
                Some(Err(Errno::AGAIN | Errno::INTR)) | None => {}
                Some(_) => return Some(Told::WasSet),
            },
            Err(Errno::INTR) => {}
            Err(error) => {
                warn!(%error, "nobody watches the clock any more");
                return None;
            }
        }
    }
}

/// A timer on the wall clock that is cancelled when the clock is set.
fn timer_until(at: Timespec) -> io::Result<OwnedFd> {
    let timer = timerfd_create(TimerfdClockId::Realtime, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
    let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: at };
    timerfd_settime(&timer, TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET, &once)?;
    Ok(timer)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(30);

    #[test]
    fn a_timer_that_the_system_ends_is_noticed_once() {
        let since = since_epoch() + Duration::from_millis(50);
        let timer = timer_until(since.try_into().unwrap()).unwrap();
        let (closing, _alive) = io::pipe().unwrap();
        assert_eq!(wait(Some(&timer), &closing, LONG), Some(Told::WasSet));
        assert_eq!(wait(Some(&timer), &closing, Duration::from_millis(100)), Some(Told::ItIsTime));
    }

    #[test]
    fn a_clock_that_nobody_sets_is_looked_at_when_it_is_time() {
        let timer = timer_until(NEVER).unwrap();
        let (closing, alive) = io::pipe().unwrap();
        for timer in [Some(&timer), None] {
            assert_eq!(wait(timer, &closing, Duration::from_millis(50)), Some(Told::ItIsTime));
        }
        drop(alive);
        assert_eq!(wait(Some(&timer), &closing, LONG), None, "and nobody is left behind");
    }
}
