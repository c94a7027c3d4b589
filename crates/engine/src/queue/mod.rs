//! The queues of a shard and those of their messages that are in memory.
//!
//! ```text
//!  add ──▶ queued ─take──▶ delivered ──act──▶ gone
//!            ▲                 │
//!            └──── timers ─────┘
//! ```
//!
//! A message is in memory while it is near the front of its queue ([`window`]), while its timer is near, for a moment
//! after its delivery, and until its changes are written; all others are only rows. A delivery is written up to a
//! second later, because most messages are acknowledged before: then the row is inserted and deleted once. The end of a
//! message that an attempt delivered leaves a notice for that attempt ([`end_notices`]). The [`settings`] of a queue may
//! limit its deliveries, and move messages to another queue ([`dead_letters`]).
//!
//! **Invariant:** the counts in a queue's row match the message rows of the same batch.

mod window;
mod queues;
mod add;
mod take;
mod act;
mod timers;
mod look;
mod page;
mod seal;
mod open_notices;
mod end_notices;
mod hand_out;
mod settings;
mod dead_letters;

use std::sync::Arc;

use punctual_core::Timestamp;
use punctual_core::change::{Holder, Want};
use punctual_core::command::Answer;
use punctual_core::queue::{
    Act, Add, Ask, Deliver, Ending, Message, MessageId, QueueKey, QueueNumber, QueueRecord,
};
use punctual_core::time::Elapsed;

use crate::Shard;
use crate::deadline::{Deadline, LAZY_MAX};
use crate::event::{Context, Ticket};
use crate::plan::TimerOwner;
pub(crate) use end_notices::delivery_key;
pub(crate) use open_notices::OpenNotices;
pub(crate) use queues::Queues;
use queues::{LOOK_EVERY, Mark, Queue};

impl Shard {
    /// Every queue in memory, with the number of its queued messages.
    pub fn queue_lengths(&self) -> impl Iterator<Item = (&QueueKey, u64)> {
        self.queues.lengths()
    }

    pub(crate) fn load_queues(&mut self, records: Vec<QueueRecord>, cx: &mut Context<'_>) {
        records.into_iter().for_each(|record| self.queues.load(record, cx.now));
        if self.queues.has_unused() {
            self.look_for_unused(cx);
        }
        for queue in self.topics.queues().cloned().collect::<Vec<_>>() {
            self.hand_out(&queue, cx);
        }
    }

    /// Carries out a command on a queue. A take or a flush may be answered later.
    pub(crate) fn queue(&mut self, ticket: Ticket, ask: Ask, cx: &mut Context<'_>) {
        let said = match ask {
            Ask::Add(add) => self.add_messages(add, cx),
            Ask::Take(take) => return self.take_messages(ticket, &take, cx),
            Ask::Unwait { queue, waiter } => self.unwait(&queue, waiter, cx),
            Ask::Act(act) => self.act(&act, cx),
            Ask::Working { namespace, id } => self.working(&namespace, id, cx),
            Ask::Show { namespace, id } => self.show(&namespace, id, cx),
            Ask::Peek { queue, count, newest } => self.peek(&queue, count, newest, cx),
            Ask::Stat { queue } => self.stat(&queue, cx),
            Ask::Pause { queue, pause } => self.pause(&queue, pause, cx),
            Ask::Set { queue, settings } => self.set_queue(&queue, *settings, cx),
            Ask::AddDead { notice, dead } => return self.add_dead(ticket, notice, *dead, cx),
            Ask::Flush { queue, limit } => return self.flush(ticket, &queue, limit, cx),
            Ask::Forget { queue } => self.forget_queue(&queue),
            Ask::Deliver(deliver) => self.take_delivery(deliver, cx),
            Ask::Withdraw { queue, sender } => self.withdraw_message(&queue, sender, cx),
            Ask::Told { notice } => self.told(notice, cx),
        };
        cx.answer(ticket, Ok(Answer::Queue(said)));
    }

    /// The rows that a command on a queue needs.
    pub(crate) fn want_messages(&self, ask: &Ask, wants: &mut Vec<Want>) {
        match ask {
            Ask::Act(Act { ids, .. }) => ids.iter().for_each(|id| self.want_message(*id, wants)),
            Ask::Working { id, .. } | Ask::Show { id, .. } => self.want_message(*id, wants),
            Ask::Add(Add { queue, messages }) => {
                for key in messages.iter().filter_map(|message| message.key.as_ref()) {
                    self.want_bearer(queue, &add::unique_key(queue, key), wants);
                }
            }
            Ask::Deliver(Deliver { queue, sender, .. }) | Ask::Withdraw { queue, sender } => {
                self.want_bearer(queue, &delivery_key(*sender), wants);
            }
            Ask::AddDead { notice, .. } => self.want_unique(&dead_letters::dead_key(*notice), wants),
            _ => {}
        }
    }

    /// The row of a key, and the message that holds it.
    fn want_bearer(&self, queue: &QueueKey, key: &Arc<str>, wants: &mut Vec<Want>) {
        self.want_unique(key, wants);
        if let (Some(Holder::Message(number)), Some(queue)) =
            (self.unique_row(key).map(|row| row.holder), self.queues.find(queue))
        {
            self.want_message(MessageId { queue, number }, wants);
        }
    }

    fn want_message(&self, id: MessageId, wants: &mut Vec<Want>) {
        if self.queues.get(id.queue).is_some_and(Queue::is_partly_stored)
            && !self.queues.is_held(id.number)
            && !self.pins.messages.contains_key(&id.number)
        {
            wants.push(Want::Message(id));
        }
    }

    pub(crate) fn supply_messages(&mut self, found: Vec<Arc<Message>>) {
        self.queues.supply(found);
    }

    pub(crate) fn forget_messages(&mut self) {
        self.queues.forget_supplied();
    }

    /// Messages in memory.
    pub fn messages_held(&self) -> usize {
        self.queues.messages_held()
    }

    /// The queue of that name, created if it does not exist. `None` means that the shard has too many queues.
    fn make_queue(&mut self, key: &QueueKey, cx: &mut Context<'_>) -> Option<QueueNumber> {
        if let Some(number) = self.queues.find(key) {
            return Some(number);
        }
        let number = self.queues.make(key, cx.now)?;
        self.look_for_unused(cx);
        Some(number)
    }

    fn look_for_unused(&mut self, cx: &mut Context<'_>) {
        if self.queues.begin_look() {
            self.deadlines.insert(cx.elapsed + LOOK_EVERY, Deadline::Unused);
        }
    }

    /// Puts a stored message into memory and arms its timer if it is near.
    fn hold(&mut self, message: Arc<Message>) {
        let (number, wake) = (message.id.number, message.wake_at());
        if self.queues.hold_row(message) {
            self.arm_if_near(number, wake);
        }
    }

    fn arm_if_near(&mut self, number: i64, wake: Timestamp) {
        if self.plan.is_near(wake, TimerOwner::Message(number)) {
            self.plan.arm(Some(wake), TimerOwner::Message(number));
        }
    }

    /// Changes a message in memory, and updates its place in the queue and in the plan.
    fn change_message(&mut self, number: i64, mark: Mark, elapsed: Elapsed, edit: impl FnOnce(&mut Message)) {
        let Some(changed) = self.queues.change(number, mark, elapsed, edit) else { return };
        if changed.wake != changed.wake_before {
            self.plan.disarm(Some(changed.wake_before), TimerOwner::Message(number));
        }
        // Re-armed even where the two are equal: a due timer was already popped.
        self.arm_if_near(number, changed.wake);
        if changed.is_first_delivery {
            self.deadlines.insert(elapsed + LAZY_MAX, Deadline::Delivered);
        }
    }

    /// Deletes a message and frees its key. Its sender is told how it ended.
    fn drop_message(&mut self, number: i64, ending: Ending, now: Timestamp) {
        let Some((message, was_stored)) = self.queues.delete(number) else { return };
        self.plan.disarm(Some(message.wake_at()), TimerOwner::Message(number));
        if was_stored {
            self.pins.message(self.next_batch(), number, None);
        }
        self.free_key(&message, now);
        self.post(&message, ending, now);
    }

    /// Puts the message of a command into memory. Returns false if it does not exist or has expired.
    fn find_message(&mut self, id: MessageId, cx: &mut Context<'_>) -> bool {
        if !self.queues.is_held(id.number) {
            let row = match self.pins.messages.get(&id.number) {
                Some(pin) => pin.row.clone(),
                None => self.queues.supplied(id.number),
            };
            let Some(message) = row.filter(|message| message.id == id) else { return false };
            self.hold(message);
        }
        let Some(message) = self.queues.message(id.number).filter(|message| message.id == id) else {
            return false;
        };
        if message.expires_at <= cx.now {
            self.expire_message(id.number, cx);
            return false;
        }
        true
    }
}
