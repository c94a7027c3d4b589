//! What a check is told besides the history.

use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::limits::AD_HOC_KEPT;

/// The default suits an export taken from a node at work: nothing is asked for that may still be under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// How far a clock may be off: a start this long before its due time is not yet early. Zero where one
    /// machine's clock is the store's.
    pub skew: Duration,
    /// The history begins here: fires due earlier are not asked for.
    pub from: Option<Timestamp>,
    /// Every fire due up to here must have happened; none: up to each job's own cursor.
    pub fired_through: Option<Timestamp>,
    /// Every run due up to here must have ended; none: runs may still be moving.
    pub ended_through: Option<Timestamp>,
    /// Nothing moved while the history was taken, so its parts must agree with each other to the last run.
    pub still: bool,
    /// A history without runs or without fires is what the caller expects.
    pub may_be_empty: bool,
    /// How long the node kept the history of deleted jobs.
    pub ad_hoc_kept: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            skew: Duration::ZERO,
            from: None,
            fired_through: None,
            ended_through: None,
            still: false,
            may_be_empty: false,
            ad_hoc_kept: AD_HOC_KEPT,
        }
    }
}
