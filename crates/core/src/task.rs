//! What a run does.

mod accept;
mod address;
mod call_checks;
mod descriptor;
mod grpc;
mod headers;
mod http;
mod json;
mod ping;
mod process;
mod queue;
mod schema;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::name::Name;
use crate::workflow::Workflow;

pub use crate::params::Params;
pub use crate::status_range::StatusRange;
pub use accept::Accept;
pub use descriptor::{CarriedSchema, Descriptor, NamedDescriptor, StoredDescriptor};
pub use grpc::{Call, Code, EXECUTOR_START, Grpc, GrpcExpect, GrpcTls};
pub use http::{Body, EXECUTION_ID, Expect, HTTP_REDIRECTS_MAX, Http, Method, Request};
pub(crate) use json::{check_strings, render_json};
pub use ping::Ping;
pub(crate) use process::{check_shell, template};
pub use queue::{Enqueue, RETRY_DEFAULT, TTL_DEFAULT};
pub use schema::{Schema, SchemaFiles, UnaryMethod};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Task {
    /// Does nothing: for measuring and for placeholders in a workflow.
    Noop,
    /// A text for `/bin/sh -c`.
    Shell(String),
    Process(Process),
    Http(Box<Http>),
    /// A function registered under this name by a user's program.
    Function(Name),
    /// A message for a queue; the run ends when a consumer has acknowledged it.
    Queue(Box<Enqueue>),
    /// A call of a unary gRPC method, or work for an executor.
    Grpc(Box<Grpc>),
    /// A graph of steps. Its run has no attempt of its own: each step has its own run.
    Workflow(Box<Workflow>),
    /// Executed outside Punctual by a program that reports by pings.
    Ping(Ping),
    /// A run of another job. Only a step of a workflow has this task; it ends when that run does.
    Job(Name),
}

/// A program with its arguments, started without a shell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    pub command: Vec<String>,
    pub env: BTreeMap<String, String>,
    pub dir: Option<String>,
}

/// The kind of a task: a worker may execute some kinds and not others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    Noop,
    Shell,
    Process,
    Http,
    Grpc,
    Function,
    /// Not executed by workers: consumers of the queue take the message.
    Queue,
    /// Not executed by workers: they execute its steps.
    Workflow,
    /// Not executed by workers: a program outside Punctual reports that it has executed it.
    Ping,
    /// Not executed by workers: they execute the run that it starts.
    Job,
}

impl Kind {
    /// The kinds that a worker may execute.
    pub const ALL: [Kind; 6] =
        [Kind::Noop, Kind::Shell, Kind::Process, Kind::Http, Kind::Grpc, Kind::Function];

    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Noop => "noop",
            Kind::Shell => "shell",
            Kind::Process => "process",
            Kind::Http => "http",
            Kind::Grpc => "grpc",
            Kind::Function => "function",
            Kind::Queue => "queue",
            Kind::Workflow => "workflow",
            Kind::Ping => "ping",
            Kind::Job => "job",
        }
    }

    pub fn parse(text: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

impl Task {
    pub fn kind(&self) -> Kind {
        match self {
            Task::Noop => Kind::Noop,
            Task::Shell(_) => Kind::Shell,
            Task::Process(_) => Kind::Process,
            Task::Http(_) => Kind::Http,
            Task::Grpc(_) => Kind::Grpc,
            Task::Function(_) => Kind::Function,
            Task::Queue(_) => Kind::Queue,
            Task::Workflow(_) => Kind::Workflow,
            Task::Ping(_) => Kind::Ping,
            Task::Job(_) => Kind::Job,
        }
    }

    /// The function that the task calls, if it is one.
    pub fn function(&self) -> Option<&Name> {
        match self {
            Task::Function(name) => Some(name),
            _ => None,
        }
    }
}
