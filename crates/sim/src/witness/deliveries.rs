//! Checks deliveries: no message is delivered before its commit, before its delay has passed or after it has expired; an
//! acknowledged message never comes back; a message without retry is delivered at most once; messages are taken in order;
//! and a waiting consumer gets a waiting message.
//!
//! Messages in flight are not known here, so only certain facts count: an act in flight may have taken effect, and a take
//! may have been decided at any time since its leader accepted it.

use std::collections::BTreeMap;
use std::sync::Arc;

use punctual_core::Timestamp;
use punctual_core::change::{Batch, Change, Row, RowKey};
use punctual_core::queue::{
    Act, Ask, Delivered, Message, MessagePosition, NewMessage, Notice, QueueKey, QueueRefusal, Said, Take,
    Verb,
};
use punctual_engine::Ticket;
use rustc_hash::FxHashMap;

use super::messages::Messages;
use super::{Life, Seen, Verdict};
use crate::traffic::{is_limited, is_never_consumed, number_of};

/// How long a message may wait in a queue at which a consumer waits, once all faults have ended. A delivery is written up to
/// a second after it was made, and until then the row says that the message is queued.
const WAITING_MAX: u64 = 3_000;
/// The same for a message that was never delivered: its row is up to date.
const UNTOUCHED_MAX: u64 = 1_000;
/// The longest wait of a consumer, including the delays of its messages.
const PATIENCE_MAX: u64 = 9_000;

#[derive(Debug, Default)]
pub(crate) struct Deliveries {
    known: FxHashMap<i64, Known>,
    /// Requests that leaders have accepted and not answered.
    asked: BTreeMap<Ticket, Asked>,
    /// Messages that were never delivered and that no request has changed.
    standing: BTreeMap<QueueKey, BTreeMap<MessagePosition, Standing>>,
    /// Since when the row of a message says that it is queued, in true time.
    queued: BTreeMap<i64, (QueueKey, u64)>,
    /// Increases with every event.
    step: u64,
    /// When a leader first accepted the add of each body, by that leader's time.
    brought: FxHashMap<u64, Timestamp>,
    /// Messages whose add was answered.
    added: Vec<i64>,
    /// Nothing is in flight any more, so the counts of queues are checked.
    quiet: bool,
}

/// Since when a message is queued, by step and in true time, and when it expires.
#[derive(Debug)]
struct Standing {
    step: u64,
    since: u64,
    expires_at: Timestamp,
}

#[derive(Debug)]
struct Known {
    message: Arc<Message>,
    queue: QueueKey,
    /// How often a leader delivered it, it reached a consumer, and it was returned because its consumer had gone.
    left: u32,
    reached: u32,
    returned: u32,
    is_acked: bool,
    /// The step of the last request that changed it.
    touched: Option<u64>,
    /// It was put back with a delay that ends at this time.
    not_before: Option<Timestamp>,
}

#[derive(Debug)]
struct Asked {
    ask: Ask,
    by: Life,
    step: u64,
    /// The leader's time, the earliest time at which it may have accepted the request, and true time.
    now: Timestamp,
    came: Timestamp,
    since: u64,
}

/// The state of a leader when it accepts or answers a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scene {
    pub(crate) by: Life,
    /// Its engine time, and true time in milliseconds.
    pub(crate) now: Timestamp,
    pub(crate) time: u64,
    /// The earliest time that a leader may use.
    pub(crate) earliest: Timestamp,
    /// Another node leads the shard by now.
    pub(crate) is_outdated: bool,
}

impl Deliveries {
    pub(super) fn landed(&mut self, batch: &Batch, messages: &Messages, time: u64) {
        self.step += 1;
        for (key, change) in batch.changes.iter() {
            match (key, change) {
                (RowKey::Message(_, place), Change::Delete) => {
                    self.stands_no_more(place.number);
                    self.queued.remove(&place.number);
                }
                (_, Change::Insert(Row::Message(message)) | Change::Update(Row::Message(message))) => {
                    let queue = messages.key_of((batch.shard, message.id.queue));
                    if let Some(queue) = queue {
                        self.row(message, queue, time);
                    }
                }
                _ => {}
            }
        }
    }

    fn row(&mut self, message: &Arc<Message>, queue: &QueueKey, time: u64) {
        let number = message.id.number;
        let known = self.known.entry(number).or_insert_with(|| Known {
            message: Arc::clone(message),
            queue: queue.clone(),
            left: 0,
            reached: 0,
            returned: 0,
            is_acked: false,
            touched: None,
            not_before: None,
        });
        if !message.is_queued() {
            self.queued.remove(&number);
            return self.stands_no_more(number);
        }
        self.queued.insert(number, (queue.clone(), time));
        if known.left == 0 && known.touched.is_none() {
            let standing = self.standing.entry(queue.clone()).or_default();
            let (step, expires_at) = (self.step, message.expires_at);
            standing.entry(message.position()).or_insert(Standing { step, since: time, expires_at });
        }
    }

    fn stands_no_more(&mut self, number: i64) {
        if let Some(known) = self.known.get(&number)
            && let Some(standing) = self.standing.get_mut(&known.queue)
        {
            standing.remove(&known.message.position());
        }
    }

    /// A leader accepts a request.
    pub(super) fn asked(&mut self, ticket: Ticket, ask: &Ask, messages: &mut Messages, scene: Scene) {
        self.step += 1;
        match ask {
            Ask::Act(Act { verb, ids, .. }) => {
                for id in ids {
                    self.touched(id.number);
                    if matches!(verb, Verb::Ack | Verb::Delete) {
                        messages.dismissed(id.number);
                    }
                    if let (Verb::Return, Some(known)) = (verb, self.known.get_mut(&id.number)) {
                        known.returned += 1;
                    }
                }
            }
            Ask::Add(add) => {
                for new in &add.messages {
                    self.brought.entry(number_of(&new.body)).or_insert(scene.now);
                }
            }
            Ask::Working { id, .. } => self.touched(id.number),
            Ask::Flush { queue, .. } => {
                messages.flush_asked(queue, scene.time);
                self.standing.remove(queue);
            }
            _ => {}
        }
        let Scene { by, now, time, earliest, .. } = scene;
        let came = now.max(earliest);
        self.asked.insert(ticket, Asked { ask: ask.clone(), by, step: self.step, now, came, since: time });
    }

    fn touched(&mut self, number: i64) {
        self.stands_no_more(number);
        if let Some(known) = self.known.get_mut(&number) {
            (known.touched, known.not_before) = (Some(self.step), None);
        }
    }

    /// A leader fails a request, or will never answer it.
    pub(crate) fn unanswered(&mut self, ticket: Ticket) {
        self.asked.remove(&ticket);
    }

    /// A leader sends an answer.
    pub(super) fn answered(
        &mut self,
        ticket: Ticket,
        said: &Said,
        messages: &mut Messages,
        scene: Scene,
        seen: &mut Seen,
    ) -> Verdict {
        self.step += 1;
        let Some(asked) = self.asked.remove(&ticket) else { return Ok(()) };
        match (&asked.ask, said) {
            (Ask::Add(add), Said::Added(notices)) => {
                let is_over = |notice: &Notice| asked.now + notice.ttl <= scene.now;
                for (new, notice) in add.messages.iter().zip(notices) {
                    let notice = notice.as_ref().map_err(|refusal| (refusal, new));
                    self.added(&add.queue, notice, is_over, messages, scene.time, seen)?;
                }
                Ok(())
            }
            (Ask::Take(take), Said::Taken(taken)) => {
                seen.waits_served += u64::from(take.waiter.is_some() && !taken.is_empty());
                if !scene.is_outdated {
                    self.in_order(take, taken, &asked, messages, scene)?;
                }
                taken.iter().try_for_each(|delivered| self.left(delivered, &asked, scene, seen))
            }
            (Ask::Act(act), Said::Acted(acted)) if acted.count == act.ids.len() as u64 => {
                self.acted(act, &asked, messages, scene, seen)
            }
            (Ask::Flush { queue, .. }, Said::Flushed(count)) => {
                seen.messages_flushed += count;
                messages.flush_answered(queue, scene.time);
                Ok(())
            }
            (Ask::Stat { queue }, Said::Stat(stat)) if self.quiet => {
                messages.quiet(queue, stat.as_ref(), seen)
            }
            _ => Ok(()),
        }
    }

    fn added(
        &mut self,
        queue: &QueueKey,
        notice: Result<&Notice, (&QueueRefusal, &NewMessage)>,
        is_over: impl Fn(&Notice) -> bool,
        messages: &mut Messages,
        time: u64,
        seen: &mut Seen,
    ) -> Verdict {
        let notice = match notice {
            Ok(notice) => notice,
            Err((QueueRefusal::TooLong(_), new)) if new.max_len.is_some() => {
                seen.adds_refused += 1;
                return messages.refused(number_of(&new.body));
            }
            Err((refusal, _)) => return Err(format!("an add was refused without a reason: {refusal}")),
        };
        let number = notice.id.number;
        seen.keys_met += u64::from(!notice.is_new);
        if notice.is_new {
            self.added.push(number);
        }
        // A message without a row may have been added and deleted in one batch.
        let is_known = self.known.contains_key(&number) || messages.was_handed(number);
        if is_known || is_over(notice) || messages.may_be_flushed(queue, time) {
            return Ok(());
        }
        Err(format!("message {number} was acknowledged before it was committed"))
    }

    /// A message that was first in its queue when the take was accepted, and is still queued, should have been taken.
    fn in_order(
        &self,
        take: &Take,
        taken: &[Delivered],
        asked: &Asked,
        messages: &Messages,
        scene: Scene,
    ) -> Verdict {
        // A queue that delivers nothing now, or that puts messages off.
        if is_limited(&take.queue) && (taken.is_empty() || messages.puts_off(&take.queue)) {
            return Ok(());
        }
        let places: Vec<MessagePosition> = taken.iter().filter_map(|taken| self.place(taken)).collect();
        if !places.is_sorted() {
            return Err(format!("order: {places:?} were taken in this order from {}", take.queue.name));
        }
        // A message that expired before its add was committed has no row, so its position is unknown.
        if places.is_empty() && !taken.is_empty() {
            return Ok(());
        }
        // A consumer that gave up waiting may have waited for a page.
        if asked.by != scene.by || (taken.is_empty() && take.waiter.is_some()) {
            return Ok(());
        }
        let standing = self.standing.get(&take.queue).into_iter().flatten();
        let mut passed_over = standing.filter(|(place, standing)| {
            standing.step < asked.step
                && standing.expires_at > scene.now
                && places.last().is_none_or(|last| *place < last)
                && !places.contains(place)
        });
        match (passed_over.next(), places.last()) {
            (None, _) => Ok(()),
            (Some((place, _)), Some(last)) => Err(format!(
                "order: {last:?} was taken from {} while {place:?} was queued before it",
                take.queue.name
            )),
            (Some((place, _)), None) => {
                Err(format!("nothing was taken from {} while {place:?} was queued", take.queue.name))
            }
        }
    }

    fn place(&self, delivered: &Delivered) -> Option<MessagePosition> {
        self.known.get(&delivered.id.number).map(|known| known.message.position())
    }

    /// A leader delivers a message to a consumer.
    fn left(&mut self, delivered: &Delivered, asked: &Asked, scene: Scene, seen: &mut Seen) -> Verdict {
        let number = delivered.id.number;
        self.stands_no_more(number);
        let Some(known) = self.known.get_mut(&number) else {
            // A message that was added and expired in one batch has no row, and may have been delivered in between.
            let brought = self.brought.get(&number_of(&delivered.body));
            if brought.is_some_and(|at| *at + delivered.ttl <= scene.now) {
                return Ok(());
            }
            return Err(format!("message {number} was delivered before it was committed"));
        };
        let message = &known.message;
        seen.deliveries += 1;
        seen.redeliveries += u64::from(known.left > 0);
        known.left += 1;
        if delivered.body != message.body {
            return Err(format!("message {number} was delivered with another's body"));
        }
        if known.is_acked && !scene.is_outdated {
            return Err(format!(
                "acknowledged is final: message {number} was acknowledged, but delivered again"
            ));
        }
        if message.retry.is_zero() && known.left > 1 + known.returned {
            return Err(format!("at most once: message {number} was delivered {} times", known.left));
        }
        let first = message.created_at + message.delay;
        if let Some(at) = known.not_before.into_iter().chain([first]).find(|at| *at > scene.now) {
            return Err(format!(
                "never early: message {number} is due at {at}, but was delivered at {}",
                scene.now
            ));
        }
        // The store's clock may have been set back since the consumer asked.
        let earliest = asked.came.min(scene.now);
        if message.expires_at <= earliest {
            return Err(format!(
                "never after expiry: message {number} expired at {}, but was given to a consumer at {earliest} or later",
                message.expires_at
            ));
        }
        Ok(())
    }

    /// A verb was applied to all its messages.
    fn acted(
        &mut self,
        act: &Act,
        asked: &Asked,
        messages: &Messages,
        scene: Scene,
        seen: &mut Seen,
    ) -> Verdict {
        for id in &act.ids {
            let Some(known) = self.known.get_mut(&id.number) else { continue };
            match act.verb {
                Verb::Ack | Verb::Delete => {
                    seen.messages_acked += 1;
                    known.is_acked = true;
                    if messages.get(id.number).is_some() && !scene.is_outdated {
                        return Err(format!("message {} was acknowledged, but still exists", id.number));
                    }
                }
                Verb::Nack { delay } => {
                    seen.nacks += 1;
                    let is_last = known.touched == Some(asked.step);
                    known.not_before = is_last.then_some(asked.now + delay);
                }
                Verb::Return => seen.messages_returned += 1,
                Verb::Enqueue | Verb::Dequeue => {}
            }
        }
        Ok(())
    }

    /// A message reaches a consumer.
    pub(crate) fn reached(&mut self, number: i64) -> Verdict {
        let Some(known) = self.known.get_mut(&number) else { return Ok(()) };
        known.reached += 1;
        if known.message.retry.is_zero() && known.reached > 1 {
            return Err(format!("at most once: message {number} reached consumers {} times", known.reached));
        }
        Ok(())
    }

    /// All faults have ended: no consumer waits while a message is queued, and no consumer waits for ever.
    pub(crate) fn no_consumer_starves(&self, time: u64) -> Verdict {
        for asked in self.asked.values() {
            let Ask::Take(Take { queue, .. }) = &asked.ask else { continue };
            let waited = time - asked.since;
            if waited > PATIENCE_MAX {
                return Err(format!(
                    "a consumer has waited on {} for {waited} ms without an answer",
                    queue.name
                ));
            }
            if is_limited(queue) {
                continue;
            }
            let stands = |(of, since): &&(QueueKey, u64)| of == queue && *since + WAITING_MAX < time;
            let mut untouched = self.standing.get(queue).into_iter().flat_map(BTreeMap::values);
            let is_passed_over = untouched.any(|standing| standing.since + UNTOUCHED_MAX < time);
            if (waited > WAITING_MAX && self.queued.values().any(|row| stands(&row)))
                || (waited > UNTOUCHED_MAX && is_passed_over)
            {
                return Err(format!("a consumer waits on {} while a message is queued there", queue.name));
            }
        }
        Ok(())
    }

    /// From now on nothing is in flight when a queue reports its counts.
    pub(crate) fn all_is_quiet(&mut self) {
        self.quiet = true;
    }

    /// Nothing is in flight any more: every added message has reached a consumer, has expired, or was deleted.
    pub(super) fn at_rest(&self, messages: &Messages, reached: Timestamp) -> Verdict {
        for known in self.added.iter().filter_map(|number| self.known.get(number)) {
            let Known { message, queue, .. } = known;
            let number = message.id.number;
            let is_there = messages.get(number).is_some();
            if is_there && !is_never_consumed(queue) && known.reached == 0 && !message.retry.is_zero() {
                return Err(format!(
                    "never lost: message {number} was added and exists, but reached no consumer"
                ));
            }
            let is_ended = message.expires_at <= reached
                || messages.was_flushed(queue)
                || messages.was_handed(number)
                || messages.was_moved(number);
            if !is_there && !is_ended && known.reached == 0 && !message.retry.is_zero() {
                return Err(format!(
                    "never lost: message {number} was added and is gone, but reached no consumer"
                ));
            }
        }
        Ok(())
    }
}
