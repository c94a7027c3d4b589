//! The variables of an expression, and their values.

use std::collections::BTreeMap;

use super::value::Value;
use crate::Timestamp;

/// The variables that are available in one place. The attributes of `run` and `job` are known too, so that a typo is
/// found when the job is saved.
#[derive(Debug)]
pub struct Scope {
    variables: &'static [(&'static str, Holds)],
}

#[derive(Debug)]
enum Holds {
    /// Any attribute: only the run has the value.
    Anything,
    /// No attributes: it is not a map.
    One,
    These(&'static [&'static str]),
}

const PARAMS: (&str, Holds) = ("params", Holds::Anything);
const DUE: (&str, Holds) = ("due", Holds::One);
const STARTED: (&str, Holds) = ("started", Holds::One);
const RUN: (&str, Holds) = ("run", Holds::These(&["id", "attempt", "trigger", "key"]));
const JOB: (&str, Holds) = ("job", Holds::These(&["name", "namespace", "revision"]));
/// The last checkpoint of an earlier attempt; null if there is none.
const CHECKPOINT: (&str, Holds) = ("checkpoint", Holds::Anything);
const SHARD: (&str, Holds) = ("shard", Holds::These(&["index", "total"]));

impl Scope {
    /// Available for a task, just before it is executed.
    pub const TASK: Scope = Scope { variables: &[PARAMS, DUE, STARTED, RUN, JOB, SHARD, CHECKPOINT] };
    /// Available before a run exists.
    pub const KEY: Scope = Scope { variables: &[PARAMS] };
    /// Available when a run's worker is chosen.
    pub const ROUTE: Scope = Scope { variables: &[PARAMS, DUE] };
    /// Available when a response has arrived.
    pub const RESPONSE: Scope = Scope {
        variables: &[
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
        ],
    };

    /// Whether a variable is available.
    pub fn has(&self, name: &str) -> bool {
        self.variable(name).is_some()
    }

    pub(super) fn variable(&self, name: &str) -> Option<&'static str> {
        self.variables.iter().map(|(known, _)| *known).find(|known| *known == name)
    }

    pub(super) fn unknown(&self, name: &str) -> String {
        let known: Vec<&str> = self.variables.iter().map(|(name, _)| *name).collect();
        format!("unknown variable `{name}`; known are {}", known.join(", "))
    }

    pub(super) fn attribute(&self, variable: &str, name: &str) -> Result<(), String> {
        let holds = self.variables.iter().find(|(known, _)| *known == variable).map(|(_, holds)| holds);
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
