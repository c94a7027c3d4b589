//! The queues of a shard and those of their messages that are in memory, with the changes that are not written yet.
//!
//! It knows nothing about timers, keys, pins and commits: its methods tell the shard what has changed, and the shard
//! does the rest.

mod messages;
mod unwritten;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::limits::QUEUES_PER_SHARD_MAX;
use punctual_core::planted::{Fault, is_planted};
use punctual_core::queue::{
    END_NOTICES, Message, MessagePosition, Pause, QueueKey, QueueNumber, QueueRecord,
};
use punctual_core::time::Elapsed;
use rustc_hash::FxHashMap;

use super::settings::First;
use super::window::Window;
use crate::event::Ticket;
use messages::Live;
pub(super) use messages::Mark;
use unwritten::Unwritten;

/// How many messages of a queue with active consumers stay in memory.
const REACH_WARM: usize = 1024;
/// How many messages stay in memory if no consumer has taken any for a while.
const REACH_COLD: usize = 64;
/// Above this number of messages, or bytes of bodies, in memory, every queue of the shard keeps `REACH_COLD` messages.
const HELD_MAX: usize = 16 * 1024;
const HELD_BYTES_MAX: usize = 16 * 1024 * 1024;
/// How often the shard looks for unused queues.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(60);
/// An empty queue is removed when it was unused for this long.
const UNUSED_MAX: Duration = Duration::from_secs(5 * 60);
#[derive(Debug, Default)]
pub(crate) struct Queues {
    all: FxHashMap<QueueNumber, Queue>,
    names: FxHashMap<QueueKey, QueueNumber>,
    /// The last number given to a queue.
    last: u32,
    /// Messages in memory, by number.
    held: FxHashMap<i64, Live>,
    /// The bytes of their bodies.
    bytes: usize,
    /// Messages read for the next commands.
    fetched: FxHashMap<i64, Arc<Message>>,
    unwritten: Unwritten,
    /// Queues that may need their next page of messages.
    hungry: VecDeque<QueueNumber>,
    /// Delivered messages kept in memory for a while, because an acknowledgement is likely to come soon.
    unacked: VecDeque<i64>,
    /// Queues with settings of which a message has changed.
    noted: Vec<QueueNumber>,
    /// Whether a look for unused queues is scheduled.
    looks: bool,
}

#[derive(Debug)]
pub(super) struct Queue {
    /// Its counts are those of the rows once every sealed batch is committed.
    pub(super) record: QueueRecord,
    /// Whether the store has a row of it.
    stored: bool,
    dirty: bool,
    pub(super) window: Window,
    /// The current number of queued messages.
    pub(super) len: u64,
    /// The current number of messages in all states.
    pub(super) alive: u64,
    /// The current number of messages that are delivered and not acknowledged.
    pub(super) unacked: u64,
    /// How many of all messages are in memory.
    held: u64,
    pub(super) takers: VecDeque<Taker>,
    /// How many takers wait for a page, not for a new message.
    pub(super) parked: usize,
    pub(super) flushes: Vec<(Ticket, u32)>,
    pub(super) used_at: Timestamp,
    /// The last take. `None` means that no consumer has taken from it for a while.
    pub(super) taken_at: Option<Timestamp>,
    hungry: bool,
    /// Whether it is among the queues of which a message has changed.
    is_noted: bool,
    /// The deadline at which its rate may allow the next delivery. `None` means that there is none.
    pub(super) opens_at: Option<Elapsed>,
    /// `None` means that it is empty, or has no `hold`.
    pub(super) first: Option<First>,
    /// The deadline for the first message. `None` means that there is none.
    pub(super) watched_until: Option<Elapsed>,
    pub(super) added: u64,
    pub(super) taken: u64,
    pub(super) expired: u64,
    /// Messages that were moved to the dead-letter queue.
    pub(super) dead: u64,
}

/// A consumer that waits for messages.
#[derive(Debug)]
pub(super) struct Taker {
    pub(super) ticket: Ticket,
    /// The id under which the wait can be cancelled. `None` means that the caller did not ask to wait.
    pub(super) waiter: Option<u64>,
    pub(super) count: u32,
    /// The queue was not empty when it asked, so it waits only for the page and then gets its full count.
    pub(super) parked: bool,
}

/// What a look at all queues has found.
pub(super) struct Looked {
    /// Empty queues that were unused for [`UNUSED_MAX`].
    pub(super) unused: Vec<QueueNumber>,
    /// Queues from which no consumer takes any more.
    pub(super) cold: Vec<QueueNumber>,
    pub(super) look_again: bool,
}

impl Queue {
    fn new(record: QueueRecord, stored: bool, now: Timestamp) -> Queue {
        Queue {
            window: Window::before(record.queued),
            len: record.queued,
            alive: record.messages,
            unacked: if is_planted(Fault::UnackedIsForgotten) { 0 } else { record.unacked },
            record,
            stored,
            dirty: false,
            held: 0,
            takers: VecDeque::new(),
            parked: 0,
            flushes: Vec::new(),
            used_at: now,
            taken_at: None,
            hungry: false,
            is_noted: false,
            opens_at: None,
            first: None,
            watched_until: None,
            added: 0,
            taken: 0,
            expired: 0,
            dead: 0,
        }
    }

    /// Whether the queue's counts allow one more message in memory. A message beyond them was added by a later leader:
    /// this shard is outdated and has not noticed it yet.
    fn has_room_for(&self, message: &Message) -> bool {
        self.held < self.alive && (!message.is_queued() || self.window.in_memory() < self.len)
    }

    fn is_unused(&self) -> bool {
        self.is_empty() && self.record.pause == Pause::default() && self.record.settings.is_none()
    }

    /// It has no messages, and no consumer waits.
    pub(super) fn is_empty(&self) -> bool {
        self.alive == 0
            && self.record.messages == 0
            && self.takers.is_empty()
            && self.flushes.is_empty()
            && !self.window.is_paging()
    }

    /// Whether some of its messages are only rows.
    pub(super) fn is_partly_stored(&self) -> bool {
        self.alive > self.held
    }

    /// Notes that one of its messages has changed.
    fn note_change(&mut self, noted: &mut Vec<QueueNumber>) {
        if self.record.settings.is_some() && !std::mem::replace(&mut self.is_noted, true) {
            noted.push(self.record.number);
        }
    }

    /// How many of its messages stay in memory.
    fn reach(&self, is_crowded: bool) -> usize {
        if self.taken_at.is_none() || is_crowded { REACH_COLD } else { REACH_WARM }
    }
}

impl Queues {
    pub(super) fn load(&mut self, record: QueueRecord, now: Timestamp) {
        self.last = self.last.max(record.number.0);
        self.insert(Queue::new(record, true, now));
    }

    fn insert(&mut self, queue: Queue) {
        self.names.insert(queue.record.key.clone(), queue.record.number);
        self.all.insert(queue.record.number, queue);
    }

    /// Makes a queue. `None` means that the shard has too many queues.
    pub(super) fn make(&mut self, key: &QueueKey, now: Timestamp) -> Option<QueueNumber> {
        if self.all.len() >= QUEUES_PER_SHARD_MAX {
            return None;
        }
        let record = QueueRecord {
            key: key.clone(),
            number: self.free_number(),
            created_at: now,
            pause: Pause::default(),
            queued: 0,
            messages: 0,
            unacked: 0,
            settings: None,
        };
        let number = record.number;
        self.insert(Queue::new(record, false, now));
        Some(number)
    }

    fn free_number(&mut self) -> QueueNumber {
        loop {
            self.last = self.last.wrapping_add(1);
            if QueueNumber(self.last) != END_NOTICES && !self.all.contains_key(&QueueNumber(self.last)) {
                return QueueNumber(self.last);
            }
        }
    }

    pub(super) fn remove_queue(&mut self, number: QueueNumber) {
        let Some(queue) = self.all.remove(&number) else { return };
        self.names.remove(&queue.record.key);
        if queue.stored {
            self.unwritten.gone_queues.push(number);
        }
    }

    pub(super) fn find(&self, key: &QueueKey) -> Option<QueueNumber> {
        self.names.get(key).copied()
    }

    pub(super) fn get(&self, number: QueueNumber) -> Option<&Queue> {
        self.all.get(&number)
    }

    pub(super) fn get_mut(&mut self, number: QueueNumber) -> Option<&mut Queue> {
        self.all.get_mut(&number)
    }

    /// Every queue, with the number of its queued messages.
    pub(super) fn lengths(&self) -> impl Iterator<Item = (&QueueKey, u64)> {
        self.all.values().map(|queue| (&queue.record.key, queue.len))
    }

    /// The next queue with settings of which a message has changed.
    pub(super) fn pop_noted(&mut self) -> Option<QueueNumber> {
        let number = self.noted.pop()?;
        if let Some(queue) = self.all.get_mut(&number) {
            queue.is_noted = false;
        }
        Some(number)
    }

    /// Notes that a client has used the queue.
    pub(super) fn note_use(&mut self, number: QueueNumber, now: Timestamp) {
        if let Some(queue) = self.all.get_mut(&number) {
            queue.used_at = now;
        }
    }

    /// Has the row of a queue written with the next batch.
    pub(super) fn touch(&mut self, number: QueueNumber) {
        if let Some(queue) = self.all.get_mut(&number)
            && !std::mem::replace(&mut queue.dirty, true)
        {
            self.unwritten.queues.push(number);
        }
    }

    /// Removes and returns all waiting takes and flushes.
    pub(crate) fn dismiss(&mut self) -> Vec<Ticket> {
        let mut tickets = Vec::new();
        for queue in self.all.values_mut() {
            queue.parked = 0;
            tickets.extend(queue.takers.drain(..).map(|taker| taker.ticket));
            tickets.extend(queue.flushes.drain(..).map(|(ticket, _)| ticket));
        }
        tickets.sort_unstable();
        tickets
    }

    pub(super) fn has_unused(&self) -> bool {
        self.all.values().any(Queue::is_unused)
    }

    /// Notes that a look for unused queues is needed. Returns false if one is scheduled already.
    pub(super) fn begin_look(&mut self) -> bool {
        !std::mem::replace(&mut self.looks, true)
    }

    pub(super) fn look(&mut self, now: Timestamp) -> Looked {
        self.looks = false;
        let mut looked = Looked { unused: Vec::new(), cold: Vec::new(), look_again: false };
        for (number, queue) in &mut self.all {
            if queue.is_unused() && now.since(queue.used_at) >= UNUSED_MAX {
                looked.unused.push(*number);
                continue;
            }
            if queue.takers.is_empty() && queue.taken_at.is_some_and(|at| now.since(at) >= LOOK_EVERY) {
                queue.taken_at = None;
                looked.cold.push(*number);
            }
            looked.look_again |= queue.is_unused() || queue.taken_at.is_some();
        }
        looked.unused.sort_unstable();
        looked.cold.sort_unstable();
        looked
    }
}

impl Queues {
    fn is_crowded(&self) -> bool {
        self.held.len() > HELD_MAX || self.bytes > HELD_BYTES_MAX
    }

    /// Marks a queue that needs a page. A queue without consumers needs none.
    pub(super) fn feed(&mut self, of: QueueNumber) {
        let is_crowded = self.is_crowded();
        let Some(queue) = self.all.get_mut(&of) else { return };
        if queue.taken_at.is_some()
            && !queue.hungry
            && queue.window.wants_page(queue.reach(is_crowded)).is_some()
        {
            queue.hungry = true;
            self.hungry.push_back(of);
        }
    }

    /// The queue whose page is to be read next, the place after which it starts, and its size.
    pub(super) fn ask_page(&mut self) -> Option<(QueueNumber, MessagePosition, usize)> {
        let is_crowded = self.is_crowded();
        while let Some(number) = self.hungry.pop_front() {
            let Some(queue) = self.all.get_mut(&number) else { continue };
            queue.hungry = false;
            if let Some((after, limit)) = queue.window.wants_page(queue.reach(is_crowded)) {
                queue.window.page_is_asked();
                return Some((number, after, limit));
            }
        }
        None
    }

    /// Bounds the number of a queue's messages in memory; returns those that need not stay.
    pub(super) fn shrink(&mut self, of: QueueNumber) -> Vec<MessagePosition> {
        let is_crowded = self.is_crowded();
        let Some(queue) = self.all.get_mut(&of) else { return Vec::new() };
        queue.window.shrink(queue.reach(is_crowded))
    }
}
