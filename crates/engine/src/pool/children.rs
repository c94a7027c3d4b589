//! Which workers have the children of a run, so that the next child goes to a worker with few of them.
//!
//! In memory only: a shard that is loaded again counts its children again.

use std::sync::Arc;

use punctual_core::ids::{RunId, ShardId, WorkerId};
use rustc_hash::FxHashMap;

use super::present::Present;

#[derive(Debug, Default)]
pub(super) struct ChildrenByWorker {
    by_parent: FxHashMap<RunId, Children>,
}

/// The children of a run that workers have.
#[derive(Debug, Default)]
struct Children {
    workers: FxHashMap<RunId, Arc<str>>,
    /// How many each worker has. It has at least one.
    counts: FxHashMap<Arc<str>, usize>,
}

impl Children {
    fn remove(&mut self, child: RunId) {
        let Some(worker) = self.workers.remove(&child) else { return };
        if let Some(count) = self.counts.get_mut(&worker) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&worker);
            }
        }
    }
}

impl ChildrenByWorker {
    pub(crate) fn assigned(&mut self, parent: RunId, child: RunId, worker: &WorkerId) {
        let children = self.by_parent.entry(parent).or_default();
        children.remove(child);
        let worker: Arc<str> = worker.name().into();
        *children.counts.entry(Arc::clone(&worker)).or_default() += 1;
        children.workers.insert(child, worker);
    }

    pub(crate) fn ended(&mut self, parent: RunId, child: RunId) {
        if let Some(children) = self.by_parent.get_mut(&parent) {
            children.remove(child);
            if children.workers.is_empty() {
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
        let count = |worker: &Present<'_>| children.counts.get(worker.id.name()).copied().unwrap_or(0);
        let fewest = workers.iter().map(count).min();
        workers.retain(|worker| Some(count(worker)) == fewest);
    }
}
