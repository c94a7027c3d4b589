//! Takes messages from queues, for the consumers that ask or have waited longest.

use std::time::Duration;

use punctual_core::command::Answer;
use punctual_core::limits::{TAKE_BYTES_MAX, TAKE_MAX};
use punctual_core::planted::{Fault, is_planted};
use punctual_core::queue::{
    Acted, Delivered, MessageStatus, QueueKey, QueueNumber, QueueRefusal, Said, Take,
};

use super::Mark;
use super::queues::Taker;
use super::settings::Gate;
use crate::Shard;
use crate::event::{Context, Ticket};

/// Consumers that may wait at one queue; further ones get an empty answer at once.
const TAKERS_MAX: usize = 65_536;

impl Shard {
    pub(super) fn take_messages(&mut self, ticket: Ticket, take: &Take, cx: &mut Context<'_>) {
        let number = match take.waiter {
            Some(_) => self.make_queue(&take.queue, cx),
            None => self.queues.find(&take.queue),
        };
        let Some(number) = number else {
            let nothing = Said::Taken(Vec::new());
            let said = take.waiter.map_or(nothing, |_| Said::Refused(QueueRefusal::TooManyQueues));
            return answer(ticket, said, cx);
        };
        self.look_for_unused(cx);
        let Some(queue) = self.queues.get_mut(number) else { return };
        (queue.used_at, queue.taken_at) = (cx.now, Some(cx.now));
        let is_open = queue.gate(&self.rates, cx.now) == Gate::Open;
        let count = take.count.clamp(1, TAKE_MAX);
        if is_open && queue.takers.is_empty() {
            let taken = self.deliver(number, count, cx);
            if !taken.is_empty() {
                return answer(ticket, Said::Taken(taken), cx);
            }
        }
        let Some(queue) = self.queues.get_mut(number) else { return };
        let is_empty = queue.window.first().is_none() && queue.window.is_everything();
        let parked = is_open && !is_empty;
        if queue.takers.len() >= TAKERS_MAX || (take.waiter.is_none() && !parked) {
            return answer(ticket, Said::Taken(Vec::new()), cx);
        }
        queue.parked += usize::from(parked);
        queue.takers.push_back(Taker { ticket, waiter: take.waiter, count, parked });
        self.serve(number, cx);
    }

    pub(super) fn unwait(&mut self, key: &QueueKey, waiter: u64, cx: &mut Context<'_>) -> Said {
        let queue = self.queues.find(key).and_then(|number| self.queues.get_mut(number));
        let place = queue.and_then(|queue| {
            let place = queue.takers.iter().position(|taker| taker.waiter == Some(waiter))?;
            let gone = queue.takers.remove(place)?;
            queue.parked -= usize::from(gone.parked);
            Some(gone.ticket)
        });
        if let Some(ticket) = place {
            answer(ticket, Said::Taken(Vec::new()), cx);
        }
        Said::Acted(Acted { count: u64::from(place.is_some()) })
    }

    /// Takes the first queued messages, as far as they are in memory and fit into one answer.
    pub(super) fn deliver(&mut self, of: QueueNumber, count: u32, cx: &mut Context<'_>) -> Vec<Delivered> {
        let (mut taken, mut bytes) = (Vec::new(), 0);
        while taken.len() < count as usize
            && bytes < TAKE_BYTES_MAX
            && let Some(queue) = self.queues.get(of)
            && queue.gate(&self.rates, cx.now) == Gate::Open
            && let Some(place) = queue.window.first()
            && let Some(message) = self.queues.message(place.number)
        {
            if message.expires_at <= cx.now && !is_planted(Fault::TakeIgnoresExpiry) {
                self.expire_message(place.number, cx);
                continue;
            }
            bytes += message.body.len();
            let has_settings = queue.record.settings.is_some();
            // A message with at-most-once delivery is written before it is handed out, and so is one of a queue that counts
            // its deliveries.
            let (until, mark) = match message.retry {
                retry if retry.is_zero() && is_planted(Fault::TakeOnceIsWrittenLate) => (None, Mark::Lazy),
                retry if retry.is_zero() && is_planted(Fault::TakeOnceIsRetried) => {
                    (Some(cx.now + Duration::from_secs(1)), Mark::Dirty)
                }
                retry if retry.is_zero() => (None, Mark::Dirty),
                retry if has_settings => (Some(cx.now + retry), Mark::Dirty),
                retry => (Some(cx.now + retry), Mark::Lazy),
            };
            taken.push(Delivered { until, ..Delivered::of(message) });
            self.change_message(place.number, mark, cx.elapsed, |message| {
                message.status = MessageStatus::Active { until };
            });
            if has_settings {
                self.use_queue_rate(of, cx);
            }
        }
        cx.pool.counts_mut().messages.taken += taken.len() as u64;
        if let Some(queue) = self.queues.get_mut(of) {
            queue.taken += taken.len() as u64;
        }
        self.queues.feed(of);
        taken
    }

    /// Gives queued messages to the waiting consumers, in the order in which they came.
    pub(super) fn serve(&mut self, of: QueueNumber, cx: &mut Context<'_>) {
        self.serve_flushes(of, cx);
        while let Some(queue) = self.queues.get_mut(of)
            && queue.gate(&self.rates, cx.now) == Gate::Open
            && queue.window.first().is_some()
            && let Some(taker) = queue.takers.pop_front()
        {
            queue.parked -= usize::from(taker.parked);
            let taken = self.deliver(of, if taker.parked { taker.count } else { 1 }, cx);
            if taken.is_empty() {
                // All messages left had expired.
                let Some(queue) = self.queues.get_mut(of) else { return };
                queue.parked += usize::from(taker.parked);
                queue.takers.push_front(taker);
            } else {
                answer(taker.ticket, Said::Taken(taken), cx);
            }
        }
        self.unpark(of, cx);
        self.hand_out_of(of, cx);
        self.expect_opening(of, cx);
        self.queues.feed(of);
    }

    /// Ends the wait for a page: the taker gets an empty answer, or goes on waiting for a message if it asked to.
    fn unpark(&mut self, of: QueueNumber, cx: &mut Context<'_>) {
        let Some(queue) = self.queues.get_mut(of).filter(|queue| queue.parked > 0) else { return };
        let is_empty = queue.window.first().is_none() && queue.window.is_everything();
        if !is_empty && queue.gate(&self.rates, cx.now) == Gate::Open {
            return;
        }
        queue.parked = 0;
        queue.takers.retain_mut(|taker| {
            let stays = !std::mem::replace(&mut taker.parked, false) || taker.waiter.is_some();
            if !stays {
                answer(taker.ticket, Said::Taken(Vec::new()), cx);
            }
            stays
        });
    }
}

pub(super) fn answer(ticket: Ticket, said: Said, cx: &mut Context<'_>) {
    cx.answer(ticket, Ok(Answer::Queue(said)));
}
