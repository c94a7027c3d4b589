//! Checks messages on their way to dead-letter queues: each leaves its queue in the commit of its notice, and is added to
//! its dead-letter queue once, before the notice is deleted.

use std::collections::BTreeMap;

use punctual_core::change::{Batch, Change, Row, RowKey};
use punctual_core::queue::{Content, END_NOTICES, EndNotice};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{Seen, Verdict};
use crate::traffic::number_of;

#[derive(Debug, Default)]
pub(super) struct Moves {
    /// The number in the body of each message on its way, by the number of its notice.
    notices: BTreeMap<i64, u64>,
    /// The message that each of these numbers was in.
    left: FxHashMap<u64, i64>,
    /// Bodies that must still arrive.
    missing: FxHashSet<u64>,
    /// Messages that were moved.
    moved: FxHashSet<i64>,
    /// The message that has each body now.
    bearers: FxHashMap<u64, i64>,
}

impl Moves {
    /// Notes the notices of a batch, before its messages are looked at.
    pub(super) fn landed(&mut self, batch: &Batch, seen: &mut Seen) {
        for (_, change) in batch.changes.iter() {
            let Change::Insert(Row::Message(row)) = change else { continue };
            match EndNotice::of(row) {
                Some(EndNotice { number, content: Content::Dead(dead) }) => {
                    let body = number_of(&dead.message.body);
                    seen.moved += 1;
                    self.notices.insert(number, body);
                    self.missing.insert(body);
                    if let Some(message) = self.bearers.get(&body) {
                        self.left.insert(body, *message);
                        self.moved.insert(*message);
                    }
                }
                Some(_) => {}
                None => drop(self.bearers.insert(number_of(&row.body), row.id.number)),
            }
        }
    }

    /// Checks the notices of a batch after its messages.
    pub(super) fn are_gone(&mut self, batch: &Batch, exists: impl Fn(i64) -> bool) -> Verdict {
        for (key, change) in batch.changes.iter() {
            let RowKey::Message(END_NOTICES, place) = key else { continue };
            match change {
                Change::Delete => {
                    let body = self.notices.remove(&place.number);
                    if let Some(body) = body.filter(|body| self.missing.contains(body)) {
                        return Err(format!(
                            "never lost: body {body} is in no queue, and the notice that carried it is gone"
                        ));
                    }
                }
                _ => {
                    let left = self.notices.get(&place.number).and_then(|body| self.left.get(body));
                    if let Some(message) = left.filter(|message| exists(**message)) {
                        return Err(format!(
                            "one queue: message {message} was moved, and is still in its queue"
                        ));
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether the message that has come with this body was on its way to a dead-letter queue.
    pub(super) fn arrived(&mut self, body: u64) -> bool {
        self.missing.remove(&body)
    }

    pub(super) fn was_moved(&self, message: i64) -> bool {
        self.moved.contains(&message)
    }

    pub(super) fn at_rest(&self) -> Verdict {
        match self.missing.iter().min() {
            Some(body) => Err(format!("never lost: body {body} has not arrived in its dead-letter queue")),
            None => Ok(()),
        }
    }
}
