//! One leader per epoch: the node that acquired an epoch is the only one that commits or sends effects in it, and no node
//! sends effects after its lease.

use std::collections::BTreeMap;

use punctual_core::ids::{Epoch, ShardId};

use super::{Seen, Verdict};

/// One process of a node or worker.
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
    /// The end of each node's lease, in true time.
    leases: BTreeMap<Life, u64>,
}

impl Leaders {
    /// A node has acquired a shard. `None` means a leader from outside has.
    pub(crate) fn acquired(
        &mut self,
        by: Option<Life>,
        shard: ShardId,
        epoch: Epoch,
        seen: &mut Seen,
    ) -> Verdict {
        let before = self.newest.insert(shard, (epoch, by));
        if before.is_some_and(|(newest, _)| newest >= epoch) {
            return Err(format!("one leader per epoch: shard {shard} was acquired again in epoch {epoch}"));
        }
        let Some(by) = by else { return Ok(()) };
        seen.takeovers +=
            u64::from(before.is_some_and(|(_, last)| last.is_some_and(|last| last.index != by.index)));
        match self.acquired.insert((shard, epoch), by) {
            Some(other) => {
                Err(format!("one leader per epoch: {other:?} and {by:?} have shard {shard} in {epoch}"))
            }
            None => Ok(()),
        }
    }

    /// A node has committed in an epoch.
    pub(crate) fn wrote(&self, by: Life, shard: ShardId, epoch: Epoch) -> Verdict {
        match self.acquired.get(&(shard, epoch)) {
            Some(leader) if *leader == by => Ok(()),
            other => Err(format!(
                "one leader per epoch: {by:?} wrote to shard {shard} in {epoch}, which belongs to {other:?}"
            )),
        }
    }

    /// Whether the shard has a newer epoch.
    pub(crate) fn is_outdated(&self, shard: ShardId, epoch: Epoch) -> bool {
        self.newest.get(&shard).is_some_and(|(newest, _)| *newest > epoch)
    }

    pub(crate) fn renewed(&mut self, by: Life, until: u64) {
        self.leases.insert(by, until);
    }

    pub(crate) fn holds(&self, by: Life, time: u64) -> bool {
        self.leases.get(&by).is_some_and(|until| time <= *until)
    }

    /// A node sends an effect: it must own the last epoch that it acquired, and its lease must be valid. `grant` is the
    /// extra time that a slow clock adds to a lease.
    pub(crate) fn spoke(&mut self, by: Life, shard: ShardId, epoch: Epoch, time: u64, grant: u64) -> Verdict {
        if let Some(other) = self.spoke.insert((shard, epoch), by).filter(|other| *other != by) {
            return Err(format!(
                "one leader per epoch: {other:?} and {by:?} send effects of shard {shard} in {epoch}"
            ));
        }
        match self.leases.get(&by) {
            Some(until) if time <= *until + grant => Ok(()),
            until => {
                Err(format!("{by:?} sent an effect of shard {shard} at {time}, after its lease ({until:?})"))
            }
        }
    }
}
