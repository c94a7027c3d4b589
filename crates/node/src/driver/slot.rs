//! A shard's place in a node: whether it is led here, and what waits for it.

use std::collections::VecDeque;

use punctual_core::Timestamp;
use punctual_core::ids::{Epoch, SessionId, ShardId};
use punctual_core::queue::QueueNumber;
use punctual_engine::{Event, Shard};

use super::Waiting;
use crate::handle::Failure;

#[derive(Debug)]
pub(super) struct Slot {
    pub(super) id: ShardId,
    pub(super) standing: Standing,
    /// The epoch in which it was last led, here or, as far as we saw, elsewhere.
    pub(super) epoch: Option<Epoch>,
    /// It is being handed over: nothing more is applied, and it goes when what was applied is durable.
    pub(super) leaving: Option<Leaving>,
    /// When the shard has something due, known without asking it.
    pub(super) wake: Option<Timestamp>,
    /// When something in it has lasted too long, by elapsed time.
    pub(super) deadline: Option<Timestamp>,
    /// Commands that wait for rows or for a leader, in order.
    pub(super) commands: VecDeque<Waiting>,
    /// What workers said while nobody led the shard, or while the time was not known.
    pub(super) backlog: Vec<Event>,
    /// The page that is being read.
    pub(super) paging: Option<u64>,
    /// Pages of lines that are being read: the read, the queue, and how many were asked for.
    pub(super) backlogs: Vec<(u64, QueueNumber, usize)>,
    /// A page could not be read: when to ask for it again.
    pub(super) page_again_at: Option<Timestamp>,
}

#[derive(Debug)]
pub(super) enum Standing {
    /// Not yet asked for.
    Away,
    /// Led by another node or by nobody, and not claimed before then.
    Elsewhere {
        until: Timestamp,
    },
    Acquiring,
    Loading,
    Leading(Box<Shard>),
    /// Tried again later, because the store was full, out of reach, or had another leader.
    Resting {
        until: Timestamp,
        next: Next,
        full: bool,
    },
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Next {
    Acquire,
    Load(Epoch),
}

/// To whom a shard is left; none: to whoever comes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Leaving {
    pub(super) heir: Option<SessionId>,
}

impl Slot {
    pub(super) fn new(id: ShardId, standing: Standing) -> Self {
        Slot {
            id,
            standing,
            epoch: None,
            leaving: None,
            wake: None,
            deadline: None,
            commands: VecDeque::new(),
            backlog: Vec::new(),
            paging: None,
            backlogs: Vec::new(),
            page_again_at: None,
        }
    }

    /// Notes when the shard wants to be looked at next.
    pub(super) fn note_wake(&mut self) {
        (self.wake, self.deadline) = match &self.standing {
            Standing::Leading(shard) => (shard.next_due(), shard.next_deadline()),
            _ => (None, None),
        };
    }

    pub(super) fn is_leading(&self) -> bool {
        matches!(self.standing, Standing::Leading(_)) && self.leaving.is_none()
    }

    /// Whether it may be claimed.
    pub(super) fn is_free(&self, elapsed: Timestamp) -> bool {
        matches!(self.standing, Standing::Elsewhere { until } if until <= elapsed)
    }

    pub(super) fn is_elsewhere(&self) -> bool {
        matches!(self.standing, Standing::Elsewhere { .. })
    }
}

pub(super) fn not_led() -> Failure {
    Failure::NotLed("its shard is led by another node; try again".to_owned())
}

pub(super) fn unsaid() -> Failure {
    Failure::Unavailable(
        "its shard went to another node before it could be answered, so it may have happened or not; look before you \
         try again"
            .to_owned(),
    )
}

pub(super) fn full() -> Failure {
    Failure::Full("the store has no room: nothing was written; free some space and try again".to_owned())
}
