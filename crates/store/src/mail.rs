//! Mail: messages between nodes through the store, for nodes that cannot be dialled.
//!
//! Mail stays until its recipient confirms that it was taken, so none is lost on the way; (sender, number) identifies
//! it, so none is taken twice. Mail is not state: a crash of the store may lose it, and a node that gets no answer asks
//! again.

use punctual_core::ids::SessionId;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mail {
    pub to: SessionId,
    pub from: SessionId,
    /// A counter of the sender, over all recipients.
    pub number: i64,
    pub body: Vec<u8>,
}

impl Mail {
    pub fn place(&self) -> Place {
        Place { from: self.from, number: self.number }
    }
}

/// Identifies one mail of a recipient; mail is delivered in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    pub from: SessionId,
    pub number: i64,
}
