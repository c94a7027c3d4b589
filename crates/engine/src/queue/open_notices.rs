//! The notices that have not been confirmed yet.

use punctual_core::queue::{Content, EndNotice, Sender};
use rustc_hash::FxHashMap;

#[derive(Debug, Default)]
pub(crate) struct OpenNotices {
    all: FxHashMap<i64, Open>,
    of: FxHashMap<Sender, i64>,
    /// New notices that the next batch must carry.
    unwritten: Vec<i64>,
}

#[derive(Debug)]
struct Open {
    notice: EndNotice,
    /// Whether the store has a row of it once every sealed batch is committed.
    stored: bool,
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
        self.all.insert(notice.number, Open { notice, stored });
    }

    pub(super) fn has(&self, number: i64) -> bool {
        self.all.contains_key(&number)
    }

    pub(super) fn has_of(&self, sender: Sender) -> bool {
        self.of.contains_key(&sender)
    }

    /// Removes a confirmed notice. Returns whether the store has a row of it; `None` means that it is not known.
    pub(super) fn remove(&mut self, number: i64) -> Option<bool> {
        let open = self.all.remove(&number)?;
        if let Content::Attempt { sender, .. } = &open.notice.content {
            self.of.remove(sender);
        }
        Some(open.stored)
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
