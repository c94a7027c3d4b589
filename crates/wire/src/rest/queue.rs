//! Queues: their state, taking messages, pausing and flushing.

use std::time::Duration;

use punctual_core::limits::TAKE_MAX;
use punctual_core::name::Namespace;
use punctual_core::queue::{self, InvalidName, Pause, QueueKey, QueueName, QueueRecord, QueueStat};
use punctual_core::schedule::format_duration;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Taken;
use crate::error::Error;
use crate::job_file::{Rate, Starts};
use crate::schema;
use crate::text::{Instant, Span, Text};

/// The longest wait of a take: proxies cut a connection that is silent for longer.
pub const TAKE_WAIT_MAX: Duration = Duration::from_secs(30);

/// Further queues that a take may name.
pub const ALSO_MAX: usize = 100;

/// A queue, and how full it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Queue {
    #[schema(value_type = schema::Namespace)]
    pub namespace: Namespace,
    #[schema(value_type = schema::QueueName)]
    pub name: String,
    /// Messages that are ready to be taken.
    pub queued: u64,
    /// All its messages: ready, delayed, and delivered but not acknowledged.
    pub messages: u64,
    pub paused: Paused,
    pub created_at: Instant,
    /// When it was last used; a listing does not say.
    pub used_at: Option<Instant>,
    /// Consumers that wait for a message; a listing does not say.
    pub waiting: Option<u64>,
    /// Messages added and taken since its leader leads it; a listing does not say.
    pub added: Option<u64>,
    pub taken: Option<u64>,
    /// Messages that are delivered and not acknowledged.
    pub unacked: u64,
    /// Messages that have expired, and those that went to the dead-letter queue, since its leader leads it; a listing does
    /// not say.
    pub expired: Option<u64>,
    pub dead: Option<u64>,
    /// When the oldest of the first messages was created. Absent in a listing, without queued messages, and if the leader
    /// has not read them.
    pub oldest_at: Option<Instant>,
    /// Absent if the queue has none.
    pub settings: Option<QueueSettings>,
}

/// The settings of a queue. A field that is absent does not limit anything.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(
    deny_unknown_fields,
    expecting = "a map like { running: 1, max_deliveries: 5, dead_letter: mail.dead }"
)]
pub struct QueueSettings {
    /// Messages that may be delivered and not acknowledged at once. With 1, all consumers together take the messages in
    /// order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<u32>,
    /// How often messages may be delivered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// A new message can be taken after this time, 100ms to 1d. A message that is first for as long goes to the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold: Option<Span>,
    /// A message that was delivered this many times without an acknowledgement goes to the dead-letter queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_deliveries: Option<u32>,
    /// The dead-letter queue: another queue of the namespace. It also gets the messages that expire.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::QueueName>)]
    pub dead_letter: Option<String>,
}

/// What a queue does not let through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Paused {
    None,
    In,
    Out,
    All,
}

/// The direction to pause or resume. The default is `all`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a map like { direction: in }")]
pub struct Way {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direction: Option<Direction>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    In,
    Out,
    All,
}

/// Messages to be taken.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a map like { count: 10, wait: 5s }")]
pub struct Take {
    /// The maximum number of messages. The default is 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// How long to wait for the first message. By default the request does not wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<Span>,
    /// Other queues of the namespace, at most 100: messages are taken from each in turn, or from the first that has one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<schema::QueueName>)]
    pub also: Vec<String>,
}

/// The messages that were taken or shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Messages {
    pub items: Vec<Taken>,
}

/// What a flush deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Flushed {
    pub deleted: u64,
    /// Whether the queue may have more: ask again.
    pub more: bool,
}

impl Queue {
    /// A queue as stored.
    pub fn of_record(record: &QueueRecord) -> Queue {
        Queue {
            namespace: record.key.namespace.clone(),
            name: record.key.name.to_string(),
            queued: record.queued,
            messages: record.messages,
            paused: record.pause.into(),
            created_at: Text(record.created_at),
            used_at: None,
            waiting: None,
            added: None,
            taken: None,
            unacked: record.unacked,
            expired: None,
            dead: None,
            oldest_at: None,
            settings: record.settings.as_deref().map(QueueSettings::of),
        }
    }

    /// A queue as its leader reports it.
    pub fn of_stat(key: &QueueKey, stat: &QueueStat) -> Queue {
        Queue {
            namespace: key.namespace.clone(),
            name: key.name.to_string(),
            queued: stat.len,
            messages: stat.messages,
            paused: stat.pause.into(),
            created_at: Text(stat.created_at),
            used_at: Some(Text(stat.used_at)),
            waiting: Some(stat.waiting),
            added: Some(stat.added),
            taken: Some(stat.taken),
            unacked: stat.unacked,
            expired: Some(stat.expired),
            dead: Some(stat.dead),
            oldest_at: stat.oldest_at.map(Text),
            settings: stat.settings.as_deref().map(QueueSettings::of),
        }
    }
}

impl QueueSettings {
    pub fn of(settings: &queue::QueueSettings) -> QueueSettings {
        QueueSettings {
            running: settings.running,
            rate: settings.rate.map(|rate| Text(Starts::of(rate))),
            hold: settings.hold.map(Span),
            max_deliveries: settings.max_deliveries,
            dead_letter: settings.dead_letter.as_ref().map(QueueName::to_string),
        }
    }

    /// The settings of the queue with this name.
    pub fn into_core(self, own: &QueueName) -> Result<queue::QueueSettings, Error> {
        let dead_letter = self.dead_letter.map(|name| name.parse()).transpose();
        let settings = queue::QueueSettings {
            running: self.running,
            rate: self.rate.map(|Text(rate)| rate.with_burst(1)),
            hold: self.hold.map(|hold| hold.0),
            max_deliveries: self.max_deliveries,
            dead_letter: dead_letter
                .map_err(|error: InvalidName| Error::invalid("dead_letter", error.to_string()))?,
        };
        settings.check(own)?;
        Ok(settings)
    }
}

impl Paused {
    pub fn as_str(self) -> &'static str {
        match self {
            Paused::None => "none",
            Paused::In => "in",
            Paused::Out => "out",
            Paused::All => "all",
        }
    }
}

impl From<Pause> for Paused {
    fn from(pause: Pause) -> Self {
        match (pause.input, pause.output) {
            (false, false) => Paused::None,
            (true, false) => Paused::In,
            (false, true) => Paused::Out,
            (true, true) => Paused::All,
        }
    }
}

impl Way {
    /// The pause state after this direction is paused or resumed; the other direction is unchanged.
    pub fn set(self, before: Pause, paused: bool) -> Pause {
        let direction = self.direction.unwrap_or(Direction::All);
        Pause {
            input: if direction == Direction::Out { before.input } else { paused },
            output: if direction == Direction::In { before.output } else { paused },
        }
    }
}

impl Take {
    /// The count, and how long to wait for the first message.
    pub fn checked(&self) -> Result<(u32, Option<Duration>), Error> {
        let count = self.count.unwrap_or(1);
        if !(1..=TAKE_MAX).contains(&count) {
            return Err(Error::invalid("count", format!("must be 1 to {TAKE_MAX}")));
        }
        match self.wait {
            Some(Span(wait)) if wait > TAKE_WAIT_MAX => {
                let most = format_duration(TAKE_WAIT_MAX);
                Err(Error::invalid(
                    "wait",
                    format!("must be at most {most}; send another take to wait longer"),
                ))
            }
            Some(Span(wait)) => Ok((count, (!wait.is_zero()).then_some(wait))),
            None => Ok((count, None)),
        }
    }

    /// The queues besides the one in the URL.
    pub fn others(&self) -> Result<Vec<QueueName>, Error> {
        if self.also.len() > ALSO_MAX {
            return Err(Error::invalid("also", format!("must have at most {ALSO_MAX} queues")));
        }
        let name = |(place, name): (usize, &String)| {
            name.parse()
                .map_err(|error: InvalidName| Error::invalid(format!("also.{place}"), error.to_string()))
        };
        self.also.iter().enumerate().map(name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree;

    fn take(body: &str) -> Result<(u32, Option<Duration>), Error> {
        tree::from_json::<Take>(body.as_bytes())?.checked()
    }

    #[test]
    fn a_take_is_of_one_message_and_does_not_wait_unless_it_says_so() {
        assert_eq!(take("{}"), Ok((1, None)));
        assert_eq!(take(r#"{"count":3,"wait":"5s"}"#), Ok((3, Some(Duration::from_secs(5)))));
        assert_eq!(take(r#"{"wait":"0s"}"#), Ok((1, None)));
    }

    #[test]
    fn a_take_that_cannot_be_names_the_field() {
        let rows = [
            (r#"{"count":0}"#, "count"),
            (r#"{"count":1001}"#, "count"),
            (r#"{"count":-1}"#, "count"),
            (r#"{"wait":"31s"}"#, "wait"),
            (r#"{"wait":5}"#, "wait"),
            (r#"{"timeout":"5s"}"#, "timeout"),
        ];
        for (body, field) in rows {
            assert_eq!(take(body).unwrap_err().field, field, "{body}");
        }
        let others = |also: Vec<String>| Take { also, ..Take::default() }.others();
        assert_eq!(others(vec!["a".to_owned(), String::new()]).unwrap_err().field, "also.1");
        assert_eq!(others(vec!["a".to_owned(); ALSO_MAX + 1]).unwrap_err().field, "also");
        assert_eq!(others(vec!["a".to_owned(); ALSO_MAX]).unwrap().len(), ALSO_MAX);
    }

    #[test]
    fn settings_read_back_as_they_were_written() {
        let own: QueueName = "mail".parse().unwrap();
        let text =
            r#"{"running":2,"rate":"100/m","hold":"1m30s","max_deliveries":5,"dead_letter":"mail.dead"}"#;
        for text in [text, "{}"] {
            let settings = tree::from_json::<QueueSettings>(text.as_bytes()).unwrap();
            let stored = settings.clone().into_core(&own).unwrap();
            assert_eq!(QueueSettings::of(&stored), settings);
            assert_eq!(serde_json::to_string(&settings).unwrap(), text);
        }
    }

    #[test]
    fn settings_that_cannot_be_name_the_field() {
        let own: QueueName = "mail".parse().unwrap();
        let rows = [
            (r#"{"running":0}"#, "running"),
            (r#"{"rate":"0/s"}"#, "rate"),
            (r#"{"rate":"often"}"#, "rate"),
            (r#"{"hold":"1d1s"}"#, "hold"),
            (r#"{"max_deliveries":3}"#, "max_deliveries"),
            (r#"{"dead_letter":"mail"}"#, "dead_letter"),
            (r#"{"dead_letter":""}"#, "dead_letter"),
            (r#"{"burst":3}"#, "burst"),
        ];
        for (body, field) in rows {
            let read = tree::from_json::<QueueSettings>(body.as_bytes());
            let error = read.and_then(|settings| settings.into_core(&own)).unwrap_err();
            assert_eq!(error.field, field, "{body}");
        }
    }

    #[test]
    fn one_way_is_paused_or_resumed_without_the_other() {
        let (none, all) = (Pause::default(), Pause { input: true, output: true });
        let set = |direction, before, paused| Paused::from(Way { direction }.set(before, paused));
        assert_eq!(set(Some(Direction::In), none, true), Paused::In);
        assert_eq!(set(Some(Direction::Out), none, true), Paused::Out);
        assert_eq!(set(None, none, true), Paused::All);
        assert_eq!(set(Some(Direction::In), all, false), Paused::Out);
        assert_eq!(set(Some(Direction::Out), all, false), Paused::In);
        assert_eq!(set(Some(Direction::All), all, false), Paused::None);
    }
}
