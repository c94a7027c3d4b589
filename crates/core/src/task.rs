//! What a run does.

mod http;
mod process;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use http::{Body, Expect, HTTP_REDIRECTS_MAX, Http, Method, Request, StatusRange};
pub(crate) use process::check_shell;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Task {
    /// Nothing, at once: for measuring and for placeholders in a workflow.
    Noop,
    /// A text for `/bin/sh -c`.
    Shell(String),
    Process(Process),
    Http(Box<Http>),
}

/// A program with its arguments, started without a shell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    pub command: Vec<String>,
    pub env: BTreeMap<String, String>,
    pub dir: Option<String>,
}

impl Task {
    pub fn kind(&self) -> &'static str {
        match self {
            Task::Noop => "noop",
            Task::Shell(_) => "shell",
            Task::Process(_) => "process",
            Task::Http(_) => "http",
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
