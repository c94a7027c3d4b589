//! Producers and consumers of queues. They send their requests to any endpoint. A consumer acknowledges a message, puts it
//! back, asks for more time, or never answers.
//!
//! A consumer waits as in `node::queues`: at the leader for as long as it wants, at another node for a moment, and then
//! it asks again. If a consumer has gone when its message arrives, the message is returned, or the endpoint does not notice.

use std::time::Duration;

use punctual_core::command::{Answer, Command, Refusal};
use punctual_core::name::Namespace;
use punctual_core::queue::{Ask, Delivered, MessageId, Said, Take, Verb};
use punctual_engine::Ticket;

use super::World;
use super::events::{Asker, Happening, Request, Taker, Told, Turn};
use crate::traffic::{self, Deed, What, Wish};

/// How long a consumer waits at another node before it asks again.
const POLL: u64 = 2_200;
/// The pause before a queue that could not be asked is tried again.
const AGAIN: u64 = 200;
/// How often an idempotent request is tried.
const TRIES: u32 = 8;
/// How often starving consumers are looked for, once all faults have ended.
const LOOK_EVERY: u64 = 1_000;

/// Messages that are added one at a time once all faults have ended: waiting consumers must get them.
const ADDS_IN_CALM: u32 = 30;
const ADD_EVERY: u64 = 1_700;

/// The answer to a command.
#[derive(Debug)]
pub(super) enum Heard<'a> {
    Said(&'a Answer),
    Refused(&'a Refusal),
    /// The command had no effect.
    Nothing,
    /// Whether the command took effect is unknown.
    Unknown,
}

impl World {
    pub(super) fn begin_traffic(&mut self) {
        let Some(traffic) = &self.traffic else { return };
        let (consumers, set) = (traffic.consumers, traffic.set());
        for index in 0..consumers {
            self.later(100, Happening::Queue(Turn::Consume(index)));
        }
        self.later(100, Happening::Queue(Turn::Produce));
        if let Some(ask) = set {
            self.later(100, Happening::Queue(Turn::Ask(ask, TRIES)));
        }
    }

    /// From now on, looks for starving consumers, and adds messages for them.
    pub(crate) fn begin_starvation_checks(&mut self) {
        if self.traffic.is_some() {
            self.later(LOOK_EVERY, Happening::Queue(Turn::Look));
            self.later(ADD_EVERY, Happening::Queue(Turn::Add(ADDS_IN_CALM)));
        }
    }

    pub(super) fn take_turn(&mut self, turn: Turn) {
        match turn {
            Turn::Produce => self.produce(),
            Turn::Add(left) => self.add_in_calm(left),
            Turn::Consume(index) => self.consume(index),
            Turn::Take(taker) => self.take_from(taker),
            Turn::Do(id, what) => self.do_to(id, what),
            Turn::Ask(ask, tries) => self.ask_queue(ask, Asker::Client(tries)),
            Turn::Look => {
                let verdict = self.witness.deliveries.no_consumer_starves(self.time);
                self.witnessed(verdict);
                self.later(LOOK_EVERY, Happening::Queue(Turn::Look));
            }
        }
    }

    fn produce(&mut self) {
        let Some(traffic) = self.traffic.as_mut().filter(|_| self.stormy) else { return };
        let gap = traffic.gap();
        self.produce_once();
        self.later(gap, Happening::Queue(Turn::Produce));
    }

    fn add_in_calm(&mut self, left: u32) {
        let Some(traffic) = self.traffic.as_mut().filter(|_| left > 0) else { return };
        let ask = traffic.add_plain();
        self.ask_queue(ask, Asker::Client(TRIES));
        self.later(ADD_EVERY, Happening::Queue(Turn::Add(left - 1)));
    }

    pub(super) fn produce_once(&mut self) {
        let time = self.time;
        let Some(traffic) = &mut self.traffic else { return };
        let ask = traffic.produce(time);
        self.ask_queue(ask, Asker::Client(TRIES));
    }

    fn consume(&mut self, index: usize) {
        let time = self.time;
        let Some(traffic) = self.traffic.as_mut().filter(|traffic| traffic.is_open) else { return };
        let wish = traffic.wish(time);
        let until = time + wish.wait.unwrap_or(0);
        self.take_from(Taker { index, wish, until });
    }

    fn take_from(&mut self, taker: Taker) {
        let Wish { queue, count, wait } = taker.wish.clone();
        let waiter = wait.map(|_| self.endpoints.waiter());
        self.ask_queue(Ask::Take(Take { queue, count, waiter }), Asker::Taker(taker));
    }

    fn do_to(&mut self, id: MessageId, what: What) {
        let ask = match what {
            What::Vanish => return,
            What::Act(verb) => traffic::act(verb, vec![id]),
            What::Work => Ask::Working { namespace: Namespace::default(), id },
        };
        self.ask_queue(ask, Asker::Client(TRIES));
        if let What::Work = what {
            self.decide(id);
        }
    }

    /// A consumer decides what it does with a message.
    fn decide(&mut self, id: MessageId) {
        let stormy = self.stormy;
        let Some(traffic) = &mut self.traffic else { return };
        let Deed { after, what } = traffic.deed(stormy);
        self.later(after, Happening::Queue(Turn::Do(id, what)));
    }

    fn ask_queue(&mut self, ask: Ask, asker: Asker) {
        let (there, command) = (self.nodes_up(), Command::Queue(ask));
        let endpoint = self.traffic.as_mut().and_then(|traffic| traffic.dice.pick(&there).copied());
        match endpoint {
            Some(endpoint) => self.ask_at(endpoint, command, asker),
            None => self.hears(command, asker, &Heard::Nothing),
        }
    }

    /// A node has accepted a consumer that waits: limits the wait.
    pub(super) fn limit_waiting(&mut self, index: usize, ticket: Ticket, request: &Request) {
        let (Command::Queue(Ask::Take(Take { queue, waiter: Some(waiter), .. })), Asker::Taker(taker)) =
            (&request.command, &request.asker)
        else {
            return;
        };
        let left = taker.until.saturating_sub(self.time);
        let span = if index == request.endpoint.index { left } else { left.min(POLL) };
        let unwait = Ask::Unwait { queue: queue.clone(), waiter: *waiter };
        let life = self.nodes[index].now();
        self.later(span, Happening::Node(life, Told::WaitedEnough(ticket, unwait)));
    }

    pub(super) fn waited_enough(&mut self, index: usize, ticket: Ticket, unwait: Ask) {
        if self.endpoints.is_waiting(ticket) {
            let endpoint = self.nodes[index].now();
            // The endpoint repeats this request if it is lost, else the leader would keep a consumer that has gone.
            self.ask_at(endpoint, Command::Queue(unwait), Asker::Client(TRIES));
        }
    }

    pub(super) fn hears(&mut self, command: Command, asker: Asker, heard: &Heard<'_>) {
        match asker {
            Asker::People => {}
            Asker::Taker(taker) => self.taker_hears(taker, heard),
            Asker::Owner(owner, wish) => self.owner_hears(owner, wish, heard),
            Asker::Courier(running) => match heard {
                Heard::Said(answer) => self.courier_hears(*running, Ok((*answer).clone())),
                Heard::Refused(refusal) => self.courier_hears(*running, Err((*refusal).clone())),
                Heard::Nothing | Heard::Unknown => self.begin_again(*running),
            },
            Asker::Client(tries) => {
                let Command::Queue(ask) = command else { return };
                let is_worth_it = match heard {
                    Heard::Said(_) => false,
                    Heard::Nothing | Heard::Refused(_) => true,
                    Heard::Unknown => ask.is_repeatable(),
                };
                if is_worth_it && tries > 0 {
                    self.later(AGAIN * 5, Happening::Queue(Turn::Ask(ask, tries - 1)));
                }
            }
        }
    }

    fn taker_hears(&mut self, taker: Taker, heard: &Heard<'_>) {
        let taken: &[Delivered] = match heard {
            Heard::Said(Answer::Queue(Said::Taken(taken))) => taken,
            _ => &[],
        };
        let is_over = taker.wish.wait.is_none() || self.time >= taker.until;
        if taken.is_empty() && !is_over {
            let pause = if matches!(heard, Heard::Said(_)) { 1 } else { AGAIN };
            return self.later(pause, Happening::Queue(Turn::Take(taker)));
        }
        self.receive(taken);
        let rest = self.traffic.as_mut().map_or(0, traffic::Traffic::rest);
        self.later(rest, Happening::Queue(Turn::Consume(taker.index)));
    }

    fn receive(&mut self, taken: &[Delivered]) {
        let stormy = self.stormy;
        let Some(traffic) = self.traffic.as_mut().filter(|_| !taken.is_empty()) else { return };
        if stormy && traffic.dice.one_in(15) {
            // The consumer has gone meanwhile. Its endpoint notices in two cases of three.
            if !traffic.dice.one_in(3) {
                let ids = taken.iter().map(|delivered| delivered.id).collect();
                self.ask_queue(traffic::act(Verb::Return, ids), Asker::Client(0));
            }
            return;
        }
        for delivered in taken {
            let verdict = self.witness.deliveries.reached(delivered.id.number);
            self.witnessed(verdict);
            self.decide(delivered.id);
        }
    }

    /// Lets consumers continue as long as their queues become shorter.
    pub(crate) fn empty_queues(&mut self, turn: Duration) {
        let (mut before, mut left) = (usize::MAX, self.witness.queued());
        while 0 < left && left < before {
            self.run_for(turn);
            (before, left) = (left, self.witness.queued());
        }
    }

    /// Stops the consumers.
    pub(crate) fn close_traffic(&mut self) {
        if let Some(traffic) = &mut self.traffic {
            traffic.is_open = false;
        }
    }

    /// Nothing is in flight any more: asks every queue for its counts.
    pub(crate) fn count_queues(&mut self) {
        if self.traffic.is_some() {
            self.witness.deliveries.all_is_quiet();
            for queue in traffic::queues() {
                self.ask_queue(Ask::Stat { queue }, Asker::Client(TRIES));
            }
        }
    }
}
