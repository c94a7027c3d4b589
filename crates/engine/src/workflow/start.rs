//! Starts steps: makes their runs, and lets waits and approvals begin.
//!
//! A step with many items is started page by page over several batches. The items that have no row yet are what is left
//! after a crash.

use std::sync::Arc;

use punctual_core::ids::RunId;
use punctual_core::job::Definition;
use punctual_core::limits::STEP_VALUES_BYTES_MAX;
use punctual_core::planted::{Fault, is_planted};
use punctual_core::run::{Origin, Run, State as RunState, StepOf, Trigger, Wait};
use punctual_core::task::Params;
use punctual_core::template::{Value, Values};
use punctual_core::topic::{Topic, TopicKey};
use punctual_core::workflow::{Items, State, StepKey, StepRecord, Work};

use super::flow::{Mapped, Prepared};
use super::{index, number};
use crate::Shard;
use crate::event::Context;
use crate::family::{CHANGED_MAX, NEXT_BATCH};
use crate::memory::LiveRun;

impl Shard {
    /// Starts the steps that may start, as far as the next batch has room.
    pub(super) fn start_steps(&mut self, run: RunId, cx: &mut Context<'_>) {
        while let Some(flow) = self.flows.get(&run)
            && let Some(step) = flow.to_start.front().copied()
        {
            if self.is_batch_full() {
                return self.continue_with_next_batch(run, cx);
            }
            if self.start_step(run, step, cx)
                && let Some(flow) = self.flows.get_mut(&run)
            {
                flow.to_start.pop_front();
            }
        }
    }

    pub(crate) fn is_batch_full(&self) -> bool {
        self.dirty.runs.len().max(self.dirty.steps.len() / 2) >= CHANGED_MAX
    }

    fn continue_with_next_batch(&mut self, run: RunId, cx: &Context<'_>) {
        let Some(flow) = self.flows.get_mut(&run) else { return };
        if !std::mem::replace(&mut flow.is_waiting_for_batch, true) {
            self.split_after(run, NEXT_BATCH, cx);
        }
    }

    /// Returns whether the step has started completely, as far as it may now.
    fn start_step(&mut self, run: RunId, step: u32, cx: &mut Context<'_>) -> bool {
        let live = self.runs.get(&run);
        let Some(definition) = live.and_then(|live| live.workflow()?.step(index(step))) else {
            return true;
        };
        let key = StepKey { run, step, item: None };
        match &definition.work {
            Work::Wait(_) => self.start_wait(key, cx),
            Work::Approve(within) => self.start_approval(key, *within, cx),
            Work::Task(_) | Work::Workflow(_) | Work::Job(_) if definition.map.is_some() => {
                let has_begun = self.flows.get(&run).is_some_and(|flow| flow.maps.contains_key(&step));
                return !(has_begun || self.open_map(key, cx)) || self.start_items(key, cx);
            }
            Work::Task(_) | Work::Workflow(_) | Work::Job(_) => self.start_run(key, cx),
        }
        true
    }

    fn start_wait(&mut self, key: StepKey, cx: &mut Context<'_>) {
        let Some(prepared) = self.prepared(key.run, key.step) else { return };
        let values = self.values_of_step(key.run, &prepared);
        let live = self.runs.get(&key.run);
        let Some(workflow) = live.and_then(|live| live.workflow()) else { return };
        let until = workflow.wait_until(index(key.step), &values, cx.now);
        let wanted = workflow.event_key(index(key.step), &values);
        let (until, wanted) = match until.and_then(|until| Ok((until, wanted?))) {
            Ok(wait) => wait,
            Err(error) => return self.break_step(key, &self.explain(key, &error), cx),
        };
        if let (Some(name), Some(live)) = (self.awaited_name(key), live) {
            let topic = TopicKey { namespace: live.run.namespace.clone(), topic: Topic::Event(name.clone()) };
            let record = StepRecord { until, ..StepRecord::active(key, cx.now) };
            return self.start_event_wait(record, topic, wanted, cx);
        }
        let until = until.unwrap_or(cx.now);
        let mut record = StepRecord { until: Some(until), ..StepRecord::active(key, cx.now) };
        if until > cx.now {
            self.step_timers.insert((until, key));
            return self.write_step(record);
        }
        record.end(State::Succeeded, None, cx.now);
        self.write_step(record);
        self.count_end(key, State::Succeeded, cx);
    }

    /// Fails a step that cannot start.
    fn break_step(&mut self, key: StepKey, error: &str, cx: &Context<'_>) {
        self.write_step(StepRecord::broken(key, error, cx.now));
        self.count_end(key, State::Failed, cx);
    }

    /// Evaluates the list of a step with `map`. Returns false if the step has ended with it.
    fn open_map(&mut self, key: StepKey, cx: &mut Context<'_>) -> bool {
        let items = match self.items(key) {
            Ok(items) => items,
            Err(error) => {
                self.break_step(key, &error, cx);
                return false;
            }
        };
        let total = number(items.len());
        let items_row = Some(Items { total, ..Items::default() });
        let mut record = StepRecord { items: items_row, ..StepRecord::active(key, cx.now) };
        if total == 0 {
            record.end(State::Succeeded, None, cx.now);
            record.output = Some("[]".into());
            self.write_step(record);
            self.count_end(key, State::Succeeded, cx);
            return false;
        }
        self.write_step(record);
        let parallel = self.parallel_of(key);
        if let Some(flow) = self.flows.get_mut(&key.run) {
            let map = Mapped { items, total, parallel, next: 0, ended: 0, failed: 0, is_queued: true };
            flow.maps.insert(key.step, map);
        }
        true
    }

    /// The items of a step with `map`.
    pub(super) fn items(&mut self, key: StepKey) -> Result<Arc<[Value]>, String> {
        if let Some(items) = self.flows.get(&key.run).and_then(|flow| flow.whole_of_parts()?.items) {
            return Ok(vec![Value::Null; index(items.total)].into());
        }
        let prepared = self.prepared(key.run, key.step).ok_or_else(String::new)?;
        let values = self.values_of_step(key.run, &prepared);
        let live = self.runs.get(&key.run);
        let workflow = live.and_then(|live| live.workflow()).ok_or_else(String::new)?;
        let items = workflow.items(index(key.step), &values).map_err(|error| self.explain(key, &error))?;
        Ok(items.unwrap_or_default())
    }

    pub(super) fn parallel_of(&self, key: StepKey) -> u32 {
        let live = self.runs.get(&key.run);
        if let Some((live, backfill)) = live.zip(self.backfill_of(key.run)) {
            return backfill.parallel(&live.definition);
        }
        let step = live.and_then(|live| live.workflow()?.step(index(key.step)));
        step.and_then(|step| step.map.as_ref()?.parallel).unwrap_or(u32::MAX)
    }

    /// Starts the next items. Returns false if the batch is full before all that may start have started.
    fn start_items(&mut self, of: StepKey, cx: &mut Context<'_>) -> bool {
        loop {
            let is_full = self.is_batch_full();
            let flow = self.flows.get_mut(&of.run);
            let Some(map) = flow.and_then(|flow| flow.maps.get_mut(&of.step)) else { return true };
            let is_busy = map.next - map.ended >= map.parallel && !is_planted(Fault::ParallelIsIgnored);
            if map.next == map.total || is_busy {
                map.is_queued = false;
                return true;
            }
            if is_full {
                return false;
            }
            let item = map.next;
            map.next += 1;
            self.start_run(StepKey { item: Some(item), ..of }, cx);
        }
    }

    /// Makes the run of a step, or of an item of it.
    fn start_run(&mut self, key: StepKey, cx: &mut Context<'_>) {
        let Some(prepared) = self.prepared(key.run, key.step) else { return };
        let params = match self.params_of_step(key, &prepared) {
            Ok(params) => params,
            Err(error) => return self.break_step(key, &error, cx),
        };
        let Some(whole) = self.runs.get(&key.run).map(|live| Arc::clone(&live.run)) else { return };
        let child = self.make_step_run(&whole, key, &prepared.definition, cx);
        let Some(mut child) = child else { return };
        // A child run of a backfill keeps its own parameters for a retry.
        child.params = params.or_else(|| whole.params.clone().filter(|_| child.is_backfilled()));
        child.sign(cx.pool.node());
        let id = child.id;
        let workers = child.pinned_to().cloned().into_iter().collect();
        self.write_step(StepRecord { child: Some(id), workers, ..StepRecord::active(key, cx.now) });
        let definition = Arc::clone(&prepared.definition);
        self.remember_run(LiveRun::new(Arc::new(child), definition, false), cx);
        self.set_limit_keys(id);
        self.place(id, cx);
    }

    fn make_step_run(
        &mut self,
        whole: &Run,
        key: StepKey,
        definition: &Arc<Definition>,
        cx: &Context<'_>,
    ) -> Option<Run> {
        let live = self.runs.get(&whole.id)?;
        let step = live.workflow()?.step(index(key.step))?;
        let priority = step.policies.priority.unwrap_or(whole.priority);
        // A run without a job carries its definition.
        let origin = match &whole.origin {
            Origin::Job { .. } => whole.origin.clone(),
            Origin::AdHoc(_) => Origin::AdHoc(Arc::clone(definition)),
        };
        let id = RunId(self.ids.next(cx.now));
        let mut child = Run::new(id, whole.namespace.clone(), origin, Trigger::Parent, whole.due, cx.now);
        child.priority = priority;
        child.state = RunState::Waiting { wait: Wait::Overlap };
        if let Some(part) = self.part_of(key) {
            // A part executes the same step as the whole.
            (child.part_of, child.step) = (Some(Box::new(part)), whole.step.clone());
            if let Some(due) = self.due_of_item(key) {
                (child.trigger, child.due) = (Trigger::Backfill, due);
            }
            return Some(child);
        }
        let path = match &whole.step {
            Some(outer) => format!("{}/{}", outer.path, step.name).into(),
            None => Arc::from(step.name.as_str()),
        };
        let (step, item) = (key.step, key.item);
        child.step = Some(Box::new(StepOf { parent: whole.id, step, path, item }));
        Some(child)
    }

    /// The parameters of a step's run. `None` means those of the workflow.
    fn params_of_step(&self, key: StepKey, prepared: &Prepared) -> Result<Option<Params>, String> {
        if let Some(json) = prepared.json.as_ref().filter(|json| json.len() > STEP_VALUES_BYTES_MAX) {
            let bytes = json.len();
            return Err(format!(
                "output_too_long: the steps that it names have {bytes} bytes together, at most {STEP_VALUES_BYTES_MAX}"
            ));
        }
        let live = self.runs.get(&key.run).ok_or_else(String::new)?;
        let workflow = live.workflow().ok_or_else(String::new)?;
        let Some(step) = workflow.step(index(key.step)) else { return Ok(None) };
        let starts_job = matches!(step.work, Work::Job(_));
        if step.params == Params::default() {
            return Ok(starts_job.then(Params::default));
        }
        // The run of another job has the parameters of that job, not those of the workflow.
        let own = if starts_job { Params::default() } else { self.params_of(live) };
        let values = self.with_item(key, self.values_of_step(key.run, prepared));
        let params = workflow.step_params(index(key.step), &own, &values);
        params.map_err(|error| self.explain(key, &error))
    }

    fn with_item(&self, key: StepKey, values: Values) -> Values {
        let map = self.flows.get(&key.run).and_then(|flow| flow.maps.get(&key.step));
        match (key.item, map) {
            (Some(item), Some(map)) => {
                let value = map.items.get(index(item)).cloned().unwrap_or(Value::Null);
                values.with("item", value).with("index", Value::Int(item.into()))
            }
            _ => values,
        }
    }
}
