//! Waiting for what must happen, and saying what did not.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use punctual_core::Timestamp;

/// How often a condition is looked at.
const POLL: Duration = Duration::from_millis(20);

/// What takes no time on an idle machine may take this long on a busy one.
pub const SOON: Duration = Duration::from_secs(60);

/// Looks until there is something to see; fails with the sentence when there is not in time.
#[track_caller]
pub fn until<T>(what: &str, within: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = now() + within;
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(now() < deadline, "not within {within:?}: {what}");
        thread::sleep(POLL);
    }
}

/// Looks until it is so.
#[track_caller]
pub fn until_so(what: &str, within: Duration, mut is_so: impl FnMut() -> bool) {
    until(what, within, || is_so().then_some(()));
}

/// Tells the clients of a scene to stop, also when it fails.
#[derive(Debug)]
pub struct StopAtDrop<'a>(pub &'a AtomicBool);

impl Drop for StopAtDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Lets time pass that the scene itself is about: an outage, or a stretch of load.
pub fn pass(span: Duration) {
    thread::sleep(span);
}

#[expect(clippy::disallowed_methods, reason = "a test of a real process lives in real time")]
pub fn now() -> Instant {
    Instant::now()
}

/// The wall clock, as the process under test reads it.
#[expect(clippy::disallowed_methods, reason = "a test of a real process lives in real time")]
pub fn wall_clock() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    Timestamp::MIN + since.expect("the clock is past 1970")
}
