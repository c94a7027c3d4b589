//! A run with child runs, and these: the steps of a workflow, or the parts of a split run.
//!
//! A run with child runs has no attempts: it is `running` until the last of them has ended. What became of each is in rows of
//! their own ([`crate::workflow::StepRecord`]), because the row of the run would grow with every child run.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Cause, Reason, Run, State, What};
use crate::Timestamp;
use crate::ids::RunId;
use crate::job::Definition;
use crate::progress::Reported;
use crate::task::Task;
use crate::workflow::{ByHand, Step, StepKey, Workflow};

/// The step of a workflow that a run executes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepOf {
    /// The run of the workflow.
    pub parent: RunId,
    /// The index of the step in its workflow.
    pub step: u32,
    /// The name of the step; in a sub-workflow after the names of the steps around it: `settle/book`.
    pub path: Arc<str>,
    /// The index of the item. `None` means that the step has no `map`.
    pub item: Option<u32>,
}

impl StepOf {
    /// The definition of the step's runs, by that of the workflow.
    pub fn definition(&self, of: &Definition) -> Option<Definition> {
        of.workflow()?.at(&self.path).map(Step::definition)
    }
}

/// What the child runs of a run came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepsEnd {
    Succeeded,
    Failed {
        reason: Reason,
        error: Box<str>,
    },
    /// It was cancelled, or its timeout was reached.
    Stopped,
}

impl Run {
    /// The parent, if it is a part of a split run or a step of a workflow.
    pub fn parent(&self) -> Option<RunId> {
        Some(self.row_in_parent()?.run)
    }

    /// The key of its row among the steps of its parent. The parts of a split run are the items of its only step, and so
    /// are the child runs of a backfill.
    pub fn row_in_parent(&self) -> Option<StepKey> {
        match (&self.part_of, &self.step) {
            (Some(of), _) => Some(StepKey { run: of.parent, step: 0, item: Some(of.part.index) }),
            (None, Some(of)) => Some(StepKey { run: of.parent, step: of.step, item: of.item }),
            (None, None) => None,
        }
    }

    /// Whether it is split, so that its child runs are parts of it, or a backfill. The child runs have the same definition.
    pub fn is_split(&self, definition: &Definition) -> bool {
        self.is_backfill() || (definition.route.splits() && self.split_part().is_none())
    }

    /// The workflow by which it is executed. `None` means that it has no child runs, but attempts.
    pub fn workflow<'a>(&self, definition: &'a Definition) -> Option<&'a Workflow> {
        if self.is_split(definition) { Some(Workflow::of_parts()) } else { definition.workflow() }
    }

    /// Whether it is a workflow or a split run that has begun and not ended.
    pub fn has_open_steps(&self) -> bool {
        matches!(self.state, State::Split { .. })
    }

    /// Whether it is a workflow or a split run that has begun, also if it has ended.
    pub fn has_begun_steps(&self) -> bool {
        self.entries.iter().any(|entry| entry.what == What::Split)
    }

    /// Whether it may have rows of steps that its shard needs: it has begun them, or is a retry that reuses steps and has
    /// not begun.
    pub fn may_have_steps(&self) -> bool {
        self.has_open_steps() || (self.retry_of.is_some() && self.attempt == 0)
    }

    /// Its definition with its own parameters of steps.
    pub fn own_definition(&self, definition: Arc<Definition>) -> Arc<Definition> {
        let own = self.step_params.as_ref().and_then(|params| {
            // They were checked when the run was made.
            let workflow = definition.workflow()?.with_step_params(params).ok()?;
            Some(Definition { task: Task::Workflow(Box::new(workflow)), ..(*definition).clone() })
        });
        own.map_or(definition, Arc::new)
    }

    /// Whether the workflow was paused and not resumed.
    pub fn is_paused(&self) -> bool {
        self.last_pause().is_some()
    }

    /// Who has paused the workflow. `None` means that it is not paused, or has ended.
    pub fn paused_by(&self) -> Option<&ByHand> {
        self.by_hand_at(self.last_pause().filter(|_| !self.status().is_terminal())?)
    }

    /// The index of the entry that paused the workflow. `None` means that it is not paused.
    fn last_pause(&self) -> Option<usize> {
        let last = self.entries.iter().rposition(|entry| matches!(entry.what, What::Paused | What::Resumed));
        last.filter(|last| self.entries[*last].what == What::Paused)
    }

    /// Which child of its parent it is: the index of a part, or the name of a step with the index of its item.
    pub fn place_in_parent(&self) -> Option<String> {
        if let Some(of) = &self.part_of {
            return Some(of.part.index.to_string());
        }
        let step = self.step.as_ref()?;
        Some(match step.item {
            Some(item) => format!("{}[{item}]", step.path),
            None => step.path.as_ref().to_owned(),
        })
    }

    pub(super) fn begin_steps(&mut self, now: Timestamp) -> (State, What) {
        self.started_at = Some(now);
        self.progress = Some(Box::new(Reported { percent: Some(0), ..Reported::new(now) }));
        (State::Split { since: now, cancelling: None }, What::Split)
    }

    pub(super) fn end_steps(
        &mut self,
        cancelling: Option<Cause>,
        end: StepsEnd,
        output: Box<str>,
    ) -> (State, What) {
        self.output = output;
        let state = match end {
            StepsEnd::Succeeded => State::Succeeded,
            StepsEnd::Failed { reason, error } => {
                (self.reason, self.error) = (Some(reason), error);
                State::Failed
            }
            StepsEnd::Stopped => {
                let cause = cancelling.unwrap_or(Cause::User);
                self.reason = Some(Reason::Cancelled(cause));
                if cause == Cause::Timeout { State::TimedOut } else { State::Cancelled }
            }
        };
        (state, What::Ended)
    }
}
