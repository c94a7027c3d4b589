//! Executes workflows: decides which steps start, and ends the workflow with its last step. A split run is executed like a
//! workflow whose only step has the parts as items ([`crate::family`]), and so is a backfill, whose items are its due times.
//!
//! A workflow needs no slot: its run is `running` while its steps have runs of their own, in the same shard. The end of a
//! step, what it decides and the runs that it lets start are one batch. Every decision is a row
//! ([`punctual_core::workflow::StepRecord`]), so a shard that is loaded again knows all of them and decides the rest.
//!
//! The surprise: an end only marks its workflow as due. [`Shard::advance_workflows`] decides when the event at hand has
//! been applied, so that a chain of steps that end at once needs no stack.
//!
//! overlap ──ready──▶ workflow ──runs of steps──▶ assign … settle ──ended──▶ workflow

mod approvals;
mod by_hand;
mod events;
mod flow;
mod restore;
mod retry;
mod start;
mod stop;
mod values;

use std::sync::Arc;

use punctual_core::cut::keep_end;
use punctual_core::ids::RunId;
use punctual_core::limits::{EARLIER_ERROR_BYTES_MAX, ERROR_BYTES_MAX};
use punctual_core::planted::{Fault, is_planted};
use punctual_core::run::{Event, Reason, Run, Status, StepsEnd};
use punctual_core::template::Value;
use punctual_core::workflow::{Decision, End, Output, State, StepKey, StepReason, StepRecord, Wait, Work};

use crate::Shard;
use crate::event::Context;
use crate::memory::Stored;

pub(crate) use flow::Flow;
pub(crate) use retry::Reuse;

impl Shard {
    /// Starts a ready workflow, with the rows that it has already. Returns false if its state does not allow it.
    pub(crate) fn begin_steps(
        &mut self,
        run: RunId,
        rows: Vec<Arc<StepRecord>>,
        cx: &mut Context<'_>,
    ) -> bool {
        let begins = self.transition(run, Event::StepsBegun, cx);
        if begins {
            self.restore_workflow(run, rows, cx);
            self.note_percent(run, cx);
        }
        begins
    }

    /// Decides and starts steps of every workflow of which a step has ended.
    pub(crate) fn advance_workflows(&mut self, cx: &mut Context<'_>) {
        while let Some(run) = self.due_flows.pop_first() {
            if !self.is_held_by_hand(run) && !self.is_held_up(run) {
                self.decide_steps(run, cx);
                self.start_steps(run, cx);
            }
            self.end_with_last_step(run, cx);
        }
    }

    /// Whether a person has paused the workflow, or one that it is a step of. A workflow that is being stopped goes on to
    /// its end. The parts of a split run are no steps, so all of them start. A child run of a backfill that has started is
    /// not paused with it.
    fn is_held_by_hand(&self, run: RunId) -> bool {
        let mut next = self.runs.get(&run);
        let has_parts = next.is_some_and(|live| live.is_split() && !live.run.is_backfill());
        if is_planted(Fault::PauseIsIgnored) || has_parts {
            return false;
        }
        while let Some(live) = next.filter(|live| live.run.cancelling().is_none()) {
            if live.run.is_paused() {
                return true;
            }
            if live.run.is_backfilled() {
                return false;
            }
            next = live.run.parent().and_then(|parent| self.runs.get(&parent));
        }
        false
    }

    /// Whether a hold keeps a workflow from starting steps. A workflow that is being stopped goes on to its end.
    fn is_held_up(&self, run: RunId) -> bool {
        self.is_on_hold(run) && self.runs.get(&run).is_some_and(|live| live.run.cancelling().is_none())
    }

    /// Lets a workflow be decided again, with the sub-workflows in it.
    fn decide_again(&mut self, run: RunId) {
        let mut open = vec![run];
        while let Some(run) = open.pop() {
            let Some(flow) = self.flows.get(&run) else { continue };
            let active = flow.rows.values().filter(|row| row.state == State::Active);
            open.extend(active.filter_map(|row| row.child));
            self.due_flows.insert(run);
        }
    }

    /// The rest of a fan-out starts with the next batch.
    pub(crate) fn continue_fan_out(&mut self, run: RunId) {
        if let Some(flow) = self.flows.get_mut(&run) {
            flow.is_waiting_for_batch = false;
            self.due_flows.insert(run);
        }
    }

    fn decide_steps(&mut self, run: RunId, cx: &Context<'_>) {
        let Some(mut flow) = self.flows.remove(&run) else { return };
        let decided = self.decided(run, &mut flow);
        self.flows.insert(run, flow);
        for (step, decision) in decided {
            let key = StepKey { run, step: number(step), item: None };
            let record = match decision {
                Decision::Start => {
                    if let Some(flow) = self.flows.get_mut(&run) {
                        flow.to_start.push_back(key.step);
                    }
                    continue;
                }
                Decision::Skip(skip) => StepRecord::skipped(key, skip, cx.now),
                Decision::Fail(message) => StepRecord::broken(key, &message, cx.now),
                Decision::Wait | Decision::Done => continue,
            };
            self.write_step(record);
        }
    }

    /// Keeps a row in memory and writes it with the next batch.
    fn write_step(&mut self, record: StepRecord) {
        let (key, record) = (record.key, Arc::new(record));
        let Some(flow) = self.flows.get_mut(&key.run) else { return };
        if is_planted(Fault::StepEndIsNotWritten) && record.state == State::Succeeded {
            flow.rows.insert((key.step, key.item), record);
            return;
        }
        let is_known = flow.rows.insert((key.step, key.item), Arc::clone(&record)).is_some();
        let stored = if is_known { Stored::Yes } else { Stored::No };
        let (row, _) = self.dirty.steps.entry(key).or_insert_with(|| (Arc::clone(&record), stored));
        *row = record;
    }

    /// The run of a step has ended.
    pub(crate) fn step_run_ended(&mut self, child: &Run, cx: &mut Context<'_>) {
        let Some(key) = child.row_in_parent() else { return };
        let is_part = child.part_of.is_some();
        let output = match self.flows.get_mut(&key.run) {
            // No expression can name the outputs and errors of parts.
            Some(_) if is_part => Output::Nothing,
            Some(flow) => flow.keep_output(&child.output),
            None => return,
        };
        let (now, has_succeeded) = (cx.now, child.status() == Status::Succeeded);
        self.end_step(key, cx, |record| {
            record.started_at = child.started_at;
            if has_succeeded {
                let reason = (output == Output::TooLong).then_some(StepReason::OutputTooLong);
                record.end(State::Succeeded, reason, now);
            } else {
                record.end(State::Failed, Some(StepReason::Ended(child.status())), now);
                record.error = if is_part { Box::default() } else { error_of(child).into() };
            }
            if let Some(assignee) = child.assignee.as_ref().filter(|_| is_part) {
                record.workers = [assignee.name()].into();
            }
            if let Output::Text(text) = output {
                record.output = Some(text.into());
            }
        });
    }

    /// Ends a step, or an item of it, that has started and not ended.
    fn end_step(&mut self, key: StepKey, cx: &Context<'_>, end: impl FnOnce(&mut StepRecord)) {
        let Some(flow) = self.flows.get(&key.run) else { return };
        let row = flow.rows.get(&(key.step, key.item)).filter(|row| row.state == State::Active);
        let Some(mut record) = row.map(|row| (**row).clone()) else { return };
        if let Some(until) = record.until {
            self.step_timers.remove(&(until, key));
        }
        end(&mut record);
        self.forget_approval(key);
        self.end_listening(&record, cx);
        let state = record.state;
        self.write_step(record);
        self.count_end(key, state, cx);
    }

    /// Takes the end of a step, or of an item of it, into account.
    fn count_end(&mut self, key: StepKey, state: State, cx: &Context<'_>) {
        let Some(flow) = self.flows.get_mut(&key.run) else { return };
        self.due_flows.insert(key.run);
        let Some(item) = key.item else {
            flow.step_ended(key.step, state);
            return self.note_percent(key.run, cx);
        };
        let (is_last, is_split) = (flow.item_ended(key.step, item, state), flow.is_split);
        if is_split {
            self.note_percent(key.run, cx);
        }
        let ends_early = is_planted(Fault::SplitStepEndsEarly)
            && is_split
            && self.runs.get(&key.run).is_some_and(|live| live.run.step.is_some());
        if is_last || ends_early {
            self.end_map(key, cx);
        }
    }

    /// All items of a step with `map` have ended.
    fn end_map(&mut self, of: StepKey, cx: &Context<'_>) {
        let Some(flow) = self.flows.get_mut(&of.run) else { return };
        let Some(result) = flow.map_result(of.step) else { return };
        self.end_step(StepKey { item: None, ..of }, cx, |record| {
            record.end(result.state, result.reason, cx.now);
            (record.items, record.output, record.error) = (Some(result.items), result.output, result.error);
        });
    }

    /// Shows how many steps have ended. The row of the workflow is written only when the percentage changes.
    fn note_percent(&mut self, run: RunId, cx: &Context<'_>) {
        let Some(percent) = self.flows.get(&run).map(Flow::percent) else { return };
        let Some(live) = self.runs.get_mut(&run).filter(|live| live.run.percent() != Some(percent)) else {
            return;
        };
        if let Some(reported) = Arc::make_mut(&mut live.run).progress.as_deref_mut() {
            (reported.percent, reported.at) = (Some(percent), cx.now);
            self.dirty.runs.insert(run);
        }
    }

    fn end_with_last_step(&mut self, run: RunId, cx: &mut Context<'_>) {
        let Some(end) = self.flows.get(&run).and_then(|flow| flow.progress.end()) else { return };
        let (end, output) = self.joined(run).unwrap_or_else(|| match end {
            End::Stopped => (StepsEnd::Stopped, Box::default()),
            End::Failed(_) if is_planted(Fault::WorkflowHidesFailure) => self.succeeded_with(run),
            End::Failed(step) => (self.failed_with(run, step), Box::default()),
            End::Succeeded => self.succeeded_with(run),
        });
        let flow = self.flows.remove(&run).filter(|flow| !flow.is_split);
        // A retry may come before its rows can be read. A sub-workflow is only tried again with the whole.
        if let Some(flow) = flow.filter(|_| self.runs.get(&run).is_some_and(|live| live.run.step.is_none())) {
            self.pins.steps(self.next_batch(), run, flow.rows.into_values().collect());
        }
        self.transition(run, Event::StepsEnded { end, output }, cx);
    }

    fn failed_with(&self, run: RunId, first: usize) -> StepsEnd {
        let (live, flow) = (self.runs.get(&run), self.flows.get(&run));
        let step = live.and_then(|live| live.definition.workflow()?.step(first));
        let (Some(step), Some(flow)) = (step, flow) else { return StepsEnd::Stopped };
        let states = flow.progress.states();
        let failed = states.iter().filter(|state| **state == State::Failed).count();
        let error = flow.rows.get(&(number(first), None)).map_or("", |row| &row.error);
        let error = format!("step `{}`: {error}", step.name);
        let (failed, total) = (number(failed), number(states.len()));
        let reason = Reason::Steps { failed, total, first: step.name.clone() };
        StepsEnd::Failed { reason, error: keep_end(&error, ERROR_BYTES_MAX).into() }
    }

    fn succeeded_with(&self, run: RunId) -> (StepsEnd, Box<str>) {
        let output: Box<str> = match self.output_of(run) {
            Ok(None) => Box::default(),
            Ok(Some(Value::Text(text))) => text.as_ref().into(),
            Ok(Some(value)) => value.to_json().to_string().into(),
            Err(error) => {
                let error = keep_end(&error, ERROR_BYTES_MAX).into();
                return (StepsEnd::Failed { reason: Reason::WorkflowOutput, error }, Box::default());
            }
        };
        (StepsEnd::Succeeded, output)
    }

    /// A wait is over, or an approval or an event did not come in time.
    pub(crate) fn step_is_due(&mut self, key: StepKey, cx: &mut Context<'_>) {
        let live = self.runs.get(&key.run);
        let step = live.and_then(|live| live.workflow()?.step(index(key.step)));
        let Some(step) = step else { return };
        let (state, reason) = match &step.work {
            Work::Approve(_) => (State::Failed, Some(StepReason::NotApproved)),
            Work::Wait(Wait::Event(_)) => (State::Failed, Some(StepReason::NoEvent)),
            _ => (State::Succeeded, None),
        };
        self.end_step(key, cx, |record| {
            record.end(state, reason, cx.now);
            record.error = reason.map_or_else(Box::default, |reason| reason.as_str().into());
        });
    }
}

/// Why a run did not succeed, in few bytes: a workflow may have many steps.
fn error_of(run: &Run) -> String {
    let reason = || run.reason.as_ref().map_or_else(|| run.status().to_string(), ToString::to_string);
    let error = if run.error.is_empty() { reason() } else { run.error.as_ref().to_owned() };
    keep_end(&error, EARLIER_ERROR_BYTES_MAX).into_owned()
}

fn number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

fn index(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
