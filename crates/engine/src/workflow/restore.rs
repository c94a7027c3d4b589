//! Puts workflows into memory: when they begin, and after a load.

use std::sync::Arc;

use punctual_core::ids::RunId;
use punctual_core::planted::{Fault, is_planted};
use punctual_core::workflow::{Graph, Progress, State, StepKey, StepReason, StepRecord};

use super::flow::{Flow, Mapped};
use super::{index, number};
use crate::Shard;
use crate::event::Context;

impl Shard {
    /// Puts a running workflow into memory, from its rows. Steps without a row are decided again.
    pub(crate) fn restore_workflow(&mut self, run: RunId, rows: Vec<Arc<StepRecord>>, cx: &Context<'_>) {
        let Some(live) = self.runs.get(&run) else { return };
        let Some(workflow) = live.workflow() else { return };
        let graph = Graph::of(workflow).expect("a workflow is checked before it is stored");
        let mut states = vec![State::Open; graph.nodes().len()];
        for row in rows.iter().filter(|row| row.key.item.is_none()) {
            if let Some(state) = states.get_mut(index(row.key.step)) {
                let is_forgotten = is_planted(Fault::StepIsStartedAgain)
                    || (is_planted(Fault::ReusedStepIsExecuted)
                        && matches!(row.reason, Some(StepReason::Reused { .. })));
                *state = if is_forgotten { State::Open } else { row.state };
            }
        }
        let is_stopping = live.run.cancelling().is_some();
        let progress = Progress::of(&graph, states, is_stopping);
        let mut flow = Flow::with(graph, progress, live.is_split());
        for row in rows {
            let whole = flow.rows.get(&(row.key.step, None));
            // The result of a step with `map` has what is needed of its items.
            if row.key.item.is_some() && whole.is_some_and(|whole| whole.state.has_ended()) {
                continue;
            }
            flow.output_bytes += row.output.as_ref().map_or(0, |output| output.len());
            self.step_timers.extend(row.until.filter(|_| row.state == State::Active).map(|at| (at, row.key)));
            flow.rows.insert((row.key.step, row.key.item), row);
        }
        self.flows.insert(run, flow);
        self.due_flows.insert(run);
        self.restore_steps(run);
        if is_stopping {
            let over = self.flows.get_mut(&run).map(Flow::cut_maps).unwrap_or_default();
            for step in over {
                self.end_map(StepKey { run, step, item: None }, cx);
            }
        }
    }

    /// Prepares the steps that have runs, and continues those with `map`.
    fn restore_steps(&mut self, run: RunId) {
        let Some(flow) = self.flows.get(&run) else { return };
        let wholes = flow.rows.values().filter(|row| row.key.item.is_none() && row.state == State::Active);
        let active: Vec<Arc<StepRecord>> = wholes.cloned().collect();
        for row in active {
            if row.child.is_some() {
                self.prepared(run, row.key.step);
            }
            if row.items.is_some() {
                self.restore_map(&row);
            }
        }
    }

    fn restore_map(&mut self, row: &StepRecord) {
        let key = row.key;
        // The steps that the list comes from have ended, so it is the same as before.
        let items = self.items(key).unwrap_or_default();
        let parallel = self.parallel_of(key);
        let Some(flow) = self.flows.get_mut(&key.run) else { return };
        let states: Vec<State> = flow.items_of(key.step).map(|(_, row)| row.state).collect();
        let count = |wanted: fn(&State) -> bool| number(states.iter().filter(|state| wanted(state)).count());
        let (next, ended, failed) =
            (number(states.len()), count(|state| state.has_ended()), count(|state| *state == State::Failed));
        let is_cut = row.by_hand.is_some() || (is_planted(Fault::FanOutIsForgotten) && next > 0);
        let total = row.items.filter(|_| !is_cut).map_or(next, |items| items.total);
        let is_queued = next < total;
        let map = Mapped { items, total, parallel, next, ended, failed, is_queued };
        flow.maps.insert(key.step, map);
        if is_queued {
            flow.to_start.push_back(key.step);
        }
    }
}
