//! What all shards of a node share: the workers and the line of runs that wait for one.
//!
//! One thread applies all shards over one pool, so slots and priorities between shards are exact. A pool decides
//! who is next; the shard of that run carries the assignment out.

mod line;
mod roster;

use punctual_core::Timestamp;
use punctual_core::attempt::Order;
use punctual_core::ids::{RunId, ShardId, Token, WorkerId};

pub use line::Line;
pub use roster::{Held, Load, Present, Roster, Silence};

#[derive(Debug, Default)]
pub struct Pool {
    pub line: Line,
    pub roster: Roster,
    /// Live runs in the memory of all shards.
    pub live: usize,
    /// Reports that came under an outdated token.
    pub stale_reports: u64,
}

impl Pool {
    /// The next run to assign and the worker for it; none: nobody waits, or no slot is free.
    pub fn next_match(&mut self) -> Option<(RunId, WorkerId)> {
        let run = self.line.first()?;
        let worker = self.roster.least_loaded()?;
        self.line.pop_first();
        Some((run, worker))
    }

    /// Whether more runs wait than there are free slots: then some wait for an attempt to end.
    pub fn is_behind(&self) -> bool {
        !self.line.is_empty() && self.line.len() > self.roster.free()
    }

    /// What the workers are to be told about who waits here for their slots.
    pub fn tell_waiting(&mut self) -> Vec<(WorkerId, Order)> {
        let waits = (self.line.priority(), u32::try_from(self.line.len()).unwrap_or(u32::MAX >> 1));
        self.roster.tell_waiting(|_, _| waits)
    }

    /// Drops everything a shard has put here, because its memory is thrown away.
    pub fn forget(&mut self, shard: ShardId) {
        self.line.forget(shard);
        self.roster.forget(shard);
    }

    /// An attempt found running when its shard was loaded: it holds a slot of its worker, known or not.
    pub fn adopt(&mut self, worker: &WorkerId, run: RunId, token: Token, elapsed: Timestamp) {
        self.roster.adopt(worker, run, token, elapsed);
    }
}
