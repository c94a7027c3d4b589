//! Mail: what nodes say to each other through the store, because one of them cannot be dialled.
//!
//! It lies there until its recipient says that it was taken, so none is lost on the way; and it is told apart by its sender
//! and a number, so that none is taken twice. It is no state: a crash of the store may lose it, and whoever waits for an
//! answer in vain asks again.

use punctual_core::ids::SessionId;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mail {
    pub to: SessionId,
    pub from: SessionId,
    /// Counted by the sender, over all recipients.
    pub number: i64,
    pub body: Vec<u8>,
}

impl Mail {
    pub fn place(&self) -> Place {
        Place { from: self.from, number: self.number }
    }
}

/// Which mail of a recipient's: the order in which it is given out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    pub from: SessionId,
    pub number: i64,
}
