//! What the expressions of a workflow know of its steps, and what they decide.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Graph, State, Workflow};
use crate::invalid::Invalid;
use crate::limits::MAP_ITEMS_MAX;
use crate::template::{Condition, Error, Expression, Scope, Steps, Value, Values};

/// What is known of a step: `steps.NAME` in expressions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known<'a> {
    pub state: State,
    /// JSON is parsed, any other output is a text.
    pub output: Option<&'a str>,
    pub error: Option<&'a str>,
    /// The id of its run.
    pub run: Option<&'a str>,
    /// How many items of a `map` succeeded; of another step, whether it did.
    pub succeeded: u32,
    pub failed: u32,
}

impl Known<'_> {
    fn value(&self) -> Value {
        let text = |text: Option<&str>| text.map_or(Value::Null, Value::text);
        let output =
            self.output.map(|output| Value::from_json(output).unwrap_or_else(|| Value::text(output)));
        Value::map([
            ("state", Value::text(self.state.as_str())),
            ("output", output.unwrap_or(Value::Null)),
            ("error", text(self.error)),
            ("run", text(self.run)),
            ("succeeded", Value::Int(self.succeeded.into())),
            ("failed", Value::Int(self.failed.into())),
        ])
    }
}

/// Every name: the workflow was checked when it was saved.
#[derive(Debug)]
struct AnyStep;

impl Steps for AnyStep {
    fn check(&self, _: &str) -> Result<(), String> {
        Ok(())
    }
}

fn scope() -> Scope<'static> {
    Scope::WORKFLOW.with_steps(&AnyStep)
}

impl Workflow {
    /// Adds `steps` to the values of its expressions. `known` is asked for the step with each index; `None` means that
    /// the step is left out.
    pub fn with_steps<'a>(&self, values: Values, known: impl Fn(usize) -> Option<Known<'a>>) -> Values {
        let steps = self.all().enumerate().filter_map(|(index, step)| {
            known(index).map(|known| (step.name.as_str().to_owned(), known.value()))
        });
        values.with("steps", Value::Map(Arc::new(steps.collect::<BTreeMap<String, Value>>())))
    }

    /// Whether the `when` of a step holds, and every switch that lists the step chose it.
    pub fn holds(&self, graph: &Graph, step: usize, values: &Values) -> Result<bool, Invalid> {
        let Some(definition) = self.step(step) else { return Ok(false) };
        for needed in &graph.nodes()[step].needs {
            let Some(switch) = self.step(*needed).and_then(|needed| needed.switch.as_ref()) else { continue };
            if !switch.targets().any(|(_, name)| *name == definition.name) {
                continue;
            }
            let on = Expression::parse_in(&switch.on, &scope()).and_then(|on| on.evaluate_text(values));
            let on = on.map_err(|error| failed(self.field(*needed, "switch.on"), &switch.on, &error))?;
            if !switch.lets(&on, &definition.name) {
                return Ok(false);
            }
        }
        let Some(when) = &definition.when else { return Ok(true) };
        let holds = Condition::parse_in(when, &scope()).and_then(|condition| condition.holds(values));
        holds.map_err(|error| failed(self.field(step, "when"), when, &error))
    }

    /// The items of a step with `map`. `None` means that the step has no `map`.
    pub fn items(&self, step: usize, values: &Values) -> Result<Option<Arc<[Value]>>, Invalid> {
        let Some(map) = self.step(step).and_then(|step| step.map.as_ref()) else { return Ok(None) };
        let field = || self.field(step, "map");
        let items = Expression::parse_in(&map.over, &scope()).and_then(|over| over.evaluate(values));
        match items.map_err(|error| failed(field(), &map.over, &error))? {
            Value::List(items) if items.len() > MAP_ITEMS_MAX as usize => {
                let message = format!("map_too_long: gives {} items, at most {MAP_ITEMS_MAX}", items.len());
                Err(Invalid::new(field(), message))
            }
            Value::List(items) => Ok(Some(items)),
            other => Err(Invalid::new(field(), format!("gives {}, not a list", other.kind()))),
        }
    }

    /// The output of the workflow. `None` means that the workflow defines no output.
    pub fn evaluate_output(&self, values: &Values) -> Result<Option<Value>, Invalid> {
        let Some(output) = &self.output else { return Ok(None) };
        let value = Expression::parse_in(output, &scope()).and_then(|output| output.evaluate(values));
        value.map(Some).map_err(|error| failed("output".to_owned(), output, &error))
    }
}

fn failed(field: String, text: &str, error: &Error) -> Invalid {
    Invalid::new(field, error.in_text(text))
}
