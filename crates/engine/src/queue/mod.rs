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
//! message that an attempt delivered leaves a notice for that attempt ([`end_notices`]).
//!
//! **Invariant:** the counts in a queue's row match the message rows of the same batch.

mod window;
mod add;
mod take;
mod act;
mod timers;
mod look;
mod page;
mod seal;
mod end_notices;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::change::{Holder, Want};
use punctual_core::command::Answer;
use punctual_core::limits::QUEUES_PER_SHARD_MAX;
use punctual_core::queue::{
    Act, Add, Ask, Deliver, END_NOTICES, Ending, Message, MessageId, MessagePosition, Pause, QueueKey,
    QueueNumber, QueueRecord,
};
use punctual_core::time::Elapsed;
use rustc_hash::FxHashMap;

use crate::Shard;
use crate::deadline::Deadline;
use crate::event::{Context, Ticket};
use crate::plan::TimerOwner;
use end_notices::EndNotices;
use window::Window;

/// How many messages of a queue with active consumers stay in memory.
const REACH_WARM: usize = 1024;
/// How many messages stay in memory if no consumer has taken any for a while.
const REACH_COLD: usize = 64;
/// Above this number of messages, or bytes of bodies, in memory, every queue of the shard keeps `REACH_COLD` messages.
const HELD_MAX: usize = 16 * 1024;
const HELD_BYTES_MAX: usize = 16 * 1024 * 1024;
/// How often the shard looks for unused queues.
const LOOK_EVERY: Duration = Duration::from_secs(60);
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
    spoken_of: VecDeque<i64>,
    /// Whether a look for unused queues is scheduled.
    looks: bool,
    end_notices: EndNotices,
}

/// The changes of queues that the next batch must carry.
#[derive(Debug, Default)]
struct Unwritten {
    /// Changed messages; some may have been deleted since.
    messages: Vec<i64>,
    /// Rows of deleted messages.
    gone: Vec<(QueueNumber, MessagePosition)>,
    queues: Vec<QueueNumber>,
    gone_queues: Vec<QueueNumber>,
    /// New end notices.
    end_notices: Vec<i64>,
    /// Delivered messages that are not written yet, and when they were delivered (elapsed time).
    delivered: VecDeque<(Elapsed, i64)>,
    /// Whether these must be written with the next batch.
    delivered_due: bool,
}

#[derive(Debug)]
struct Queue {
    /// Its counts are those of the rows once every sealed batch is committed.
    record: QueueRecord,
    /// Whether the store has a row of it.
    stored: bool,
    dirty: bool,
    window: Window,
    /// The current number of queued messages.
    len: u64,
    /// The current number of messages in all states.
    alive: u64,
    /// How many of these are in memory.
    held: u64,
    takers: VecDeque<Taker>,
    /// How many takers wait for a page, not for a new message.
    parked: usize,
    flushes: Vec<(Ticket, u32)>,
    used_at: Timestamp,
    /// The last take. `None` means that no consumer has taken from it for a while.
    taken_at: Option<Timestamp>,
    hungry: bool,
    added: u64,
    taken: u64,
}

impl Shard {
    /// Every queue in memory, with the number of its queued messages and of all its messages.
    pub fn queue_lengths(&self) -> impl Iterator<Item = (&QueueKey, u64, u64)> {
        let queues = self.queues.names.iter();
        queues.filter_map(|(key, number)| {
            self.queues.all.get(number).map(|queue| (key, queue.len, queue.alive))
        })
    }
}

/// A consumer that waits for messages.
#[derive(Debug)]
struct Taker {
    ticket: Ticket,
    /// The id under which the wait can be cancelled. `None` means that the caller did not ask to wait.
    waiter: Option<u64>,
    count: u32,
    /// The queue was not empty when it asked, so it waits only for the page and then gets its full count.
    parked: bool,
}

#[derive(Debug)]
struct Live {
    message: Arc<Message>,
    /// The state of its row once every sealed batch is committed.
    row: Stored,
    mark: Mark,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stored {
    Nothing,
    Queued,
    Active,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    /// Equal to its row.
    Clean,
    /// Written within a second.
    Lazy,
    /// Written with the next batch.
    Dirty,
}

impl Stored {
    fn of(message: &Message) -> Stored {
        if message.is_queued() { Stored::Queued } else { Stored::Active }
    }
}

impl Queue {
    fn new(record: QueueRecord, stored: bool, now: Timestamp) -> Queue {
        Queue {
            window: Window::before(record.queued),
            len: record.queued,
            alive: record.messages,
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
            added: 0,
            taken: 0,
        }
    }

    /// Whether the queue's counts allow one more message in memory. A message beyond them was added by a later leader:
    /// this shard is outdated and has not noticed it yet.
    fn has_room_for(&self, message: &Message) -> bool {
        self.held < self.alive && (!message.is_queued() || self.window.in_memory() < self.len)
    }

    fn is_unused(&self) -> bool {
        self.is_empty() && self.record.pause == Pause::default()
    }

    /// It has no messages, and no consumer waits.
    fn is_empty(&self) -> bool {
        self.alive == 0
            && self.record.messages == 0
            && self.takers.is_empty()
            && self.flushes.is_empty()
            && !self.window.is_paging()
    }
}

impl Queues {
    pub(crate) fn is_dirty(&self) -> bool {
        let unwritten = &self.unwritten;
        unwritten.delivered_due
            || !(unwritten.messages.is_empty()
                && unwritten.gone.is_empty()
                && unwritten.queues.is_empty()
                && unwritten.gone_queues.is_empty()
                && unwritten.end_notices.is_empty())
    }

    pub(crate) fn dirty_rows(&self) -> usize {
        let unwritten = &self.unwritten;
        unwritten.messages.len() + unwritten.gone.len() + unwritten.queues.len() + unwritten.end_notices.len()
    }

    /// How many messages of a queue stay in memory.
    fn reach(&self, queue: &Queue) -> usize {
        let is_crowded = self.held.len() > HELD_MAX || self.bytes > HELD_BYTES_MAX;
        if queue.taken_at.is_none() || is_crowded { REACH_COLD } else { REACH_WARM }
    }

    fn touch(&mut self, number: QueueNumber) {
        if let Some(queue) = self.all.get_mut(&number)
            && !std::mem::replace(&mut queue.dirty, true)
        {
            self.unwritten.queues.push(number);
        }
    }

    fn free_number(&mut self) -> QueueNumber {
        loop {
            self.last = self.last.wrapping_add(1);
            if QueueNumber(self.last) != END_NOTICES && !self.all.contains_key(&QueueNumber(self.last)) {
                return QueueNumber(self.last);
            }
        }
    }
}

impl Shard {
    pub(crate) fn load_queues(&mut self, records: Vec<QueueRecord>, cx: &mut Context<'_>) {
        for record in records {
            let number = record.number;
            self.queues.last = self.queues.last.max(number.0);
            self.queues.names.insert(record.key.clone(), number);
            self.queues.all.insert(number, Queue::new(record, true, cx.now));
        }
        if self.queues.all.values().any(Queue::is_unused) {
            self.look_for_unused(cx);
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
            Ask::Flush { queue, limit } => return self.flush(ticket, &queue, limit, cx),
            Ask::Forget { queue } => self.forget_queue(&queue),
            Ask::Deliver(deliver) => self.take_delivery(deliver, cx),
            Ask::Withdraw { queue, sender } => self.withdraw_message(&queue, sender, cx),
            Ask::Told { notice } => self.told(notice),
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
                self.want_bearer(queue, &end_notices::delivery_key(*sender), wants);
            }
            _ => {}
        }
    }

    /// The row of a key, and the message that holds it.
    fn want_bearer(&self, queue: &QueueKey, key: &Arc<str>, wants: &mut Vec<Want>) {
        self.want_unique(key, wants);
        if let (Some(Holder::Message(number)), Some(queue)) =
            (self.unique_row(key).map(|row| row.holder), self.queues.names.get(queue))
        {
            self.want_message(MessageId { queue: *queue, number }, wants);
        }
    }

    fn want_message(&self, id: MessageId, wants: &mut Vec<Want>) {
        let is_row = self.queues.all.get(&id.queue).is_some_and(|queue| queue.alive > queue.held);
        if is_row
            && !self.queues.held.contains_key(&id.number)
            && !self.pins.messages.contains_key(&id.number)
        {
            wants.push(Want::Message(id));
        }
    }

    pub(crate) fn supply_messages(&mut self, found: Vec<Arc<Message>>) {
        self.queues.fetched = found.into_iter().map(|message| (message.id.number, message)).collect();
    }

    pub(crate) fn forget_messages(&mut self) {
        self.queues.fetched.clear();
    }

    /// Messages in memory.
    pub fn messages_held(&self) -> usize {
        self.queues.held.len()
    }

    /// Removes and returns all waiting takes and flushes: this shard will not answer them any more.
    pub fn dismiss(&mut self) -> Vec<Ticket> {
        let mut tickets = Vec::new();
        for queue in self.queues.all.values_mut() {
            queue.parked = 0;
            tickets.extend(queue.takers.drain(..).map(|taker| taker.ticket));
            tickets.extend(queue.flushes.drain(..).map(|(ticket, _)| ticket));
        }
        tickets.sort_unstable();
        tickets
    }

    fn find_queue(&self, key: &QueueKey) -> Option<QueueNumber> {
        self.queues.names.get(key).copied()
    }

    /// The queue of that name, created if it does not exist. `None` means that the shard has too many queues.
    fn make_queue(&mut self, key: &QueueKey, cx: &mut Context<'_>) -> Option<QueueNumber> {
        if let Some(number) = self.find_queue(key) {
            return Some(number);
        }
        if self.queues.all.len() >= QUEUES_PER_SHARD_MAX {
            return None;
        }
        let number = self.queues.free_number();
        let (created_at, pause) = (cx.now, Pause::default());
        let record = QueueRecord { key: key.clone(), number, created_at, pause, queued: 0, messages: 0 };
        self.queues.names.insert(key.clone(), number);
        self.queues.all.insert(number, Queue::new(record, false, cx.now));
        self.look_for_unused(cx);
        Some(number)
    }

    fn look_for_unused(&mut self, cx: &mut Context<'_>) {
        if !std::mem::replace(&mut self.queues.looks, true) {
            self.deadlines.insert(cx.elapsed + LOOK_EVERY, Deadline::Unused);
        }
    }

    /// Puts a message into memory and arms its timer if it is near.
    fn hold(&mut self, message: Arc<Message>, row: Stored, mark: Mark) {
        let (number, wake) = (message.id.number, message.wake_at());
        let Some(queue) = self.queues.all.get_mut(&message.id.queue) else { return };
        if !queue.has_room_for(&message) {
            return;
        }
        queue.held += 1;
        self.queues.bytes += message.body.len();
        if message.is_queued() {
            queue.window.put(message.position(), message.body.len());
        }
        if self.plan.is_near(wake, TimerOwner::Message(number)) {
            self.plan.arm(Some(wake), TimerOwner::Message(number));
        }
        self.queues.held.insert(number, Live { message, row, mark });
    }

    /// Changes a message in memory, and updates its place in the queue and in the plan.
    fn change_message(&mut self, number: i64, mark: Mark, elapsed: Elapsed, edit: impl FnOnce(&mut Message)) {
        let Queues { held, all, unwritten, .. } = &mut self.queues;
        let Some(live) = held.get_mut(&number) else { return };
        let (before, was_queued) = (live.message.wake_at(), live.message.is_queued());
        edit(Arc::make_mut(&mut live.message));
        let message = &live.message;
        let wake = message.wake_at();
        if wake != before {
            self.plan.disarm(Some(before), TimerOwner::Message(number));
        }
        // Re-armed even where the two are equal: a due timer was already popped.
        if self.plan.is_near(wake, TimerOwner::Message(number)) {
            self.plan.arm(Some(wake), TimerOwner::Message(number));
        }
        if let Some(queue) = all.get_mut(&message.id.queue) {
            match (was_queued, message.is_queued()) {
                (true, false) => {
                    queue.len -= 1;
                    queue.window.remove(message.position());
                }
                (false, true) => {
                    queue.len += 1;
                    queue.window.put(message.position(), message.body.len());
                }
                _ => {}
            }
        }
        match (live.mark, mark) {
            (Mark::Lazy | Mark::Clean, Mark::Dirty) => {
                live.mark = Mark::Dirty;
                unwritten.messages.push(number);
            }
            (Mark::Clean, Mark::Lazy) => {
                live.mark = Mark::Lazy;
                unwritten.delivered.push_back((elapsed, number));
                if unwritten.delivered.len() == 1 {
                    self.deadlines.insert(elapsed + crate::deadline::LAZY_MAX, Deadline::Delivered);
                }
            }
            _ => {}
        }
    }

    /// Deletes a message and frees its key. Its sender is told how it ended.
    fn drop_message(&mut self, number: i64, ending: Ending, now: Timestamp) {
        let Some(Live { message, row, .. }) = self.queues.held.remove(&number) else { return };
        self.queues.bytes -= message.body.len();
        self.plan.disarm(Some(message.wake_at()), TimerOwner::Message(number));
        let (of, place) = (message.id.queue, message.position());
        if let Some(queue) = self.queues.all.get_mut(&of) {
            queue.held -= 1;
            queue.alive -= 1;
            if message.is_queued() {
                queue.len -= 1;
                queue.window.remove(place);
            }
            if row != Stored::Nothing {
                queue.record.messages -= 1;
                queue.record.queued -= u64::from(row == Stored::Queued);
            }
        }
        if row != Stored::Nothing {
            self.queues.touch(of);
            self.queues.unwritten.gone.push((of, place));
            self.pins.message(self.next_batch(), number, None);
        }
        self.free_key(&message, now);
        self.post(&message, ending, now);
    }

    /// Puts the message of a command into memory. Returns false if it does not exist or has expired.
    fn find_message(&mut self, id: MessageId, now: Timestamp) -> bool {
        if !self.queues.held.contains_key(&id.number) {
            let row = match self.pins.messages.get(&id.number) {
                Some(pin) => pin.row.clone(),
                None => self.queues.fetched.get(&id.number).cloned(),
            };
            let Some(message) = row.filter(|message| message.id == id) else { return false };
            let stored = Stored::of(&message);
            self.hold(message, stored, Mark::Clean);
        }
        let Some(live) = self.queues.held.get(&id.number).filter(|live| live.message.id == id) else {
            return false;
        };
        if live.message.expires_at <= now {
            self.drop_message(id.number, Ending::Expired, now);
            return false;
        }
        true
    }
}
