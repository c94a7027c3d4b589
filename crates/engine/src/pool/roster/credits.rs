//! The credits that a worker has lent to this node.

/// Totals since the worker joined.
#[derive(Debug, Default)]
pub(super) struct Credits {
    pub(super) lent: u64,
    pub(super) used: u64,
    pub(super) gave_back: u64,
}

impl Credits {
    pub(super) fn free(&self) -> usize {
        usize::try_from(self.lent.saturating_sub(self.used + self.gave_back)).unwrap_or(usize::MAX)
    }
}
