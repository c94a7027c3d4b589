//! The settings of a queue: how many of its messages are with consumers at once, how often one is delivered, when a new one
//! may be taken, and where unacknowledged messages go.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{NewMessage, QueueKey, QueueName};
use crate::invalid::Invalid;
use crate::job::limit::Rate;
use crate::limits::{DEAD_LETTER_TTL, QUEUE_HOLD_MAX, QUEUE_HOLD_MIN};
use crate::schedule::format_duration;

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct QueueSettings {
    /// Messages that may be delivered and not acknowledged at once. With 1, all consumers together take the messages in
    /// order. `None` means any number.
    pub running: Option<u32>,
    /// How often a message may be delivered. `None` means at any time.
    pub rate: Option<Rate>,
    /// A new message can be taken after this time. A message that is first in the queue for as long goes to the end.
    /// `None` means that it can be taken at once and keeps its place.
    pub hold: Option<Duration>,
    /// After this many deliveries without an acknowledgement a message goes to the dead-letter queue. `None` means that it is
    /// delivered again until it expires.
    pub max_deliveries: Option<u32>,
    /// The dead-letter queue, in the same namespace. It also gets the messages that expire. `None` means that these are
    /// deleted.
    pub dead_letter: Option<QueueName>,
}

/// A message on its way to a dead-letter queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadMessage {
    pub queue: QueueKey,
    pub message: NewMessage,
}

impl QueueSettings {
    /// Refuses settings that the queue of this name cannot have.
    pub fn check(&self, own: &QueueName) -> Result<(), Invalid> {
        if self.running == Some(0) {
            return Err(Invalid::new("running", "at least 1; pause the queue to stop deliveries"));
        }
        if let Some(rate) = &self.rate {
            rate.check()?;
        }
        if self.hold.is_some_and(|hold| !(QUEUE_HOLD_MIN..=QUEUE_HOLD_MAX).contains(&hold)) {
            let [least, most] = [QUEUE_HOLD_MIN, QUEUE_HOLD_MAX].map(format_duration);
            return Err(Invalid::new("hold", format!("{least} to {most}; leave it out to hold no message")));
        }
        if self.max_deliveries == Some(0) {
            return Err(Invalid::new("max_deliveries", "at least 1"));
        }
        if self.max_deliveries.is_some() && self.dead_letter.is_none() {
            let message = "needs a `dead_letter`: the queue that gets the messages";
            return Err(Invalid::new("max_deliveries", message));
        }
        if self.dead_letter.as_ref() == Some(own) {
            return Err(Invalid::new("dead_letter", "must be another queue"));
        }
        Ok(())
    }
}

impl DeadMessage {
    /// What the dead-letter queue gets of a message. It lives longer there, for people need time to look at it.
    pub fn of(queue: QueueKey, message: &super::Message) -> DeadMessage {
        let message = NewMessage {
            body: message.body.clone(),
            delay: Duration::ZERO,
            retry: message.retry,
            ttl: message.ttl().max(DEAD_LETTER_TTL),
            priority: message.priority,
            max_len: None,
            key: None,
        };
        DeadMessage { queue, message }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> QueueName {
        text.parse().unwrap()
    }

    #[track_caller]
    fn check_refused(settings: &QueueSettings, field: &str) {
        assert_eq!(settings.check(&name("mail")).unwrap_err().field, field);
    }

    #[test]
    fn settings_that_cannot_be_name_the_field() {
        let none = QueueSettings::default();
        let rate = Rate { count: 0, span: Duration::from_secs(1), burst: 1 };
        let day = Duration::from_secs(24 * 3600);
        check_refused(&QueueSettings { running: Some(0), ..none.clone() }, "running");
        check_refused(&QueueSettings { rate: Some(rate), ..none.clone() }, "rate");
        check_refused(&QueueSettings { hold: Some(Duration::ZERO), ..none.clone() }, "hold");
        check_refused(&QueueSettings { hold: Some(day + QUEUE_HOLD_MIN), ..none.clone() }, "hold");
        check_refused(&QueueSettings { max_deliveries: Some(3), ..none.clone() }, "max_deliveries");
        let dead_letter = Some(name("mail"));
        check_refused(&QueueSettings { dead_letter, ..none.clone() }, "dead_letter");
        let dead_letter = Some(name("mail.dead"));
        check_refused(
            &QueueSettings { max_deliveries: Some(0), dead_letter: dead_letter.clone(), ..none.clone() },
            "max_deliveries",
        );
        let all = QueueSettings {
            running: Some(1),
            rate: Some(Rate { count: 5, ..rate }),
            hold: Some(day),
            max_deliveries: Some(1),
            dead_letter,
        };
        assert_eq!((all.check(&name("mail")), none.check(&name("mail"))), (Ok(()), Ok(())));
    }
}
