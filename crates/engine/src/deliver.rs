//! Sends runs to queues and jobs instead of workers, and takes the news of what became of them.
//!
//! A run whose task is a message needs no slot: it is assigned to its queue at once and stays `running` until its
//! message ends. The queue may belong to another shard, so both sides communicate by requests. A node carries a request
//! out after the commit, perhaps twice: an attempt adds its message only once, and only the newest token is accepted.
//! A run that starts another job ([`crate::call`]) is treated the same. A run of a program outside Punctual ([`crate::ping`])
//! has begun already, so nothing is sent.
//!
//! overlap ──ready──▶ deliver ──request──▶ queue or job ──news──▶ deliver ──▶ settle

use punctual_core::attempt::Outcome;
use punctual_core::cross_shard::CrossShardRequest;
use punctual_core::ids::{RunId, Token};
use punctual_core::queue::{Ending, News, QueueKey, QueueName, Returned, Sender, Whereabouts};
use punctual_core::run::{Assignee, Cause, Event, Status};

use crate::Shard;
use crate::assign::Offer;
use crate::event::Context;
use crate::memory::LiveRun;

impl Shard {
    /// Assigns a ready run to a queue or job, and sends it there.
    pub(crate) fn send_off(&mut self, run: RunId, to: &Assignee, cx: &mut Context<'_>) {
        let Some(live) = self.runs.get(&run) else { return };
        let token = live.run.token.next(self.epoch);
        if self.transition(run, Event::Sent { to: to.clone(), token }, cx) {
            self.send_to(to, run, token, Offer::New, cx);
        }
    }

    /// Sends a running attempt again after a load: it may never have been sent.
    pub(crate) fn deliver_again(&mut self, to: &Assignee, run: RunId, token: Token, cx: &mut Context<'_>) {
        let Some(live) = self.runs.get(&run) else { return };
        if live.run.cancelling().is_some() {
            self.take_back(to, run, token, cx);
        } else if live.run.called().is_none() {
            self.send_to(to, run, token, Offer::Again, cx);
        }
    }

    fn send_to(&self, to: &Assignee, run: RunId, token: Token, offer: Offer, cx: &mut Context<'_>) {
        match to {
            Assignee::Job(_) => self.call(run, token, cx),
            Assignee::Ping(_) => {}
            Assignee::Queue(_) | Assignee::Worker(_) => {
                if let Some(assignment) = self.assignment(run, token, offer) {
                    cx.cross_shard(CrossShardRequest::Deliver(Box::new(assignment)));
                }
            }
        }
    }

    /// Asks for the end of what a stopped attempt was sent to. A program outside Punctual cannot be asked, so its run ends.
    pub(crate) fn take_back(&mut self, to: &Assignee, run: RunId, token: Token, cx: &mut Context<'_>) {
        match to {
            Assignee::Queue(queue) => self.withdraw(queue.clone(), run, token, cx),
            Assignee::Job(_) => self.cancel_called(run, token, cx),
            Assignee::Ping(_) => self.end_elsewhere(run, cx, |since| Outcome::failed(since, "")),
            Assignee::Worker(_) => {}
        }
    }

    /// Asks the queue to withdraw the message of a stopped attempt. The attempt ends when its message has ended.
    fn withdraw(&self, name: QueueName, run: RunId, token: Token, cx: &mut Context<'_>) {
        let Some(live) = self.runs.get(&run) else { return };
        let queue = QueueKey { namespace: live.run.namespace.clone(), name };
        cx.cross_shard(CrossShardRequest::Withdraw { sender: Sender { run, token }, queue });
    }

    /// Takes the news of what an attempt was sent to. News for an attempt that has ended is ignored.
    pub(crate) fn hear(&mut self, sender: Sender, news: &News, cx: &mut Context<'_>) {
        let Sender { run, token } = sender;
        let Some(to) = self.runs.get(&run).and_then(LiveRun::destination) else { return };
        let (now, at) = (cx.now, |at: &Whereabouts| at.output(&to));
        let outcome = match news {
            News::Delivered(whereabouts) => {
                let node = cx.pool.node().cloned();
                return self.note(run, token, cx, |run| {
                    if run.delivered(&to, whereabouts, now) {
                        run.sign(node.as_ref());
                    }
                });
            }
            News::Called { run: called, since } => {
                let node = cx.pool.node().cloned();
                return self.note(run, token, cx, |run| {
                    if run.calls(*called, *since, now) {
                        run.sign(node.as_ref());
                    }
                });
            }
            News::Returned(returned) => {
                self.note(run, token, cx, |run| _ = run.calls(returned.run, now, now));
                let Returned { status, at, output, error, .. } = &**returned;
                let outcome = match status {
                    Status::Succeeded => Outcome::succeeded(*at),
                    _ => Outcome::failed(*at, error.clone()),
                };
                Outcome { output: output.clone(), ..outcome }
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
