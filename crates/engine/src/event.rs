//! The events applied to a shard, and the effects it emits.

use punctual_core::Timestamp;
use punctual_core::attempt::{Order, Report};
use punctual_core::command::{Answer, Command, Refusal};
use punctual_core::cross_shard::CrossShardRequest;
use punctual_core::ids::{RunId, ShardId, Token, WorkerId};
use punctual_core::run::Lack;
use punctual_core::time::Elapsed;

use crate::Pool;
use crate::pool::Match;

/// Identifies the caller that an answer goes to. The shard only passes it on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

#[derive(Debug, Clone)]
pub enum Event {
    Command {
        ticket: Ticket,
        command: Command,
    },
    Report {
        worker: WorkerId,
        report: Report,
    },
    /// The worker of an attempt is considered dead.
    Lost {
        run: RunId,
        token: Token,
    },
    /// The worker of an attempt is connected. It may not have received the assignment, or reports to a former leader.
    OfferAgain {
        run: RunId,
    },
    /// A slot is free for this ready run.
    Assign(Match),
    /// Workers came or left. `lack` says why no worker fits this ready run; `None` means that one fits.
    Fits {
        run: RunId,
        lack: Option<Lack>,
    },
    /// Time has passed: handles at most `limit` timers.
    Tick {
        limit: usize,
    },
}

impl Event {
    /// Whether this is a command on a queue.
    pub fn is_of_queue(&self) -> bool {
        matches!(self, Event::Command { command: Command::Queue(_), .. })
    }
}

/// A visible result. It is released once every batch applied before it is committed.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    Answer {
        ticket: Ticket,
        answer: Result<Answer, Refusal>,
    },
    Order {
        worker: WorkerId,
        order: Order,
    },
    /// A request between a run and a queue, which may belong to different shards.
    CrossShard(CrossShardRequest),
}

/// What an event is applied with. An effect is kept with its shard: if that shard's batch is refused, it is dropped.
#[derive(Debug)]
pub struct Context<'a> {
    /// Decides what is due. It never runs back: while a clock that was set back catches up, it stands still.
    pub now: Timestamp,
    /// Measures durations (timeouts, retry delays, missed heartbeats). It follows the monotonic clock, so a change of
    /// the wall clock does not affect it.
    pub elapsed: Elapsed,
    pub shard: ShardId,
    pub pool: &'a mut Pool,
    pub effects: &'a mut Vec<(ShardId, Effect)>,
}

impl Context<'_> {
    /// Converts an instant of `now` to elapsed time.
    pub(crate) fn elapsed_at(&self, instant: Timestamp) -> Elapsed {
        self.elapsed + instant.since(self.now)
    }

    pub(crate) fn answer(&mut self, ticket: Ticket, answer: Result<Answer, Refusal>) {
        self.effects.push((self.shard, Effect::Answer { ticket, answer }));
    }

    pub(crate) fn order(&mut self, worker: WorkerId, order: Order) {
        self.effects.push((self.shard, Effect::Order { worker, order }));
    }

    pub(crate) fn cross_shard(&mut self, request: CrossShardRequest) {
        self.effects.push((self.shard, Effect::CrossShard(request)));
    }
}
