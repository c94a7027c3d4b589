//! What each step of a workflow does next, given what became of the steps that it needs.
//!
//! A step is decided once, when all steps that it needs have ended: it starts, is skipped, or fails because its
//! condition cannot be evaluated. A skipped step has ended too, so one end may decide many steps. A step of `finally`
//! is decided when all other steps have ended. A workflow that is stopped starts no further step; its `finally` runs
//! all the same.

use serde::{Deserialize, Serialize};

use super::{Graph, Rule};
use crate::planted::{Fault, is_planted};

/// What became of a step so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum State {
    /// Not decided.
    Open,
    /// Started, and not ended.
    Active,
    Succeeded,
    /// Also timed out, cancelled and rejected.
    Failed,
    Skipped,
}

impl State {
    pub fn has_ended(self) -> bool {
        matches!(self, State::Succeeded | State::Failed | State::Skipped)
    }

    pub fn parse(text: &str) -> Option<State> {
        [State::Open, State::Active, State::Succeeded, State::Failed, State::Skipped]
            .into_iter()
            .find(|state| state.as_str() == text)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            State::Open => "open",
            State::Active => "active",
            State::Succeeded => "succeeded",
            State::Failed => "failed",
            State::Skipped => "skipped",
        }
    }
}

/// What a step does now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// A step that it needs has not ended.
    Wait,
    /// It was decided before.
    Done,
    Start,
    Skip(Skip),
    /// Its condition cannot be evaluated, for this reason.
    Fail(String),
}

/// Why a step is skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Skip {
    /// Its `rule` does not hold.
    Rule,
    /// Its `when` is false, or a `switch` chose another case.
    When,
    /// The workflow was cancelled, or its timeout was reached.
    Stopped,
    /// A person skipped it.
    ByHand,
}

impl Skip {
    pub fn as_str(self) -> &'static str {
        match self {
            Skip::Rule => "rule",
            Skip::When => "when",
            Skip::Stopped => "stopped",
            Skip::ByHand => "by hand",
        }
    }
}

/// How a workflow ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Succeeded,
    /// A step failed; the first one as written.
    Failed(usize),
    Stopped,
}

/// The states of all steps of one run of a workflow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    states: Vec<State>,
    /// For each step, how many of the steps that it needs have not ended.
    awaited: Vec<usize>,
    /// Steps that have not ended, without those of `finally`.
    steps_left: usize,
    /// Steps that have not ended.
    left: usize,
    is_stopping: bool,
    /// Steps to decide next. A step may be listed twice; the second time it is decided already.
    next: Vec<usize>,
}

impl Progress {
    /// At the start of the workflow.
    pub fn new(graph: &Graph) -> Progress {
        Progress::of(graph, vec![State::Open; graph.nodes().len()], false)
    }

    /// From the recorded states, such as after a restart.
    pub fn of(graph: &Graph, states: Vec<State>, is_stopping: bool) -> Progress {
        let is_open = |step: &usize| !states[*step].has_ended();
        let awaited = graph.nodes().iter().map(|node| node.needs.iter().filter(|step| is_open(step)).count());
        let awaited: Vec<usize> = awaited.collect();
        let steps_left = (0..graph.steps()).filter(is_open).count();
        let left = (0..states.len()).filter(is_open).count();
        let mut progress = Progress { states, awaited, steps_left, left, is_stopping, next: Vec::new() };
        progress.next = (0..progress.states.len()).filter(|step| progress.is_due(graph, *step)).collect();
        progress
    }

    pub fn states(&self) -> &[State] {
        &self.states
    }

    /// Whether a step can be decided.
    fn is_due(&self, graph: &Graph, step: usize) -> bool {
        let needs_nothing = self.awaited[step] == 0 || is_planted(Fault::StepIgnoresNeeds);
        let is_allowed = if graph.is_finally(step) {
            needs_nothing && self.steps_left == 0
        } else {
            needs_nothing || self.is_stopping
        };
        is_allowed && self.states[step] == State::Open
    }

    /// What a step does now. `condition` evaluates its `when` and the switches that list it.
    pub fn decide(
        &self,
        graph: &Graph,
        step: usize,
        condition: impl FnOnce() -> Result<bool, String>,
    ) -> Decision {
        if self.states[step] != State::Open {
            return Decision::Done;
        }
        if !self.is_due(graph, step) {
            return Decision::Wait;
        }
        let is_last = graph.is_finally(step) && !is_planted(Fault::FinallyIsSkipped);
        if self.is_stopping && !is_last {
            return Decision::Skip(Skip::Stopped);
        }
        let node = &graph.nodes()[step];
        let holds = node.rule.holds(node.needs.iter().map(|needed| self.states[*needed]));
        if !holds && !is_planted(Fault::RuleIsIgnored) {
            return Decision::Skip(Skip::Rule);
        }
        match condition() {
            Ok(true) => Decision::Start,
            Ok(false) => Decision::Skip(Skip::When),
            Err(message) => Decision::Fail(message),
        }
    }

    /// Decides every step that can be decided now, and records it. `condition` gets the step and all states.
    pub fn advance(
        &mut self,
        graph: &Graph,
        mut condition: impl FnMut(usize, &[State]) -> Result<bool, String>,
    ) -> Vec<(usize, Decision)> {
        let mut decided = Vec::new();
        while let Some(step) = self.next.pop() {
            let decision = self.decide(graph, step, || condition(step, &self.states));
            match &decision {
                Decision::Done | Decision::Wait => continue,
                Decision::Start => self.states[step] = State::Active,
                Decision::Skip(_) => self.ended(graph, step, State::Skipped),
                Decision::Fail(_) => self.ended(graph, step, State::Failed),
            }
            decided.push((step, decision));
        }
        decided
    }

    /// Records the end of a step. The steps that waited for it can be decided then.
    pub fn ended(&mut self, graph: &Graph, step: usize, state: State) {
        if self.states[step].has_ended() || !state.has_ended() {
            return;
        }
        self.states[step] = state;
        self.left -= 1;
        for follower in &graph.nodes()[step].followers {
            self.awaited[*follower] -= 1;
            if self.is_due(graph, *follower) {
                self.next.push(*follower);
            }
        }
        if !graph.is_finally(step) {
            self.steps_left -= 1;
            if self.steps_left == 0 {
                let finally = graph.steps()..self.states.len();
                self.next.extend(finally.filter(|step| self.awaited[*step] == 0));
            }
        }
    }

    /// Stops the workflow: it was cancelled, or its timeout was reached.
    pub fn stop(&mut self, graph: &Graph) {
        self.is_stopping = true;
        self.next.extend((0..graph.steps()).filter(|step| self.states[*step] == State::Open));
    }

    /// How the workflow ends. `None` means that a step has not ended.
    pub fn end(&self) -> Option<End> {
        if self.left > 0 {
            return None;
        }
        let failed = self.states.iter().position(|state| *state == State::Failed);
        Some(match failed {
            _ if self.is_stopping => End::Stopped,
            Some(step) => End::Failed(step),
            None => End::Succeeded,
        })
    }
}

impl Rule {
    /// Whether it holds for the ends of the needed steps.
    pub fn holds(self, mut ends: impl Iterator<Item = State>) -> bool {
        match self {
            Rule::AllSucceeded => ends.all(|end| end == State::Succeeded),
            Rule::AnySucceeded => ends.any(|end| end == State::Succeeded),
            Rule::AllDone => true,
            Rule::AnyFailed => ends.any(|end| end == State::Failed),
            Rule::NoneFailed => ends.all(|end| end != State::Failed),
        }
    }
}
