//! How heavy a page of messages may be: they may be a mebibyte each, and a page has a thousand.

use std::sync::Arc;

use punctual_core::limits::PAGE_BYTES_MAX;
use punctual_core::queue::Message;

/// What the bodies on a page weigh so far.
#[derive(Debug, Default)]
pub(crate) struct Weight(usize);

impl Weight {
    pub(crate) fn add(&mut self, message: &Message) {
        self.0 += message.body.len();
    }

    /// Nothing more goes onto the page.
    pub(crate) fn is_full(&self) -> bool {
        self.0 >= PAGE_BYTES_MAX
    }

    pub(crate) fn bytes(&self) -> usize {
        self.0
    }

    pub(crate) fn of(messages: &[Arc<Message>]) -> Weight {
        Weight(messages.iter().map(|message| message.body.len()).sum())
    }
}
