//! The queues of a shard and the messages of theirs that are in memory.
//!
//! ```text
//!  add ──▶ line ──take──▶ delivered ──act──▶ gone
//!            ▲                 │
//!            └──── timers ─────┘
//! ```
//!
//! A message is in memory while it stands in the near part of its line ([`line`]), while its timer is near, while it was
//! delivered a moment ago, and until what changed of it is written; all else are rows. That a message was delivered is
//! written a second later, for most are acknowledged before: then it is one row that came and went. A message that an
//! attempt delivered leaves a letter behind ([`letters`]).
//!
//! **Invariant:** a queue's row counts its messages as the rows of the same batch have them.

mod line;
mod add;
mod take;
mod act;
mod timers;
mod look;
mod page;
mod seal;
mod letters;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::change::Want;
use punctual_core::command::Answer;
use punctual_core::limits::QUEUES_PER_SHARD_MAX;
use punctual_core::queue::{
    Act, Add, Ask, Deliver, Ending, LETTERS, Message, MessageId, Pause, Place, QueueKey, QueueNumber,
    QueueRecord,
};
use rustc_hash::FxHashMap;

use crate::Shard;
use crate::event::{Context, Ticket};
use crate::shard::Deadline;
use letters::Letters;
use line::Window;

/// Messages of a queue that consumers take from, kept at hand.
const REACH_WARM: usize = 1024;
/// The same of one that nobody has taken from for a while.
const REACH_COLD: usize = 64;
/// With so many messages in memory, or so much of bodies, every queue of the shard keeps few.
const HELD_MAX: usize = 16 * 1024;
const HELD_BYTES_MAX: usize = 16 * 1024 * 1024;
/// How often queues that nobody uses are looked for.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// An empty queue that nobody used for so long is let go.
const UNUSED_MAX: Duration = Duration::from_secs(5 * 60);

#[derive(Debug, Default)]
pub(crate) struct Queues {
    all: FxHashMap<QueueNumber, Queue>,
    names: FxHashMap<QueueKey, QueueNumber>,
    /// The last number given to a queue.
    last: u32,
    /// Messages in memory, by number.
    held: FxHashMap<i64, Live>,
    /// Their bodies.
    bytes: usize,
    /// Read for the commands at hand.
    fetched: FxHashMap<i64, Arc<Message>>,
    unwritten: Unwritten,
    /// Queues that may want a page of their line.
    hungry: VecDeque<QueueNumber>,
    /// Delivered messages that stay in memory for a while, because they are soon spoken of.
    spoken_of: VecDeque<i64>,
    /// Somebody will look for queues that nobody uses.
    looks: bool,
    letters: Letters,
}

/// What the next batch must carry of queues.
#[derive(Debug, Default)]
struct Unwritten {
    /// Messages; some may be gone since.
    messages: Vec<i64>,
    /// Rows of messages that are gone.
    gone: Vec<(QueueNumber, Place)>,
    queues: Vec<QueueNumber>,
    gone_queues: Vec<QueueNumber>,
    /// Letters that are new.
    letters: Vec<i64>,
    /// Messages that were delivered, and when by elapsed time.
    delivered: VecDeque<(Timestamp, i64)>,
    /// Those have waited long enough.
    delivered_due: bool,
}

#[derive(Debug)]
struct Queue {
    /// Its counts are those of the rows once all that is sealed is committed.
    record: QueueRecord,
    /// The store has a row of it.
    stored: bool,
    dirty: bool,
    window: Window,
    /// Messages in the line, as they are.
    len: u64,
    /// Messages in the line or not, as they are.
    alive: u64,
    /// Those in memory.
    held: u64,
    takers: VecDeque<Taker>,
    /// Takers that wait for a page, not for a message.
    parked: usize,
    flushes: Vec<(Ticket, u32)>,
    used_at: Timestamp,
    /// Somebody takes from it.
    taken_at: Option<Timestamp>,
    hungry: bool,
    added: u64,
    taken: u64,
}

impl Shard {
    /// Every queue in memory, with the messages in its line and those that it has, in the line or not.
    pub fn queue_lengths(&self) -> impl Iterator<Item = (&QueueKey, u64, u64)> {
        let queues = self.queues.names.iter();
        queues.filter_map(|(key, number)| {
            self.queues.all.get(number).map(|queue| (key, queue.len, queue.alive))
        })
    }
}

/// Who waits to be given a message.
#[derive(Debug)]
struct Taker {
    ticket: Ticket,
    /// None: it goes when there is none.
    waiter: Option<u64>,
    count: u32,
    /// It came when the line was not empty, and waits only for the page: it gets what it came for.
    parked: bool,
}

#[derive(Debug)]
struct Live {
    message: Arc<Message>,
    /// What the store has of it once all that is sealed is committed.
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
    /// It is as its row.
    Clean,
    /// It is written within a second.
    Lazy,
    /// It is written with the next batch.
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

    /// Whether there is a message more than those in memory. One beyond what was counted is a successor's: this shard is
    /// outdated and does not know it yet.
    fn has_room_for(&self, message: &Message) -> bool {
        self.held < self.alive && (!message.is_queued() || self.window.in_memory() < self.len)
    }

    fn is_unused(&self) -> bool {
        self.is_empty() && self.record.pause == Pause::default()
    }

    /// It has no messages, and no consumer waits for one.
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
                && unwritten.letters.is_empty())
    }

    pub(crate) fn dirty_rows(&self) -> usize {
        let unwritten = &self.unwritten;
        unwritten.messages.len() + unwritten.gone.len() + unwritten.queues.len() + unwritten.letters.len()
    }

    /// How many messages of a queue are kept at hand.
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
            if QueueNumber(self.last) != LETTERS && !self.all.contains_key(&QueueNumber(self.last)) {
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

    /// Carries out what was asked of a queue. A take may be answered later.
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
            Ask::Told { letter } => self.told(letter),
        };
        cx.answer(ticket, Ok(Answer::Queue(said)));
    }

    /// The rows that an ask needs.
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
                self.want_bearer(queue, &letters::delivery_key(*sender), wants);
            }
            _ => {}
        }
    }

    /// The row of a key, and then the message that bears it.
    fn want_bearer(&self, queue: &QueueKey, key: &Arc<str>, wants: &mut Vec<Want>) {
        self.want_unique(key, wants);
        if let (Some(row), Some(number)) = (self.unique_row(key), self.queues.names.get(queue)) {
            self.want_message(MessageId { queue: *number, number: row.run.0 }, wants);
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

    pub(crate) fn is_message(&self, id: i64) -> bool {
        self.queues.held.contains_key(&id)
    }

    /// Messages in memory.
    pub fn messages_held(&self) -> usize {
        self.queues.held.len()
    }

    /// Everyone who waits for a message, or for a page of a line: nobody here will serve them any more.
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

    /// The queue of that name, made if need be; none: there are too many.
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

    /// Puts a message into memory that is as its row.
    fn hold(&mut self, message: Arc<Message>, row: Stored, mark: Mark) {
        let (number, wake) = (message.id.number, message.wake_at());
        let Some(queue) = self.queues.all.get_mut(&message.id.queue) else { return };
        if !queue.has_room_for(&message) {
            return;
        }
        queue.held += 1;
        self.queues.bytes += message.body.len();
        if message.is_queued() {
            queue.window.put(message.place(), message.body.len());
        }
        if self.plan.is_near(wake, number) {
            self.plan.arm(Some(wake), number);
        }
        self.queues.held.insert(number, Live { message, row, mark });
    }

    /// Changes a message in memory; its places in the line and in the plan follow.
    fn change_message(
        &mut self,
        number: i64,
        mark: Mark,
        elapsed: Timestamp,
        edit: impl FnOnce(&mut Message),
    ) {
        let Queues { held, all, unwritten, .. } = &mut self.queues;
        let Some(live) = held.get_mut(&number) else { return };
        let (before, was_queued) = (live.message.wake_at(), live.message.is_queued());
        edit(Arc::make_mut(&mut live.message));
        let message = &live.message;
        let wake = message.wake_at();
        if wake != before {
            self.plan.disarm(Some(before), number);
        }
        // Even where the two are equal: the place was popped if it was due.
        if self.plan.is_near(wake, number) {
            self.plan.arm(Some(wake), number);
        }
        if let Some(queue) = all.get_mut(&message.id.queue) {
            match (was_queued, message.is_queued()) {
                (true, false) => {
                    queue.len -= 1;
                    queue.window.remove(message.place());
                }
                (false, true) => {
                    queue.len += 1;
                    queue.window.put(message.place(), message.body.len());
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
                    self.deadlines.insert(elapsed + crate::shard::LAZY_MAX, Deadline::Delivered);
                }
            }
            _ => {}
        }
    }

    /// A message is gone, and the key that it bore is free. Its sender is told how it ended.
    fn drop_message(&mut self, number: i64, ending: Ending, now: Timestamp) {
        let Some(Live { message, row, .. }) = self.queues.held.remove(&number) else { return };
        self.queues.bytes -= message.body.len();
        self.plan.disarm(Some(message.wake_at()), number);
        let (of, place) = (message.id.queue, message.place());
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

    /// Brings a message into memory that is spoken of; false: there is none, or its life is over.
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
