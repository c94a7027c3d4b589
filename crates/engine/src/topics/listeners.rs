//! Which listeners each topic of a shard has, and which of their rows are still to be written.

use std::sync::Arc;

use punctual_core::topic::{ListenerRecord, Topic, TopicKey};
use rustc_hash::FxHashMap;

/// The listeners of a shard's topics.
#[derive(Debug, Default)]
pub(crate) struct Topics {
    by_topic: FxHashMap<TopicKey, Vec<Arc<ListenerRecord>>>,
    /// How many listeners queues have.
    of_queues: usize,
    /// Rows that the next batch writes. `None` means that the row is deleted.
    unwritten: Vec<(i64, Option<Arc<ListenerRecord>>)>,
}

impl Topics {
    pub(crate) fn load(&mut self, listeners: Vec<Arc<ListenerRecord>>) {
        listeners.into_iter().for_each(|listener| self.insert(listener));
    }

    pub(crate) fn of(&self, topic: &TopicKey) -> &[Arc<ListenerRecord>] {
        self.by_topic.get(topic).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_topic.is_empty()
    }

    pub(super) fn add(&mut self, record: ListenerRecord) {
        let record = Arc::new(record);
        self.unwritten.push((record.number, Some(Arc::clone(&record))));
        self.insert(record);
    }

    fn insert(&mut self, record: Arc<ListenerRecord>) {
        self.of_queues += usize::from(matches!(record.topic.topic, Topic::Queue(_)));
        self.by_topic.entry(record.topic.clone()).or_default().push(record);
    }

    /// Whether any queue has listeners.
    pub(crate) fn has_queues(&self) -> bool {
        self.of_queues > 0
    }

    pub(super) fn remove(&mut self, topic: &TopicKey, is_gone: impl Fn(&ListenerRecord) -> bool) {
        let Some(listeners) = self.by_topic.get_mut(topic) else { return };
        for gone in listeners.extract_if(.., |listener| is_gone(listener)) {
            self.unwritten.push((gone.number, None));
            self.of_queues -= usize::from(matches!(topic.topic, Topic::Queue(_)));
        }
        if listeners.is_empty() {
            self.by_topic.remove(topic);
        }
    }

    /// The queues that have listeners.
    pub(crate) fn queues(&self) -> impl Iterator<Item = &TopicKey> {
        self.by_topic.keys().filter(|key| matches!(key.topic, Topic::Queue(_)))
    }

    /// The rows to write. `None` means that the row is deleted.
    pub(crate) fn take_unwritten(&mut self) -> Vec<(i64, Option<Arc<ListenerRecord>>)> {
        std::mem::take(&mut self.unwritten)
    }

    pub(crate) fn dirty_rows(&self) -> usize {
        self.unwritten.len()
    }
}
