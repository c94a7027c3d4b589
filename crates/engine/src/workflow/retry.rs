//! Retries of workflows: the steps that the new run reuses, and the parameters of its steps.
//!
//! What is reused is decided when the run is made, because the rows of the finished run are at hand then. The rows of
//! the new run are written with it, so they are there when it begins, also after a load.

use std::sync::Arc;

use punctual_core::change::RunRecord;
use punctual_core::command::{Refusal, RetryRun};
use punctual_core::ids::RunId;
use punctual_core::job::{Definition, Invalid};
use punctual_core::run::Status;
use punctual_core::task::Task;
use punctual_core::workflow::{RetryFrom, StepParams, StepRecord, Workflow};

use crate::Shard;
use crate::event::Context;
use crate::memory::Stored;

/// What a retry of a workflow takes from the finished run.
pub(crate) struct Reuse {
    /// Steps of the finished run, with their index in the new one.
    pub(crate) rows: Vec<StepRecord>,
    pub(crate) params: Option<Box<StepParams>>,
}

impl Shard {
    /// Decides which steps a retry reuses. Nothing is changed yet.
    pub(crate) fn plan_reuse(
        &self,
        retry: &RetryRun,
        record: &RunRecord,
        cx: &Context<'_>,
    ) -> Result<Reuse, Refusal> {
        let definition = self.definition_of_retry(record);
        if retry.from.is_none() && retry.step_params.is_none() {
            return Ok(Reuse { rows: Vec::new(), params: kept_params(record, definition.workflow()) });
        }
        let old = record.definition.workflow().ok_or(Refusal::NotAWorkflow(retry.run))?;
        let Some(workflow) = definition.workflow() else {
            let field = if retry.from.is_some() { "from" } else { "steps" };
            let message = "the newest revision of the job is not a workflow; retry the whole run instead";
            return Err(Invalid::new(field, message).into());
        };
        let params = match &retry.step_params {
            Some(given) => {
                check_params(definition, workflow, given)?;
                (!given.is_empty()).then(|| Box::new(given.clone()))
            }
            None => kept_params(record, Some(workflow)),
        };
        let Some(from) = &retry.from else { return Ok(Reuse { rows: Vec::new(), params }) };
        if *from == RetryFrom::Failed && record.run.status() == Status::Succeeded {
            let hint = "no step of it failed; name the steps to execute again in `from`";
            let (run, status) = (retry.run, record.run.status());
            return Err(Refusal::WrongState { run, status, hint: hint.into() });
        }
        // The reused rows are in memory until the workflow begins, and a run that waits for its due time is not.
        if retry.due.unwrap_or(record.run.due) > cx.now {
            let message = "lies in the future; a retry from some steps starts at once";
            return Err(Invalid::new("due_at", message).into());
        }
        let pinned = self.pins.steps.get(&retry.run).map(|pin| &pin.row);
        let rows = pinned.or_else(|| self.fetched.steps.get(&retry.run));
        let rows = workflow.reused(from, (old, rows.map_or(&[], Vec::as_slice)), cx.now)?;
        Ok(Reuse { rows, params })
    }

    /// The definition that a retry is made under: that of the newest revision of its job, if the job still exists.
    fn definition_of_retry<'a>(&'a self, record: &'a RunRecord) -> &'a Definition {
        let Some(job) = &record.job else { return &record.definition };
        let key = (job.namespace.clone(), job.name.clone());
        let live = self.names.get(&key).and_then(|id| self.jobs.get(id)).map(|live| &live.job);
        let newest = match (live, self.pins.jobs.get(&key)) {
            (Some(live), _) => Some(live),
            (None, Some(pin)) => pin.row.as_ref(),
            (None, None) => Some(job),
        };
        newest.filter(|newest| newest.id == job.id).map_or(&record.definition, |newest| &newest.definition)
    }

    /// Writes the rows of the steps that a new run reuses.
    pub(crate) fn write_reused(&mut self, run: RunId, rows: Vec<StepRecord>) {
        let Some(live) = self.runs.get_mut(&run) else { return };
        for mut row in rows {
            row.key.run = run;
            let row = Arc::new(row);
            self.dirty.steps.insert(row.key, (Arc::clone(&row), Stored::No));
            live.reused.push(row);
        }
    }

    /// A run that was skipped at once reuses nothing.
    pub(crate) fn drop_reused(&mut self, run: RunId) {
        self.dirty.steps.retain(|key, _| key.run != run);
        self.pins.steps.remove(&run);
    }
}

/// The parameters of steps that the finished run had, as far as the steps still exist.
fn kept_params(record: &RunRecord, workflow: Option<&Workflow>) -> Option<Box<StepParams>> {
    let (params, workflow) = (record.run.step_params.as_deref()?, workflow?);
    let kept = params.iter().filter(|(name, _)| workflow.all().any(|step| step.name == **name));
    let kept: StepParams = kept.map(|(name, params)| (name.clone(), params.clone())).collect();
    (!kept.is_empty()).then(|| Box::new(kept))
}

/// Checks them like the parameters of a job file: a text in them is a template.
fn check_params(definition: &Definition, workflow: &Workflow, given: &StepParams) -> Result<(), Refusal> {
    let task = Task::Workflow(Box::new(workflow.with_step_params(given)?));
    let own = Definition { task, ..definition.clone() };
    own.check().map_err(|error| {
        let field = error.field.strip_prefix("task.workflow.").unwrap_or(&error.field);
        let field = match field.strip_prefix("finally.") {
            Some(step) => format!("steps.{step}"),
            None => field.to_owned(),
        };
        Refusal::Invalid(Invalid::new(field, error.message))
    })
}
