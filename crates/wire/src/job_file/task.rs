//! `task:`, what a run does.

mod grpc;
mod http;
mod ping;
mod queue;

use std::collections::BTreeMap;

use punctual_core::name::Name;
use punctual_core::task as rule;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::workflow::Workflow;
use crate::error::Error;
use crate::schema;

pub use grpc::{Codes, Grpc, GrpcAccept, GrpcExpect};
pub use http::{Accept, Body, Expect, Http, Method, Status, Tls};
pub(super) use http::{OneStatus, OneStatusVisitor, one_code};
pub use ping::Ping;
pub use queue::Enqueue;

pub(crate) const NEEDED: &str =
    "write one of process, shell, http, grpc, function, queue, workflow, ping or noop: {}";

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a map like { shell: \"echo hi\" }")]
pub struct Task {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<Process>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shell: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<Http>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grpc: Option<Grpc>,
    /// A function that a program registered with its embedded node.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Name>)]
    pub function: Option<Name>,
    /// A message for a queue: the run ends when a consumer has acknowledged it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<Enqueue>,
    /// A graph of steps, each of which is executed by a run of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow: Option<Box<Workflow>>,
    /// A program outside Punctual, such as a line of a crontab, that reports its runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ping: Option<Ping>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub noop: Option<Noop>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a map like { command: [\"./settle\", \"--day\"] }")]
pub struct Process {
    #[serde(default)]
    pub command: Vec<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dir: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an empty map, {}")]
pub struct Noop {}

impl Task {
    pub(crate) fn into_core(self) -> Result<rule::Task, Error> {
        let mut said = Vec::new();
        said.extend(self.process.map(|process| {
            rule::Task::Process(rule::Process {
                command: process.command,
                env: process.env,
                dir: process.dir,
            })
        }));
        said.extend(self.shell.map(rule::Task::Shell));
        if let Some(http) = self.http {
            said.push(rule::Task::Http(Box::new(http.into_core()?)));
        }
        if let Some(grpc) = self.grpc {
            said.push(rule::Task::Grpc(Box::new(grpc.into_core()?)));
        }
        said.extend(self.function.map(rule::Task::Function));
        if let Some(queue) = self.queue {
            said.push(rule::Task::Queue(Box::new(queue.into_core()?)));
        }
        if let Some(workflow) = self.workflow {
            let workflow = workflow.into_core().map_err(|error| error.under("task.workflow"))?;
            said.push(rule::Task::Workflow(Box::new(workflow)));
        }
        if let Some(ping) = self.ping {
            said.push(rule::Task::Ping(ping.into_core()?));
        }
        said.extend(self.noop.map(|_| rule::Task::Noop));
        match (said.pop(), said.is_empty()) {
            (Some(task), true) => Ok(task),
            (None, _) => Err(Error::invalid("task", NEEDED)),
            _ => Err(Error::invalid(
                "task",
                "only one of process, shell, http, grpc, function, queue, workflow, ping and noop",
            )),
        }
    }

    pub(crate) fn of(task: &rule::Task) -> Task {
        match task {
            rule::Task::Noop => Task { noop: Some(Noop {}), ..Task::default() },
            // Only a step has it, and a job file writes that as `job`.
            rule::Task::Job(_) => Task::default(),
            rule::Task::Shell(text) => Task { shell: Some(text.clone()), ..Task::default() },
            rule::Task::Http(http) => Task { http: Some(Http::of(http)), ..Task::default() },
            rule::Task::Grpc(grpc) => Task { grpc: Some(Grpc::of(grpc)), ..Task::default() },
            rule::Task::Function(name) => Task { function: Some(name.clone()), ..Task::default() },
            rule::Task::Queue(queue) => Task { queue: Some(Enqueue::of(queue)), ..Task::default() },
            rule::Task::Workflow(workflow) => {
                Task { workflow: Some(Box::new(Workflow::of(workflow))), ..Task::default() }
            }
            rule::Task::Ping(ping) => Task { ping: Some(Ping::of(ping)), ..Task::default() },
            rule::Task::Process(process) => {
                let process = Process {
                    command: process.command.clone(),
                    env: process.env.clone(),
                    dir: process.dir.clone(),
                };
                Task { process: Some(process), ..Task::default() }
            }
        }
    }
}
