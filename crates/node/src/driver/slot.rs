//! A shard's place in a node: whether it is led here, and what waits for it.

use std::collections::VecDeque;

use punctual_core::Timestamp;
use punctual_core::ids::{Epoch, ShardId};
use punctual_engine::{Event, Shard};

use super::Waiting;
use crate::handle::Failure;

#[derive(Debug)]
pub(super) struct Slot {
    pub(super) id: ShardId,
    pub(super) standing: Standing,
    /// When the shard has something due, known without asking it.
    pub(super) wake: Option<Timestamp>,
    /// When something in it has lasted too long, by elapsed time.
    pub(super) deadline: Option<Timestamp>,
    /// Commands that wait for rows or for a leader, in order.
    pub(super) commands: VecDeque<Waiting>,
    /// What workers said while nobody led the shard.
    pub(super) backlog: Vec<Event>,
    /// The page that is being read.
    pub(super) paging: Option<u64>,
    /// A page could not be read: when to ask for it again.
    pub(super) page_again_at: Option<Timestamp>,
}

#[derive(Debug)]
pub(super) enum Standing {
    /// Not yet asked for.
    Away,
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

impl Slot {
    pub(super) fn new(id: ShardId) -> Self {
        Slot {
            id,
            standing: Standing::Away,
            wake: None,
            deadline: None,
            commands: VecDeque::new(),
            backlog: Vec::new(),
            paging: None,
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
        matches!(self.standing, Standing::Leading(_))
    }
}

pub(super) fn full() -> Failure {
    Failure::Full("the store has no room: nothing was written; free some space and try again".to_owned())
}
