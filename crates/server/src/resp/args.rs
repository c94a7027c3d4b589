//! Parses arguments of commands: numbers, times, names, ids.

use std::time::Duration;

use punctual_core::limits::QUEUE_NAME_BYTES_MAX;
use punctual_core::name::Namespace;
use punctual_core::queue::{MessageId, QueueKey};
use punctual_wire::resp::{Request, parse_id};

use super::fault::{Fault, NOT_A_NUMBER};

/// Compares without regard to case.
pub(super) fn is(word: &[u8], other: &str) -> bool {
    word.eq_ignore_ascii_case(other.as_bytes())
}

pub(super) fn number(word: &[u8]) -> Option<i64> {
    // As in Redis: no `+5`, no ` 5`.
    let text = std::str::from_utf8(word).ok().filter(|text| !text.starts_with('+'))?;
    text.parse().ok()
}

pub(super) fn number_or_say(word: &[u8]) -> Result<i64, Fault> {
    number(word).ok_or(NOT_A_NUMBER)
}

/// Milliseconds. Zero gives `None`, which means without a limit.
pub(super) fn timeout(word: &[u8]) -> Result<Option<Duration>, Fault> {
    let millis = number(word).ok_or(Fault::new("ERR timeout is not an integer or out of range"))?;
    match u64::try_from(millis) {
        Ok(0) => Ok(None),
        Ok(millis) => Ok(Some(Duration::from_millis(millis))),
        Err(_) => Err(Fault::new("ERR timeout is negative")),
    }
}

pub(super) fn queue(namespace: &Namespace, word: &[u8]) -> Result<QueueKey, Fault> {
    let name = std::str::from_utf8(word).ok().and_then(|text| text.parse().ok());
    let name = name.ok_or_else(|| {
        Fault::of(format!("ERR the name of a queue is UTF-8 text of 1 to {QUEUE_NAME_BYTES_MAX} bytes"))
    })?;
    Ok(QueueKey { namespace: namespace.clone(), name })
}

/// Parses all ids, or fails. Ids that no node here made are left out: they name no message.
pub(super) fn ids<'a>(words: impl Iterator<Item = &'a [u8]>) -> Result<Vec<MessageId>, Fault> {
    let mut ids = Vec::with_capacity(words.size_hint().0);
    for word in words {
        ids.extend(parse_id(word)?);
    }
    Ok(ids)
}

/// Iterates over the arguments, some of which are followed by a value.
pub(super) struct Words<'a> {
    request: &'a Request,
    at: usize,
}

impl<'a> Words<'a> {
    pub(super) fn of(request: &'a Request, from: usize) -> Words<'a> {
        Words { request, at: from }
    }

    /// The index of the next argument.
    pub(super) fn place(&self) -> usize {
        self.at
    }

    pub(super) fn next(&mut self) -> Option<&'a [u8]> {
        let word = (self.at < self.request.len()).then(|| self.request.word(self.at))?;
        self.at += 1;
        Some(word)
    }

    pub(super) fn has_next(&self) -> bool {
        self.at < self.request.len()
    }
}
