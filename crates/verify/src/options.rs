//! The options of a check run.

use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::limits::AD_HOC_KEPT;

/// The default suits an export from a running node: nothing is expected that may still be in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Maximum clock skew: a start is early only if it is more than this before its due time. Zero if the store uses
    /// the same machine's clock.
    pub skew: Duration,
    /// The start of the history: earlier fires are not expected. `None` means the beginning.
    pub from: Option<Timestamp>,
    /// Every fire due up to here must have happened. `None` means up to each job's own cursor.
    pub fired_through: Option<Timestamp>,
    /// Every run due up to here must have ended. `None` means runs may still be in progress.
    pub ended_through: Option<Timestamp>,
    /// Nothing changed while the history was exported, so its parts must agree exactly.
    pub still: bool,
    /// The caller accepts a history without runs or fires.
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
