//! Counts wrong tokens by address, in bounded memory: an address with too many has to wait.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::limits::{FAILURES_MAX, FAILURES_WINDOW as WINDOW};

/// Addresses remembered at once. When they are all in use, a wrong token from a new address has to wait;
/// valid tokens are always accepted.
const ADDRESSES_MAX: usize = 4096;

#[derive(Debug, Default)]
pub(crate) struct Failures(Mutex<HashMap<IpAddr, Window>>);

#[derive(Debug)]
struct Window {
    since: Instant,
    count: u32,
}

/// What follows from a wrong token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Wrong,
    /// The last wrong token before the address has to wait.
    LastOfMany,
    /// The address has to wait for this long.
    TooMany(Duration),
}

impl Failures {
    /// Whether this address sent too many wrong tokens and has to wait.
    pub(crate) fn has_to_wait(&self, address: IpAddr, now: Instant) -> bool {
        let windows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let window = windows.get(&address).filter(|window| now.duration_since(window.since) < WINDOW);
        window.map_or(windows.len() >= ADDRESSES_MAX, |window| window.count >= FAILURES_MAX)
    }

    pub(crate) fn count(&self, address: IpAddr, now: Instant) -> Verdict {
        let mut windows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let over = |window: &Window| now.duration_since(window.since) >= WINDOW;
        if windows.get(&address).is_none_or(over) {
            if windows.len() >= ADDRESSES_MAX {
                windows.retain(|_, window| !over(window));
            }
            if windows.len() >= ADDRESSES_MAX {
                return Verdict::TooMany(WINDOW);
            }
            windows.insert(address, Window { since: now, count: 0 });
        }
        let Some(window) = windows.get_mut(&address) else { return Verdict::TooMany(WINDOW) };
        window.count = window.count.saturating_add(1);
        match window.count {
            ..FAILURES_MAX => Verdict::Wrong,
            FAILURES_MAX => Verdict::LastOfMany,
            _ => Verdict::TooMany(WINDOW.saturating_sub(now.duration_since(window.since))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_ten_tries_a_minute_and_others_have_their_own() {
        let (failures, start) = (Failures::default(), Instant::now());
        let (here, there) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
        for _ in 1..FAILURES_MAX {
            assert_eq!(failures.count(here, start), Verdict::Wrong);
        }
        assert!(!failures.has_to_wait(here, start));
        assert_eq!(failures.count(here, start), Verdict::LastOfMany);
        assert!(failures.has_to_wait(here, start) && !failures.has_to_wait(here, start + WINDOW));
        let later = start + Duration::from_secs(20);
        assert_eq!(failures.count(here, later), Verdict::TooMany(Duration::from_secs(40)));
        assert_eq!(failures.count(there, later), Verdict::Wrong);
        assert_eq!(failures.count(here, start + WINDOW), Verdict::Wrong, "nobody is locked out for good");
    }

    #[test]
    fn addresses_without_end_do_not_fill_the_memory() {
        let (failures, start) = (Failures::default(), Instant::now());
        let address = |number: usize| IpAddr::from(u32::try_from(number).unwrap().to_be_bytes());
        for number in 0..ADDRESSES_MAX {
            assert_eq!(failures.count(address(number), start), Verdict::Wrong);
        }
        assert_eq!(failures.count(address(ADDRESSES_MAX), start), Verdict::TooMany(WINDOW));
        assert_eq!(failures.count(address(ADDRESSES_MAX), start + WINDOW), Verdict::Wrong);
        assert_eq!(failures.0.lock().unwrap().len(), 1);
    }
}
