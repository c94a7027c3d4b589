//! The courier of each node: carries requests between shards, over the same network as the commands of users.
//!
//! It is `node::courier` with the same exchanges. An answer that is lost starts the exchange anew; a node that dies forgets
//! its exchanges, and the next leader of the shard begins them again.

use punctual_core::alert::Notification;
use punctual_core::command::{Answer, Refusal};
use punctual_core::cross_shard::{CrossShardRequest, Exchange, Next, Subject};

use super::World;
use super::events::{Asker, Happening};
use crate::witness::Life;

/// The pause before an exchange is started anew.
const AGAIN: u64 = 1_000;

/// An exchange, and the node that runs it.
#[derive(Debug)]
pub(super) struct Running {
    by: Life,
    request: CrossShardRequest,
    exchange: Exchange,
}

impl World {
    /// A node begins a request, unless it is dead or no longer leads the shard that it came from.
    pub(super) fn begin_exchange(&mut self, by: Life, request: CrossShardRequest) {
        let node = &self.nodes[by.index];
        if node.now() != by || node.driver.is_none() || node.is_led_elsewhere(request.subject().shard()) {
            return;
        }
        let mut exchange = Exchange::new(request.clone());
        let next = exchange.begin(self.clock());
        self.go_on(Running { by, request, exchange }, next);
    }

    fn go_on(&mut self, running: Running, next: Next) {
        match next {
            Next::Ask(command) => self.ask_at(running.by, *command, Asker::Courier(Box::new(running))),
            Next::Send(notification) => self.notify_people(running, &notification),
            Next::Done => self.witness.seen.exchanges += 1,
            Next::Refused(_) => self.begin_again(running),
            Next::Unexpected(answer) => {
                self.witnessed(Err(format!("a courier got the answer {answer:?} to {:?}", running.request)));
            }
        }
    }

    /// The channel of a notification is away now and then. A receiver that got it is asked again if the node does not hear
    /// of it.
    fn notify_people(&mut self, mut running: Running, notification: &Notification) {
        let Subject::Notice(number) = running.request.subject() else { return };
        if self.dice.one_in(3) {
            return self.begin_again(running);
        }
        let verdict = self.witness.incidents.received(number, notification);
        self.witnessed(verdict);
        if self.dice.one_in(4) {
            return self.begin_again(running);
        }
        let next = running.exchange.sent();
        self.go_on(running, next);
    }

    pub(super) fn courier_hears(&mut self, mut running: Running, heard: Result<Answer, Refusal>) {
        let next = running.exchange.heard(heard);
        self.go_on(running, next);
    }

    /// The outcome is unknown, or a shard could not take the command.
    pub(super) fn begin_again(&mut self, running: Running) {
        let Running { by, request, .. } = running;
        self.later(AGAIN, Happening::Exchange(by, Box::new(request)));
    }
}
