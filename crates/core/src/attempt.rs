//! The messages between a scheduling node and a worker about attempts.
//!
//! They are the same inside a process and over the network: a worker never sees a store.
//!
//! **Slots are lent.** A node assigns only against a credit, a free slot that the worker has lent to it; the slot comes
//! back when the worker lends it again. Credits lent and given back are sent as totals since the worker joined, so a
//! repeated message has no effect; at every join both start at zero.

use std::sync::Arc;
use std::time::Duration;

use crate::Timestamp;
use crate::ids::{RunId, Token};
use crate::job::{Definition, Invalid};
use crate::limits::MESSAGE_BYTES_MAX;
use crate::name::{Name, Namespace};
use crate::params::Params;
use crate::progress::Progress;
use crate::queue::{Body, Deliver, NewMessage, QueueKey, Sender};
use crate::run::{Cause, Origin, Part, Run, Trigger};
use crate::task::{self, Enqueue};
use crate::template::{Scope, Value, Values};

pub use crate::outcome::{End, Outcome};

/// Everything a worker needs to execute one attempt.
#[derive(Debug, Clone, PartialEq)]
pub struct Assignment {
    pub run: RunId,
    pub token: Token,
    pub attempt: u32,
    pub namespace: Namespace,
    pub job: Option<Name>,
    /// The job's revision. `None` means a run without a job.
    pub revision: Option<u32>,
    pub trigger: Trigger,
    pub key: Option<Arc<str>>,
    pub due: Timestamp,
    /// The moment from which the lateness of the run is counted. Only the node that assigns it needs it.
    pub late_from: Timestamp,
    pub definition: Arc<Definition>,
    pub params: Params,
    /// The last checkpoint of an earlier attempt: JSON, as text.
    pub checkpoint: Option<Arc<str>>,
    /// Lets its bearer report for this attempt. `None` means that its task passes no key on.
    pub attempt_key: Option<Arc<str>>,
    /// The part of a split run that it is.
    pub part: Part,
    /// What its task knows of a workflow. `None` means that it is no step, or that its task names nothing of it.
    pub step: Option<Box<StepValues>>,
    /// How long the node waits for a heartbeat before it gives the attempt up.
    pub lease: Duration,
    /// The time between the request to stop and the kill. `None` means that of the worker.
    pub grace: Option<Duration>,
    /// Offered again after its shard was loaded: the worker may already have it, and it uses no credit.
    pub again: bool,
}

/// What the task of a step knows of its workflow, as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StepValues {
    /// An object with the steps that the task names.
    pub steps: Option<Arc<str>>,
    /// The index of the item in a step with `map`, and the item.
    pub item: Option<(u32, Arc<str>)>,
}

impl StepValues {
    fn add_to(&self, values: Values) -> Values {
        let parsed = |json: &Arc<str>| Value::from_json(json).unwrap_or(Value::Null);
        let values = match &self.steps {
            Some(steps) => values.with("steps", parsed(steps)),
            None => values,
        };
        match &self.item {
            Some((index, item)) => {
                values.with("index", Value::Int((*index).into())).with("item", parsed(item))
            }
            None => values,
        }
    }
}

impl Assignment {
    /// The values for the expressions of its task.
    pub fn values(&self, started: Timestamp) -> Values {
        let key = self.key.as_deref().map_or(Value::Null, Value::text);
        let run = Value::map([
            ("id", Value::text(self.run.to_string())),
            ("attempt", Value::Int(self.attempt.into())),
            ("trigger", Value::text(self.trigger.word())),
            ("key", key),
        ]);
        let checkpoint = self.checkpoint.as_deref().and_then(Value::from_json);
        let job = job_value(&self.namespace, self.job.as_ref(), self.revision);
        let (index, total) = (Value::Int(self.part.index.into()), Value::Int(self.part.total.into()));
        let values = Values::of_params_and_due(&self.params.0, self.due)
            .with("started", Value::instant(started))
            .with("run", run)
            .with("job", job)
            .with("checkpoint", checkpoint.unwrap_or(Value::Null))
            .with("shard", Value::map([("index", index), ("total", total)]));
        match &self.step {
            Some(step) => step.add_to(values),
            None => values,
        }
    }

    /// The message of a `queue` task, with every expression evaluated.
    pub fn message(&self, task: &Enqueue, now: Timestamp) -> Result<Deliver, Invalid> {
        let body = match &task.body {
            None => self.params.0.as_ref().to_owned(),
            Some(text) => {
                let rendered =
                    task::template("task.queue.body", text, &Scope::CHECKED_TASK)?.render(&self.values(now));
                rendered.map_err(|error| Invalid::new("task.queue.body", error.in_text(text)))?
            }
        };
        if body.len() > MESSAGE_BYTES_MAX {
            let message = format!("gives more than {MESSAGE_BYTES_MAX} bytes");
            return Err(Invalid::new("task.queue.body", message));
        }
        let message = NewMessage {
            body: Body::from(body.into_bytes()),
            delay: task.delay,
            retry: self.definition.message_retry(task),
            ttl: self.definition.message_ttl(task),
            priority: task.priority.unwrap_or(self.definition.priority),
            max_len: None,
            key: None,
        };
        let queue = QueueKey { namespace: self.namespace.clone(), name: task.name.clone() };
        Ok(Deliver { queue, sender: Sender { run: self.run, token: self.token }, message })
    }
}

/// The variable `job` of expressions. A run without a job has neither a name nor a revision.
pub fn job_value(namespace: &Namespace, name: Option<&Name>, revision: Option<u32>) -> Value {
    let name = name.map_or(Value::Null, |name| Value::text(name.as_str()));
    let revision = revision.map_or(Value::Null, |revision| Value::Int(revision.into()));
    Value::map([("name", name), ("namespace", Value::text(namespace.as_str())), ("revision", revision)])
}

/// The values of the expressions of a workflow, without those of its steps.
pub fn workflow_values(run: &Run, params: &Params) -> Values {
    let (job, revision) = match &run.origin {
        Origin::Job { name, revision, .. } => (Some(name), Some(*revision)),
        Origin::AdHoc(_) => (None, None),
    };
    Values::of_params_and_due(&params.0, run.due).with("job", job_value(&run.namespace, job, revision))
}

/// Node to worker.
#[derive(Debug, Clone, PartialEq)]
pub enum Order {
    /// Execute this. A repeated order starts nothing; if the outcome is known, it is sent again.
    Assign(Assignment),
    /// Stop this attempt. If its assignment arrives later, it is not started.
    Cancel { run: RunId, token: Token, cause: Cause },
    /// The outcome is committed, or refused for good: the worker may forget it.
    Acknowledge { run: RunId, token: Token },
    /// Send a heartbeat and every unacknowledged outcome again: the leader is new, or it heard nothing for too long.
    Resend,
    /// The checkpoint of the report with this number is stored.
    Saved { run: RunId, token: Token, seq: u64 },
    /// The total of credits that this node has given back unused since the worker joined. It answers every recall, also
    /// if there was nothing to give back.
    GaveBack { total: u64 },
    /// The highest priority of the runs that wait here for a slot of this worker, and about how many there are. `None`
    /// means that no run waits.
    Waiting { priority: Option<u8>, runs: u32 },
    /// Take no more attempts, and yield those that do not end in time; or work again.
    Drain { on: bool },
}

/// Worker to node.
#[derive(Debug, Clone, PartialEq)]
pub enum Report {
    /// The attempt has started. This report may be missing: the outcome carries the start too.
    Started {
        run: RunId,
        token: Token,
        at: Timestamp,
    },
    /// If it has a checkpoint and a number, it is answered with [`Order::Saved`] once it is stored.
    Progress {
        run: RunId,
        token: Token,
        progress: Progress,
    },
    /// Heartbeat: the attempts that this worker still holds.
    Alive {
        attempts: Vec<(RunId, Token)>,
    },
    Finished {
        run: RunId,
        token: Token,
        outcome: Outcome,
    },
    /// The worker takes no more attempts and has not started this one: it may go to another worker.
    Declined {
        run: RunId,
        token: Token,
    },
    /// The total of slots that the worker has lent to this node since it joined.
    Lent {
        total: u64,
    },
    /// Asks for up to this many unused credits back, because another node needs them.
    Recall {
        credits: u32,
    },
    /// The load of the worker's machine.
    Load {
        cpu_percent: u8,
        memory_percent: u8,
    },
    /// Whether the worker takes no more attempts, as it was told.
    Draining {
        on: bool,
    },
}

impl Report {
    /// The run that the report is about. `None` means that it is about the worker itself.
    pub fn run(&self) -> Option<RunId> {
        match self {
            Report::Started { run, .. }
            | Report::Progress { run, .. }
            | Report::Finished { run, .. }
            | Report::Declined { run, .. } => Some(*run),
            Report::Alive { .. }
            | Report::Lent { .. }
            | Report::Recall { .. }
            | Report::Load { .. }
            | Report::Draining { .. } => None,
        }
    }
}
