//! The variables of an expression, and their values.

use std::collections::BTreeMap;
use std::fmt;

use super::value::Value;
use crate::Timestamp;

/// The variables that are available in one place. The attributes of `run` and `job` are known too, so that a typo is
/// found when the job is saved.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    variables: &'static [Variable],
    /// The steps of a workflow that can be named as `steps.NAME`. `None` means that `steps` is unknown.
    steps: Option<&'a dyn Steps>,
    /// `item` and `index`, in a step with `map`.
    items: &'static [Variable],
}

type Variable = (&'static str, Holds);

/// Which steps of a workflow an expression can name.
pub trait Steps: fmt::Debug {
    /// Refuses a step that the expression cannot name; the error says why.
    fn check(&self, name: &str) -> Result<(), String>;
}

/// Every name: the workflow was checked when it was saved.
#[derive(Debug)]
struct AnyStep;

impl Steps for AnyStep {
    fn check(&self, _: &str) -> Result<(), String> {
        Ok(())
    }
}

/// The variable of the steps, and what is known of each of them.
pub(super) const STEPS: &str = "steps";
const STEP_ATTRIBUTES: [&str; 6] = ["state", "output", "error", "run", "succeeded", "failed"];

#[derive(Debug)]
enum Holds {
    /// Any attribute: only the run has the value.
    Anything,
    /// No attributes: it is not a map.
    One,
    These(&'static [&'static str]),
}

const PARAMS: Variable = ("params", Holds::Anything);
const DUE: Variable = ("due", Holds::One);
const STARTED: Variable = ("started", Holds::One);
const RUN: Variable = ("run", Holds::These(&["id", "attempt", "trigger", "key"]));
const JOB: Variable = ("job", Holds::These(&["name", "namespace", "revision"]));
/// The last checkpoint of an earlier attempt; null if there is none.
const CHECKPOINT: Variable = ("checkpoint", Holds::Anything);
const ITEM: Variable = ("item", Holds::Anything);
const INDEX: Variable = ("index", Holds::One);
const SHARD: Variable = ("shard", Holds::These(&["index", "total"]));

impl Scope<'static> {
    /// Available for a task, just before it is executed.
    pub const TASK: Self = Scope::of(&[PARAMS, DUE, STARTED, RUN, JOB, SHARD, CHECKPOINT]);
    /// For a task that was checked when it was saved: with the steps and the item, which only some tasks have.
    pub const CHECKED_TASK: Self = Scope { steps: Some(&AnyStep), items: &[ITEM, INDEX], ..Scope::TASK };
    /// Available before a run exists.
    pub const KEY: Self = Scope::of(&[PARAMS]);
    /// Available when an event has arrived.
    pub const EVENT: Self = Scope::of(&[("event", Holds::Anything)]);
    /// Available when a run's worker is chosen.
    pub const ROUTE: Self = Scope::of(&[PARAMS, DUE]);
    /// Available when a step of a workflow is decided.
    pub const WORKFLOW: Self = Scope::of(&[PARAMS, DUE, JOB]);
    /// For an expression of a workflow that was checked when it was saved.
    pub const CHECKED_WORKFLOW: Self =
        Scope { steps: Some(&AnyStep), items: &[ITEM, INDEX], ..Scope::WORKFLOW };
    /// Available when a response has arrived.
    pub const RESPONSE: Self = Scope::of(&[
        PARAMS,
        DUE,
        STARTED,
        RUN,
        JOB,
        SHARD,
        CHECKPOINT,
        ("status", Holds::One),
        ("headers", Holds::Anything),
        ("body", Holds::One),
        ("json", Holds::Anything),
    ]);

    const fn of(variables: &'static [Variable]) -> Self {
        Scope { variables, steps: None, items: &[] }
    }
}

impl<'a> Scope<'a> {
    /// The same scope with the steps of a workflow.
    #[must_use]
    pub fn with_steps(self, steps: &'a dyn Steps) -> Scope<'a> {
        Scope { steps: Some(steps), ..self }
    }

    /// The same scope with the item of a `map`, if there is one.
    #[must_use]
    pub fn with_items(self, is_mapped: bool) -> Self {
        Scope { items: if is_mapped { &[ITEM, INDEX] } else { &[] }, ..self }
    }

    /// Whether a variable is available.
    pub fn has(&self, name: &str) -> bool {
        self.variable(name).is_some()
    }

    pub(super) fn variable(&self, name: &str) -> Option<&'static str> {
        self.names().find(|known| *known == name)
    }

    pub(super) fn unknown(&self, name: &str) -> String {
        let known: Vec<&str> = self.names().collect();
        format!("unknown variable `{name}`; known are {}", known.join(", "))
    }

    fn all(&self) -> impl Iterator<Item = &'static Variable> {
        self.variables.iter().chain(self.items)
    }

    fn names(&self) -> impl Iterator<Item = &'static str> {
        self.all().map(|(name, _)| *name).chain(self.steps.map(|_| STEPS))
    }

    /// Checks `steps.NAME`.
    pub(super) fn step(&self, name: &str) -> Result<(), String> {
        self.steps.map_or(Ok(()), |steps| steps.check(name))
    }

    /// Checks `steps.NAME.ATTRIBUTE`.
    pub(super) fn step_attribute(&self, name: &str) -> Result<(), String> {
        if STEP_ATTRIBUTES.contains(&name) {
            return Ok(());
        }
        Err(format!("a step has no `{name}`; it has {}", STEP_ATTRIBUTES.join(", ")))
    }

    pub(super) fn attribute(&self, variable: &str, name: &str) -> Result<(), String> {
        let holds = self.all().find(|(known, _)| *known == variable).map(|(_, holds)| holds);
        match holds {
            Some(Holds::These(known)) if !known.contains(&name) => {
                Err(format!("`{variable}` has no `{name}`; it has {}", known.join(", ")))
            }
            Some(Holds::One) => Err(format!("`{variable}` has no parts; use a filter")),
            _ => Ok(()),
        }
    }
}

/// The values of the variables, by name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Values(BTreeMap<&'static str, Value>);

impl Values {
    /// For [`Scope::KEY`]: the parameters of a run, a JSON object as text.
    pub fn of_params(params: &str) -> Values {
        Values::default().with("params", Value::from_json(params).unwrap_or(Value::Null))
    }

    /// For [`Scope::ROUTE`].
    pub fn of_params_and_due(params: &str, due: Timestamp) -> Values {
        Values::of_params(params).with("due", Value::instant(due))
    }

    #[must_use]
    pub fn with(mut self, name: &'static str, value: Value) -> Values {
        self.0.insert(name, value);
        self
    }

    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }
}
