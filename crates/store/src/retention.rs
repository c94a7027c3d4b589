//! How much history is kept: one rule for every backend.

use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::statistics::Period;

use crate::PrunePolicy;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// How long statistics by minute are kept: the console shows the last hour of them.
const MINUTES_KEPT: Duration = Duration::from_secs(2 * 24 * 3600);
/// How long statistics by hour are kept: a little over a year, the longest span that can be asked for.
const HOURS_KEPT: Duration = Duration::from_secs(400 * 24 * 3600);

/// Statistics of this period before the instant are removed.
pub(crate) fn statistics_kept_since(period: Period, now: Timestamp) -> Timestamp {
    now.before(match period {
        Period::Minute => MINUTES_KEPT,
        Period::Hour => HOURS_KEPT,
    })
}

/// A finished run is kept while fewer than `runs` of its job are newer and it did not finish before `since`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) runs: u32,
    pub(crate) since: Timestamp,
}

impl Kept {
    /// From the runs and days that a job keeps. `None` means an ad-hoc run, or a job that has been deleted.
    pub(crate) fn of(keep: Option<(u32, u32)>, policy: &PrunePolicy) -> Kept {
        match keep {
            Some((runs, days)) => Kept { runs, since: policy.now.before(DAY * days) },
            None => Kept { runs: u32::MAX, since: policy.now.before(policy.ad_hoc_kept) },
        }
    }
}
