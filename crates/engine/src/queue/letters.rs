//! Letters: notices for attempts that tell how their delivered message ended.
//!
//! A letter is written in the batch that deletes its message, sent when that batch is committed, and deleted when the
//! sender, which may be on another node, has confirmed it. All letters are in memory: each belongs to a live run, so
//! they are few. After a load, the first page of timers brings them, and they are sent again.

use std::sync::Arc;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::change::{Changes, Row};
use punctual_core::command::Key;
use punctual_core::ids::RunId;
use punctual_core::queue::{
    Acted, Deliver, Ending, Errand, LETTERS, Letter, Message, MessageId, News, Notice, Place, QueueKey,
    QueueRefusal, Said, Sender, Whereabouts, rank,
};
use rustc_hash::FxHashMap;

use crate::Shard;
use crate::event::Context;

/// How long after a message's TTL it is remembered that the message was added for its sender: longer than any node
/// retries the delivery.
const REMEMBERED: Duration = Duration::from_secs(24 * 3600);

#[derive(Debug, Default)]
pub(super) struct Letters {
    all: FxHashMap<i64, Kept>,
    /// The letter of each sender that has not confirmed it.
    of: FxHashMap<Sender, i64>,
}

#[derive(Debug)]
struct Kept {
    letter: Letter,
    /// Whether the store has a row of it once every sealed batch is committed.
    stored: bool,
}

impl Letters {
    fn keep(&mut self, letter: Letter, stored: bool) {
        self.of.insert(letter.sender, letter.number);
        self.all.insert(letter.number, Kept { letter, stored });
    }

    fn remove(&mut self, number: i64) -> Option<Kept> {
        let kept = self.all.remove(&number)?;
        self.of.remove(&kept.letter.sender);
        Some(kept)
    }
}

/// The key that records that a sender's message was added. No key of a queue has this prefix.
pub(super) fn delivery_key(sender: Sender) -> Arc<str> {
    Arc::from(format!("delivery/{}/{}", sender.run, sender.token))
}

impl Shard {
    /// Adds the message of an attempt, unless it was added before.
    pub(super) fn take_delivery(&mut self, deliver: Deliver, cx: &mut Context<'_>) -> Said {
        let Deliver { queue, sender, message } = deliver;
        let text = delivery_key(sender);
        if let Some(had) = self.delivered_before(&queue, sender, cx) {
            return Said::Added(had.map_or_else(Vec::new, |notice| vec![Ok(notice)]));
        }
        let Some(number) = self.make_queue(&queue, cx) else {
            return Said::Added(vec![Err(QueueRefusal::TooManyQueues)]);
        };
        if let Some(queue) = self.queues.all.get_mut(&number) {
            queue.used_at = cx.now;
        }
        let kept = message.ttl + REMEMBERED;
        let added = self.add_message(&queue, number, message, Some(sender), cx);
        if let Ok(notice) = &added {
            self.give_key(Key { text, kept }, RunId(notice.id.number), cx.now);
        }
        Said::Added(vec![added])
    }

    /// Whether the attempt's message was added before. `Some(None)` means that it was, and has ended.
    fn delivered_before(
        &mut self,
        queue: &QueueKey,
        sender: Sender,
        cx: &mut Context<'_>,
    ) -> Option<Option<Notice>> {
        let key = delivery_key(sender);
        let alive = self.find_queue(queue).and_then(|number| self.bearing(number, &key, cx));
        let is_remembered = self.unique_row(&key).is_some_and(|row| row.expires_at > cx.now);
        let is_told = self.queues.letters.of.contains_key(&sender);
        (is_remembered || is_told).then_some(alive)
    }

    /// Deletes the message of an attempt. If it was not added yet, it is marked so that it never will be.
    pub(super) fn withdraw_message(
        &mut self,
        queue: &QueueKey,
        sender: Sender,
        cx: &mut Context<'_>,
    ) -> Said {
        let count = match self.delivered_before(queue, sender, cx) {
            Some(Some(notice)) => {
                self.withdraw_one(notice.id, cx);
                1
            }
            // The message has ended, and its letter was or will be sent; or it was withdrawn before.
            Some(None) => {
                let row = self.unique_row(&delivery_key(sender));
                u64::from(row.is_none_or(|row| row.run != RunId::of_nobody(self.id)))
            }
            None => {
                let key = Key { text: delivery_key(sender), kept: REMEMBERED };
                self.give_key(key, RunId::of_nobody(self.id), cx.now);
                0
            }
        };
        Said::Acted(Acted { count })
    }

    fn withdraw_one(&mut self, id: MessageId, cx: &mut Context<'_>) {
        if self.find_message(id, cx.now) {
            self.drop_message(id.number, Ending::Withdrawn, cx.now);
        }
    }

    /// Writes the letter to the sender of a message that has ended, if it has one.
    pub(super) fn post(&mut self, message: &Message, ending: Ending, now: Timestamp) {
        let Some(sender) = message.sender else { return };
        let whereabouts = Whereabouts::of(message.id, message.ttl(), message.retry.is_zero());
        let (number, news) = (self.ids.next(now), News::Ended { whereabouts, ending });
        self.queues.letters.keep(Letter { number, sender, news }, false);
        self.queues.unwritten.letters.push(number);
    }

    /// Takes a stored letter and sends it, unless memory or a pin has it.
    pub(super) fn take_letter(&mut self, letter: Letter, cx: &mut Context<'_>) {
        let number = letter.number;
        if !self.queues.letters.all.contains_key(&number) && !self.pins.messages.contains_key(&number) {
            cx.errand(Errand::Tell(letter.clone()));
            self.queues.letters.keep(letter, true);
        }
    }

    /// Writes new letters; they are sent after the commit.
    pub(super) fn seal_letters(&mut self, changes: &mut Changes, cx: &mut Context<'_>) {
        for number in std::mem::take(&mut self.queues.unwritten.letters) {
            if let Some(kept) = self.queues.letters.all.get_mut(&number) {
                kept.stored = true;
                changes.insert(Row::Message(Arc::new(kept.letter.row(cx.now))));
                cx.errand(Errand::Tell(kept.letter.clone()));
            }
        }
    }

    /// A sender has confirmed its letter, which is deleted.
    pub(super) fn told(&mut self, number: i64) -> Said {
        let Some(kept) = self.queues.letters.remove(number) else { return Said::Acted(Acted::default()) };
        if kept.stored {
            let place = Place { rank: rank(0), number };
            self.queues.unwritten.gone.push((LETTERS, place));
            self.pins.message(self.next_batch(), number, None);
        }
        Said::Acted(Acted { count: 1 })
    }
}
