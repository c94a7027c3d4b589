//! Delivers the messages of runs into queues, and takes the news of those messages.
//!
//! A run whose task is a message needs no slot: it is assigned to its queue at once and stays `running` until its
//! message ends. The queue may belong to another shard, so both sides communicate by requests. A node carries a request
//! out after the commit, perhaps twice: an attempt adds its message only once, and only the newest token is accepted.
//!
//! overlap ──ready──▶ deliver ──request──▶ queue ──news──▶ deliver ──▶ settle

use punctual_core::attempt::Outcome;
use punctual_core::cross_shard::CrossShardRequest;
use punctual_core::ids::{RunId, Token};
use punctual_core::queue::{Ending, News, QueueKey, Sender, Whereabouts};
use punctual_core::run::{Cause, Event};

use crate::Shard;
use crate::assign::Offer;
use crate::event::Context;
use crate::memory::LiveRun;

impl Shard {
    /// Assigns a ready run to its queue and sends its message.
    pub(crate) fn send_off(&mut self, run: RunId, cx: &mut Context<'_>) {
        let Some(live) = self.runs.get(&run) else { return };
        let Some(queue) = live.queue() else { return };
        let (queue, token) = (queue.clone(), live.run.token.next(self.epoch));
        if self.transition(run, Event::Sent { queue, token }, cx) {
            self.send_message(run, token, Offer::New, cx);
        }
    }

    /// Sends the message of a running attempt again after a load: it may never have been sent.
    pub(crate) fn deliver_again(&self, run: RunId, token: Token, is_stopped: bool, cx: &mut Context<'_>) {
        if is_stopped {
            self.withdraw(run, token, cx);
        } else {
            self.send_message(run, token, Offer::Again, cx);
        }
    }

    fn send_message(&self, run: RunId, token: Token, offer: Offer, cx: &mut Context<'_>) {
        if let Some(assignment) = self.assignment(run, token, offer) {
            cx.cross_shard(CrossShardRequest::Deliver(Box::new(assignment)));
        }
    }

    /// Asks the queue to withdraw the message of a stopped attempt. The attempt ends when its message has ended.
    pub(crate) fn withdraw(&self, run: RunId, token: Token, cx: &mut Context<'_>) {
        let Some(live) = self.runs.get(&run) else { return };
        let Some(name) = live.queue().cloned() else { return };
        let queue = QueueKey { namespace: live.run.namespace.clone(), name };
        cx.cross_shard(CrossShardRequest::Withdraw { sender: Sender { run, token }, queue });
    }

    /// Takes the news of an attempt's message. News for an attempt that has ended is ignored.
    pub(crate) fn hear(&mut self, sender: Sender, news: &News, cx: &mut Context<'_>) {
        let Sender { run, token } = sender;
        let Some(queue) = self.runs.get(&run).and_then(LiveRun::queue).cloned() else { return };
        let (now, at) = (cx.now, |at: &Whereabouts| at.output(&queue));
        let outcome = match news {
            News::Delivered(whereabouts) => {
                let node = cx.pool.node().cloned();
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
            cx.pool.counts_mut().stale_reports += 1;
        }
    }
}
