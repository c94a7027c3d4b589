//! A retry of a workflow that has ended: which steps it executes again, and which it reuses.
//!
//! A step is executed again if it did not end well, if the user names it, or if a step that it needs is executed again.
//! All others keep their end, as rows of the new run. The steps of `finally` are always executed again.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::graph::{find, names};
use super::{Graph, Skip, State, StepKey, StepReason, StepRecord, Workflow};
use crate::Timestamp;
use crate::invalid::Invalid;
use crate::limits::PARAMS_BYTES_MAX;
use crate::name::Name;
use crate::params::Params;
use crate::planted::{Fault, is_planted};

/// Where a retry of a workflow begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetryFrom {
    /// At the steps that did not end well.
    Failed,
    /// At these steps, and at those that did not end well.
    Steps(Vec<Name>),
}

/// Parameters of steps, in one run only. They are merged over the parameters that the steps have.
pub type StepParams = BTreeMap<Name, Params>;

impl Workflow {
    /// The rows of the steps that a retry reuses, with their index in this workflow. `old` is the workflow of the run
    /// that has ended, `rows` are those of its steps, without items.
    pub fn reused(
        &self,
        from: &RetryFrom,
        (old, rows): (&Workflow, &[Arc<StepRecord>]),
        now: Timestamp,
    ) -> Result<Vec<StepRecord>, Invalid> {
        let graph = Graph::of(self)?;
        let mut is_executed = self.named_by_user(from)?;
        let rows = rows.iter().filter_map(|row| {
            let step = usize::try_from(row.key.step).ok().and_then(|index| old.step(index))?;
            Some((&step.name, row))
        });
        let rows: HashMap<&Name, &Arc<StepRecord>> = rows.collect();
        let mut reused = Vec::new();
        // Every step comes after all that it needs.
        for index in graph.order().iter().copied() {
            let row = self.step(index).and_then(|step| rows.get(&step.name)).filter(|row| is_reusable(row));
            is_executed[index] |= graph.is_finally(index)
                || (graph.nodes()[index].needs.iter().any(|needed| is_executed[*needed])
                    && !is_planted(Fault::RetryIgnoresNeeds));
            match row {
                Some(row) if !is_executed[index] => {
                    let step = u32::try_from(index).unwrap_or(u32::MAX);
                    reused.push(row.reused_as(StepKey { step, ..row.key }, now));
                }
                _ => is_executed[index] = true,
            }
        }
        Ok(reused)
    }

    /// For each step, whether the user wants it to be executed again.
    fn named_by_user(&self, from: &RetryFrom) -> Result<Vec<bool>, Invalid> {
        let mut named = vec![false; self.all().count()];
        let RetryFrom::Steps(steps) = from else { return Ok(named) };
        if steps.is_empty() {
            return Err(Invalid::new("from", "names no step: give at least one, or `failed`"));
        }
        let known = names(self)?;
        for (at, name) in steps.iter().enumerate() {
            let index = find(&known, name).map_err(|message| Invalid::new(format!("from[{at}]"), message))?;
            named[index] = true;
        }
        Ok(named)
    }

    /// The same workflow with these parameters merged over those of its steps.
    pub fn with_step_params(&self, params: &StepParams) -> Result<Workflow, Invalid> {
        let bytes: usize = params.values().map(|params| params.0.len()).sum();
        if bytes > PARAMS_BYTES_MAX {
            let message = format!("have {bytes} bytes of JSON together, at most {PARAMS_BYTES_MAX}");
            return Err(Invalid::new("steps", message));
        }
        let mut changed = self.clone();
        let known = names(self)?;
        for (name, patch) in params {
            let index =
                find(&known, name).map_err(|message| Invalid::new(format!("steps.{name}"), message))?;
            let steps = changed.steps.len();
            let step = match index.checked_sub(steps) {
                Some(index) => &mut changed.finally[index],
                None => &mut changed.steps[index],
            };
            let under = |error: Invalid| error.under(&format!("steps.{name}"));
            step.params = step.params.merged(patch).map_err(under)?;
        }
        Ok(changed)
    }
}

/// Whether a step of a run that has ended need not be executed again. A step that was skipped because a step that it
/// needs failed is executed again with that step.
fn is_reusable(row: &StepRecord) -> bool {
    match (row.state, row.reason) {
        (State::Skipped, Some(StepReason::Skipped(Skip::Stopped))) => false,
        (State::Succeeded | State::Skipped, _) => true,
        (State::Failed, _) => is_planted(Fault::RetryReusesFailure),
        (State::Open | State::Active, _) => false,
    }
}

impl StepRecord {
    /// The row of the step in a new run that reuses it. Its end is part of the new run from now on.
    fn reused_as(&self, key: StepKey, now: Timestamp) -> StepRecord {
        let output_too_long = self.reason.is_some_and(StepReason::is_output_too_long);
        StepRecord {
            key,
            decided_at: now,
            started_at: None,
            ended_at: Some(now),
            until: None,
            listener: None,
            reason: Some(StepReason::Reused { output_too_long }),
            ..self.clone()
        }
    }
}
