//! What the rates of a shard have used up.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::change::UniqueKey;
use punctual_core::job::limit::UsedUntil;
use rustc_hash::FxHashMap;

/// The row of a rate is kept longer than the rate is used, so that it is not pruned while the shard may still write it.
pub(super) const ROW_KEPT: Duration = Duration::from_secs(60);

/// What the rates of a shard have used up, by the text of their rows.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    used: FxHashMap<Arc<str>, UsedUntil>,
    /// When each of them is forgotten.
    pub(super) ends: BTreeSet<(Timestamp, Arc<str>)>,
    /// For which of these moments there is a deadline.
    pub(super) expected: Option<Timestamp>,
}

impl Rates {
    pub(crate) fn load(&mut self, rows: Vec<UniqueKey>) {
        for row in rows {
            self.note(row.key, UsedUntil::at(row.expires_at.before(ROW_KEPT)));
        }
    }

    pub(crate) fn used(&self, row: &Arc<str>) -> UsedUntil {
        self.used.get(row).copied().unwrap_or_default()
    }

    /// Returns whether it was in use.
    pub(super) fn note(&mut self, row: Arc<str>, used: UsedUntil) -> bool {
        let before = self.used.insert(Arc::clone(&row), used);
        if let Some(before) = before {
            self.ends.remove(&(before.forgotten_at(), Arc::clone(&row)));
        }
        self.ends.insert((used.forgotten_at(), row));
        before.is_some()
    }

    pub(super) fn pop_free(&mut self, now: Timestamp) -> Option<Arc<str>> {
        let (_, row) = self.ends.first().filter(|(at, _)| *at <= now)?.clone();
        self.ends.pop_first();
        self.used.remove(&row);
        Some(row)
    }
}
