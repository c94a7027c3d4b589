//! Delivers the messages of runs into queues, and takes the news of those messages.
//!
//! A run whose task is a message needs no slot: it is assigned to its queue at once and stays `running` until its
//! message ends. The queue may belong to another shard, so both sides communicate by errands. A node carries an errand
//! out after the commit, perhaps twice: an attempt adds its message only once, and only the newest token is accepted.
//!
//! overlap ──ready──▶ deliver ──errand──▶ queue ──news──▶ deliver ──▶ settle

use punctual_core::attempt::Outcome;
use punctual_core::ids::{RunId, Token, WorkerId};
use punctual_core::queue::{Ending, Errand, News, QueueKey, QueueName, Sender, Whereabouts};
use punctual_core::run::{Cause, Event};
use punctual_core::task::Task;

use crate::Shard;
use crate::assign::Offer;
use crate::event::Context;
use crate::memory::LiveRun;

/// The queue that a run delivers into. `None` means that its task is not a message.
fn queue_of(live: &LiveRun) -> Option<&QueueName> {
    match &live.definition.task {
        Task::Queue(queue) => Some(&queue.name),
        _ => None,
    }
}

/// Whether the run delivers a message and needs no worker.
pub(crate) fn is_delivery(live: &LiveRun) -> bool {
    queue_of(live).is_some()
}

impl Shard {
    /// Assigns a ready run to its queue and sends its message.
    pub(crate) fn send_off(&mut self, run: RunId, cx: &mut Context<'_>) {
        let Some(live) = self.runs.get(&run) else { return };
        let Some(queue) = queue_of(live) else { return };
        let (worker, token) = (WorkerId::queue(queue.as_str()), live.run.token.next(self.epoch));
        if self.transition(run, Event::Assigned { worker, token }, cx) {
            cx.pool.sent(self.id);
            self.arm_timeout(run, token, cx.now, cx);
            self.send_message(run, token, Offer::New, cx);
        }
    }

    /// Sends the message of a running attempt again after a load: it may never have been sent.
    pub(crate) fn deliver_again(&self, run: RunId, token: Token, is_stopped: bool, cx: &mut Context<'_>) {
        cx.pool.sent(self.id);
        if is_stopped {
            self.withdraw(run, token, cx);
        } else {
            self.send_message(run, token, Offer::Again, cx);
        }
    }

    fn send_message(&self, run: RunId, token: Token, offer: Offer, cx: &mut Context<'_>) {
        if let Some(assignment) = self.assignment(run, token, offer) {
            cx.errand(Errand::Deliver(Box::new(assignment)));
        }
    }

    /// Asks the queue to withdraw the message of a stopped attempt. The attempt ends when its message has ended.
    pub(crate) fn withdraw(&self, run: RunId, token: Token, cx: &mut Context<'_>) {
        let Some(live) = self.runs.get(&run) else { return };
        let Some(name) = queue_of(live).cloned() else { return };
        let queue = QueueKey { namespace: live.run.namespace.clone(), name };
        cx.errand(Errand::Withdraw { sender: Sender { run, token }, queue });
    }

    /// Takes the news of an attempt's message. News for an attempt that has ended is ignored.
    pub(crate) fn hear(&mut self, sender: Sender, news: &News, cx: &mut Context<'_>) {
        let Sender { run, token } = sender;
        let Some(queue) = self.runs.get(&run).and_then(queue_of).cloned() else { return };
        let (now, at) = (cx.now, |at: &Whereabouts| at.output(&queue));
        let outcome = match news {
            News::Delivered(whereabouts) => {
                let node = cx.pool.node.clone();
                return self.note(run, token, cx, |run| {
                    if run.delivered(&queue, whereabouts, now) {
                        run.sign(node.as_ref());
                    }
                });
            }
            News::Undelivered { why } => Outcome::failed(now, why.clone()),
            News::Ended { whereabouts, ending: Ending::Acked } => {
                Outcome { output: at(whereabouts), ..Outcome::succeeded(whereabouts.since) }
            }
            News::Ended { whereabouts, ending } => {
                if *ending == Ending::Expired && self.runs_under(run, token) {
                    // An expired message counts as a timeout. Refused if the run is already being stopped.
                    self.transition(run, Event::CancelAsked(Cause::Timeout), cx);
                }
                Outcome { output: at(whereabouts), ..Outcome::failed(whereabouts.since, ending.error()) }
            }
        };
        if !self.transition(run, Event::Reported { token, outcome }, cx) {
            cx.pool.stale_reports += 1;
        }
    }
}
