//! Topics: what starts a job without a clock. A topic is the ends of a job's runs, an event that clients send, or the
//! messages of a queue.
//!
//! A topic belongs to the shard of its job or of its event's name. Its *listeners* are rows of that shard: jobs that it
//! starts, and steps that wait for it. What happens is written together with one notice for each listener, which stays
//! until the listener has confirmed it. So a listener hears of it once, whatever fails.
//!
//! ```text
//!  end of a run ─┐
//!                ├─▶ topic ──notice──▶ listener: starts a run, or ends a step
//!  event ────────┘      ▲                 │
//!                       └── not listening ┘
//! ```

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Timestamp;
use crate::ids::{RunId, ShardId};
use crate::invalid::Invalid;
use crate::job;
use crate::limits::{EVENT_BYTES_MAX, PARAMS_BYTES_MAX, STEP_OUTPUT_BYTES_MAX};
use crate::name::{Name, Namespace};
use crate::params::Params;
use crate::queue::{NewMessage, QueueKey};
use crate::run::Status;
use crate::workflow::StepKey;

pub use crate::schedule::{After, Ends, Gather, OnEvent, Topic};

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TopicKey {
    pub namespace: Namespace,
    pub topic: Topic,
}

impl TopicKey {
    pub fn shard(&self, shards: u16) -> ShardId {
        match &self.topic {
            Topic::Job(name) => job::shard_of(&self.namespace, name, shards),
            Topic::Event(name) => {
                let parts = [self.namespace.as_str().as_bytes(), b"event", name.as_str().as_bytes()];
                ShardId::of(&parts, shards)
            }
            Topic::Queue(name) => {
                QueueKey { namespace: self.namespace.clone(), name: name.clone() }.shard(shards)
            }
        }
    }
}

/// Who hears of a topic. Both belong to the namespace of the topic.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Listener {
    /// A job that the topic starts.
    Job(Name),
    /// A step of a workflow that waits. It hears of one event.
    Step(StepKey),
}

impl Listener {
    /// The shard that it belongs to.
    pub fn shard(&self, namespace: &Namespace, shards: u16) -> ShardId {
        match self {
            Listener::Job(name) => job::shard_of(namespace, name, shards),
            Listener::Step(key) => key.run.shard(),
        }
    }
}

impl fmt::Display for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Listener::Job(name) => write!(f, "job `{name}`"),
            Listener::Step(key) => write!(f, "run {}", key.run),
        }
    }
}

/// A row of a topic's shard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListenerRecord {
    /// Made by the shard of the topic, and contains that shard. A listener that comes back has a new number.
    pub number: i64,
    pub topic: TopicKey,
    pub listener: Listener,
    /// Only events with this key. `None` means all.
    pub key: Option<Arc<str>>,
}

/// What a client sends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewEvent {
    /// Events with the same key have one effect within a day. `None` means that each has its own.
    pub key: Option<Arc<str>>,
    pub params: Params,
}

impl NewEvent {
    pub fn check(&self) -> Result<(), Invalid> {
        let bytes = self.params.0.len() + self.key.as_ref().map_or(0, |key| key.len());
        if bytes > EVENT_BYTES_MAX {
            let message = format!("at most {EVENT_BYTES_MAX} bytes with the key, this has {bytes}");
            return Err(Invalid::new("params", message));
        }
        Ok(())
    }
}

/// What a listener is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Happening {
    /// The id of the event, or of the run that has ended.
    pub id: i64,
    pub at: Timestamp,
    /// How many runs led to it, each started by the one before.
    pub depth: u32,
    pub what: What,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    Ended(Box<Upstream>),
    Event(NewEvent),
    Message(Box<Handed>),
}

impl What {
    /// The key of an event.
    pub fn key(&self) -> Option<&Arc<str>> {
        if let What::Event(event) = self { event.key.as_ref() } else { None }
    }
}

/// A message of a queue that was handed to the listeners of the queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handed {
    /// Its id as producers know it.
    pub id: Box<str>,
    /// As it is added again, should nothing listen any more.
    pub message: NewMessage,
}

impl Handed {
    /// A body that is a JSON object has the parameters. Any other body is the parameter `body`.
    fn params(&self) -> Params {
        let body = String::from_utf8_lossy(&self.message.body);
        match serde_json::from_str::<serde_json::Value>(&body) {
            Ok(object @ serde_json::Value::Object(_)) => Params(object.to_string().into()),
            _ => Params(serde_json::json!({ "body": body }).to_string().into()),
        }
    }
}

/// A run that has ended, as the parameters of the run after it show it. An output that is too long is null there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Upstream {
    pub run: RunId,
    pub status: Status,
    pub due: Timestamp,
    pub output: Box<str>,
}

/// Tells a listener what happened: a job starts, the wait of a step ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wake {
    pub topic: TopicKey,
    pub listener: Listener,
    /// The number of the listener at the topic.
    pub number: i64,
    pub happening: Happening,
}

/// What the field `events` itself adds to the parameters of a run, generously.
const EVENTS_FIELD_BYTES: usize = 64;

/// The events that a run has gathered before it starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gathered {
    pub topic: Topic,
    pub by: Gather,
    /// Each as JSON. A run with `debounce` has the last one.
    pub events: Vec<Box<str>>,
}

impl Gathered {
    pub fn new(topic: Topic, by: Gather) -> Gathered {
        Gathered { topic, by, events: Vec::new() }
    }

    /// Whether an event of so many bytes fits into the parameters of the run.
    pub fn has_room_for(&self, bytes: usize, of_job: &Params) -> bool {
        let gathered: usize = self.events.iter().map(|event| event.len() + 1).sum();
        matches!(self.by, Gather::Debounce(_))
            || gathered + bytes + of_job.0.len() + EVENTS_FIELD_BYTES <= PARAMS_BYTES_MAX
    }

    /// Adds an event. Returns how long the run gathers from now on; `None` means as long as before.
    pub fn add(&mut self, event: Box<str>) -> Option<Duration> {
        if let Gather::Debounce(_) = self.by {
            self.events.clear();
        }
        self.events.push(event);
        self.by.further(self.events.len())
    }

    /// The parameters of the run: with `batch` the events as a list, with `debounce` those of a run of the last event.
    pub fn params(&self, of_job: &Params) -> Result<Params, Invalid> {
        let mut events = self.events.iter().filter_map(|event| serde_json::from_str(event).ok());
        match self.by {
            Gather::Debounce(_) => params_with(events.next().unwrap_or_default(), of_job),
            Gather::Batch { .. } => {
                let events: Vec<serde_json::Value> = events.collect();
                of_job.merged(&Params(serde_json::json!({ "events": events }).to_string().into()))
            }
        }
    }
}

/// The parameters of a run that an event starts: those of the job, those of the event on top, and the rest of the event
/// as `event`.
fn params_with(mut event: serde_json::Value, of_job: &Params) -> Result<Params, Invalid> {
    let own = event.as_object_mut().and_then(|event| event.remove("params"));
    let own = own.unwrap_or_else(|| serde_json::json!({}));
    let event = serde_json::json!({ "event": event });
    of_job.merged(&Params(own.to_string().into()))?.merged(&Params(event.to_string().into()))
}

impl Wake {
    /// The run's own parameters: those of the job, with what happened on top.
    pub fn params(&self, of_job: &Params) -> Result<Params, Invalid> {
        match &self.happening.what {
            What::Ended(upstream) => of_job.merged(&upstream.params()),
            What::Event(_) | What::Message(_) => params_with(self.event(), of_job),
        }
    }

    /// The event or the message as expressions see it.
    pub fn event(&self) -> serde_json::Value {
        let at = self.happening.at.to_string();
        let json = |params: &Params| serde_json::from_str(&params.0).unwrap_or(serde_json::Value::Null);
        match (&self.topic.topic, &self.happening.what) {
            (Topic::Event(name), What::Event(NewEvent { key, params })) => serde_json::json!({
                "id": RunId(self.happening.id).to_string(), "name": name.as_str(), "key": key, "at": at,
                "params": json(params),
            }),
            (Topic::Queue(name), What::Message(handed)) => serde_json::json!({
                "id": handed.id, "queue": name.as_str(), "at": at, "params": json(&handed.params()),
            }),
            _ => serde_json::Value::Null,
        }
    }
}

/// Whether an end with this status starts a job that waits for these ends.
pub fn is_among(status: Status, ends: Ends) -> bool {
    match (ends, status) {
        (_, Status::Skipped) => false,
        (Ends::Succeeded, _) => status == Status::Succeeded,
        (Ends::Failed, _) => status != Status::Succeeded,
        (Ends::Ended, _) => true,
    }
}

impl Upstream {
    fn params(&self) -> Params {
        let is_short = self.output.len() <= STEP_OUTPUT_BYTES_MAX;
        let output = serde_json::from_str(if is_short { &self.output } else { "null" });
        let output = output.unwrap_or_else(|_| serde_json::Value::from(self.output.as_ref()));
        let upstream = serde_json::json!({
            "run": self.run.to_string(),
            "state": self.status.as_str(),
            "output": output,
            "due": self.due.to_string(),
        });
        Params(serde_json::json!({ "upstream": upstream }).to_string().into())
    }
}
