//! How much history is kept: the one rule that every backend prunes by.

use std::time::Duration;

use punctual_core::Timestamp;

use crate::PrunePolicy;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// A finished run is kept while fewer than `runs` of its job are newer and it did not finish before `since`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) runs: u32,
    pub(crate) since: Timestamp,
}

impl Kept {
    /// By the runs and days that a job keeps; none: an ad-hoc run, or a job that was deleted since.
    pub(crate) fn of(keep: Option<(u32, u32)>, policy: &PrunePolicy) -> Kept {
        match keep {
            Some((runs, days)) => Kept { runs, since: policy.now.before(DAY * days) },
            None => Kept { runs: u32::MAX, since: policy.now.before(policy.ad_hoc_kept) },
        }
    }
}
