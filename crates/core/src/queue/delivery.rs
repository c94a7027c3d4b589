//! Messages that attempts deliver, and how an attempt hears what became of its own.
//!
//! A run and the queue that it delivers into belong to different shards, and may be led by different nodes. So a message
//! names its sender; and when it ends, a letter is written in the commit that takes it away, and stays until the shard of
//! the run has heard what it says. Between the two a node runs errands, each of which may be run twice.
//!
//! ```text
//!  run ──deliver──▶ message ──ends──▶ letter ──tell──▶ run
//!   └────cancelled────withdraw───────────▲
//! ```

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Body, IdText, Line, Message, MessageId, NewMessage, QueueKey, QueueName, QueueNumber};
use crate::Timestamp;
use crate::attempt::Assignment;
use crate::ids::{RunId, ShardId, Token, made_at};

/// The attempt that a message was delivered for: one that is tried again delivers another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Sender {
    pub run: RunId,
    pub token: Token,
}

/// How a message ended that had a sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    Acked,
    /// Its consumer said that it failed.
    Refused,
    /// Its time to live was over.
    Expired,
    /// Somebody deleted it, or emptied its queue.
    Deleted,
    /// Its sender was stopped.
    Withdrawn,
}

impl Ending {
    /// What the run says of it; empty: nothing is wrong.
    pub fn error(self) -> &'static str {
        match self {
            Ending::Acked => "",
            Ending::Refused => "the message was refused by its consumer",
            Ending::Expired => "the message was not acknowledged within its time to live",
            Ending::Deleted => "the message was deleted from its queue",
            Ending::Withdrawn => "the message was taken out of its queue",
        }
    }
}

/// What an attempt hears of its message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum News {
    /// It is in its queue.
    Delivered(Whereabouts),
    Ended {
        whereabouts: Whereabouts,
        ending: Ending,
    },
    /// There is none, and there will be none.
    Undelivered {
        why: Box<str>,
    },
}

/// Which message an attempt delivered, as its run shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Whereabouts {
    /// The id of the message.
    pub message: Box<str>,
    /// When it was made.
    pub since: Timestamp,
}

impl Whereabouts {
    pub fn of(message: MessageId, ttl: Duration, at_most_once: bool) -> Whereabouts {
        let text = IdText::new(message, ttl, at_most_once);
        Whereabouts { message: text.as_str().into(), since: made_at(message.number) }
    }

    /// As the output of a run.
    pub fn output(&self, queue: &QueueName) -> Box<str> {
        serde_json::json!({ "queue": queue.as_str(), "message": self.message }).to_string().into()
    }
}

/// What is left of a message that had a sender, until its sender has heard of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Letter {
    /// Made by the shard of the queue, which it tells.
    pub number: i64,
    pub sender: Sender,
    pub news: News,
}

/// Where letters are kept: among the messages, in a queue that is nobody's. No queue is given this number.
pub const LETTERS: QueueNumber = QueueNumber(0);

impl Letter {
    pub fn shard(&self) -> ShardId {
        RunId(self.number).shard()
    }

    /// As it is kept. Its time has come as soon as it is written, so whoever loads the shard finds it first.
    pub fn row(&self, now: Timestamp) -> Message {
        // Plain data: writing it cannot fail.
        let body = serde_json::to_vec(&(self.sender, &self.news)).unwrap_or_default();
        Message {
            id: MessageId { queue: LETTERS, number: self.number },
            priority: 0,
            body: Body::from(body),
            created_at: now,
            expires_at: now,
            delay: Duration::ZERO,
            retry: Duration::ZERO,
            line: Line::Active { until: None },
            nacks: 0,
            redeliveries: 0,
            key: None,
            sender: None,
        }
    }

    /// None: it is a message like any other, or a letter of a later version.
    pub fn of(row: &Message) -> Option<Letter> {
        if row.id.queue != LETTERS {
            return None;
        }
        let (sender, news) = serde_json::from_slice(&row.body).ok()?;
        Some(Letter { number: row.id.number, sender, news })
    }
}

/// What a node has to do between a run and a queue. It is done until it has succeeded, or until another node leads the
/// shard that it comes from, and has it done again.
#[derive(Debug, Clone, PartialEq)]
pub enum Errand {
    /// Put the message of this attempt into its queue.
    Deliver(Box<Assignment>),
    /// Take it out again: its run is being stopped.
    Withdraw { sender: Sender, queue: QueueKey },
    /// Tell a sender what became of its message, and then the shard of the queue that it knows.
    Tell(Letter),
}

/// A message for a sender.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Deliver {
    pub queue: QueueKey,
    pub sender: Sender,
    pub message: NewMessage,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::IdMaker;

    #[test]
    fn a_letter_reads_back_from_its_row_and_no_message_is_taken_for_one() {
        let now = Timestamp::from_millis(1_800_000_000_000);
        let number = IdMaker::new(ShardId(3), 0).next(now);
        let whereabouts = Whereabouts { message: "D-1".into(), since: now };
        let news = [
            News::Ended { whereabouts, ending: Ending::Refused },
            News::Undelivered { why: "the queue is paused".into() },
        ];
        for news in news {
            let letter = Letter { number, sender: Sender { run: RunId(7), token: Token(9) }, news };
            let row = letter.row(now);
            assert_eq!((row.wake_at(), row.is_queued(), letter.shard()), (now, false, ShardId(3)));
            assert_eq!(Letter::of(&row), Some(letter));
            let id = MessageId { queue: QueueNumber(1), ..row.id };
            assert_eq!(Letter::of(&Message { id, ..row }), None);
        }
    }
}
