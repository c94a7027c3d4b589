//! When a failed attempt is tried again.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::hash;
use crate::ids::RunId;
use crate::invalid::Invalid;
use crate::limits::HTTP_STATUS_RANGES_MAX;
use crate::status_range::StatusRange;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    /// Attempts in all, including the first. A lost worker does not count.
    pub attempts: u32,
    pub delay: Duration,
    pub backoff: Backoff,
    pub max_delay: Duration,
    /// How far the delay may vary up or down, in percent of itself.
    pub jitter_percent: u8,
    /// The priority of every attempt after the first. `None` means the job's priority.
    pub priority: Option<u8>,
    /// The failures that are retried. A lost worker is not one of them.
    pub on: Vec<On>,
    /// Whether an attempt after a failed one continues at the last checkpoint.
    pub resume: bool,
}

/// A kind of failure that is retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum On {
    /// Every failure not covered by the other variants: an exit code, a failed connection, an unexpected body.
    Error,
    Timeout,
    /// A response with a status in this range that the task does not expect.
    Status(StatusRange),
}

/// How an attempt failed, as far as it matters for a retry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Failed {
    #[default]
    Error,
    /// The attempt was stopped at the job's timeout, or its request had no response in time.
    Timeout,
    /// The response had this status, which the task does not expect.
    Status(u16),
}

impl On {
    /// Failures that may be temporary: the same request may succeed later.
    fn defaults() -> Vec<On> {
        let one = |status| On::Status(StatusRange { first: status, last: status });
        let server = On::Status(StatusRange { first: 500, last: 599 });
        vec![On::Error, On::Timeout, server, one(408), one(425), one(429)]
    }

    fn includes(self, failed: Failed) -> bool {
        match (self, failed) {
            (On::Error, Failed::Error) | (On::Timeout, Failed::Timeout) => true,
            (On::Status(range), Failed::Status(status)) => range.contains(status),
            _ => false,
        }
    }
}

impl fmt::Display for On {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            On::Error => f.write_str("error"),
            On::Timeout => f.write_str("timeout"),
            On::Status(range) => range.fmt(f),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Backoff {
    Fixed,
    Linear,
    Exponential,
}

impl Default for Retry {
    fn default() -> Self {
        Retry {
            attempts: 1,
            delay: Duration::from_secs(10),
            backoff: Backoff::Exponential,
            max_delay: Duration::from_secs(600),
            jitter_percent: 0,
            priority: None,
            on: On::defaults(),
            resume: true,
        }
    }
}

impl Retry {
    /// How long to wait after the `failures`-th failure. `None` means that all attempts are used up.
    pub fn delay_after(&self, failures: u32, run: RunId) -> Option<Duration> {
        if failures >= self.attempts {
            return None;
        }
        let nth = failures.max(1);
        let factor = match self.backoff {
            Backoff::Fixed => 1,
            Backoff::Linear => nth,
            // 2^31 times any delay is beyond every max_delay.
            Backoff::Exponential => 1u32 << (nth - 1).min(31),
        };
        let plain = self.delay.saturating_mul(factor).min(self.max_delay.max(self.delay));
        Some(self.spread(plain, run, failures))
    }

    /// Whether a failure of this kind is retried while attempts are left.
    pub fn includes(&self, failed: Failed) -> bool {
        self.on.iter().any(|on| on.includes(failed))
    }

    pub(crate) fn check_on(&self) -> Result<(), Invalid> {
        let is_known = |on: &On| !matches!(on, On::Status(range) if !range.is_valid());
        if self.on.is_empty() || self.on.len() > HTTP_STATUS_RANGES_MAX || !self.on.iter().all(is_known) {
            let message = format!(
                "1 to {HTTP_STATUS_RANGES_MAX} of `error`, `timeout` and codes from 100 to 599, such as 429, 5xx or 500-504; \
                 `attempts: 1` retries nothing"
            );
            return Err(Invalid::new("retry.on", message));
        }
        Ok(())
    }

    /// Varies the delay by a hash of run and failure, not by a random number, so that a replay is the same.
    fn spread(&self, plain: Duration, run: RunId, failures: u32) -> Duration {
        if self.jitter_percent == 0 {
            return plain;
        }
        let dice = hash::stable(&[&run.0.to_le_bytes(), &failures.to_le_bytes()]) % 2001;
        // -1000..=1000 thousandths of the jitter.
        let swing = i128::from(dice) - 1000;
        let millis = i128::try_from(plain.as_millis()).unwrap_or(i128::from(u64::MAX));
        let moved = millis + millis * i128::from(self.jitter_percent) * swing / 100_000;
        Duration::from_millis(u64::try_from(moved.max(0)).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn delays(retry: &Retry) -> Vec<u64> {
        (1..).map_while(|n| retry.delay_after(n, RunId(1))).map(|d| d.as_secs()).collect()
    }

    #[test]
    fn exponential_backoff_doubles_up_to_its_maximum() {
        let retry = Retry { attempts: 6, max_delay: Duration::from_secs(60), ..Retry::default() };
        assert_eq!(delays(&retry), [10, 20, 40, 60, 60]);
    }

    #[test]
    fn linear_and_fixed_backoff_do_what_they_say() {
        let linear = Retry { attempts: 4, backoff: Backoff::Linear, ..Retry::default() };
        let fixed = Retry { attempts: 4, backoff: Backoff::Fixed, ..Retry::default() };
        assert_eq!(delays(&linear), [10, 20, 30]);
        assert_eq!(delays(&fixed), [10, 10, 10]);
    }

    #[test]
    fn one_attempt_is_never_retried() {
        assert_eq!(Retry::default().delay_after(1, RunId(1)), None);
    }

    #[test]
    fn only_what_may_pass_by_itself_is_retried_by_default() {
        let retried = |failed| Retry::default().includes(failed);
        assert!(retried(Failed::Error) && retried(Failed::Timeout));
        assert!([408, 425, 429, 500, 503, 599].map(Failed::Status).into_iter().all(retried));
        assert!(![302, 400, 401, 404, 409, 422].map(Failed::Status).into_iter().any(retried));
        let only_missing = StatusRange { first: 404, last: 404 };
        let retry = Retry { on: vec![On::Status(only_missing)], ..Retry::default() };
        assert!(retry.includes(Failed::Status(404)) && !retry.includes(Failed::Error));
    }

    proptest! {
        #[test]
        fn jitter_stays_within_its_share(run in 0i64..i64::MAX, percent in 0u8..=100, failures in 1u32..40) {
            let retry = Retry { attempts: 100, jitter_percent: percent, ..Retry::default() };
            let plain = Retry { jitter_percent: 0, ..retry.clone() };
            let (base, moved) = (
                plain.delay_after(failures, RunId(run)).unwrap().as_millis(),
                retry.delay_after(failures, RunId(run)).unwrap().as_millis(),
            );
            prop_assert!(moved.abs_diff(base) <= base * u128::from(percent) / 100 + 1);
        }
    }
}
