//! A message, its place in its queue, and the record of a queue.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize, Serializer};

use super::{Body, QueueSettings};
use crate::Timestamp;
use crate::ids::{RunId, ShardId, Token};
use crate::limits::{PRIORITY_MAX, QUEUE_NAME_BYTES_MAX};
use crate::name::{self, Namespace};

/// The name of a queue, unique in its namespace: any text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct QueueName(Arc<str>);

impl QueueName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for QueueName {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        match text.len() {
            0 => Err(InvalidName::Empty),
            bytes if bytes > QUEUE_NAME_BYTES_MAX => Err(InvalidName::TooLong(bytes)),
            _ if name::is_dots(text) => Err(InvalidName::Dots(text.to_owned())),
            _ => Ok(QueueName(Arc::from(text))),
        }
    }
}

impl TryFrom<String> for QueueName {
    type Error = InvalidName;

    fn try_from(text: String) -> Result<Self, InvalidName> {
        text.parse()
    }
}

impl Serialize for QueueName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl fmt::Display for QueueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidName {
    #[error("a queue needs a name")]
    Empty,
    #[error("the name of a queue has at most {QUEUE_NAME_BYTES_MAX} bytes, this has {0}")]
    TooLong(usize),
    #[error("`{0}` means a folder in an address, so it cannot be the name of a queue")]
    Dots(String),
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct QueueKey {
    pub namespace: Namespace,
    pub name: QueueName,
}

impl QueueKey {
    /// The shard of the queue and all its messages, the same in every version and on every node.
    pub fn shard(&self, shards: u16) -> ShardId {
        // With a prefix, so that a queue and a job of the same name are not always in the same shard.
        ShardId::of(&[b"queue", self.namespace.as_str().as_bytes(), self.name.as_str().as_bytes()], shards)
    }
}

/// The number of a queue inside its shard. It is used again after its queue is gone. The number of a message is never
/// used twice, so an old id finds nothing in a new queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct QueueNumber(pub u32);

/// The id of a message: its queue and a number made by its shard, which contains the shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MessageId {
    pub queue: QueueNumber,
    pub number: i64,
}

impl MessageId {
    pub fn shard(self) -> ShardId {
        RunId(self.number).shard()
    }
}

/// The order of messages in a queue: the highest priority first, then by creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MessagePosition {
    pub rank: u8,
    pub number: i64,
}

impl MessagePosition {
    /// Before every message.
    pub const START: MessagePosition = MessagePosition { rank: 0, number: -1 };
}

/// The rank of a priority: the highest priority has the lowest rank.
pub fn rank(priority: u8) -> u8 {
    PRIORITY_MAX - priority.min(PRIORITY_MAX)
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    pub id: MessageId,
    pub priority: u8,
    pub body: Body,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
    pub delay: Duration,
    /// How long a consumer may take before the message is delivered again. Zero means at-most-once delivery.
    pub retry: Duration,
    pub status: MessageStatus,
    pub nacks: u32,
    /// Deliveries after the first, without those after a nack.
    pub redeliveries: u32,
    /// While the message exists, no other message of its queue is added under this key.
    pub key: Option<Arc<str>>,
    /// The attempt that delivered it and is told of its end.
    pub sender: Option<Sender>,
}

/// Whether a message is queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageStatus {
    Queued,
    /// Not queued until then. `None` means until a client puts it back.
    Active {
        until: Option<Timestamp>,
    },
    /// Delayed and not delivered: queued then, which does not count as a redelivery.
    Delayed {
        until: Timestamp,
    },
}

impl MessageStatus {
    /// When it is queued again by itself. `None` means that it is queued, or that a client must put it back.
    pub fn back_at(self) -> Option<Timestamp> {
        match self {
            MessageStatus::Queued => None,
            MessageStatus::Active { until } => until,
            MessageStatus::Delayed { until } => Some(until),
        }
    }
}

impl Message {
    pub fn position(&self) -> MessagePosition {
        MessagePosition { rank: rank(self.priority), number: self.id.number }
    }

    /// The time of its next timer: it is queued again, or it expires.
    pub fn wake_at(&self) -> Timestamp {
        self.status.back_at().map_or(self.expires_at, |at| at.min(self.expires_at))
    }

    pub fn is_queued(&self) -> bool {
        self.status == MessageStatus::Queued
    }

    /// Whether it was delivered and is not acknowledged, or was taken out by a user.
    pub fn is_unacked(&self) -> bool {
        matches!(self.status, MessageStatus::Active { .. })
    }

    /// Deliveries that ended without an acknowledgement.
    pub fn failed_deliveries(&self) -> u32 {
        self.nacks.saturating_add(self.redeliveries)
    }

    pub fn ttl(&self) -> Duration {
        self.expires_at.since(self.created_at)
    }
}

/// A queue as the store keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueRecord {
    pub key: QueueKey,
    pub number: QueueNumber,
    pub created_at: Timestamp,
    pub pause: Pause,
    /// The number of its queued messages, by their rows.
    pub queued: u64,
    /// The number of all its messages, by their rows.
    pub messages: u64,
    /// The number of its unacknowledged messages, by their rows.
    pub unacked: u64,
    /// `None` means a queue without settings.
    pub settings: Option<Arc<QueueSettings>>,
}

/// The attempt that a message was delivered for. A retry delivers a new message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Sender {
    pub run: RunId,
    pub token: Token,
}

/// Which directions of a queue are paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Pause {
    /// No message is added.
    pub input: bool,
    /// No message is taken.
    pub output: bool,
}
