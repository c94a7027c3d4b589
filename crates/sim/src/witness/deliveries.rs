//! What leaves a queue: nothing before it is committed, acknowledged for good, once at most where that was asked, not
//! before its delay nor after its life, first whatever stands first; and whoever waits is given what there is.
//!
//! What is on its way is not known here, so only that counts which is certain: an act in flight may have happened, and a
//! take may have been decided at any time since its leader took it up.

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
use crate::traffic::{is_left_alone, number_of};

/// How long a message may stand in a line while somebody waits there, once all is well: a delivery is written a second
/// after it was made, and until then its row says that it stands.
const WAITING_MAX: u64 = 3_000;
/// The same of a message that was never delivered: nothing about it is still to be written.
const UNTOUCHED_MAX: u64 = 1_000;
/// The longest that a consumer waits, with what it takes to be heard.
const PATIENCE_MAX: u64 = 9_000;

#[derive(Debug, Default)]
pub(crate) struct Deliveries {
    known: FxHashMap<i64, Known>,
    /// What leaders have taken up and not answered.
    asked: BTreeMap<Ticket, Asked>,
    /// Messages that were never given to anybody and that nobody has touched.
    standing: BTreeMap<QueueKey, BTreeMap<MessagePosition, Standing>>,
    /// Since when a row says that its message stands in the line, in true time.
    queued: BTreeMap<i64, (QueueKey, u64)>,
    /// Counts up with everything that is seen.
    step: u64,
    /// When each body was first brought to a leader, by that leader's time.
    brought: FxHashMap<u64, Timestamp>,
    /// Messages whose add was answered.
    added: Vec<i64>,
    /// All is quiet: counts are judged.
    quiet: bool,
}

/// Since when a message stands in the line, by step and in true time, and how long it lives.
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
    /// How often it left a leader, reached a consumer, and was given back by someone whom it did not reach.
    left: u32,
    reached: u32,
    returned: u32,
    is_acked: bool,
    /// When somebody last did something to it.
    touched: Option<u64>,
    /// It was put back with a delay that is not over before.
    not_before: Option<Timestamp>,
}

#[derive(Debug)]
struct Asked {
    ask: Ask,
    by: Life,
    step: u64,
    /// The leader's time, the earliest time that it may be by then, and true time.
    now: Timestamp,
    came: Timestamp,
    since: u64,
}

/// Where and when a leader takes something up or answers it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scene {
    pub(crate) by: Life,
    /// Its engine time, and true time.
    pub(crate) now: Timestamp,
    pub(crate) time: u64,
    /// The earliest time that a leader may take it to be.
    pub(crate) earliest: Timestamp,
    /// Somebody else leads the shard by now.
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

    /// A leader takes an ask up.
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

    /// A leader says something that is no answer, or will say nothing any more.
    pub(crate) fn unanswered(&mut self, ticket: Ticket) {
        self.asked.remove(&ticket);
    }

    /// An answer leaves its leader.
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
                    self.in_order(take, taken, &asked, scene)?;
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
            Err((refusal, _)) => return Err(format!("an add was refused for no reason: {refusal}")),
        };
        let number = notice.id.number;
        seen.keys_met += u64::from(!notice.is_new);
        if notice.is_new {
            self.added.push(number);
        }
        // What has no row may have gone in the batch in which it came.
        if self.known.contains_key(&number) || is_over(notice) || messages.may_be_flushed(queue, time) {
            return Ok(());
        }
        Err(format!("message {number} was acknowledged before it was committed"))
    }

    /// Whatever stood first when the take was taken up, and stands there still, was to be taken first.
    fn in_order(&self, take: &Take, taken: &[Delivered], asked: &Asked, scene: Scene) -> Verdict {
        let places: Vec<MessagePosition> = taken.iter().filter_map(|taken| self.place(taken)).collect();
        if !places.is_sorted() {
            return Err(format!("order: {places:?} were taken in this order from {}", take.queue.name));
        }
        // Of one whose life was over before its add was committed there is no row to tell its place.
        if places.is_empty() && !taken.is_empty() {
            return Ok(());
        }
        // Whoever gave up waiting may have waited for a page.
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
            (Some((place, _)), Some(last)) => {
                Err(format!("order: {last:?} was taken from {} while {place:?} stood there", take.queue.name))
            }
            (Some((place, _)), None) => {
                Err(format!("nothing was taken from {} while {place:?} stood there", take.queue.name))
            }
        }
    }

    fn place(&self, delivered: &Delivered) -> Option<MessagePosition> {
        self.known.get(&delivered.id.number).map(|known| known.message.position())
    }

    /// A message leaves its leader for a consumer.
    fn left(&mut self, delivered: &Delivered, asked: &Asked, scene: Scene, seen: &mut Seen) -> Verdict {
        let number = delivered.id.number;
        self.stands_no_more(number);
        let Some(known) = self.known.get_mut(&number) else {
            // One whose short life began and ended in one batch has no row, and may have been given away in between.
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
            return Err(format!("acknowledged for good: message {number} was, and was delivered again"));
        }
        if message.retry.is_zero() && known.left > 1 + known.returned {
            return Err(format!("once at most: message {number} was delivered {} times", known.left));
        }
        let first = message.created_at + message.delay;
        if let Some(at) = known.not_before.into_iter().chain([first]).find(|at| *at > scene.now) {
            return Err(format!("never early: message {number} is due at {at}, and went at {}", scene.now));
        }
        if message.expires_at <= asked.came {
            return Err(format!(
                "never after its life: message {number} lived until {}, and was given to one who came at {}",
                message.expires_at, asked.came
            ));
        }
        Ok(())
    }

    /// It was done to all of them.
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
                        return Err(format!("message {} was acknowledged, and is still there", id.number));
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
            return Err(format!("once at most: message {number} reached consumers {} times", known.reached));
        }
        Ok(())
    }

    /// All is well again: nobody waits while there is a message, and nobody waits for ever.
    pub(crate) fn nobody_waits_in_vain(&self, time: u64) -> Verdict {
        for asked in self.asked.values() {
            let Ask::Take(Take { queue, .. }) = &asked.ask else { continue };
            let waited = time - asked.since;
            if waited > PATIENCE_MAX {
                return Err(format!(
                    "a consumer has waited at {} for {waited} ms, and hears nothing",
                    queue.name
                ));
            }
            let stands = |(of, since): &&(QueueKey, u64)| of == queue && *since + WAITING_MAX < time;
            let mut untouched = self.standing.get(queue).into_iter().flat_map(BTreeMap::values);
            let is_passed_over = untouched.any(|standing| standing.since + UNTOUCHED_MAX < time);
            if (waited > WAITING_MAX && self.queued.values().any(|row| stands(&row)))
                || (waited > UNTOUCHED_MAX && is_passed_over)
            {
                return Err(format!("a consumer waits at {}, and so does a message", queue.name));
            }
        }
        Ok(())
    }

    /// From now on nothing is in flight when a queue says how it is.
    pub(crate) fn all_is_quiet(&mut self) {
        self.quiet = true;
    }

    /// Nothing moves any more: whatever was added has reached somebody, unless its life was over or somebody ended it.
    pub(super) fn at_rest(&self, messages: &Messages, reached: Timestamp) -> Verdict {
        for known in self.added.iter().filter_map(|number| self.known.get(number)) {
            let Known { message, queue, .. } = known;
            let number = message.id.number;
            let is_there = messages.get(number).is_some();
            if is_there && !is_left_alone(queue) && known.reached == 0 && !message.retry.is_zero() {
                return Err(format!("never lost: message {number} was added, lives, and reached nobody"));
            }
            let is_ended = message.expires_at <= reached || messages.was_flushed(queue);
            if !is_there && !is_ended && known.reached == 0 && !message.retry.is_zero() {
                return Err(format!("never lost: message {number} was added, went, and reached nobody"));
            }
        }
        Ok(())
    }
}
