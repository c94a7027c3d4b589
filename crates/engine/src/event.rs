//! What reaches a shard, and what leaves it.

use punctual_core::Timestamp;
use punctual_core::attempt::{Order, Report};
use punctual_core::command::{Answer, Command, Refusal};
use punctual_core::ids::{RunId, ShardId, Token, WorkerId};
use punctual_core::queue::Errand;
use punctual_core::run::Lack;

use crate::Pool;
use crate::pool::Match;

/// Whom an answer goes to. The shard only hands it back.
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
    /// The worker of an attempt is given up.
    Lost {
        run: RunId,
        token: Token,
    },
    /// The worker of an attempt is here, and may not have heard of it.
    OfferAgain {
        run: RunId,
    },
    /// A slot is free for this ready run.
    Assign(Match),
    /// A worker that fits this ready run has come, or none fits it, and this is why.
    Fits {
        run: RunId,
        lack: Option<Lack>,
    },
    /// Time has passed: at most `limit` timers are acted upon.
    Tick {
        limit: usize,
    },
}

impl Event {
    /// Whether somebody asks something of a queue.
    pub fn is_of_queue(&self) -> bool {
        matches!(self, Event::Command { command: Command::Queue(_), .. })
    }
}

/// What the world may see, once the commit of everything before it is durable.
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
    /// Something to be done between a run and a queue.
    Errand(Errand),
}

/// What an event is applied with. An effect is noted under the shard that it belongs to: if that shard's batch is
/// refused, its effects are never seen.
#[derive(Debug)]
pub struct Context<'a> {
    /// What is due is due by this. It never runs back, and stands still while a clock that was set back catches up.
    pub now: Timestamp,
    /// What lasts (a timeout, a retry's delay, a silence) lasts by this: it goes on at its own pace whatever is done
    /// to the clock.
    pub elapsed: Timestamp,
    pub shard: ShardId,
    pub pool: &'a mut Pool,
    pub effects: &'a mut Vec<(ShardId, Effect)>,
}

impl Context<'_> {
    /// When as much time has passed as lies between now and an instant.
    pub(crate) fn elapsed_at(&self, instant: Timestamp) -> Timestamp {
        self.elapsed + instant.since(self.now)
    }

    pub(crate) fn answer(&mut self, ticket: Ticket, answer: Result<Answer, Refusal>) {
        self.effects.push((self.shard, Effect::Answer { ticket, answer }));
    }

    pub(crate) fn order(&mut self, worker: WorkerId, order: Order) {
        self.effects.push((self.shard, Effect::Order { worker, order }));
    }

    pub(crate) fn errand(&mut self, errand: Errand) {
        self.effects.push((self.shard, Effect::Errand(errand)));
    }
}
