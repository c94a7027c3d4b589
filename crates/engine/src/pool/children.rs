//! Which workers have the children of a run, so that the next child goes to a worker with few of them.
//!
//! In memory only: a shard that is loaded again counts its children again.

use std::sync::Arc;

use punctual_core::ids::{RunId, ShardId, WorkerId};
use rustc_hash::FxHashMap;

use super::present::Present;

#[derive(Debug, Default)]
pub(super) struct ChildrenByWorker {
    /// By parent: the children held by workers, with the worker's name.
    by_parent: FxHashMap<RunId, FxHashMap<RunId, Arc<str>>>,
}

impl ChildrenByWorker {
    pub(crate) fn assigned(&mut self, parent: RunId, child: RunId, worker: &WorkerId) {
        self.by_parent.entry(parent).or_default().insert(child, Arc::from(worker.name()));
    }

    pub(crate) fn ended(&mut self, parent: RunId, child: RunId) {
        if let Some(children) = self.by_parent.get_mut(&parent) {
            children.remove(&child);
            if children.is_empty() {
                self.by_parent.remove(&parent);
            }
        }
    }

    pub(super) fn forget(&mut self, shard: ShardId) {
        self.by_parent.retain(|parent, _| parent.shard() != shard);
    }

    /// Keeps the workers with a free slot that have the fewest children of this parent.
    pub(super) fn keep_fewest(&self, parent: RunId, workers: &mut Vec<Present<'_>>) {
        workers.retain(|worker| worker.free > 0);
        let Some(children) = self.by_parent.get(&parent) else { return };
        let mut counts: FxHashMap<&str, usize> = FxHashMap::default();
        for name in children.values() {
            *counts.entry(name).or_default() += 1;
        }
        let count = |worker: &Present<'_>| counts.get(worker.id.name()).copied().unwrap_or(0);
        let fewest = workers.iter().map(count).min();
        workers.retain(|worker| Some(count(worker)) == fewest);
    }
}
