//! Mail: messages between nodes through the store, for nodes that cannot be dialled.
//!
//! Mail stays until its recipient confirms that it was taken, so none is lost on the way; (sender, number) identifies
//! it, so none is taken twice. Mail is not state: a crash of the store may lose it, and a node that gets no answer asks
//! again.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use punctual_core::ids::SessionId;

use crate::Result;

/// Mail between sessions.
#[async_trait]
pub trait Mailboxes: Send + Sync + fmt::Debug {
    /// Stores mail for other sessions; mail that is stored already stays as it is. Also deletes mail older than `kept`:
    /// its recipient is gone.
    async fn send_mail(&self, mail: &[Mail], kept: Duration) -> Result<()>;

    /// Deletes the mail that a session has taken and returns its other mail, in order of sender and number. Mail is
    /// returned again until it is taken.
    async fn receive_mail(&self, to: SessionId, taken: &[MailPosition], limit: usize) -> Result<Vec<Mail>>;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mail {
    pub to: SessionId,
    pub from: SessionId,
    /// A counter of the sender, over all recipients.
    pub number: i64,
    pub body: Vec<u8>,
}

impl Mail {
    pub fn place(&self) -> MailPosition {
        MailPosition { from: self.from, number: self.number }
    }
}

/// Identifies one mail of a recipient; mail is delivered in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MailPosition {
    pub from: SessionId,
    pub number: i64,
}
