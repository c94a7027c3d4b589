//! The limits of a job: how many of its runs may be at work, start and wait. Each limit must allow a run.
//!
//! A limit with a key counts the runs of each key apart, such as those of one customer.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Invalid;
use crate::Timestamp;
use crate::limits::{DURATION_MAX, KEY_BYTES_MAX, LIMITS_MAX, RATE_MAX};
use crate::params::Params;
use crate::schedule::format_duration;
use crate::template::{Scope, Template, Values};

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Limit {
    /// Runs that may be ready or running at once. `None` means any number.
    pub running: Option<u32>,
    /// How often a run may start. `None` means at any time.
    pub rate: Option<Rate>,
    /// How many runs may wait. `None` means any number.
    pub waiting: Option<Waiting>,
    /// A template of the parameters and the due time: runs with the same value share the limit. `None` means that all
    /// runs of the job do.
    pub per: Option<String>,
}

/// How often a run may start, or a message be delivered, by the generic cell rate algorithm: starts are spread evenly, and only the burst may come
/// at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    pub count: u32,
    pub span: Duration,
    /// How many runs may start at once after a pause.
    pub burst: u32,
}

/// The moment until which earlier starts have used up a rate, in microseconds of Unix time. A moment that has passed
/// means that the whole burst is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct UsedUntil(i64);

/// The most microseconds that a start may come before the end of its millisecond.
const WITHIN_MILLISECOND: i64 = 999;

/// How many runs may wait, and which one is skipped beyond that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    pub max: u32,
    pub beyond: Beyond,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Beyond {
    /// The new run.
    Skip,
    /// The run that was due first.
    Oldest,
}

impl Limit {
    pub fn of_running(max: u32) -> Limit {
        Limit { running: Some(max), ..Limit::default() }
    }

    fn template(key: &str) -> Result<Template, Invalid> {
        Template::parse_in(key, &Scope::ROUTE).map_err(|error| Invalid::new("per", error.in_text(key)))
    }

    /// The key of a run with these parameters. A limit without a key has one empty key.
    pub fn key_for(&self, params: &Params, due: Timestamp) -> Result<Arc<str>, Invalid> {
        let Some(per) = &self.per else { return Ok(Arc::default()) };
        let template = Limit::template(per)?;
        let key = template
            .render(&Values::of_params_and_due(&params.0, due))
            .map_err(|error| Invalid::new("per", error.in_text(per)))?;
        if key.len() > KEY_BYTES_MAX {
            let message = format!("gives {} bytes with these parameters, at most {KEY_BYTES_MAX}", key.len());
            return Err(Invalid::new("per", message));
        }
        Ok(key.into())
    }

    fn check(&self) -> Result<(), Invalid> {
        if self.running.is_none() && self.rate.is_none() && self.waiting.is_none() {
            return Err(Invalid::new(
                "running",
                "write what the limit limits: `running`, `rate` or `waiting`",
            ));
        }
        if self.running == Some(0) {
            return Err(Invalid::new("running", "at least 1; pause the job to stop it"));
        }
        if let Some(rate) = &self.rate {
            rate.check()?;
        }
        let Some(per) = &self.per else { return Ok(()) };
        if per.is_empty() || per.len() > KEY_BYTES_MAX {
            return Err(Invalid::new("per", format!("1 to {KEY_BYTES_MAX} bytes")));
        }
        Limit::template(per).map(drop)
    }
}

/// The name of a limit in a job file.
fn field_of(limits: &[Limit], index: usize) -> String {
    if limits.len() == 1 { "limits".to_owned() } else { format!("limits[{index}]") }
}

/// Refuses invalid limits.
pub(super) fn check(limits: &[Limit]) -> Result<(), Invalid> {
    if limits.len() > LIMITS_MAX {
        return Err(Invalid::new("limits", format!("at most {LIMITS_MAX} limits a job")));
    }
    limits
        .iter()
        .enumerate()
        .try_for_each(|(index, limit)| limit.check().map_err(|error| error.under(&field_of(limits, index))))
}

/// Refuses parameters that give no key for a limit.
pub fn check_keys(limits: &[Limit], params: &Params, due: Timestamp) -> Result<(), Invalid> {
    limits.iter().enumerate().try_for_each(|(index, limit)| {
        limit.key_for(params, due).map(drop).map_err(|error| error.under(&field_of(limits, index)))
    })
}

impl Rate {
    pub(crate) fn check(&self) -> Result<(), Invalid> {
        if self.count == 0 || self.span.is_zero() {
            return Err(Invalid::new("rate", "the number and the time must be above 0, such as 100/m"));
        }
        if self.span > DURATION_MAX {
            return Err(Invalid::new("rate", "at most ten years"));
        }
        if u128::from(self.count) * 1_000_000 > self.span.as_micros() * u128::from(RATE_MAX) {
            return Err(Invalid::new("rate", format!("at most {RATE_MAX} a second")));
        }
        if self.burst == 0 || self.burst > RATE_MAX {
            return Err(Invalid::new("burst", format!("1 to {RATE_MAX}")));
        }
        Ok(())
    }

    /// For example `100 runs in 1m`.
    pub fn in_words(&self) -> String {
        format!("{} runs in {}", self.count, format_duration(self.span))
    }

    /// The time between two starts, rounded up: the rate is never exceeded.
    fn interval(&self) -> i64 {
        let micros = self.span.as_micros().div_ceil(u128::from(self.count.max(1)));
        i64::try_from(micros).unwrap_or(i64::MAX / 4)
    }

    /// When the next run may start.
    pub fn next_start(&self, used: UsedUntil) -> Timestamp {
        let ahead = self.interval().saturating_mul(i64::from(self.burst) - 1);
        UsedUntil(used.0.saturating_sub(ahead)).ends_at()
    }

    /// What is used up after a start.
    #[must_use]
    pub fn start(&self, used: UsedUntil, now: Timestamp) -> UsedUntil {
        // The run may have been allowed within the millisecond that ends now.
        let earliest = UsedUntil(UsedUntil::at(now).0.saturating_sub(WITHIN_MILLISECOND));
        UsedUntil(used.max(earliest).0.saturating_add(self.interval()))
    }

    /// The most that starts up to now can have used up. Starts under a slower rate, before an edit, may have used more.
    pub fn used_at_most(&self, now: Timestamp) -> UsedUntil {
        let burst = self.interval().saturating_mul(i64::from(self.burst));
        UsedUntil(UsedUntil::at(now).0.saturating_add(burst))
    }
}

impl UsedUntil {
    pub fn at(moment: Timestamp) -> UsedUntil {
        UsedUntil(moment.as_millis().saturating_mul(1000))
    }

    /// The first millisecond in which it has passed.
    pub fn ends_at(self) -> Timestamp {
        Timestamp::from_millis(self.0.div_euclid(1000) + i64::from(self.0.rem_euclid(1000) > 0))
    }

    /// From this moment on no start depends on it.
    pub fn forgotten_at(self) -> Timestamp {
        UsedUntil(self.0.saturating_add(WITHIN_MILLISECOND)).ends_at()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rate(count: u32, secs: u64, burst: u32) -> Rate {
        Rate { count, span: Duration::from_secs(secs), burst }
    }

    /// The instants in milliseconds at which runs that come at `wanted` start.
    fn starts(rate: Rate, wanted: &[i64]) -> Vec<i64> {
        let mut used = UsedUntil::default();
        let mut starts = Vec::new();
        for at in wanted {
            let mut now = Timestamp::from_millis(*at).max(starts.last().copied().unwrap_or_default());
            now = now.max(rate.next_start(used));
            if used.forgotten_at() <= now {
                used = UsedUntil::default();
            }
            used = rate.start(used, now);
            starts.push(now);
        }
        starts.into_iter().map(Timestamp::as_millis).collect()
    }

    #[test]
    fn a_rate_spreads_starts_evenly() {
        assert_eq!(starts(rate(100, 60, 1), &[0, 0, 0, 10_000, 10_000]), [0, 600, 1200, 10_000, 10_600]);
    }

    #[test]
    fn a_burst_may_start_at_once() {
        assert_eq!(starts(rate(1, 1, 3), &[0, 0, 0, 0, 0, 60_000]), [0, 0, 0, 1000, 2000, 60_000]);
    }

    #[test]
    fn a_rate_that_is_no_whole_number_of_milliseconds_is_kept_on_average() {
        let wanted = [0; 3001];
        assert_eq!(starts(rate(3000, 1, 1), &wanted).last(), Some(&1002));
    }

    proptest! {
        #[test]
        fn no_span_has_more_starts_than_the_rate_and_the_burst_allow(
            count in 1u32..50,
            secs in 1u64..10,
            burst in 1u32..5,
            gaps in proptest::collection::vec(0i64..400, 1..200),
        ) {
            let rate = rate(count, secs, burst);
            let wanted: Vec<i64> = gaps.iter().scan(0, |at, gap| { *at += gap; Some(*at) }).collect();
            let starts = starts(rate, &wanted);
            let span = i64::try_from(secs).unwrap() * 1000;
            for (index, start) in starts.iter().enumerate() {
                let within = starts[index..].iter().take_while(|other| **other < start + span).count();
                prop_assert!(within <= (count + burst - 1) as usize, "{within} starts from {start}");
            }
        }
    }

    #[test]
    fn a_faster_rate_forgets_the_starts_of_a_slower_one() {
        let now = Timestamp::from_millis(1_800_000_000_000);
        let used = rate(1, 86_400, 1).start(UsedUntil::default(), now);
        assert_eq!(rate(1, 86_400, 1).next_start(used), now + Duration::from_secs(86_400));
        assert_eq!(rate(1, 1, 1).used_at_most(now).ends_at(), now + Duration::from_secs(1));
    }

    #[test]
    fn a_key_is_made_of_the_parameters() {
        let limit = Limit { per: Some("{{ params.customer }}".to_owned()), ..Limit::of_running(1) };
        let key = |params: &str| limit.key_for(&Params(params.into()), Timestamp::default());
        assert_eq!(key(r#"{"customer":"acme"}"#).as_deref(), Ok("acme"));
        assert_eq!(Limit::of_running(1).key_for(&Params::default(), Timestamp::default()).as_deref(), Ok(""));
        let long = format!(r#"{{"customer":"{}"}}"#, "x".repeat(257));
        assert!(key(&long).unwrap_err().to_string().contains("257 bytes"));
    }
}
