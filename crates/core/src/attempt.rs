//! What a scheduling node and a worker say to each other about one attempt.
//!
//! The same words travel inside a process and over the network: a worker never sees a store.
//!
//! **Slots are lent.** A node assigns only against a credit, a free slot that the worker has lent to it; the slot comes
//! back when the worker lends it again. What was lent and what was given back are told as totals since the worker joined,
//! so that a message told twice lends nothing twice; at every join both begin at nothing.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Timestamp;
use crate::ids::{RunId, Token};
use crate::job::Definition;
use crate::name::{Name, Namespace};
use crate::retry::Failed;
use crate::run::{Cause, Part, Trigger};
use crate::task::Params;

/// What a worker needs to know to execute one attempt.
#[derive(Debug, Clone, PartialEq)]
pub struct Assignment {
    pub run: RunId,
    pub token: Token,
    pub attempt: u32,
    pub namespace: Namespace,
    pub job: Option<Name>,
    /// Of the job, where there is one.
    pub revision: Option<u32>,
    pub trigger: Trigger,
    pub key: Option<Arc<str>>,
    pub due: Timestamp,
    /// The moment from which the lateness of the run is counted. Only the node that assigns it needs it.
    pub late_from: Timestamp,
    pub definition: Arc<Definition>,
    pub params: Params,
    /// Which part of a split run it is.
    pub part: Part,
    /// How long the node waits for a sign of life before it gives the attempt up.
    pub lease: Duration,
    /// It was decided before its shard was loaded, and the worker may have it already: it uses no credit up.
    pub again: bool,
}

/// Node to worker.
#[derive(Debug, Clone, PartialEq)]
pub enum Order {
    /// Execute this. Told twice, it is started once; an outcome that is there already is sent again.
    Assign(Assignment),
    /// Stop this attempt. One that has not come yet will never start.
    Cancel { run: RunId, token: Token, cause: Cause },
    /// The outcome is durable, or refused for good: it need not be kept any longer.
    Acknowledge { run: RunId, token: Token },
    /// Say what is in hand, and send every unacknowledged outcome again: somebody new is listening, or nothing was heard
    /// for too long.
    Resend,
    /// All the credits that this node has given back unused since the worker joined. It answers every recall, with the
    /// same number if there was nothing to give.
    GaveBack { total: u64 },
    /// What waits here for a slot of this worker: the highest priority among them, and about how many. None: nobody waits.
    Waiting { priority: Option<u8>, runs: u32 },
}

/// Worker to node.
#[derive(Debug, Clone, PartialEq)]
pub enum Report {
    /// The attempt has begun. It may be missing: the outcome tells the start too.
    Started {
        run: RunId,
        token: Token,
        at: Timestamp,
    },
    /// A number from 0 to 100.
    Progress {
        run: RunId,
        token: Token,
        percent: u8,
    },
    /// The attempts that this worker still has in hand.
    Alive {
        attempts: Vec<(RunId, Token)>,
    },
    Finished {
        run: RunId,
        token: Token,
        outcome: Outcome,
    },
    /// The worker takes nothing more, and has not begun this: another may.
    Declined {
        run: RunId,
        token: Token,
    },
    /// All the slots that the worker has lent to this node since it joined.
    Lent {
        total: u64,
    },
    /// Somebody else needs them: give back up to that many credits that no run uses.
    Recall {
        credits: u32,
    },
    /// How busy the worker's machine is.
    Load {
        cpu_percent: u8,
        memory_percent: u8,
    },
}

impl Report {
    /// The run that it is about; none: the worker speaks of itself.
    pub fn run(&self) -> Option<RunId> {
        match self {
            Report::Started { run, .. }
            | Report::Progress { run, .. }
            | Report::Finished { run, .. }
            | Report::Declined { run, .. } => Some(*run),
            Report::Alive { .. } | Report::Lent { .. } | Report::Recall { .. } | Report::Load { .. } => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    pub end: End,
    pub started_at: Timestamp,
    pub exit_code: Option<i32>,
    /// The result, cut to its limit by the worker and again by the node.
    pub output: Box<str>,
    pub error: Box<str>,
    /// How it failed, if it did.
    pub failed: Failed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    Succeeded,
    /// It ended badly, or it was stopped because we asked.
    Failed,
    /// Its worker stopped it at its timeout. A worker counts the time itself, because its node may be cut off from the
    /// store and unable to say anything.
    TimedOut,
}

impl Outcome {
    pub fn succeeded(started_at: Timestamp) -> Self {
        Outcome {
            end: End::Succeeded,
            started_at,
            exit_code: None,
            output: Box::default(),
            error: Box::default(),
            failed: Failed::default(),
        }
    }

    pub fn failed(started_at: Timestamp, error: impl Into<Box<str>>) -> Self {
        Outcome { end: End::Failed, error: error.into(), ..Outcome::succeeded(started_at) }
    }
}
