//! The values of the expressions of a workflow.

use std::collections::BTreeMap;
use std::sync::Arc;

use punctual_core::attempt::{self, StepValues};
use punctual_core::ids::RunId;
use punctual_core::job::Invalid;
use punctual_core::limits::STEP_OUTPUT_BYTES_MAX;
use punctual_core::template::{Value, Values};
use punctual_core::workflow::{Decision, Known, Output, State, StepKey, Workflow};

use super::flow::{Flow, Prepared};
use super::{index, number};
use crate::Shard;
use crate::family::definition_of_parts;
use crate::memory::LiveRun;

impl Shard {
    /// Decides every step that can be decided now.
    pub(super) fn decided(&self, run: RunId, flow: &mut Flow) -> Vec<(usize, Decision)> {
        let live = self.runs.get(&run);
        let Some((live, workflow)) = live.and_then(|live| Some((live, live.workflow()?))) else {
            return Vec::new();
        };
        let Flow { graph, progress, rows, .. } = flow;
        let mut base = None;
        // Steps that fail here have no row yet, and others may name them.
        let mut broken: BTreeMap<usize, String> = BTreeMap::new();
        progress.advance(graph, |step, states| {
            if !has_condition(workflow, step, &graph.nodes()[step].needs) {
                return Ok(true);
            }
            let known = |index: usize| {
                let bare = Known {
                    state: states[index],
                    output: Output::Nothing,
                    error: broken.get(&index).map(String::as_str),
                    run: None,
                    succeeded: 0,
                    failed: u32::from(states[index] == State::Failed),
                };
                Some(rows.get(&(number(index), None)).map_or(bare, |row| row.known()))
            };
            let named = workflow.named(graph, step);
            let values = base.get_or_insert_with(|| self.base_values(live)).clone();
            let values = values.with("steps", workflow.steps_value(named.iter().copied(), known));
            let holds = workflow
                .holds(graph, step, &values)
                .map_err(|error| explained(&error, workflow, &named, |index| Some(known(index)?.output)));
            if let Err(message) = &holds {
                broken.insert(step, message.clone());
            }
            holds
        })
    }

    /// The values of the expressions of a workflow, without those of its steps.
    pub(super) fn base_values(&self, live: &LiveRun) -> Values {
        attempt::workflow_values(&live.run, &self.params_of(live))
    }

    /// The values of the expressions of a step that starts.
    pub(super) fn values_of_step(&self, run: RunId, prepared: &Prepared) -> Values {
        let values = self.runs.get(&run).map(|live| self.base_values(live)).unwrap_or_default();
        match &prepared.steps {
            Some(steps) => values.with("steps", steps.clone()),
            None => values,
        }
    }

    /// What the runs of a step share; made when the first of them starts.
    pub(super) fn prepared(&mut self, run: RunId, step: u32) -> Option<Arc<Prepared>> {
        let flow = self.flows.get_mut(&run)?;
        if let Some(known) = flow.prepared.get(&step) {
            return Some(Arc::clone(known));
        }
        let live = self.runs.get(&run)?;
        let workflow = live.workflow()?;
        let definition = match live.is_split() {
            true => definition_of_parts(live),
            false => Arc::new(workflow.step(index(step))?.definition()),
        };
        let named = workflow.named(&flow.graph, index(step));
        let steps = (!named.is_empty()).then(|| workflow.steps_value(named, |index| flow.known(index)));
        let json = steps.as_ref().map(|steps| Arc::from(steps.to_json().to_string()));
        let prepared = Arc::new(Prepared { definition, steps, json });
        flow.prepared.insert(step, Arc::clone(&prepared));
        Some(prepared)
    }

    /// The error of an expression of a step.
    pub(super) fn explain(&self, key: StepKey, error: &Invalid) -> String {
        let (live, flow) = (self.runs.get(&key.run), self.flows.get(&key.run));
        let workflow = live.and_then(|live| live.workflow());
        let Some((workflow, flow)) = workflow.zip(flow) else { return error.to_string() };
        let named = workflow.named(&flow.graph, index(key.step));
        explained(error, workflow, &named, |index| Some(flow.known(index)?.output))
    }

    /// What the task of a step knows of its workflow. `None` means that the run is no step, or that its task knows
    /// nothing.
    pub(crate) fn step_values(&self, live: &LiveRun) -> Option<Box<StepValues>> {
        let step = self.whole_of(live).run.step.as_deref()?;
        let flow = self.flows.get(&step.parent)?;
        let steps = flow.prepared.get(&step.step).and_then(|prepared| prepared.json.clone());
        let item =
            step.item.and_then(|item| Some((item, flow.maps.get(&step.step)?.items.get(index(item))?)));
        let item = item.map(|(item, value)| (item, Arc::from(value.to_json().to_string())));
        (steps.is_some() || item.is_some()).then(|| Box::new(StepValues { steps, item }))
    }

    /// The output of a workflow whose steps have succeeded.
    pub(super) fn output_of(&self, run: RunId) -> Result<Option<Value>, String> {
        let (Some(live), Some(flow)) = (self.runs.get(&run), self.flows.get(&run)) else { return Ok(None) };
        let Some(workflow) = live.workflow().filter(|workflow| workflow.output.is_some()) else {
            return Ok(None);
        };
        let named = workflow.named_by_output();
        let steps = workflow.steps_value(named.iter().copied(), |index| flow.known(index));
        let values = self.base_values(live).with("steps", steps);
        workflow
            .evaluate_output(&values)
            .map_err(|error| explained(&error, workflow, &named, |index| Some(flow.known(index)?.output)))
    }
}

/// Whether a step has a `when`, or a step that it needs has a `switch`.
fn has_condition(workflow: &Workflow, step: usize, needs: &[usize]) -> bool {
    let of = |index: usize| workflow.step(index);
    of(step).is_some_and(|step| step.when.is_some())
        || needs.iter().any(|needed| of(*needed).is_some_and(|needed| needed.switch.is_some()))
}

/// The error of an expression; it says which of the named steps has an output that is too long.
fn explained<'a>(
    error: &Invalid,
    workflow: &Workflow,
    named: &[usize],
    output: impl Fn(usize) -> Option<Output<'a>>,
) -> String {
    let too_long = named.iter().find(|index| output(**index) == Some(Output::TooLong));
    match too_long.and_then(|index| workflow.step(*index)) {
        Some(step) => format!(
            "{error}; output_too_long: the output of `{}` has more than {STEP_OUTPUT_BYTES_MAX} bytes, or all outputs \
             of the workflow are too long together",
            step.name
        ),
        None => error.to_string(),
    }
}
