//! The encoding of a log entry: how one commit changed the messages in it, in order.
//!
//! ```text
//! entry    version, records
//! added    1, key, head's length, body's length, head, body
//! changed  2, key, head's length, head
//! gone     3, key
//! key      queue (4 bytes), rank (1), number (8)
//! ```
//!
//! Lengths have four bytes; all numbers are little-endian. A head has the same format as in a row.

use std::sync::Arc;

use punctual_core::queue::{Message, MessagePosition, QueueNumber};

use super::Key;
use crate::{Result, codec};

/// The first byte of an entry. A change of the format needs a new version, and a reader for the old one.
const VERSION: u8 = 1;
const ADDED: u8 = 1;
const CHANGED: u8 = 2;
const GONE: u8 = 3;

#[derive(Debug)]
pub(super) enum Record<'e> {
    Added(Arc<Message>),
    Changed { key: Key, head: &'e [u8] },
    Gone(Key),
}

/// Writes an entry record by record.
#[derive(Debug, Default)]
pub(super) struct EntryWriter {
    bytes: Vec<u8>,
    head: Vec<u8>,
}

impl EntryWriter {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn added(&mut self, message: &Message) -> Result<()> {
        codec::write_head(message, &mut self.head)?;
        self.start(ADDED, Key::of(message));
        self.length(self.head.len())?;
        self.length(message.body.len())?;
        self.bytes.extend_from_slice(&self.head);
        self.bytes.extend_from_slice(&message.body);
        Ok(())
    }

    pub(super) fn changed(&mut self, message: &Message) -> Result<()> {
        codec::write_head(message, &mut self.head)?;
        self.start(CHANGED, Key::of(message));
        self.length(self.head.len())?;
        self.bytes.extend_from_slice(&self.head);
        Ok(())
    }

    pub(super) fn gone(&mut self, key: Key) {
        self.start(GONE, key);
    }

    fn start(&mut self, kind: u8, key: Key) {
        if self.bytes.is_empty() {
            self.bytes.push(VERSION);
        }
        self.bytes.push(kind);
        self.bytes.extend_from_slice(&key.queue.0.to_le_bytes());
        self.bytes.push(key.place.rank);
        self.bytes.extend_from_slice(&key.place.number.to_le_bytes());
    }

    fn length(&mut self, length: usize) -> Result<()> {
        let length = u32::try_from(length).map_err(|error| codec::cannot_write(&error))?;
        self.bytes.extend_from_slice(&length.to_le_bytes());
        Ok(())
    }
}

/// The records of an entry.
pub(super) fn records(bytes: &[u8]) -> Result<Records<'_>> {
    match bytes.split_first() {
        Some((&VERSION, rest)) => Ok(Records(rest)),
        Some((version, _)) => Err(codec::cannot_read(&format!("a log of messages of version {version}"))),
        None => Err(codec::cannot_read(&"a log of messages without bytes")),
    }
}

#[derive(Debug)]
pub(super) struct Records<'e>(&'e [u8]);

impl<'e> Iterator for Records<'e> {
    type Item = Result<Record<'e>>;

    fn next(&mut self) -> Option<Self::Item> {
        (!self.0.is_empty()).then(|| self.record())
    }
}

impl<'e> Records<'e> {
    fn record(&mut self) -> Result<Record<'e>> {
        let [kind] = *self.some()?;
        let key = Key::new(
            QueueNumber(u32::from_le_bytes(*self.some()?)),
            MessagePosition { rank: self.some::<1>()?[0], number: i64::from_le_bytes(*self.some()?) },
        );
        match kind {
            ADDED => {
                let (head, body) = (self.length()?, self.length()?);
                let (head, body) = (self.span(head)?, self.span(body)?);
                Ok(Record::Added(codec::read_message(key.queue, key.place, head, body)?))
            }
            CHANGED => {
                let head = self.length()?;
                Ok(Record::Changed { key, head: self.span(head)? })
            }
            GONE => Ok(Record::Gone(key)),
            kind => Err(codec::cannot_read(&format!("a log of messages with a record of kind {kind}"))),
        }
    }

    fn length(&mut self) -> Result<usize> {
        let length = u32::from_le_bytes(*self.some()?);
        usize::try_from(length).map_err(|error| codec::cannot_read(&error))
    }

    fn some<const N: usize>(&mut self) -> Result<&'e [u8; N]> {
        let (some, rest) = self.0.split_first_chunk().ok_or_else(cut)?;
        self.0 = rest;
        Ok(some)
    }

    fn span(&mut self, length: usize) -> Result<&'e [u8]> {
        let (span, rest) = self.0.split_at_checked(length).ok_or_else(cut)?;
        self.0 = rest;
        Ok(span)
    }
}

fn cut() -> crate::Error {
    codec::cannot_read(&"a log of messages that is cut off")
}

/// The message with a new head; its body never changes.
pub(super) fn with_head(key: Key, head: &[u8], message: &Message) -> Result<Arc<Message>> {
    let read = codec::read_message(key.queue, key.place, head, &[])?;
    Ok(Arc::new(Message { body: message.body.clone(), ..Arc::unwrap_or_clone(read) }))
}
