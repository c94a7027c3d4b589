//! Stops a workflow: it was cancelled, or its timeout was reached. Its steps end, and `finally` runs all the same.

use punctual_core::ids::RunId;
use punctual_core::run::Cause;
use punctual_core::workflow::{Skip, State, StepKey, StepReason, StepRecord};

use super::flow::Flow;
use super::index;
use crate::Shard;
use crate::event::Context;

impl Shard {
    /// Stops the steps of a workflow. Those of `finally` go on, unless the user wants it to end at once.
    pub(crate) fn stop_steps(&mut self, run: RunId, cause: Cause, cx: &mut Context<'_>) {
        let Some(flow) = self.flows.get_mut(&run) else { return };
        flow.progress.stop(&flow.graph);
        let (unstarted, unfinished) = (flow.take_unstarted(), flow.cut_maps());
        // A pause does not hold the sub-workflows in `finally` any more.
        self.decide_again(run);
        for step in unstarted {
            let key = StepKey { run, step, item: None };
            self.write_step(StepRecord::skipped(key, Skip::Stopped, cx.now));
            self.count_end(key, State::Skipped, cx);
        }
        for step in unfinished {
            self.end_map(StepKey { run, step, item: None }, cx);
        }
        let Some(flow) = self.flows.get(&run) else { return };
        let is_stopped =
            |row: &&StepRecord| cause == Cause::UserNow || !flow.graph.is_finally(index(row.key.step));
        let active = flow.rows.values().map(|row| &**row).filter(|row| row.state == State::Active);
        let active: Vec<(StepKey, Option<RunId>, bool)> =
            active.filter(is_stopped).map(|row| (row.key, row.child, row.items.is_some())).collect();
        for (key, child, is_map) in active {
            match child {
                Some(child) => self.stop(child, cause, cx),
                // It ends with its items.
                None if is_map => {}
                None => self.end_step(key, cx, |record| {
                    record.end(State::Failed, Some(StepReason::Stopped), cx.now);
                    record.error = StepReason::Stopped.as_str().into();
                }),
            }
        }
    }
}

impl Flow {
    /// Removes the steps that may start and have not, without those of `finally`.
    fn take_unstarted(&mut self) -> Vec<u32> {
        let graph = &self.graph;
        let (kept, taken): (Vec<u32>, Vec<u32>) =
            self.to_start.drain(..).partition(|step| graph.is_finally(index(*step)));
        self.to_start = kept.into();
        taken.into_iter().filter(|step| !self.rows.contains_key(&(*step, None))).collect()
    }

    /// Starts no further item, and returns the steps of which no item is left. Items of `finally` go on.
    pub(super) fn cut_maps(&mut self) -> Vec<u32> {
        let mut over = Vec::new();
        for (step, map) in &mut self.maps {
            if !self.graph.is_finally(index(*step)) && map.cut() {
                over.push(*step);
            }
        }
        let (graph, maps) = (&self.graph, &self.maps);
        self.to_start.retain(|step| graph.is_finally(index(*step)) || !maps.contains_key(step));
        over.sort_unstable();
        over
    }
}
