//! The uncommitted changes that one transaction makes to the message log.

use std::collections::hash_map::Entry;
use std::sync::Arc;

use punctual_core::queue::Message;
use rustc_hash::FxHashMap;

use super::entry::EntryWriter;
use super::{BODY_BYTES_MAX, Key, Logged, MessageLog};
use crate::Result;

#[derive(Debug, Default)]
pub(in crate::sqlite) struct Staged {
    entry: EntryWriter,
    added: Vec<Key>,
    touched: FxHashMap<Key, After>,
    /// How many of the oldest entries are removed, and their bytes.
    retired: usize,
    retired_bytes: usize,
}

/// A message as the transaction leaves it.
#[derive(Debug)]
enum After {
    New(Arc<Message>),
    Changed(Arc<Message>),
    /// Deleted, or a row now.
    Gone,
}

impl After {
    fn message(&self) -> Option<&Arc<Message>> {
        match self {
            After::New(message) | After::Changed(message) => Some(message),
            After::Gone => None,
        }
    }
}

/// Whether a new message begins in the log. A message that is not queued stays for a while, so it becomes a row at once.
pub(in crate::sqlite) fn begins_in_log(message: &Message) -> bool {
    message.is_queued() && message.body.len() <= BODY_BYTES_MAX
}

impl Staged {
    /// Whether the log does not change.
    pub(in crate::sqlite) fn is_empty(&self) -> bool {
        self.touched.is_empty() && self.retired == 0
    }

    /// The bytes of the log entry for these changes. Empty means nothing changed.
    pub(in crate::sqlite) fn entry(&self) -> &[u8] {
        self.entry.bytes()
    }

    pub(in crate::sqlite) fn has(&self, log: &MessageLog, key: &Key) -> bool {
        self.get(log, key).is_some()
    }

    fn get<'s>(&'s self, log: &'s MessageLog, key: &Key) -> Option<&'s Arc<Message>> {
        match self.touched.get(key) {
            Some(left) => left.message(),
            None => log.get(key),
        }
    }

    pub(in crate::sqlite) fn add(&mut self, message: &Arc<Message>) -> Result<()> {
        self.entry.added(message)?;
        let key = Key::of(message);
        self.added.push(key);
        self.touched.insert(key, After::New(Arc::clone(message)));
        Ok(())
    }

    pub(in crate::sqlite) fn change(&mut self, message: &Arc<Message>) -> Result<()> {
        self.entry.changed(message)?;
        let message = Arc::clone(message);
        match self.touched.entry(Key::of(&message)) {
            Entry::Occupied(mut left) if matches!(left.get(), After::New(_)) => {
                left.insert(After::New(message));
            }
            left => {
                left.insert_entry(After::Changed(message));
            }
        }
        Ok(())
    }

    pub(in crate::sqlite) fn remove(&mut self, key: Key) {
        self.entry.gone(key);
        self.touched.insert(key, After::Gone);
    }

    /// If the log is too long: the number of its next oldest entry, and the messages of that entry that still exist and
    /// have to become rows now.
    pub(in crate::sqlite) fn retire(&mut self, log: &MessageLog) -> Option<(i64, Vec<Arc<Message>>)> {
        if log.bytes - self.retired_bytes + self.entry().len() <= log.bytes_max {
            return None;
        }
        let entry = log.entries.get(self.retired)?;
        self.retired += 1;
        self.retired_bytes += entry.bytes;
        let mut surviving = Vec::new();
        for key in &entry.added {
            // The message may have been deleted and added again since: then a later entry owns it.
            let is_of_entry = log.messages.get(key).is_some_and(|kept| kept.entry == entry.number)
                && !matches!(self.touched.get(key), Some(After::New(_)));
            if is_of_entry && let Some(message) = self.get(log, key).cloned() {
                self.touched.insert(*key, After::Gone);
                surviving.push(message);
            }
        }
        Some((entry.number, surviving))
    }
}

impl MessageLog {
    /// The number of the next entry.
    pub(in crate::sqlite) fn next_entry(&self) -> i64 {
        self.entries.back().map_or(1, |entry| entry.number + 1)
    }

    /// Applies the staged changes after their commit.
    pub(in crate::sqlite) fn apply(&mut self, staged: Staged) {
        let number = self.next_entry();
        self.entries.drain(..staged.retired);
        self.bytes -= staged.retired_bytes;
        for (key, left) in staged.touched {
            match left {
                After::New(message) => {
                    self.messages.insert(key, Logged { message, entry: number });
                }
                After::Changed(message) => {
                    if let Some(kept) = self.messages.get_mut(&key) {
                        kept.message = message;
                    }
                }
                After::Gone => {
                    self.messages.remove(&key);
                }
            }
        }
        if !staged.entry.bytes().is_empty() {
            self.append(super::Entry { number, bytes: staged.entry.bytes().len(), added: staged.added });
        }
    }
}
