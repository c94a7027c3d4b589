//! Messages: adding, taking, acting on them, and showing one.
//!
//! A message has the same id here and in the Redis protocol. Its body is any bytes: text is in `body`,
//! anything else in `body_base64`.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use punctual_core::limits::{DURATION_MAX, KEY_BYTES_MAX, MESSAGE_BYTES_MAX, PAGE_MAX, PRIORITY_MAX};
use punctual_core::queue::{
    Body, Delivered, MessageId, MessageStatus, MessageView, NewMessage, Notice, QueueKey, Verb,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Problem;
use crate::error::Error;
use crate::resp::{JobId, parse_id};
use crate::schema;
use crate::text::{Instant, Span, Text, small};

/// Messages in one request.
pub const MESSAGES_MAX: usize = PAGE_MAX;
/// The default life of a message.
pub const TTL_DEFAULT: Duration = Duration::from_secs(24 * 3600);
/// The default time until redelivery; shorter if the message has a short life.
pub const RETRY_DEFAULT: Duration = Duration::from_secs(300);
/// The default priority.
pub const PRIORITY_DEFAULT: u8 = 5;

/// A message to be added.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a map like { body: hello }")]
pub struct AddMessage {
    /// The body, as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// The body as base64, if it is not text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_base64: Option<String>,
    /// It is delivered after this at the earliest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<Span>,
    /// It is redelivered if it is not acknowledged after this. `0s` means at most one delivery.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<Span>,
    /// It is deleted after this, acknowledged or not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Span>,
    /// 0 to 9; 9 is delivered first.
    #[serde(default, deserialize_with = "small::option", skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    /// It is refused if this many messages are queued already.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_len: Option<u64>,
    /// If the queue has a message with this key, that message is the answer and nothing is added.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// Several messages to be added, each by itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a map like { messages: [{ body: hello }] }")]
pub struct AddMessages {
    pub messages: Vec<AddMessage>,
}

/// The message that was added, or that its key found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Added {
    #[schema(value_type = schema::MessageId)]
    pub id: String,
    /// `false` means that a message with this key exists; `id` is its id.
    pub is_new: bool,
}

/// The result for each of several messages, in the order of the request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AddedMessages {
    pub items: Vec<AddedMessage>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AddedMessage {
    #[schema(value_type = Option<schema::MessageId>)]
    pub id: Option<String>,
    pub is_new: bool,
    /// Why it was not added.
    pub problem: Option<Problem>,
}

/// A message that was taken or shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Taken {
    #[schema(value_type = schema::MessageId)]
    pub id: String,
    #[schema(value_type = schema::QueueName)]
    pub queue: String,
    pub state: MessageState,
    /// The body as text. `null` means that it is not text: see `body_base64`.
    pub body: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_base64: Option<String>,
    /// Its time to live, from when it was added.
    pub ttl: Span,
    /// It is never redelivered.
    pub at_most_once: bool,
    pub nacks: u32,
    /// Deliveries that were not the first, nacks apart.
    pub redeliveries: u32,
    /// The node that leads its queue.
    pub node: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum MessageState {
    /// Ready to be taken.
    Queued,
    /// Delayed, or delivered and not acknowledged yet.
    Active,
}

/// A message with all its fields.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Message {
    #[schema(value_type = schema::MessageId)]
    pub id: String,
    #[schema(value_type = schema::QueueName)]
    pub queue: String,
    /// The same as `queue`, for scripts that were written for other servers.
    #[schema(value_type = schema::QueueName)]
    pub group: String,
    pub state: MessageState,
    /// Copies that this server keeps. The store may keep more.
    pub replicate: u32,
    /// The rest of its time to live.
    pub ttl: Span,
    /// The body as text. `null` means that it is not text: see `body_base64`.
    pub body: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_base64: Option<String>,
    /// When it becomes ready to be taken. `null` means that it is ready already, or never will be.
    pub next_requeue_within: Option<Span>,
    /// Deliveries so far, the one under way included.
    pub attempts: u32,
    pub registered_at: Instant,
    pub delivery_info: DeliveryInfo,
    pub delay: Span,
    pub retry: Span,
    pub priority: u8,
    pub nacks: u32,
    /// Deliveries that were not the first, nacks apart.
    pub redeliveries: u32,
    pub expires_at: Instant,
    pub key: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DeliveryInfo {
    /// The node that leads its queue.
    pub node: String,
    /// When it becomes ready to be taken.
    pub qtime: Option<Instant>,
    /// Always 0: an acknowledged message is deleted.
    pub ack_times: u32,
    pub delivery_count: u32,
}

/// An action on messages that are named by their ids.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a map like { action: ack, ids: [D-…] }")]
pub struct ActOnMessages {
    pub action: MessageAction,
    #[schema(value_type = Vec<schema::MessageId>)]
    pub ids: Vec<String>,
    /// For `nack`: they are redelivered after this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<Span>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum MessageAction {
    /// It was processed: delete it.
    Ack,
    /// Processing failed: deliver it again.
    Nack,
    /// Make it ready to be taken now.
    Enqueue,
    /// Do not deliver it until its `retry` has passed.
    Dequeue,
    Delete,
    /// It was taken but not processed: put it back without counting the delivery.
    Return,
}

/// How many messages it was done to. Messages that do not exist are not counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ActedOnMessages {
    pub done: u64,
}

/// The extended delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Postponed {
    pub postponed: Span,
}

impl AddMessage {
    /// A message with this body, as text if possible.
    pub fn of(body: &[u8]) -> AddMessage {
        let (body, body_base64) = as_json(body);
        AddMessage { body, body_base64, ..AddMessage::default() }
    }

    pub fn into_core(self) -> Result<NewMessage, Error> {
        let body = read_body(self.body, self.body_base64)?;
        let ttl = at_most(self.ttl, "ttl")?.unwrap_or(TTL_DEFAULT);
        if ttl.is_zero() {
            return Err(Error::invalid(
                "ttl",
                "must be longer than 0s, or the message would never be delivered",
            ));
        }
        let delay = at_most(self.delay, "delay")?.unwrap_or_default();
        if delay >= ttl {
            return Err(Error::invalid(
                "delay",
                "must be shorter than `ttl`, or the message would never be delivered",
            ));
        }
        let retry = at_most(self.retry, "retry")?.unwrap_or_else(|| retry_of(ttl));
        let priority = self.priority.unwrap_or(PRIORITY_DEFAULT);
        if priority > PRIORITY_MAX {
            return Err(Error::invalid("priority", format!("must be 0 to {PRIORITY_MAX}")));
        }
        if self.max_len == Some(0) {
            return Err(Error::invalid("max_len", "must be at least 1"));
        }
        if let Some(key) = &self.key
            && (key.is_empty() || key.len() > KEY_BYTES_MAX || key.chars().any(char::is_control))
        {
            return Err(Error::invalid(
                "key",
                format!("must be 1 to {KEY_BYTES_MAX} bytes without control characters"),
            ));
        }
        let (max_len, key) = (self.max_len, self.key.map(Into::into));
        Ok(NewMessage { body, delay, retry, ttl, priority, max_len, key })
    }
}

fn at_most(span: Option<Span>, field: &'static str) -> Result<Option<Duration>, Error> {
    match span {
        Some(Span(span)) if span > DURATION_MAX => Err(Error::invalid(field, "must be at most ten years")),
        span => Ok(span.map(|span| span.0)),
    }
}

/// A message with a short life is redelivered sooner, so that it is redelivered at all.
fn retry_of(ttl: Duration) -> Duration {
    Duration::from_secs((ttl / 10).as_secs().max(1)).min(RETRY_DEFAULT)
}

fn read_body(text: Option<String>, base64: Option<String>) -> Result<Body, Error> {
    let (bytes, field) = match (text, base64) {
        (Some(text), None) => (text.into_bytes(), "body"),
        (None, Some(base64)) => {
            let bytes = STANDARD.decode(base64);
            (bytes.map_err(|error| Error::invalid("body_base64", error.to_string()))?, "body_base64")
        }
        (Some(_), Some(_)) => {
            return Err(Error::invalid("body", "give either `body` or `body_base64`, not both"));
        }
        (None, None) => return Err(Error::invalid("body", "is required, as text; or give `body_base64`")),
    };
    if bytes.len() > MESSAGE_BYTES_MAX {
        return Err(Error::invalid(field, format!("must be at most {MESSAGE_BYTES_MAX} bytes")));
    }
    Ok(bytes.into())
}

/// The bytes as `body` or, if they are not text, as `body_base64`.
fn as_json(bytes: &[u8]) -> (Option<String>, Option<String>) {
    match str::from_utf8(bytes) {
        Ok(text) => (Some(text.to_owned()), None),
        Err(_) => (None, Some(STANDARD.encode(bytes))),
    }
}

fn as_bytes(body: Option<&str>, base64: Option<&str>) -> Vec<u8> {
    match (body, base64) {
        (Some(text), _) => text.as_bytes().to_vec(),
        (None, base64) => STANDARD.decode(base64.unwrap_or_default()).unwrap_or_default(),
    }
}

impl AddMessages {
    pub fn into_core(self) -> Result<Vec<NewMessage>, Error> {
        if !(1..=MESSAGES_MAX).contains(&self.messages.len()) {
            return Err(Error::invalid("messages", format!("must have 1 to {MESSAGES_MAX} messages")));
        }
        let messages = self.messages.into_iter().enumerate();
        messages
            .map(|(at, message)| message.into_core().map_err(|error| error.under(&format!("messages[{at}]"))))
            .collect()
    }
}

impl Added {
    pub fn of(notice: Notice) -> Added {
        let Notice { id, ttl, at_most_once, is_new } = notice;
        Added { id: JobId::new(id, ttl, at_most_once).to_string(), is_new }
    }
}

impl Taken {
    /// `node` is the node that leads the queue.
    pub fn of(queue: &QueueKey, message: &Delivered, state: MessageState, node: &str) -> Taken {
        let (body, body_base64) = as_json(&message.body);
        Taken {
            id: JobId::new(message.id, message.ttl, message.at_most_once).to_string(),
            queue: queue.name.to_string(),
            state,
            body,
            body_base64,
            ttl: Span(message.ttl),
            at_most_once: message.at_most_once,
            nacks: message.nacks,
            redeliveries: message.redeliveries,
            node: node.to_owned(),
        }
    }

    /// Deliveries so far.
    pub fn deliveries(&self) -> u32 {
        let earlier = self.nacks.saturating_add(self.redeliveries);
        earlier.saturating_add(u32::from(self.state == MessageState::Active))
    }

    pub fn bytes(&self) -> Vec<u8> {
        as_bytes(self.body.as_deref(), self.body_base64.as_deref())
    }
}

impl Message {
    /// `node` is the node that leads the queue.
    pub fn of(view: &MessageView, node: &str) -> Message {
        let (body, body_base64) = as_json(&view.body);
        let life = view.expires_at.since(view.created_at);
        let queue = view.queue.name.to_string();
        let back_at = view.status.back_at();
        let is_delivered = matches!(view.status, MessageStatus::Active { .. });
        let attempts = view.nacks.saturating_add(view.redeliveries).saturating_add(u32::from(is_delivered));
        Message {
            id: JobId::new(view.id, life, view.retry.is_zero()).to_string(),
            group: queue.clone(),
            queue,
            state: match view.status {
                MessageStatus::Queued => MessageState::Queued,
                MessageStatus::Active { .. } | MessageStatus::Delayed { .. } => MessageState::Active,
            },
            replicate: 1,
            ttl: Span(view.expires_at.since(view.now)),
            body,
            body_base64,
            next_requeue_within: back_at.map(|at| Span(at.since(view.now))),
            attempts,
            registered_at: Text(view.created_at),
            delivery_info: DeliveryInfo {
                node: node.to_owned(),
                qtime: back_at.map(Text),
                ack_times: 0,
                delivery_count: attempts,
            },
            delay: Span(view.delay),
            retry: Span(view.retry),
            priority: view.priority,
            nacks: view.nacks,
            redeliveries: view.redeliveries,
            expires_at: Text(view.expires_at),
            key: view.key.as_deref().map(str::to_owned),
        }
    }

    pub fn bytes(&self) -> Vec<u8> {
        as_bytes(self.body.as_deref(), self.body_base64.as_deref())
    }
}

impl MessageState {
    pub fn as_str(self) -> &'static str {
        match self {
            MessageState::Queued => "queued",
            MessageState::Active => "active",
        }
    }
}

impl ActOnMessages {
    /// The verb and the messages. Ids that no node here made are left out: they name no message.
    pub fn into_core(self) -> Result<(Verb, Vec<MessageId>), Error> {
        if !(1..=MESSAGES_MAX).contains(&self.ids.len()) {
            return Err(Error::invalid("ids", format!("must have 1 to {MESSAGES_MAX} ids")));
        }
        if self.delay.is_some() && self.action != MessageAction::Nack {
            return Err(Error::invalid("delay", "is allowed with `nack` only"));
        }
        let verb = match self.action {
            MessageAction::Ack => Verb::Ack,
            MessageAction::Nack => Verb::Nack { delay: at_most(self.delay, "delay")?.unwrap_or_default() },
            MessageAction::Enqueue => Verb::Enqueue,
            MessageAction::Dequeue => Verb::Dequeue,
            MessageAction::Delete => Verb::Delete,
            MessageAction::Return => Verb::Return,
        };
        let mut ids = Vec::with_capacity(self.ids.len());
        for (at, id) in self.ids.iter().enumerate() {
            let id = parse_id(id.as_bytes()).map_err(|_| Error::invalid(format!("ids[{at}]"), NOT_AN_ID))?;
            ids.extend(id);
        }
        Ok((verb, ids))
    }
}

/// The error for a text that is not a message id.
pub const NOT_AN_ID: &str = "is not the id of a message, which has 40 bytes and begins with D-";

#[cfg(test)]
mod tests;
