//! Workflows: a plain model of the graph, checked with every commit.
//!
//! A step is decided once, after all that it needs has ended, and by its rule. It has one run, or one for each item. Its
//! end is written with the end of its run. A switch lets only the steps of its case start. A step that waits for an event with a
//! key ends with such an event. None is decided while the workflow or one around it is paused. The end of the
//! workflow follows from its steps. A retry reuses exactly the steps that need not be executed again. A split run is a workflow whose only
//! step has the parts as items.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use punctual_core::change::{Batch, Change, Row};
use punctual_core::ids::RunId;
use punctual_core::job::Definition;
use punctual_core::name::Name;
use punctual_core::run::{Run, Status};
use punctual_core::task::Task;
use punctual_core::workflow::{
    self, Graph, RetryFrom, Rule, Skip, State, StepKey, StepReason, StepRecord, Wait, Work,
};
use rustc_hash::FxHashMap;

use super::asks::Asks;
use super::jobs::Jobs;
use super::runs::Runs;
use super::{Seen, Verdict};
use crate::workflows::EVENT_KEY;

#[derive(Debug, Default)]
pub(super) struct Steps {
    workflows: FxHashMap<RunId, Workflow>,
    /// Those that have ended and are no sub-workflows: a retry may reuse their steps.
    over: BTreeMap<RunId, Workflow>,
    /// The run of each step and item.
    runs: FxHashMap<StepKey, RunId>,
}

#[derive(Debug)]
struct Workflow {
    definition: Arc<Definition>,
    graph: Graph,
    rows: BTreeMap<(u32, Option<u32>), Arc<StepRecord>>,
    is_paused: bool,
    /// Whether it is a split run.
    is_split: bool,
}

impl Steps {
    /// The newest workflows that have ended.
    pub(super) fn newest_over(&self, count: usize) -> Vec<RunId> {
        self.over.keys().rev().take(count).copied().collect()
    }

    /// The newest workflows that have not ended.
    pub(super) fn newest_running(&self, count: usize) -> Vec<RunId> {
        let workflows = self.workflows.iter().filter(|(_, workflow)| !workflow.is_split);
        let mut runs: Vec<RunId> = workflows.map(|(run, _)| *run).collect();
        runs.sort_unstable();
        runs.split_off(runs.len().saturating_sub(count))
    }

    pub(super) fn landed(
        &mut self,
        batch: &Batch,
        born: &[Arc<Run>],
        (jobs, runs, asks): (&Jobs, &Runs, &Asks),
        seen: &mut Seen,
    ) -> Verdict {
        for run in born {
            self.begun(run, jobs, seen)?;
        }
        let mut written = Vec::new();
        for (_, change) in batch.changes.iter() {
            match change {
                Change::Insert(Row::Step(step)) => written.push((step, true)),
                Change::Update(Row::Step(step)) => written.push((step, false)),
                Change::Update(Row::Run(run)) => self.paused(run, seen),
                _ => {}
            }
        }
        for (step, is_new) in &written {
            self.write(step, *is_new)?;
        }
        for run in born {
            self.reused(run, asks, seen)?;
        }
        // After all rows are known: what a step needs may have ended in the same batch.
        for (step, is_new) in written {
            if is_new && !is_reused(step) {
                self.decided(step, runs, seen)?;
            }
            self.counted(step, runs)?;
            self.has_its_key(step, runs, seen)?;
        }
        for run in born {
            self.has_row(run)?;
        }
        let ended = batch.changes.iter().filter_map(|(_, change)| match change {
            Change::Insert(Row::History(run)) => Some(run),
            _ => None,
        });
        // The newest first: a workflow may end in one batch with its steps, and is forgotten then.
        let ended: Vec<&Arc<Run>> = ended.collect();
        ended.into_iter().rev().try_for_each(|run| self.ended(run, seen))
    }

    /// Whether a run is a workflow, or split.
    pub(super) fn has_steps(&self, run: RunId) -> bool {
        self.workflows.contains_key(&run)
    }

    /// Takes a new run into account, if it is a workflow or the run of a step.
    fn begun(&mut self, run: &Arc<Run>, jobs: &Jobs, seen: &mut Seen) -> Verdict {
        if let Some(key) = run.row_in_parent() {
            if let Some(first) = self.runs.insert(key, run.id) {
                return Err(format!("steps: {} has the runs {first} and {}", place(key), run.id));
            }
            seen.step_runs += 1;
        }
        let Some(of_origin) = jobs.definition_of(run) else { return Ok(()) };
        let mut definition = match (&run.step, run.job()) {
            (Some(of), Some(_)) => {
                of.definition(of_origin).ok_or("steps: a run of a step that is not defined")?
            }
            _ => of_origin.clone(),
        };
        let is_split = run.is_split(&definition);
        if is_split {
            definition.task = Task::Workflow(Box::new(workflow::Workflow::of_parts().clone()));
        }
        let Some(graph) =
            definition.workflow().map(Graph::of).transpose().map_err(|error| error.to_string())?
        else {
            return Ok(());
        };
        seen.steps_split += u64::from(is_split && run.step.is_some());
        let (definition, rows) = (Arc::new(definition), BTreeMap::new());
        let workflow = Workflow { definition, graph, rows, is_paused: false, is_split };
        self.workflows.insert(run.id, workflow);
        Ok(())
    }

    fn paused(&mut self, run: &Run, seen: &mut Seen) {
        if let Some(workflow) = self.workflows.get_mut(&run.id) {
            let is_paused = run.is_paused();
            seen.workflows_paused += u64::from(is_paused && !workflow.is_paused);
            workflow.is_paused = is_paused;
        }
    }

    fn write(&mut self, step: &Arc<StepRecord>, is_new: bool) -> Verdict {
        let key = step.key;
        let Some(workflow) = self.workflows.get_mut(&key.run) else {
            return Err(format!("steps: {} belongs to no workflow", place(key)));
        };
        let before = workflow.rows.insert((key.step, key.item), Arc::clone(step));
        match before {
            Some(_) if is_new => Err(format!("steps: {} was decided twice", place(key))),
            Some(before) if before.state.has_ended() || before.child != step.child => {
                Err(format!("steps: {} was {:?} and changed again", place(key), before.state))
            }
            None if !is_new => Err(format!("steps: {} was updated before it was decided", place(key))),
            _ => Ok(()),
        }
    }

    /// Checks why a step was decided.
    fn decided(&self, step: &StepRecord, runs: &Runs, seen: &mut Seen) -> Verdict {
        let (key, workflow) = (step.key, &self.workflows[&step.key.run]);
        let refuse = |what: &str| Err(format!("steps: {} {what}", place(key)));
        let is_stopping = runs.get(key.run).is_some_and(|run| is_stopped(run));
        if step.by_hand.is_none() && !workflow.is_split && was_held(step, runs) {
            return refuse("was decided while its workflow, or one around it, was paused");
        }
        if key.item.is_some() {
            return Ok(());
        }
        seen.steps_decided += 1;
        let index = key.step as usize;
        let is_finally = workflow.graph.is_finally(index);
        if step.reason == Some(StepReason::Skipped(Skip::Stopped)) {
            return match (is_stopping, is_finally) {
                (false, _) => refuse("was skipped as stopped, and nobody stopped its workflow"),
                (_, true) => refuse("belongs to `finally` and was skipped"),
                _ => Ok(()),
            };
        }
        if step.reason == Some(StepReason::Skipped(Skip::ByHand)) {
            return if step.by_hand.is_some() { Ok(()) } else { refuse("was skipped by nobody") };
        }
        let node = &workflow.graph.nodes()[index];
        let state = |step: usize| workflow.state(step);
        if let Some(open) = node.needs.iter().find(|needed| !state(**needed).has_ended()) {
            return refuse(&format!("was decided before step {open}, which it needs, had ended"));
        }
        if is_finally && (0..workflow.graph.steps()).any(|step| !state(step).has_ended()) {
            return refuse("belongs to `finally` and was decided before all steps had ended");
        }
        if is_stopping
            && !is_finally
            && step.state == State::Active
            && step.decided_at > stopped_at(runs, key.run)
        {
            return refuse("started after its workflow was stopped");
        }
        let ends: Vec<State> = node.needs.iter().map(|needed| state(*needed)).collect();
        let is_against_rule = step.reason == Some(StepReason::Skipped(Skip::Rule));
        if holds(node.rule, &ends) == is_against_rule {
            return refuse(&format!("has the rule {:?} and was decided after {ends:?}", node.rule));
        }
        if is_against_rule || step.by_hand.is_some() { Ok(()) } else { workflow.switched(step, seen) }
    }

    /// A step that waited for an event with a key has such an event as its output.
    fn has_its_key(&self, row: &StepRecord, runs: &Runs, seen: &mut Seen) -> Verdict {
        let step = self.workflows[&row.key.run].step(row.key.step as usize);
        let Some(Work::Wait(Wait::Event(event))) = step.map(|step| &step.work) else { return Ok(()) };
        let (Some(key), Some(run)) = (&event.key, runs.get(row.key.run)) else { return Ok(()) };
        if row.state != State::Succeeded || is_reused(row) {
            return Ok(());
        }
        seen.woken_by_key += 1;
        let key = key.replace(EVENT_KEY, &run.due.to_string());
        let event: serde_json::Value = serde_json::from_str(row.output.as_deref().unwrap_or("null"))
            .map_err(|error| format!("steps: the output of {} is no event: {error}", place(row.key)))?;
        if event["key"].as_str() == Some(&key) {
            return Ok(());
        }
        Err(format!("steps: {} waits for the key {key} and ended with {event}", place(row.key)))
    }

    /// A new run that is a retry from steps reuses those that ended well and need no step that is executed again.
    fn reused(&self, run: &Run, asks: &Asks, seen: &mut Seen) -> Verdict {
        let Some(workflow) = self.workflows.get(&run.id) else { return Ok(()) };
        let rows = workflow.rows.values().filter(|row| is_reused(row));
        let reused: BTreeMap<&Name, &StepRecord> =
            rows.filter_map(|row| Some((workflow.name(row.key.step as usize)?, &**row))).collect();
        // The old run may end in the batch that makes the new one.
        let old = run.retry_of.and_then(|old| self.over.get(&old).or_else(|| self.workflows.get(&old)));
        let (Some(old), Some(from)) = (old, asks.retry_from(run)) else {
            return match reused.keys().next() {
                Some(step) => Err(format!("steps: run {} reuses step {step} of no run", run.id)),
                None => Ok(()),
            };
        };
        // A run that was skipped at once has no rows.
        if run.status() == Status::Skipped {
            return Ok(());
        }
        let mut executed: BTreeSet<usize> = BTreeSet::new();
        let nodes = workflow.graph.nodes();
        // Until nothing changes: a plain search that knows nothing of the order of steps.
        loop {
            let before = executed.len();
            for (index, node) in nodes.iter().enumerate() {
                let name = workflow.name(index);
                let row = name.and_then(|name| old.row_named(name));
                let is_named =
                    matches!(from, RetryFrom::Steps(steps) if name.is_some_and(|it| steps.contains(it)));
                let is_again = is_named
                    || workflow.graph.is_finally(index)
                    || !row.is_some_and(ended_well)
                    || node.needs.iter().any(|needed| executed.contains(needed));
                if is_again {
                    executed.insert(index);
                }
            }
            if executed.len() == before {
                break;
            }
        }
        for index in 0..nodes.len() {
            let Some(name) = workflow.name(index) else { continue };
            let row = old.row_named(name);
            match (executed.contains(&index), reused.get(name), row) {
                (true, None, _) => {}
                (false, Some(new), Some(old))
                    if (new.state, new.child, &new.output, new.items)
                        == (old.state, old.child, &old.output, old.items) =>
                {
                    seen.steps_reused += 1;
                }
                (is_again, new, old) => {
                    let again = if is_again { "executes" } else { "reuses" };
                    return Err(format!(
                        "steps: retry {} {again} step {name}, and its row is {new:?} after {old:?}",
                        run.id
                    ));
                }
            }
        }
        Ok(())
    }

    /// Checks the items of a step with `map`.
    fn counted(&self, step: &StepRecord, runs: &Runs) -> Verdict {
        let (key, workflow) = (step.key, &self.workflows[&step.key.run]);
        let refuse = |what: String| Err(format!("steps: {} {what}", place(key)));
        let map = workflow.definition.workflow().and_then(|it| it.step(key.step as usize)?.map.as_ref());
        let Some(map) = map else { return Ok(()) };
        let items: Vec<State> = workflow.items(key.step).map(|row| row.state).collect();
        let active = items.iter().filter(|state| **state == State::Active).count();
        if map.parallel.is_some_and(|parallel| active > parallel as usize) {
            return refuse(format!("executes {active} items at once, at most {:?}", map.parallel));
        }
        let is_stopping = runs.get(key.run).is_some_and(|run| is_stopped(run));
        if key.item.is_some() || !step.state.has_ended() {
            return Ok(());
        }
        if active > 0 {
            return refuse(format!("ended before all of its items: {items:?}"));
        }
        let Some(told) = step.items.filter(|_| !is_reused(step)) else { return Ok(()) };
        if items.len() != told.total as usize && !is_stopping && step.by_hand.is_none() {
            return refuse(format!("ended after {} of {} items", items.len(), told.total));
        }
        let succeeded = items.iter().filter(|state| **state == State::Succeeded).count();
        if succeeded != told.succeeded as usize
            || (step.state == State::Succeeded) != (succeeded == told.total as usize)
        {
            return refuse(format!("is {:?} and tells {told:?} of {items:?}", step.state));
        }
        Ok(())
    }

    /// The run of a step is in the row of the step.
    fn has_row(&self, run: &Run) -> Verdict {
        let Some(key) = run.row_in_parent() else { return Ok(()) };
        let row = self.row(key);
        if row.is_some_and(|row| row.child == Some(run.id)) {
            return Ok(());
        }
        Err(format!("steps: run {} executes a step, and its row names {row:?}", run.id))
    }

    fn row(&self, key: StepKey) -> Option<&Arc<StepRecord>> {
        self.workflows.get(&key.run)?.rows.get(&(key.step, key.item))
    }

    /// A run has ended: its step has ended too, or all its steps have.
    fn ended(&mut self, run: &Run, seen: &mut Seen) -> Verdict {
        if let Some(key) = run.row_in_parent() {
            let row = self.row(key);
            let expected = if run.status() == Status::Succeeded { State::Succeeded } else { State::Failed };
            if row.map(|row| row.state) != Some(expected) {
                return Err(format!("steps: run {} is {} and its step is {row:?}", run.id, run.status()));
            }
        }
        let Some(workflow) = self.workflows.remove(&run.id) else { return Ok(()) };
        let states: Vec<State> = (0..workflow.graph.nodes().len()).map(|step| workflow.state(step)).collect();
        let is_split = workflow.is_split;
        if run.step.is_none() && !is_split {
            self.over.insert(run.id, workflow);
        }
        if run.started_at.is_none() {
            return Ok(());
        }
        seen.workflows += u64::from(!is_split);
        follows(run, &states, is_split)
    }
}

/// The end of a workflow follows from its steps.
fn follows(run: &Run, states: &[State], is_split: bool) -> Verdict {
    if let Some(open) = states.iter().position(|state| !state.has_ended()) {
        return Err(format!("steps: workflow {} has ended before its step {open}", run.id));
    }
    let has_failed = states.contains(&State::Failed);
    let expected: &[Status] = match (is_stopped(run), has_failed) {
        // Its parts were faster.
        (true, false) if is_split => &[Status::Succeeded],
        (true, _) => &[Status::Cancelled, Status::TimedOut],
        (false, true) => &[Status::Failed],
        (false, false) => &[Status::Succeeded],
    };
    if expected.contains(&run.status()) {
        return Ok(());
    }
    Err(format!("steps: workflow {} is {} after {states:?}", run.id, run.status()))
}

impl Workflow {
    fn name(&self, step: usize) -> Option<&Name> {
        Some(&self.step(step)?.name)
    }

    fn step(&self, index: usize) -> Option<&workflow::Step> {
        self.definition.workflow()?.step(index)
    }

    /// A step that is decided, and not by its rule or by hand, is skipped unless the switches that list it chose it.
    fn switched(&self, row: &StepRecord, seen: &mut Seen) -> Verdict {
        let index = row.key.step as usize;
        let Some(is_chosen) = self.is_chosen(index) else { return Ok(()) };
        seen.steps_switched += 1;
        let is_skipped = row.reason == Some(StepReason::Skipped(Skip::When));
        let has_condition = self.step(index).is_some_and(|step| step.when.is_some());
        let place = place(row.key);
        match (is_chosen, is_skipped) {
            (false, false) => {
                Err(format!("steps: {place} was not chosen by the switch that lists it, and began"))
            }
            (true, true) if !has_condition => {
                Err(format!("steps: {place} was skipped, and the switches that list it chose it"))
            }
            _ => Ok(()),
        }
    }

    /// Whether every switch that lists a step chose it. `None` means that no switch lists it. A switch goes by the state of
    /// its own step.
    fn is_chosen(&self, index: usize) -> Option<bool> {
        let name = self.name(index)?;
        let of = self.graph.nodes()[index].needs.iter();
        let switches = of.filter_map(|of| Some((self.state(*of), self.step(*of)?.switch.as_deref()?)));
        let listing = switches.filter(|(_, switch)| switch.targets().any(|(_, target)| target == name));
        let chosen = listing.map(|(state, switch)| {
            let case = switch.cases.iter().find(|(case, _)| case == state.as_str());
            case.map_or(&switch.default, |(_, names)| names).contains(name)
        });
        chosen.reduce(|all, one| all && one)
    }

    fn row_named(&self, name: &Name) -> Option<&StepRecord> {
        let index = self.definition.workflow()?.all().position(|step| step.name == *name)?;
        self.rows.get(&(u32::try_from(index).ok()?, None)).map(|row| &**row)
    }

    fn state(&self, step: usize) -> State {
        let key = u32::try_from(step).unwrap_or(u32::MAX);
        self.rows.get(&(key, None)).map_or(State::Open, |row| row.state)
    }

    fn items(&self, step: u32) -> impl Iterator<Item = &Arc<StepRecord>> {
        self.rows.range((step, Some(0))..=(step, Some(u32::MAX))).map(|(_, row)| row)
    }
}

fn is_reused(row: &StepRecord) -> bool {
    matches!(row.reason, Some(StepReason::Reused { .. }))
}

/// Whether a retry can reuse the step.
fn ended_well(row: &StepRecord) -> bool {
    row.state == State::Succeeded
        || (row.state == State::Skipped && row.reason != Some(StepReason::Skipped(Skip::Stopped)))
}

fn is_stopped(run: &Run) -> bool {
    use punctual_core::run::What;
    run.entries.iter().any(|entry| entry.what == What::CancelAsked)
}

/// Whether a step was decided after a person had paused its workflow, or one around it. A pause does not hold a workflow that
/// is being stopped.
fn was_held(step: &StepRecord, runs: &Runs) -> bool {
    let mut next = runs.get(step.key.run);
    while let Some(run) = next.filter(|run| !is_stopped(run)) {
        if run.paused_by().is_some_and(|pause| step.decided_at > pause.at) {
            return true;
        }
        next = run.parent().and_then(|parent| runs.get(parent));
    }
    false
}

/// When a workflow was stopped.
fn stopped_at(runs: &Runs, run: RunId) -> punctual_core::Timestamp {
    use punctual_core::run::What;
    let entries = runs.get(run).map_or(&[][..], |run| &run.entries);
    let stopped = entries.iter().find(|entry| entry.what == What::CancelAsked);
    stopped.map_or(punctual_core::Timestamp::MIN, |entry| entry.at)
}

fn holds(rule: Rule, ends: &[State]) -> bool {
    let count = |state: State| ends.iter().filter(|end| **end == state).count();
    match rule {
        Rule::AllSucceeded => count(State::Succeeded) == ends.len(),
        Rule::AnySucceeded => count(State::Succeeded) > 0,
        Rule::AllDone => true,
        Rule::AnyFailed => count(State::Failed) > 0,
        Rule::NoneFailed => count(State::Failed) == 0,
    }
}

fn place(key: StepKey) -> String {
    match key.item {
        Some(item) => format!("item {item} of step {} of run {}", key.step, key.run),
        None => format!("step {} of run {}", key.step, key.run),
    }
}
