//! Messages that attempts deliver, and the notice to the attempt when its message ends.
//!
//! A run and its queue may belong to different shards, led by different nodes. So a message names its sender. When it
//! ends, a notice is written in the commit that deletes it; the notice stays until the shard of the run has confirmed
//! it. A node carries requests between the two, each perhaps twice. The run of a job that an attempt starts is treated
//! the same.
//!
//! ```text
//!  run ──deliver──▶ message ──ends──▶ notice ──tell──▶ run
//!   └────cancelled────withdraw───────────▲
//! ```

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Body, DeadMessage, IdText, Message, MessageId, MessageStatus, QueueNumber, Sender};
use crate::Timestamp;
use crate::alert::Notification;
use crate::ids::{RunId, ShardId, made_at};
use crate::run::{Assignee, Status};
use crate::topic::{Listener, TopicKey, Wake};
use crate::workflow::StepKey;

/// How a message with a sender ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    Acked,
    /// Its consumer reported a failure.
    Refused,
    /// Its time to live was over.
    Expired,
    /// It was delivered too often without an acknowledgement, and went to the dead-letter queue.
    GivenUp,
    /// A user deleted it or flushed its queue.
    Deleted,
    /// Its run was stopped.
    Withdrawn,
}

impl Ending {
    /// The error of the run. Empty means success.
    pub fn error(self) -> &'static str {
        match self {
            Ending::Acked => "",
            Ending::Refused => "the message was refused by its consumer",
            Ending::Expired => "the message was not acknowledged within its time to live",
            Ending::GivenUp => "the message was delivered too often without an acknowledgement",
            Ending::Deleted => "the message was deleted from its queue",
            Ending::Withdrawn => "the message was taken out of its queue",
        }
    }
}

/// What an attempt is told about its message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum News {
    /// It is in its queue.
    Delivered(Whereabouts),
    Ended {
        whereabouts: Whereabouts,
        ending: Ending,
    },
    /// It was not added, and never will be. Or the run of another job was not started.
    Undelivered {
        why: Box<str>,
    },
    /// The run of another job was started.
    Called {
        run: RunId,
        since: Timestamp,
    },
    /// The run of another job has ended.
    Returned(Box<Returned>),
}

/// How the run of another job ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Returned {
    pub run: RunId,
    pub status: Status,
    pub at: Timestamp,
    pub output: Box<str>,
    /// Empty if it has succeeded.
    pub error: Box<str>,
}

/// The message of an attempt, as its run shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Whereabouts {
    /// The id of the message.
    pub message: Box<str>,
    /// When it was created.
    pub since: Timestamp,
}

impl Whereabouts {
    pub fn of(message: MessageId, ttl: Duration, at_most_once: bool) -> Whereabouts {
        let text = IdText::new(message, ttl, at_most_once);
        Whereabouts { message: text.as_str().into(), since: made_at(message.number) }
    }

    /// As the output of a run that was sent to this queue.
    pub fn output(&self, to: &Assignee) -> Box<str> {
        let Assignee::Queue(queue) = to else { return Box::default() };
        serde_json::json!({ "queue": queue.as_str(), "message": self.message }).to_string().into()
    }
}

/// A notice for another shard, kept until that shard has confirmed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndNotice {
    /// Made by the shard that keeps the notice, and contains that shard.
    pub number: i64,
    pub content: Content,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Content {
    /// Tells an attempt what became of its message, or of the run that it started.
    Attempt { sender: Sender, news: News },
    /// Tells a listener of a topic what happened.
    Wake(Box<Wake>),
    /// Adds a listener to a topic.
    Listen { topic: TopicKey, listener: Listener, key: Option<Arc<str>> },
    /// Removes a step that waits no more.
    StopListening { topic: TopicKey, step: StepKey },
    /// Moves a message to a dead-letter queue.
    Dead(Box<DeadMessage>),
    /// Notifies people through a channel. It is sent by the node, not to another shard.
    Notify(Box<Notification>),
}

/// The number under which end notices are stored among the messages. No queue gets this number.
pub const END_NOTICES: QueueNumber = QueueNumber(0);

impl EndNotice {
    pub fn shard(&self) -> ShardId {
        RunId(self.number).shard()
    }

    /// The row of the notice. It is due at once, so a load of the shard finds it on the first page of timers.
    pub fn row(&self, now: Timestamp) -> Message {
        // Serializing plain data cannot fail.
        let body = serde_json::to_vec(&self.content).unwrap_or_default();
        Message {
            id: MessageId { queue: END_NOTICES, number: self.number },
            priority: 0,
            body: Body::from(body),
            created_at: now,
            expires_at: now,
            delay: Duration::ZERO,
            retry: Duration::ZERO,
            status: MessageStatus::Active { until: None },
            nacks: 0,
            redeliveries: 0,
            key: None,
            sender: None,
        }
    }

    /// Reads a notice from its row. `None` means an ordinary message, or a notice of a later version.
    pub fn of(row: &Message) -> Option<EndNotice> {
        if row.id.queue != END_NOTICES {
            return None;
        }
        let content = serde_json::from_slice(&row.body).ok()?;
        Some(EndNotice { number: row.id.number, content })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{IdMaker, Token};

    #[test]
    fn an_end_notice_reads_back_from_its_row() {
        let now = Timestamp::from_millis(1_800_000_000_000);
        let number = IdMaker::new(ShardId(3), 0).next(now);
        let whereabouts = Whereabouts { message: "D-1".into(), since: now };
        let news = [
            News::Ended { whereabouts, ending: Ending::Refused },
            News::Undelivered { why: "the queue is paused".into() },
        ];
        for news in news {
            let sender = Sender { run: RunId(7), token: Token(9) };
            let notice = EndNotice { number, content: Content::Attempt { sender, news } };
            let row = notice.row(now);
            assert_eq!((row.wake_at(), row.is_queued(), notice.shard()), (now, false, ShardId(3)));
            assert_eq!(EndNotice::of(&row), Some(notice));
            let id = MessageId { queue: QueueNumber(1), ..row.id };
            assert_eq!(EndNotice::of(&Message { id, ..row }), None);
        }
    }
}
