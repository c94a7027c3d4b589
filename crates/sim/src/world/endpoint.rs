//! Endpoints: a client sends a command to any node, which applies it or forwards it to the leader, within a time limit.
//!
//! This is `node::forward` on a network that loses messages. A client that gets no answer, or "unknown", sends its command
//! again if the command is idempotent.

use std::collections::BTreeMap;

use punctual_core::Timestamp;
use punctual_core::command::{Answer, Command};
use punctual_core::ids::ShardId;
use punctual_engine::Ticket;
use punctual_node::driver::Leader;
use punctual_node::{Driver, Failure, Input};

use super::World;
use super::events::{Asker, Happening, Request, Told};
use super::node::Node;
use super::queues::Heard;
use crate::witness::{Life, Scene};
use crate::workload::Known;

/// How long an endpoint looks for the leader of a command.
const PATIENCE: u64 = 5_000;
/// The pause before a leader is looked for again.
const AGAIN: u64 = 200;

#[derive(Debug, Default)]
pub(super) struct Endpoints {
    next: u64,
    /// Commands that a node has accepted and not answered.
    waiting: BTreeMap<Ticket, (Life, Request)>,
    /// The last waiter number.
    waiters: u64,
}

impl Endpoints {
    pub(super) fn ticket(&mut self) -> Ticket {
        self.next += 1;
        Ticket(self.next)
    }

    pub(super) fn waiter(&mut self) -> u64 {
        self.waiters += 1;
        self.waiters
    }

    pub(super) fn is_waiting(&self, ticket: Ticket) -> bool {
        self.waiting.contains_key(&ticket)
    }

    pub(super) fn shard_of(&self, ticket: Ticket, shards: u16) -> Option<ShardId> {
        self.waiting.get(&ticket).map(|(_, request)| request.command.shard(shards))
    }
}

impl World {
    pub(super) fn people_ask(&mut self) {
        if !self.stormy {
            return;
        }
        self.people_ask_once();
        let next = self.dice.below(self.weather.ask_gap);
        self.later(next, Happening::Ask);
    }

    fn people_ask_once(&mut self) {
        let runs = self.witness.runs.newest(30);
        let (workflows, running) = (self.witness.ended_workflows(10), self.witness.running_workflows(10));
        let (awaited, now) = (self.witness.awaited_events(), self.clock());
        let known = Known { runs: &runs, workflows: &workflows, running: &running, awaited: &awaited, now };
        let command = self.people.ask(Ticket(self.endpoints.next + 1), known, &mut self.dice);
        self.ask(command);
    }

    /// Users and producers who waited for the store send commands at once.
    pub(super) fn ask_after_outage(&mut self) {
        if self.stormy {
            self.people_ask_once();
            self.produce_once();
        }
    }

    /// A user sends a command to any running node.
    pub(crate) fn ask(&mut self, command: Command) {
        let ticket = self.endpoints.ticket();
        let there = self.nodes_up();
        let Some(endpoint) = self.dice.pick(&there).copied() else { return };
        self.send_request(Request {
            command,
            ticket: Some(ticket),
            endpoint,
            until: 0,
            asker: Asker::People,
        });
    }

    pub(super) fn nodes_up(&self) -> Vec<Life> {
        self.nodes.iter().filter(|node| node.driver.is_some()).map(Node::now).collect()
    }

    /// A producer or consumer sends a command to a node.
    pub(super) fn ask_at(&mut self, endpoint: Life, command: Command, asker: Asker) {
        let ticket = Some(self.endpoints.ticket());
        self.send_request(Request { command, ticket, endpoint, until: 0, asker });
    }

    fn send_request(&mut self, request: Request) {
        let (endpoint, until) = (request.endpoint, self.time + PATIENCE);
        self.tell(endpoint, Told::Asked(Request { until, ..request }));
    }

    pub(super) fn asked_at(&mut self, index: usize, request: Request) {
        let shard = request.command.shard(self.size.shards);
        let leader = self.nodes[index].driver.as_ref().map(|driver| driver.leader(shard));
        match leader {
            Some(Leader::Here) => self.take_up(index, request),
            Some(Leader::Session(session)) => {
                let is_leader =
                    |node: &&Node| node.session.as_ref().is_some_and(|theirs| theirs.id == session);
                let leader = self.nodes.iter().find(is_leader).map(Node::now);
                match leader.filter(|leader| !self.is_cut(index, leader.index)) {
                    Some(leader) => self.forward(leader, request),
                    None => self.try_again(request),
                }
            }
            Some(Leader::Nobody) | None => self.try_again(request),
        }
    }

    fn forward(&mut self, to: Life, request: Request) {
        self.witness.seen.forwarded += 1;
        let delay = self.dice.below(5);
        self.later(delay, Happening::Node(to, Told::Forwarded(request)));
    }

    pub(super) fn forwarded_to(&mut self, index: usize, request: Request) {
        let shard = request.command.shard(self.size.shards);
        if self.nodes[index].is_led_elsewhere(shard) {
            return self.try_again(request);
        }
        self.take_up(index, request);
    }

    fn take_up(&mut self, index: usize, mut request: Request) {
        let ticket = request.ticket.take().unwrap_or_else(|| self.endpoints.ticket());
        let command = request.command.clone();
        let scene = self.scene(index, Some(command.shard(self.size.shards)));
        self.witness.asked(ticket, &command, scene);
        self.limit_waiting(index, ticket, &request);
        self.endpoints.waiting.insert(ticket, (self.nodes[index].now(), request));
        self.step(index, Input::Command { ticket, command });
    }

    /// The command had no effect at that node: the endpoint looks for the leader again.
    fn try_again(&mut self, request: Request) {
        if self.time + AGAIN < request.until {
            let endpoint = request.endpoint;
            self.later(AGAIN, Happening::Node(endpoint, Told::Asked(request)));
        } else {
            self.hears(request.command, request.asker, &Heard::Nothing);
        }
    }

    /// The state of a node when it accepts or answers a command.
    fn scene(&self, index: usize, shard: Option<ShardId>) -> Scene {
        let node = &self.nodes[index];
        let now = node.driver.as_ref().map_or(Timestamp::MIN, Driver::now);
        let is_outdated = shard.is_some_and(|shard| self.is_outdated(index, shard));
        Scene { by: node.now(), now, time: self.time, earliest: self.earliest(), is_outdated }
    }

    pub(super) fn answer(&mut self, index: usize, ticket: Ticket, answer: &Result<Answer, Failure>) {
        let scene = self.scene(index, self.endpoints.shard_of(ticket, self.size.shards));
        let verdict = self.witness.answered(ticket, answer, scene);
        self.witnessed(verdict);
        let Some((_, mut request)) = self.endpoints.waiting.remove(&ticket) else { return };
        let is_lost = index != request.endpoint.index
            && (self.is_cut(index, request.endpoint.index)
                || (self.stormy && self.dice.one_in(self.weather.message_trouble)));
        match answer {
            _ if is_lost => self.unanswered(request),
            Err(Failure::NotLed(_)) => {
                // The command had no effect, so it keeps its ticket: if it has two effects, the witness finds that.
                request.ticket = Some(ticket);
                self.try_again(request);
            }
            Err(Failure::Unavailable(_) | Failure::Unknown(_)) => self.unanswered(request),
            Ok(answer) => self.hears(request.command, request.asker, &Heard::Said(answer)),
            Err(Failure::Refused(refusal)) => {
                self.hears(request.command, request.asker, &Heard::Refused(refusal));
            }
            Err(Failure::Full(_)) => self.hears(request.command, request.asker, &Heard::Nothing),
        }
    }

    /// The client does not learn whether its command took effect.
    pub(super) fn unanswered(&mut self, request: Request) {
        let Asker::People = request.asker else {
            return self.hears(request.command, request.asker, &Heard::Unknown);
        };
        if request.command.is_repeatable() {
            let delay = self.dice.below(4_000);
            self.later(delay, Happening::Repeat(request.command));
        }
    }

    /// The node has gone: it will not answer the commands that it has accepted.
    pub(super) fn fail_waiting(&mut self, by: Life) {
        let theirs: Vec<Ticket> = self
            .endpoints
            .waiting
            .iter()
            .filter(|(_, (at, _))| *at == by)
            .map(|(ticket, _)| *ticket)
            .collect();
        for ticket in theirs {
            self.witness.deliveries.unanswered(ticket);
            if let Some((_, request)) = self.endpoints.waiting.remove(&ticket) {
                self.unanswered(request);
            }
        }
    }
}
