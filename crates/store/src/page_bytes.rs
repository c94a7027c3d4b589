//! Limits the bytes of a page of messages: a message may have 1 MiB, and a page a thousand messages.

use std::sync::Arc;

use punctual_core::limits::PAGE_BYTES_MAX;
use punctual_core::queue::Message;

/// The total body size of the messages on a page so far.
#[derive(Debug, Default)]
pub(crate) struct PageBytes(usize);

impl PageBytes {
    pub(crate) fn add(&mut self, message: &Message) {
        self.0 += message.body.len();
    }

    /// Whether the page must end here.
    pub(crate) fn is_full(&self) -> bool {
        self.0 >= PAGE_BYTES_MAX
    }

    pub(crate) fn of(messages: &[Arc<Message>]) -> PageBytes {
        PageBytes(messages.iter().map(|message| message.body.len()).sum())
    }
}
