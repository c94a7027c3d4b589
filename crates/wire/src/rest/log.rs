//! One line of a job's log: what ran when, and its output.

use punctual_core::cut::keep_end;
use punctual_core::ids::RunId;
use punctual_core::job::Definition;
use punctual_core::limits::LISTED_OUTPUT_BYTES_MAX;
use punctual_core::name::Name;
use punctual_core::run::Run;
use punctual_core::task::Task;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::State;
use crate::schema;
use crate::text::{Instant, Text};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LogRecord {
    #[schema(value_type = schema::Id)]
    pub run: Text<RunId>,
    #[schema(value_type = Option<schema::Name>)]
    pub job_name: Option<Name>,
    pub state: State,
    /// The command as the job has it; for a task that is none, what kind it is.
    pub command: String,
    /// What went wrong, or why it did not run; empty: nothing.
    pub err: String,
    /// The end of the output; the run itself has all of it.
    pub output: String,
    /// When it was due.
    pub plan_time: Instant,
    /// When the scheduler acted on it. `null` means it is not due yet.
    pub schedule_time: Option<Instant>,
    /// When its first attempt started.
    pub start_time: Option<Instant>,
    pub end_time: Option<Instant>,
}

impl LogRecord {
    /// A run and its definition. `None` means that the definition was pruned.
    pub fn of(run: &Run, definition: Option<&Definition>) -> LogRecord {
        let job_name = run.job_name().cloned();
        let err = match &run.reason {
            Some(reason) if run.error.is_empty() => reason.to_string(),
            _ => run.error.to_string(),
        };
        LogRecord {
            run: Text(run.id),
            job_name,
            state: State(run.status()),
            command: definition.map(|definition| command(&definition.task)).unwrap_or_default(),
            err,
            output: keep_end(&run.output, LISTED_OUTPUT_BYTES_MAX).into_owned(),
            plan_time: Text(run.due),
            schedule_time: run.entries.get(1).map(|entry| Text(entry.at)),
            start_time: run.first_start().map(Text),
            end_time: run.finished_at.map(Text),
        }
    }
}

fn command(task: &Task) -> String {
    match task {
        Task::Shell(text) => text.clone(),
        Task::Process(process) => process.command.join(" "),
        Task::Function(name) => name.as_str().to_owned(),
        Task::Queue(queue) => format!("queue {}", queue.name),
        Task::Grpc(grpc) => format!("grpc {}", grpc.method),
        Task::Job(name) => format!("job {name}"),
        other => other.kind().as_str().to_owned(),
    }
}
