//! One leader an epoch: who acquired it, who writes in it, who speaks in it; and nobody speaks after its lease.

use std::collections::BTreeMap;

use punctual_core::ids::{Epoch, ShardId};

use super::{Seen, Verdict};

/// One life of one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Life {
    pub(crate) index: usize,
    pub(crate) life: u32,
}

#[derive(Debug, Default)]
pub(crate) struct Leaders {
    acquired: BTreeMap<(ShardId, Epoch), Life>,
    spoke: BTreeMap<(ShardId, Epoch), Life>,
    newest: BTreeMap<ShardId, (Epoch, Option<Life>)>,
    /// Until when, in true time, nobody may take a node for dead.
    leases: BTreeMap<Life, u64>,
}

impl Leaders {
    /// A node was given a shard; none: by someone from outside.
    pub(crate) fn acquired(
        &mut self,
        by: Option<Life>,
        shard: ShardId,
        epoch: Epoch,
        seen: &mut Seen,
    ) -> Verdict {
        let before = self.newest.insert(shard, (epoch, by));
        if before.is_some_and(|(newest, _)| newest >= epoch) {
            return Err(format!("one leader an epoch: shard {shard} was given away again in epoch {epoch}"));
        }
        let Some(by) = by else { return Ok(()) };
        seen.takeovers +=
            u64::from(before.is_some_and(|(_, last)| last.is_some_and(|last| last.index != by.index)));
        match self.acquired.insert((shard, epoch), by) {
            Some(other) => {
                Err(format!("one leader an epoch: {other:?} and {by:?} have shard {shard} in {epoch}"))
            }
            None => Ok(()),
        }
    }

    /// A node has written in an epoch.
    pub(crate) fn wrote(&self, by: Life, shard: ShardId, epoch: Epoch) -> Verdict {
        match self.acquired.get(&(shard, epoch)) {
            Some(leader) if *leader == by => Ok(()),
            other => Err(format!(
                "one leader an epoch: {by:?} wrote to shard {shard} in {epoch}, which is {other:?}'s"
            )),
        }
    }

    /// Somebody leads a shard in a newer epoch.
    pub(crate) fn is_outdated(&self, shard: ShardId, epoch: Epoch) -> bool {
        self.newest.get(&shard).is_some_and(|(newest, _)| *newest > epoch)
    }

    pub(crate) fn renewed(&mut self, by: Life, until: u64) {
        self.leases.insert(by, until);
    }

    pub(crate) fn holds(&self, by: Life, time: u64) -> bool {
        self.leases.get(&by).is_some_and(|until| time <= *until)
    }

    /// An effect leaves: the last epoch that this node was given is its own, and its lease holds. A clock that runs
    /// slow makes a lease longer, so much is granted.
    pub(crate) fn spoke(&mut self, by: Life, shard: ShardId, epoch: Epoch, time: u64, grant: u64) -> Verdict {
        if let Some(other) = self.spoke.insert((shard, epoch), by).filter(|other| *other != by) {
            return Err(format!(
                "one leader an epoch: {other:?} and {by:?} speak for shard {shard} in {epoch}"
            ));
        }
        match self.leases.get(&by) {
            Some(until) if time <= *until + grant => Ok(()),
            until => Err(format!("{by:?} spoke for shard {shard} at {time}, after its lease ({until:?})")),
        }
    }
}
