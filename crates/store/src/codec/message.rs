//! A message as it is stored: its unmodified body, and a head with the fields that its key does not contain.
//!
//! Most messages are short-lived and written once, so a head has only about fifteen bytes. Its instants are relative to
//! the creation time of the message's number. Few messages have a sender: only those use `VERSION_SENT`.

use std::sync::Arc;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::ids::made_at;
use punctual_core::limits::PRIORITY_MAX;
use punctual_core::queue::{Body, Message, MessageId, MessagePosition, MessageStatus, QueueNumber, Sender};
use serde::{Deserialize, Serialize};

use super::{Appended, cannot_read, cannot_write};
use crate::Result;

/// The first byte of a head. A change of [`Head`] needs a new version, and a reader for the old one.
const VERSION: u8 = 2;
/// Like `VERSION`, followed by the sender.
const VERSION_SENT: u8 = 3;
/// Before heads marked a message as delayed: a delayed message and a message that was refused for a while were both
/// stored as `ActiveUntil`.
const VERSION_1: u8 = 1;

#[derive(Serialize, Deserialize)]
struct Head<'m> {
    created: i64,
    expires: i64,
    delay: Duration,
    retry: Duration,
    status: HeadStatus,
    nacks: u32,
    redeliveries: u32,
    key: Option<&'m str>,
}

#[derive(Serialize, Deserialize)]
enum HeadStatus {
    Queued,
    Active,
    ActiveUntil(i64),
    DelayedUntil(i64),
}

/// Writes the head of a message into the buffer, replacing its contents.
pub(crate) fn write_head(message: &Message, buffer: &mut Vec<u8>) -> Result<()> {
    let made = made_at(message.id.number).as_millis();
    let since = |instant: Timestamp| instant.as_millis().wrapping_sub(made);
    let head = Head {
        created: since(message.created_at),
        expires: since(message.expires_at),
        delay: message.delay,
        retry: message.retry,
        status: match message.status {
            MessageStatus::Queued => HeadStatus::Queued,
            MessageStatus::Active { until: None } => HeadStatus::Active,
            MessageStatus::Active { until: Some(until) } => HeadStatus::ActiveUntil(since(until)),
            MessageStatus::Delayed { until } => HeadStatus::DelayedUntil(since(until)),
        },
        nacks: message.nacks,
        redeliveries: message.redeliveries,
        key: message.key.as_deref(),
    };
    buffer.clear();
    let written = match message.sender {
        None => {
            buffer.push(VERSION);
            postcard::serialize_with_flavor(&head, Appended(buffer))
        }
        Some(sender) => {
            buffer.push(VERSION_SENT);
            postcard::serialize_with_flavor(&(head, sender), Appended(buffer))
        }
    };
    written.map_err(|error| cannot_write(&error))
}

pub(crate) fn read_message(
    queue: QueueNumber,
    place: MessagePosition,
    head: &[u8],
    body: &[u8],
) -> Result<Arc<Message>> {
    let (head, sender, is_first): (Head<'_>, Option<Sender>, bool) = match head.split_first() {
        Some((&VERSION, rest)) => (parsed(rest)?, None, false),
        Some((&VERSION_SENT, rest)) => {
            let (head, sender) = parsed(rest)?;
            (head, Some(sender), false)
        }
        Some((&VERSION_1, rest)) => (parsed(rest)?, None, true),
        Some((version, _)) => return Err(cannot_read(&format!("a message of version {version}"))),
        None => return Err(cannot_read(&"a message without a head")),
    };
    let made = made_at(place.number).as_millis();
    let instant = |since: i64| Timestamp::from_millis(made.wrapping_add(since));
    Ok(Arc::new(Message {
        id: MessageId { queue, number: place.number },
        priority: PRIORITY_MAX.saturating_sub(place.rank),
        body: Body::from(body),
        created_at: instant(head.created),
        expires_at: instant(head.expires),
        delay: head.delay,
        retry: head.retry,
        status: match head.status {
            HeadStatus::Queued => MessageStatus::Queued,
            HeadStatus::Active => MessageStatus::Active { until: None },
            HeadStatus::ActiveUntil(until) if is_first && is_delay(&head, until) => {
                MessageStatus::Delayed { until: instant(until) }
            }
            HeadStatus::ActiveUntil(until) => MessageStatus::Active { until: Some(instant(until)) },
            HeadStatus::DelayedUntil(until) => MessageStatus::Delayed { until: instant(until) },
        },
        nacks: head.nacks,
        redeliveries: head.redeliveries,
        key: head.key.map(Arc::from),
        sender,
    }))
}

fn parsed<'h, T: Deserialize<'h>>(head: &'h [u8]) -> Result<T> {
    postcard::from_bytes(head).map_err(|error| cannot_read(&error))
}

/// Whether `until` is the end of the message's first delay.
fn is_delay(head: &Head<'_>, until: i64) -> bool {
    let delay = i64::try_from(head.delay.as_millis()).unwrap_or(i64::MAX);
    !head.delay.is_zero() && head.created.wrapping_add(delay) == until
}

#[cfg(test)]
mod tests {
    use punctual_core::ids::{IdMaker, RunId, ShardId, Token};

    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    fn message() -> Message {
        let now = Timestamp::from_millis(1_800_000_000_000);
        Message {
            id: MessageId { queue: QueueNumber(7), number: IdMaker::new(ShardId(3), 0).next(now) },
            priority: 5,
            body: Body::from(&b"anything"[..]),
            created_at: now,
            expires_at: now + DAY,
            delay: Duration::ZERO,
            retry: Duration::from_secs(300),
            status: MessageStatus::Queued,
            nacks: 0,
            redeliveries: 0,
            key: None,
            sender: None,
        }
    }

    fn read(message: &Message, head: &[u8]) -> Result<Arc<Message>> {
        read_message(message.id.queue, message.position(), head, &message.body)
    }

    #[test]
    fn a_message_reads_back_as_it_was_written() {
        let until = message().created_at + Duration::from_millis(1500);
        let odd = Message {
            priority: 0,
            created_at: Timestamp::MIN,
            expires_at: Timestamp::MAX,
            delay: Duration::from_micros(1),
            status: MessageStatus::Active { until: Some(until) },
            nacks: u32::MAX,
            redeliveries: 300,
            key: Some("a key".into()),
            ..message()
        };
        let taken =
            Message { status: MessageStatus::Active { until: None }, retry: Duration::ZERO, ..message() };
        let sender = Some(Sender { run: RunId(i64::MAX), token: Token(u64::MAX) });
        let sent = Message { sender, status: MessageStatus::Delayed { until }, ..odd.clone() };
        let mut buffer = vec![9; 1000];
        for message in [message(), odd, taken, sent] {
            write_head(&message, &mut buffer).unwrap();
            assert_eq!(*read(&message, &buffer).unwrap(), message);
        }
    }

    #[test]
    fn a_head_of_the_first_version_is_delayed_until_its_first_delay_is_over() {
        let (delay, mut head) = (Duration::from_secs(60), Vec::new());
        let first = message().created_at + delay;
        for (until, status) in [
            (first, MessageStatus::Delayed { until: first }),
            (first + delay, MessageStatus::Active { until: Some(first + delay) }),
        ] {
            let old = Message { delay, status: MessageStatus::Active { until: Some(until) }, ..message() };
            write_head(&old, &mut head).unwrap();
            head[0] = VERSION_1;
            assert_eq!(*read(&old, &head).unwrap(), Message { status, ..old });
        }
    }

    #[test]
    fn a_plain_message_has_a_head_of_a_few_bytes() {
        let mut head = Vec::new();
        write_head(&message(), &mut head).unwrap();
        assert!(head.len() <= 16, "{} bytes", head.len());
    }

    #[test]
    fn a_head_that_is_cut_or_of_a_later_version_is_refused() {
        let mut head = Vec::new();
        write_head(&message(), &mut head).unwrap();
        assert!(read(&message(), &head[..head.len() - 1]).is_err());
        head[0] = 200;
        assert!(read(&message(), &head).unwrap_err().to_string().contains("version 200"));
        assert!(read(&message(), &[]).is_err());
    }
}
