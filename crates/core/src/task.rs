//! What a run does.

mod http;
mod process;
mod queue;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::name::Name;

pub use http::{Body, Expect, HTTP_REDIRECTS_MAX, Http, Method, Request, StatusRange};
pub(crate) use process::check_shell;
pub use queue::{Enqueue, RETRY_DEFAULT, TTL_DEFAULT};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Task {
    /// Nothing, at once: for measuring and for placeholders in a workflow.
    Noop,
    /// A text for `/bin/sh -c`.
    Shell(String),
    Process(Process),
    Http(Box<Http>),
    /// A function that somebody's program registered under this name.
    Function(Name),
    /// A message for a queue; the run ends when a consumer has acknowledged it.
    Queue(Box<Enqueue>),
}

/// A program with its arguments, started without a shell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    pub command: Vec<String>,
    pub env: BTreeMap<String, String>,
    pub dir: Option<String>,
}

/// What kind of thing a task is: a worker may take some and not others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    Noop,
    Shell,
    Process,
    Http,
    Function,
    /// What no worker executes: consumers of the queue do.
    Queue,
}

impl Kind {
    /// Those that a worker may take.
    pub const ALL: [Kind; 5] = [Kind::Noop, Kind::Shell, Kind::Process, Kind::Http, Kind::Function];

    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Noop => "noop",
            Kind::Shell => "shell",
            Kind::Process => "process",
            Kind::Http => "http",
            Kind::Function => "function",
            Kind::Queue => "queue",
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
            Task::Function(_) => Kind::Function,
            Task::Queue(_) => Kind::Queue,
        }
    }

    /// The function that it calls, if it calls one.
    pub fn function(&self) -> Option<&Name> {
        match self {
            Task::Function(name) => Some(name),
            _ => None,
        }
    }
}

/// Parameters: a JSON object as text. They reach a process as values, never spliced into a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Params(pub Arc<str>);

impl Default for Params {
    fn default() -> Self {
        Params(Arc::from("{}"))
    }
}
