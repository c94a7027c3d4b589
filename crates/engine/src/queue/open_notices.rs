//! The notices that have not been confirmed yet.

use punctual_core::queue::{Content, EndNotice, Sender};
use punctual_core::topic::{Topic, TopicKey};
use rustc_hash::FxHashMap;

#[derive(Debug, Default)]
pub(crate) struct OpenNotices {
    all: FxHashMap<i64, Open>,
    of: FxHashMap<Sender, i64>,
    /// How many messages of each queue were handed to its listeners, and not confirmed.
    handed: FxHashMap<TopicKey, usize>,
    /// How many carry a message to a dead-letter queue.
    dead: usize,
    /// New notices that the next batch must carry.
    unwritten: Vec<i64>,
}

#[derive(Debug)]
struct Open {
    notice: EndNotice,
    /// Whether the store has a row of it once every sealed batch is committed.
    stored: bool,
}

/// The queue whose message the notice hands to a listener.
fn queue_of(notice: &EndNotice) -> Option<&TopicKey> {
    match &notice.content {
        Content::Wake(wake) if matches!(wake.topic.topic, Topic::Queue(_)) => Some(&wake.topic),
        _ => None,
    }
}

impl OpenNotices {
    /// Adds a new notice, which the next batch must carry.
    pub(crate) fn add(&mut self, notice: EndNotice) {
        self.unwritten.push(notice.number);
        self.insert(notice, false);
    }

    pub(super) fn add_stored(&mut self, notice: EndNotice) {
        self.insert(notice, true);
    }

    fn insert(&mut self, notice: EndNotice, stored: bool) {
        if let Content::Attempt { sender, .. } = &notice.content {
            self.of.insert(*sender, notice.number);
        }
        self.dead += usize::from(matches!(notice.content, Content::Dead(_)));
        if let Some(queue) = queue_of(&notice) {
            *self.handed.entry(queue.clone()).or_default() += 1;
        }
        self.all.insert(notice.number, Open { notice, stored });
    }

    pub(super) fn has(&self, number: i64) -> bool {
        self.all.contains_key(&number)
    }

    pub(super) fn has_of(&self, sender: Sender) -> bool {
        self.of.contains_key(&sender)
    }

    /// How many messages of a queue were handed to its listeners, and not confirmed.
    pub(super) fn handed(&self, queue: &TopicKey) -> usize {
        self.handed.get(queue).copied().unwrap_or_default()
    }

    /// How many messages are on their way to dead-letter queues.
    pub(super) fn dead(&self) -> usize {
        self.dead
    }

    pub(super) fn get(&self, number: i64) -> Option<&EndNotice> {
        self.all.get(&number).map(|open| &open.notice)
    }

    /// Removes a confirmed notice, and returns it with whether the store has a row of it. `None` means that it is not
    /// known.
    pub(super) fn remove(&mut self, number: i64) -> Option<(EndNotice, bool)> {
        let open = self.all.remove(&number)?;
        if let Content::Attempt { sender, .. } = &open.notice.content {
            self.of.remove(sender);
        }
        self.dead -= usize::from(matches!(open.notice.content, Content::Dead(_)));
        if let Some(count) = queue_of(&open.notice).and_then(|queue| self.handed.get_mut(queue)) {
            *count -= 1;
        }
        Some((open.notice, open.stored))
    }

    /// The new notices, for the batch that writes them.
    pub(super) fn take_unwritten(&mut self) -> Vec<EndNotice> {
        let mut notices = Vec::new();
        for number in std::mem::take(&mut self.unwritten) {
            if let Some(open) = self.all.get_mut(&number) {
                open.stored = true;
                notices.push(open.notice.clone());
            }
        }
        notices
    }

    pub(crate) fn dirty_rows(&self) -> usize {
        self.unwritten.len()
    }
}
