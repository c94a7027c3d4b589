//! Letters: what is left of messages that attempts have delivered, until those have heard how they ended.
//!
//! A letter is written in the batch that takes its message away and told when that is durable; it goes when the sender has
//! heard it, which may be on another node. All of them are in memory, for each belongs to a run that is in somebody's memory
//! too. After a load the first page of timers brings them, and they are told again.

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

/// How long it is remembered, beyond the life of a message, that it was delivered for its sender: longer than any node may
/// go on trying to deliver it.
const REMEMBERED: Duration = Duration::from_secs(24 * 3600);

#[derive(Debug, Default)]
pub(super) struct Letters {
    all: FxHashMap<i64, Kept>,
    /// The letters of senders that have not heard them.
    of: FxHashMap<Sender, i64>,
}

#[derive(Debug)]
struct Kept {
    letter: Letter,
    /// The store has a row of it once all that is sealed is committed.
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

/// Under what it is remembered that a sender has had its message. No key of a queue begins like this.
pub(super) fn delivery_key(sender: Sender) -> Arc<str> {
    Arc::from(format!("delivery/{}/{}", sender.run, sender.token))
}

impl Shard {
    /// Adds the message of an attempt, unless it has had one.
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

    /// None: the attempt never had a message. None inside: it had one, which has ended.
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

    /// Takes the message of an attempt away; if there never was one, there never will be.
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
            // It had one, whose letter is on its way, in memory yet or not, or was heard; or it was stopped before.
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

    /// A message has ended: its sender, if it has one, will hear of it.
    pub(super) fn post(&mut self, message: &Message, ending: Ending, now: Timestamp) {
        let Some(sender) = message.sender else { return };
        let whereabouts = Whereabouts::of(message.id, message.ttl(), message.retry.is_zero());
        let (number, news) = (self.ids.next(now), News::Ended { whereabouts, ending });
        self.queues.letters.keep(Letter { number, sender, news }, false);
        self.queues.unwritten.letters.push(number);
    }

    /// A letter as the store has it, unless memory knows better.
    pub(super) fn take_letter(&mut self, letter: Letter, cx: &mut Context<'_>) {
        let number = letter.number;
        if !self.queues.letters.all.contains_key(&number) && !self.pins.messages.contains_key(&number) {
            cx.errand(Errand::Tell(letter.clone()));
            self.queues.letters.keep(letter, true);
        }
    }

    /// Writes new letters, and has them told when that is done.
    pub(super) fn seal_letters(&mut self, changes: &mut Changes, cx: &mut Context<'_>) {
        for number in std::mem::take(&mut self.queues.unwritten.letters) {
            if let Some(kept) = self.queues.letters.all.get_mut(&number) {
                kept.stored = true;
                changes.insert(Row::Message(Arc::new(kept.letter.row(cx.now))));
                cx.errand(Errand::Tell(kept.letter.clone()));
            }
        }
    }

    /// A sender has heard its letter.
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
