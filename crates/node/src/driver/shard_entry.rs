//! The state of one shard in a node: whether this node leads it, and the commands and reports that wait for it.

use std::collections::VecDeque;

use punctual_core::Timestamp;
use punctual_core::attempt::Report;
use punctual_core::ids::{Epoch, SessionId, ShardId, WorkerId};
use punctual_core::queue::QueueNumber;
use punctual_core::time::Elapsed;
use punctual_engine::Shard;

use super::Waiting;
use crate::failure::Failure;

#[derive(Debug)]
pub(super) struct ShardEntry {
    pub(super) id: ShardId,
    pub(super) standing: Standing,
    /// The last known epoch of the shard, led by this node or another. `None` means no epoch is known yet.
    pub(super) epoch: Option<Epoch>,
    /// Set while the shard is being handed over: no more events are applied, and it is released once the applied ones
    /// are committed.
    pub(super) leaving: Option<Leaving>,
    /// The shard's next due time, cached. `None` means no timer is in memory.
    pub(super) wake: Option<Timestamp>,
    /// The shard's next deadline in elapsed time, cached.
    pub(super) deadline: Option<Elapsed>,
    /// Commands that wait for rows or for the shard to be loaded, in order.
    pub(super) commands: VecDeque<Waiting>,
    /// Reports that arrived while the shard was not loaded.
    pub(super) reports: Vec<(WorkerId, Report)>,
    /// The read of a timer page in progress.
    pub(super) paging: Option<u64>,
    /// Reads of queue pages in progress: the read, the queue, and the limit.
    pub(super) message_reads: Vec<(u64, QueueNumber, usize)>,
    /// When to retry a page that could not be read.
    pub(super) page_again_at: Option<Elapsed>,
}

#[derive(Debug)]
pub(super) enum Standing {
    /// Not requested yet.
    Away,
    /// Not led by this node, and not to be claimed before `until`.
    Elsewhere {
        until: Elapsed,
    },
    Acquiring,
    Loading,
    Leading(Box<Shard>),
    /// To be retried later, because the store was full or unreachable, or the shard had another leader.
    Resting {
        until: Elapsed,
        next: Next,
        full: bool,
    },
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Next {
    Acquire,
    Load(Epoch),
}

/// The node to hand the shard over to. `None` means any node may claim it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Leaving {
    pub(super) heir: Option<SessionId>,
}

impl ShardEntry {
    pub(super) fn new(id: ShardId, standing: Standing) -> Self {
        ShardEntry {
            id,
            standing,
            epoch: None,
            leaving: None,
            wake: None,
            deadline: None,
            commands: VecDeque::new(),
            reports: Vec::new(),
            paging: None,
            message_reads: Vec::new(),
            page_again_at: None,
        }
    }

    /// Caches when the shard wants to be called next.
    pub(super) fn note_wake(&mut self) {
        (self.wake, self.deadline) = match &self.standing {
            Standing::Leading(shard) => (shard.next_due(), shard.next_deadline()),
            _ => (None, None),
        };
    }

    pub(super) fn is_leading(&self) -> bool {
        matches!(self.standing, Standing::Leading(_)) && self.leaving.is_none()
    }

    /// Whether the shard may be claimed.
    pub(super) fn is_free(&self, elapsed: Elapsed) -> bool {
        matches!(self.standing, Standing::Elsewhere { until } if until <= elapsed)
    }

    pub(super) fn is_elsewhere(&self) -> bool {
        matches!(self.standing, Standing::Elsewhere { .. })
    }
}

pub(super) fn not_led() -> Failure {
    Failure::NotLed("another node leads its shard; try again".to_owned())
}

pub(super) fn answer_unknown() -> Failure {
    Failure::Unavailable(
        "its shard moved to another node before the answer, so the command may have taken effect; check before you \
         try again"
            .to_owned(),
    )
}

pub(super) fn full() -> Failure {
    Failure::Full("the store has no room: nothing was written; free some space and try again".to_owned())
}
