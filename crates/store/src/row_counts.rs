//! How many rows a batch adds and removes.

use punctual_core::change::{Change, Changes, RowKey};

/// How many rows a batch adds (below zero: removes). The statement of the fence also updates these counts in the
/// shard's row, so that rows never have to be counted.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct RowCounts {
    pub(crate) jobs: i64,
    pub(crate) live_runs: i64,
    pub(crate) history_runs: i64,
    pub(crate) dead_letters: i64,
}

impl RowCounts {
    pub(crate) fn of(changes: &Changes) -> RowCounts {
        let mut counts = RowCounts::default();
        for (key, change) in changes.iter() {
            let by = match change {
                Change::Insert(_) => 1,
                Change::Update(_) => 0,
                Change::Delete => -1,
            };
            match key {
                RowKey::Job(_) => counts.jobs += by,
                RowKey::Run(_) => counts.live_runs += by,
                RowKey::History(_) => counts.history_runs += by,
                RowKey::DeadLetter(_) => counts.dead_letters += by,
                RowKey::DeletedJob(_)
                | RowKey::Revision(..)
                | RowKey::Step(_)
                | RowKey::Listener(_)
                | RowKey::Lock(_)
                | RowKey::Hold(_)
                | RowKey::Approval(_)
                | RowKey::Incident(_)
                | RowKey::Unique(_)
                | RowKey::Skip(..)
                | RowKey::Statistics(_)
                | RowKey::RecentCounts(_)
                | RowKey::Term(_)
                | RowKey::Queue(_)
                | RowKey::Message(..) => {}
            }
        }
        counts
    }
}
