//! Workflows in a history: the graph of each run, and what was decided of its steps.

use punctual_core::Timestamp;
use punctual_core::ids::RunId;
use punctual_core::name::Name;
use punctual_core::task::Task;
use punctual_core::workflow::{Graph, Items, Rule, State, Step, StepRecord, Work, Workflow};
use serde::Deserialize;

use super::line::{maybe_written, written};
use super::{History, RunRecord};

/// The workflow of a run.
#[derive(Debug, Clone)]
pub struct WorkflowRecord {
    /// The names of its steps, by index.
    pub names: Vec<Name>,
    pub graph: Graph,
    /// For each step, whether a run of it may start only one attempt.
    pub at_most_once: Vec<bool>,
    /// Whether it has an `output`, which may fail although all steps succeeded.
    pub has_output: bool,
}

/// What was decided of a step, or of an item of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepRow {
    pub state: State,
    pub child: Option<RunId>,
    pub decided_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    pub reason: Option<Box<str>>,
    /// `None` means that the step has no `map`, or that this is an item of it.
    pub items: Option<Items>,
}

/// The run of the workflow, the step, and the item of a step with `map`.
pub(crate) type StepPlace = (RunId, Name, Option<u32>);

impl StepRow {
    /// It ended in an earlier run, of which this run is a retry.
    pub(crate) fn is_reused(&self) -> bool {
        self.reason.as_deref().is_some_and(|reason| reason.starts_with("reused"))
    }
}

impl WorkflowRecord {
    /// `None` means that the workflow is invalid.
    pub fn of(workflow: &Workflow) -> Option<WorkflowRecord> {
        Some(WorkflowRecord {
            names: workflow.all().map(|step| step.name.clone()).collect(),
            graph: Graph::of(workflow).ok()?,
            at_most_once: workflow.all().map(|step| step.policies.at_most_once).collect(),
            has_output: workflow.output.is_some(),
        })
    }

    pub(crate) fn index_of(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|known| known.as_str() == name)
    }
}

impl From<&StepRecord> for StepRow {
    fn from(row: &StepRecord) -> StepRow {
        let StepRecord { state, child, decided_at, ended_at, items, .. } = *row;
        let reason = row.reason.map(|reason| reason.as_str().into());
        StepRow { state, child, decided_at, ended_at, reason, items }
    }
}

impl History {
    /// Whether the definition of a run asks for at most one attempt. A step is asked, not its job. `None` means unknown.
    pub(crate) fn is_at_most_once(&self, run: &RunRecord) -> Option<bool> {
        if run.at_most_once.is_some() {
            return run.at_most_once;
        }
        let Some(parent) = run.parent else { return Some(self.rules_of(run)?.at_most_once) };
        // A split run may be a step itself.
        if run.part.is_some() {
            return self.is_at_most_once(self.runs.get(&parent)?);
        }
        let workflow = self.workflows.get(&parent)?;
        let (name, _) = run.place()?;
        workflow.at_most_once.get(workflow.index_of(name)?).copied()
    }
}

impl RunRecord {
    /// The step of its parent that it executes, and the item. The parts of a split run are the items of its only step.
    pub(crate) fn place(&self) -> Option<(&str, Option<u32>)> {
        match self.part {
            Some(_) => Some((Workflow::of_parts().steps.first()?.name.as_str(), self.part)),
            None => Some(step_name(self.step.as_deref()?)),
        }
    }
}

/// The name of a step in its own workflow and the item, from its path: `settle/load[3]`.
fn step_name(path: &str) -> (&str, Option<u32>) {
    let name = path.rsplit('/').next().unwrap_or(path);
    match name.strip_suffix(']').and_then(|name| name.rsplit_once('[')) {
        Some((name, item)) => (name, item.parse().ok()),
        None => (name, None),
    }
}

#[derive(Deserialize)]
pub(super) struct WorkflowLine {
    #[serde(deserialize_with = "written")]
    pub(super) run: RunId,
    steps: Vec<DefinedLine>,
    #[serde(default)]
    output: bool,
}

#[derive(Deserialize)]
struct DefinedLine {
    name: Name,
    #[serde(default)]
    needs: Vec<Name>,
    rule: String,
    #[serde(default)]
    finally: bool,
    #[serde(default)]
    at_most_once: bool,
}

#[derive(Deserialize)]
pub(super) struct StepLine {
    #[serde(deserialize_with = "written")]
    run: RunId,
    step: Name,
    item: Option<u32>,
    state: String,
    #[serde(default, deserialize_with = "maybe_written")]
    child: Option<RunId>,
    #[serde(deserialize_with = "written")]
    decided_at: Timestamp,
    #[serde(default, deserialize_with = "maybe_written")]
    ended_at: Option<Timestamp>,
    reason: Option<Box<str>>,
    #[serde(default)]
    items: Option<Items>,
}

impl WorkflowLine {
    pub(super) fn read(self) -> Result<WorkflowRecord, String> {
        let (mut steps, mut finally) = (Vec::new(), Vec::new());
        for line in self.steps {
            let rule =
                Rule::parse(&line.rule).ok_or_else(|| format!("`{}` is no rule of a step", line.rule))?;
            let mut step = Step { needs: line.needs, rule, ..Step::of(line.name, Work::Task(Task::Noop)) };
            step.policies.at_most_once = line.at_most_once;
            if line.finally { &mut finally } else { &mut steps }.push(step);
        }
        let output = self.output.then(String::new);
        let workflow = Workflow { steps, finally, output };
        WorkflowRecord::of(&workflow).ok_or_else(|| format!("the workflow of run {} is invalid", self.run))
    }
}

impl StepLine {
    pub(super) fn read(self) -> Result<(StepPlace, StepRow), String> {
        let StepLine { run, step, item, child, decided_at, ended_at, reason, items, .. } = self;
        let state =
            State::parse(&self.state).ok_or_else(|| format!("`{}` is no state of a step", self.state))?;
        Ok(((run, step, item), StepRow { state, child, decided_at, ended_at, reason, items }))
    }
}
