//! Where the children of a run are, so that the next one goes to a worker that has few of them.
//!
//! It is memory only, told by the shards: a shard that is loaded again tells it anew.

use std::sync::Arc;

use punctual_core::ids::{RunId, ShardId, WorkerId};
use rustc_hash::FxHashMap;

use super::roster::Present;

#[derive(Debug, Default)]
pub struct Spread {
    /// The children of a parent that are in the hand of a worker, with its name.
    in_hand: FxHashMap<RunId, FxHashMap<RunId, Arc<str>>>,
}

impl Spread {
    pub(crate) fn went(&mut self, parent: RunId, child: RunId, worker: &WorkerId) {
        self.in_hand.entry(parent).or_default().insert(child, Arc::from(worker.name()));
    }

    pub(crate) fn left(&mut self, parent: RunId, child: RunId) {
        if let Some(children) = self.in_hand.get_mut(&parent) {
            children.remove(&child);
            if children.is_empty() {
                self.in_hand.remove(&parent);
            }
        }
    }

    pub(super) fn forget(&mut self, shard: ShardId) {
        self.in_hand.retain(|parent, _| parent.shard() != shard);
    }

    /// Of the workers with a free slot, leaves those that have the fewest children of this parent.
    pub(super) fn thin_out(&self, parent: RunId, workers: &mut Vec<Present<'_>>) {
        workers.retain(|worker| worker.free > 0);
        let Some(children) = self.in_hand.get(&parent) else { return };
        let mut counts: FxHashMap<&str, usize> = FxHashMap::default();
        for name in children.values() {
            *counts.entry(name).or_default() += 1;
        }
        let count = |worker: &Present<'_>| counts.get(worker.id.name()).copied().unwrap_or(0);
        let fewest = workers.iter().map(count).min();
        workers.retain(|worker| Some(count(worker)) == fewest);
    }
}
