//! The messages in memory.

use std::sync::Arc;

use punctual_core::Timestamp;
use punctual_core::queue::{Message, MessagePosition, MessageStatus, QueueNumber};
use punctual_core::time::Elapsed;

use super::{Queue, Queues};

/// Delivered messages kept in memory after they are written: a slow consumer will acknowledge them soon.
const UNACKED_MAX: usize = 1024;
/// Messages with larger bodies are not kept.
const UNACKED_BYTES_MAX: usize = 4 * 1024;

#[derive(Debug)]
pub(super) struct Live {
    pub(super) message: Arc<Message>,
    /// The state of its row once every sealed batch is committed.
    pub(super) row: Stored,
    pub(super) mark: Mark,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stored {
    Nothing,
    Queued,
    Unacked,
    Delayed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::queue) enum Mark {
    /// Equal to its row.
    Clean,
    /// Written within a second.
    Lazy,
    /// Written with the next batch.
    Dirty,
}

/// What a change of a message means for its timer.
pub(in crate::queue) struct Changed {
    pub(in crate::queue) wake_before: Timestamp,
    pub(in crate::queue) wake: Timestamp,
    /// It is the only delivery that is not written yet.
    pub(in crate::queue) is_first_delivery: bool,
}

impl Stored {
    pub(super) fn of(message: &Message) -> Stored {
        match message.status {
            MessageStatus::Queued => Stored::Queued,
            MessageStatus::Active { .. } => Stored::Unacked,
            MessageStatus::Delayed { .. } => Stored::Delayed,
        }
    }
}

impl Queue {
    /// Saturating, for rows of a later leader are not in the counts of a shard that has not noticed it yet.
    fn count_unacked(&mut self, before: bool, now: bool) {
        self.unacked = (self.unacked + u64::from(now)).saturating_sub(u64::from(before));
    }

    /// The same for the rows.
    pub(super) fn count_stored_unacked(&mut self, before: Stored, now: Stored) {
        let [before, now] = [before, now].map(|row| u64::from(row == Stored::Unacked));
        self.record.unacked = (self.record.unacked + now).saturating_sub(before);
    }
}

impl Queues {
    pub(in crate::queue) fn message(&self, number: i64) -> Option<&Arc<Message>> {
        self.held.get(&number).map(|live| &live.message)
    }

    pub(in crate::queue) fn messages(&self) -> impl Iterator<Item = &Arc<Message>> {
        self.held.values().map(|live| &live.message)
    }

    pub(in crate::queue) fn is_held(&self, number: i64) -> bool {
        self.held.contains_key(&number)
    }

    pub(in crate::queue) fn messages_held(&self) -> usize {
        self.held.len()
    }

    /// Keeps the rows that the next commands need.
    pub(in crate::queue) fn supply(&mut self, found: Vec<Arc<Message>>) {
        self.fetched = found.into_iter().map(|message| (message.id.number, message)).collect();
    }

    pub(in crate::queue) fn forget_supplied(&mut self) {
        self.fetched.clear();
    }

    pub(in crate::queue) fn supplied(&self, number: i64) -> Option<Arc<Message>> {
        self.fetched.get(&number).cloned()
    }

    /// Counts a new message and puts it into memory. Returns whether a consumer waits for it.
    pub(in crate::queue) fn add(&mut self, message: Arc<Message>) -> bool {
        let (number, is_queued) = (message.id.number, message.is_queued());
        let Some(queue) = self.all.get_mut(&message.id.queue) else { return false };
        queue.added += 1;
        queue.alive += 1;
        queue.len += u64::from(is_queued);
        let is_awaited = is_queued && !queue.takers.is_empty();
        self.unwritten.messages.push(number);
        self.hold(message, Stored::Nothing, Mark::Dirty);
        is_awaited
    }

    /// Puts a stored message into memory. Returns false if its queue has no room for it.
    pub(in crate::queue) fn hold_row(&mut self, message: Arc<Message>) -> bool {
        let row = Stored::of(&message);
        self.hold(message, row, Mark::Clean)
    }

    fn hold(&mut self, message: Arc<Message>, row: Stored, mark: Mark) -> bool {
        let Some(queue) = self.all.get_mut(&message.id.queue) else { return false };
        if !queue.has_room_for(&message) {
            return false;
        }
        queue.held += 1;
        self.bytes += message.body.len();
        if message.is_queued() {
            queue.window.put(message.position(), message.body.len());
        }
        queue.note_change(&mut self.noted);
        self.held.insert(message.id.number, Live { message, row, mark });
        true
    }

    /// Changes a message and its place in the queue. `None` means that it is not in memory.
    pub(in crate::queue) fn change(
        &mut self,
        number: i64,
        mark: Mark,
        elapsed: Elapsed,
        edit: impl FnOnce(&mut Message),
    ) -> Option<Changed> {
        let live = self.held.get_mut(&number)?;
        let (wake_before, was_queued) = (live.message.wake_at(), live.message.is_queued());
        let was_unacked = live.message.is_unacked();
        edit(Arc::make_mut(&mut live.message));
        let message = &live.message;
        if let Some(queue) = self.all.get_mut(&message.id.queue) {
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
            queue.count_unacked(was_unacked, message.is_unacked());
            queue.note_change(&mut self.noted);
        }
        let mut is_first_delivery = false;
        match (live.mark, mark) {
            (Mark::Lazy | Mark::Clean, Mark::Dirty) => {
                live.mark = Mark::Dirty;
                self.unwritten.messages.push(number);
            }
            (Mark::Clean, Mark::Lazy) => {
                live.mark = Mark::Lazy;
                self.unwritten.delivered.push_back((elapsed, number));
                is_first_delivery = self.unwritten.delivered.len() == 1;
            }
            _ => {}
        }
        Some(Changed { wake_before, wake: message.wake_at(), is_first_delivery })
    }

    /// Deletes a message. Returns it, and whether it had a row, which the next batch deletes.
    pub(in crate::queue) fn delete(&mut self, number: i64) -> Option<(Arc<Message>, bool)> {
        let (message, row) = self.leave(number)?;
        let (of, is_stored) = (message.id.queue, row != Stored::Nothing);
        if let Some(queue) = self.all.get_mut(&of) {
            queue.alive -= 1;
            queue.len -= u64::from(message.is_queued());
            queue.count_unacked(message.is_unacked(), false);
            queue.count_stored_unacked(row, Stored::Nothing);
            queue.record.messages -= u64::from(is_stored);
            queue.record.queued -= u64::from(row == Stored::Queued);
        }
        if is_stored {
            self.touch(of);
            self.delete_row(of, message.position());
        }
        Some((message, is_stored))
    }

    /// Has a row deleted with the next batch.
    pub(in crate::queue) fn delete_row(&mut self, of: QueueNumber, place: MessagePosition) {
        self.unwritten.gone.push((of, place));
    }

    /// Removes a message from memory; its row stays.
    pub(in crate::queue) fn evict(&mut self, number: i64) -> Option<Arc<Message>> {
        self.leave(number).map(|(message, _)| message)
    }

    fn leave(&mut self, number: i64) -> Option<(Arc<Message>, Stored)> {
        let Live { message, row, .. } = self.held.remove(&number)?;
        self.bytes -= message.body.len();
        if let Some(queue) = self.all.get_mut(&message.id.queue) {
            queue.held -= 1;
            if message.is_queued() {
                queue.window.remove(message.position());
            }
            queue.note_change(&mut self.noted);
        }
        Some((message, row))
    }

    /// Whether a message must stay in memory: it has an unwritten change, or is near the front of its queue.
    pub(in crate::queue) fn must_stay(&self, number: i64) -> bool {
        let Some(Live { message, mark, .. }) = self.held.get(&number) else { return true };
        let Some(queue) = self.all.get(&message.id.queue) else { return true };
        *mark != Mark::Clean || (message.is_queued() && queue.window.keeps(message.position()))
    }

    /// Keeps a delivered message in memory until it is acknowledged or too many others are. Returns false for a message
    /// that is queued or large.
    pub(in crate::queue) fn keep_unacked(&mut self, number: i64) -> bool {
        let is_kept = self.held.get(&number).is_some_and(|Live { message, .. }| {
            !message.is_queued() && message.body.len() <= UNACKED_BYTES_MAX
        });
        if is_kept {
            self.unacked.push_back(number);
        }
        is_kept
    }

    /// The oldest delivered message, if too many are kept.
    pub(in crate::queue) fn pop_unacked(&mut self) -> Option<i64> {
        if self.unacked.len() > UNACKED_MAX { self.unacked.pop_front() } else { None }
    }

    /// Whether a message is written and not queued.
    pub(in crate::queue) fn is_idle(&self, number: i64) -> bool {
        self.held.get(&number).is_some_and(|live| live.mark == Mark::Clean && !live.message.is_queued())
    }
}
