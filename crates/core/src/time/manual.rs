//! A clock that a test moves.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::{Clock, Timestamp};

/// How long a loop sleeps for an instant in the future: the clock does not reach it by itself.
const LONG: Duration = Duration::from_secs(3600);

/// A clock that stands still until a test moves it. Its clones are the same clock. It counts whole milliseconds.
#[derive(Debug, Clone)]
pub struct ManualClock(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    now: Timestamp,
    elapsed: Duration,
    sleepers: Vec<Sleeper>,
    next_id: u64,
}

#[derive(Debug)]
struct Sleeper {
    id: u64,
    /// The monotonic time at which it wakes up.
    until: Duration,
    waker: Waker,
}

impl ManualClock {
    pub fn at(now: Timestamp) -> ManualClock {
        let elapsed = now.since(Timestamp::MIN);
        ManualClock(Arc::new(Mutex::new(State { now, elapsed, sleepers: Vec::new(), next_id: 0 })))
    }

    /// Lets time pass: both the time of day and the monotonic time move on.
    pub fn advance(&self, span: Duration) {
        let span = Duration::from_millis(u64::try_from(span.as_millis()).unwrap_or(u64::MAX));
        let mut state = self.state();
        state.now = state.now + span;
        state.elapsed += span;
        let elapsed = state.elapsed;
        let (over, asleep) = state.sleepers.drain(..).partition(|sleeper| sleeper.until <= elapsed);
        state.sleepers = asleep;
        drop(state);
        let over: Vec<Sleeper> = over;
        over.into_iter().for_each(|sleeper| sleeper.waker.wake());
    }

    /// Sets the time of day, forwards or backwards, as an administrator does. No time passes.
    pub fn set(&self, now: Timestamp) {
        self.state().now = now;
    }

    /// Completes when this much time has passed on this clock.
    pub fn sleep(&self, span: Duration) -> Sleep {
        let mut state = self.state();
        state.next_id += 1;
        Sleep { clock: self.clone(), id: state.next_id, until: state.elapsed + span }
    }

    /// The time until the next sleeper wakes up. `None` means that nothing sleeps on this clock.
    pub fn next_wake(&self) -> Option<Duration> {
        let state = self.state();
        let first = state.sleepers.iter().map(|sleeper| sleeper.until).min();
        first.map(|until| until.saturating_sub(state.elapsed))
    }

    /// Whether the task of this waker sleeps on this clock.
    pub fn is_asleep(&self, waker: &Waker) -> bool {
        self.state().sleepers.iter().any(|sleeper| sleeper.waker.will_wake(waker))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        self.state().now
    }

    fn elapsed(&self) -> Duration {
        self.state().elapsed
    }

    fn until(&self, instant: Timestamp) -> Duration {
        if instant > self.now() { LONG } else { Duration::ZERO }
    }
}

/// See [`ManualClock::sleep`].
#[derive(Debug)]
#[must_use = "a future does nothing until it is awaited"]
pub struct Sleep {
    clock: ManualClock,
    id: u64,
    until: Duration,
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.clock.state();
        state.sleepers.retain(|sleeper| sleeper.id != self.id);
        if state.elapsed >= self.until {
            return Poll::Ready(());
        }
        let sleeper = Sleeper { id: self.id, until: self.until, waker: context.waker().clone() };
        state.sleepers.push(sleeper);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.clock.state().sleepers.retain(|sleeper| sleeper.id != self.id);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_set_clock_lets_no_time_pass() {
        let clock = ManualClock::at(Timestamp::from_millis(1000));
        let before = clock.elapsed();
        clock.set(Timestamp::from_millis(5000));
        assert_eq!((clock.now(), clock.elapsed()), (Timestamp::from_millis(5000), before));
        clock.advance(SECOND);
        assert_eq!((clock.now(), clock.elapsed()), (Timestamp::from_millis(6000), before + SECOND));
    }

    #[test]
    fn a_sleeper_wakes_when_its_time_has_passed() {
        let clock = ManualClock::at(Timestamp::MIN);
        let (waker, mut sleep) = (Waker::noop(), pin!(clock.sleep(2 * SECOND)));
        let mut poll = || sleep.as_mut().poll(&mut Context::from_waker(waker));
        assert_eq!(poll(), Poll::Pending);
        clock.advance(SECOND);
        assert_eq!((poll(), clock.next_wake()), (Poll::Pending, Some(SECOND)));
        assert!(clock.is_asleep(waker));
        clock.advance(SECOND);
        assert_eq!((poll(), clock.next_wake()), (Poll::Ready(()), None));
    }
}
