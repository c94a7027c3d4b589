//! A workflow: a graph of steps.
//!
//! ```text
//!  Workflow ──check──▶ Graph ──decide──▶ start, skip or wait, step by step ──▶ the end of the workflow
//! ```
//!
//! The definition is what a user writes. [`Graph`] is the same with every name resolved; only a graph without a cycle
//! can be made. [`Progress`] says what each step does next, given what became of the steps that it needs. All of it is
//! iterative: a chain of a thousand steps needs no more stack than a chain of two.

mod approval;
mod check;
mod decide;
mod graph;
mod record;
mod retry;
mod upstream;
mod values;

use std::sync::LazyLock;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize};

use crate::alert::Alert;
use crate::job::{Definition, Route};
use crate::name::Name;
use crate::params::Params;
use crate::retry::Retry;
use crate::task::Task;

pub use approval::{Approval, ApprovalKey};
pub use decide::{Decision, End, Progress, Skip, State};
pub use graph::{Graph, Node};
pub use record::{ByHand, Items, StepKey, StepReason, StepRecord, told};
pub use retry::{RetryFrom, StepParams};
pub use values::{Evaluated, Known, Output, StepExpression};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workflow {
    /// In the order in which they are written.
    #[serde(deserialize_with = "tight")]
    pub steps: Vec<Step>,
    /// Steps that start when all others have ended, also after a failure or a cancel.
    #[serde(deserialize_with = "tight")]
    pub finally: Vec<Step>,
    /// An expression: its value is the output of the workflow. `None` means no output.
    pub output: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    pub name: Name,
    pub work: Work,
    /// The steps that must have ended before this one is decided.
    #[serde(deserialize_with = "tight")]
    pub needs: Vec<Name>,
    pub rule: Rule,
    /// A condition. If it is false, the step is skipped.
    pub when: Option<String>,
    /// `None` means that the step is executed once.
    pub map: Option<Box<Map>>,
    pub switch: Option<Box<Switch>>,
    /// Parameters on top of the workflow's own. Each text in them is a template.
    pub params: Params,
    pub policies: Policies,
    /// The conditions of its runs under which people are notified.
    #[serde(deserialize_with = "tight")]
    pub alerts: Vec<Alert>,
}

/// What a step does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Work {
    Task(Task),
    /// A sub-workflow.
    Workflow(Box<Workflow>),
    /// A run of another job in the same namespace.
    Job(Name),
    Wait(Wait),
    /// A decision of a person. It counts as rejected after this long; `None` means that it waits forever.
    Approve(Option<Duration>),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Wait {
    For(Duration),
    /// An instant, or a template of one.
    Until(String),
    Event(Box<EventWait>),
}

/// The step waits for one event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventWait {
    pub name: Name,
    /// A template. Only an event with this key ends the wait. `None` means any.
    pub key: Option<String>,
    /// The step fails after this long. `None` means that it waits forever.
    pub within: Option<Duration>,
}

/// Which ends of the needed steps let a step start. The order of variants is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Rule {
    #[default]
    AllSucceeded,
    AnySucceeded,
    /// All have ended, in any way.
    AllDone,
    AnyFailed,
    /// All have succeeded or were skipped.
    NoneFailed,
}

/// One execution of the step for each item of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Map {
    /// An expression that gives the list.
    pub over: String,
    /// How many items are executed at the same time. `None` means all.
    pub parallel: Option<u32>,
}

/// Chooses among later steps by a value. A step that it lists needs the step that it belongs to, and is skipped like
/// one whose `when` is false if the value names another case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Switch {
    /// An expression. It may name the step itself.
    pub on: String,
    /// The steps by the text of the value.
    pub cases: Vec<(String, Vec<Name>)>,
    /// The steps for every other value.
    pub default: Vec<Name>,
}

/// The policies of a step's own runs. `None` means the default of a job.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Policies {
    pub timeout: Option<Duration>,
    pub grace: Option<Duration>,
    pub retry: Option<Box<Retry>>,
    pub priority: Option<u8>,
    pub route: Option<Box<Route>>,
    pub at_most_once: bool,
}

/// Reads a list and leaves no room for more in it: thousands of steps may be in memory for months.
fn tight<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    let mut list = Vec::deserialize(from)?;
    list.shrink_to_fit();
    Ok(list)
}

impl Workflow {
    /// The workflow by which a split run is executed: one step, whose items are the parts. Its list and its runs do not come
    /// from the definition of the step, but from the split run.
    pub fn of_parts() -> &'static Workflow {
        static OF_PARTS: LazyLock<Workflow> = LazyLock::new(|| {
            let name = "parts".parse().expect("this is a name");
            let map = Some(Box::new(Map { over: "[]".to_owned(), parallel: None }));
            let step = Step { map, ..Step::of(name, Work::Task(Task::Noop)) };
            Workflow { steps: vec![step], finally: Vec::new(), output: None }
        });
        &OF_PARTS
    }

    /// The step at a path, such as `settle/book` for the step `book` of the sub-workflow `settle`.
    pub fn at(&self, path: &str) -> Option<&Step> {
        let named = |name: &str| self.all().find(|step| step.name.as_str() == name);
        match path.split_once('/') {
            None => named(path),
            Some((outer, rest)) => match &named(outer)?.work {
                Work::Workflow(inner) => inner.at(rest),
                _ => None,
            },
        }
    }

    /// The steps in the order of [`Graph::nodes`]: those of `finally` last.
    pub fn all(&self) -> impl Iterator<Item = &Step> {
        self.steps.iter().chain(&self.finally)
    }

    /// The step with this index.
    pub fn step(&self, index: usize) -> Option<&Step> {
        self.steps.get(index).or_else(|| self.finally.get(index.checked_sub(self.steps.len())?))
    }

    /// The path of a field of the step with this index, such as `steps.load.needs`.
    fn field(&self, index: usize, of: &str) -> String {
        let part = if index < self.steps.len() { "steps" } else { "finally" };
        let name = self.step(index).map_or("", |step| step.name.as_str());
        if of.is_empty() { format!("{part}.{name}") } else { format!("{part}.{name}.{of}") }
    }
}

impl Step {
    /// A step without conditions and policies.
    pub fn of(name: Name, work: Work) -> Step {
        Step {
            name,
            work,
            needs: Vec::new(),
            rule: Rule::default(),
            when: None,
            map: None,
            switch: None,
            params: Params::default(),
            policies: Policies::default(),
            alerts: Vec::new(),
        }
    }
}

impl Step {
    /// The definition of the runs that execute the step. A wait and an approval have none, and a task that does nothing.
    pub fn definition(&self) -> Definition {
        self.definition_of(match &self.work {
            Work::Task(task) => task.clone(),
            Work::Workflow(inner) => Task::Workflow(inner.clone()),
            Work::Job(name) => Task::Job(name.clone()),
            Work::Wait(_) | Work::Approve(_) => Task::Noop,
        })
    }

    /// The policies of the step with this task.
    fn definition_of(&self, task: Task) -> Definition {
        let default = Definition::of(task);
        Definition {
            timeout: self.policies.timeout,
            grace: self.policies.grace,
            retry: self.policies.retry.as_deref().cloned().unwrap_or_default(),
            priority: self.policies.priority.unwrap_or(default.priority),
            route: self.policies.route.as_deref().cloned().unwrap_or_default(),
            at_most_once: self.policies.at_most_once,
            alerts: self.alerts.clone(),
            ..default
        }
    }
}

impl Work {
    /// The kind of the step, as it is written in a job file; of a task, that of the task.
    pub fn word(&self) -> &'static str {
        match self {
            Work::Task(task) => task.kind().as_str(),
            Work::Workflow(_) => "workflow",
            Work::Job(_) => "job",
            Work::Wait(_) => "wait",
            Work::Approve(_) => "approve",
        }
    }
}

impl Rule {
    pub fn parse(text: &str) -> Option<Rule> {
        [Rule::AllSucceeded, Rule::AnySucceeded, Rule::AllDone, Rule::AnyFailed, Rule::NoneFailed]
            .into_iter()
            .find(|rule| rule.as_str() == text)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Rule::AllSucceeded => "all_succeeded",
            Rule::AnySucceeded => "any_succeeded",
            Rule::AllDone => "all_done",
            Rule::AnyFailed => "any_failed",
            Rule::NoneFailed => "none_failed",
        }
    }
}

impl Switch {
    /// Every step that it lists, with its path in the switch.
    pub fn targets(&self) -> impl Iterator<Item = (String, &Name)> {
        let cases = self.cases.iter().flat_map(|(case, names)| {
            names.iter().enumerate().map(move |(at, name)| (format!("switch.cases.{case}[{at}]"), name))
        });
        let default = self.default.iter().enumerate();
        cases.chain(default.map(|(at, name)| (format!("switch.default[{at}]"), name)))
    }

    /// Whether it lets a step start that it lists, if its expression gives this text.
    fn lets(&self, text: &str, step: &Name) -> bool {
        match self.cases.iter().find(|(case, _)| case == text) {
            Some((_, names)) => names.contains(step),
            None => self.default.contains(step),
        }
    }
}

#[cfg(test)]
mod tests;
