//! What the expressions of a workflow know of its steps, and what they decide.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Graph, Items, Skip, State, StepReason, StepRecord, Wait, Work, Workflow};
use crate::Timestamp;
use crate::ids::RunId;
use crate::invalid::Invalid;
use crate::limits::MAP_ITEMS_MAX;
use crate::params::Params;
use crate::planted::{Fault, is_planted};
use crate::task::render_json;
use crate::template::{Condition, Error, Expression, Scope, Steps, Template, Value, Values};

/// What is known of a step: `steps.NAME` in expressions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known<'a> {
    pub state: State,
    pub output: Output<'a>,
    pub error: Option<&'a str>,
    pub run: Option<RunId>,
    /// How many items of a `map` succeeded; of another step, whether it did.
    pub succeeded: u32,
    pub failed: u32,
}

/// The output of a step. JSON is parsed, any other output is a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output<'a> {
    Nothing,
    Text(&'a str),
    /// It is longer than an expression may use: an expression that names it fails.
    TooLong,
}

impl Output<'_> {
    fn value(self) -> Option<Value> {
        match self {
            Output::Nothing => Some(Value::Null),
            Output::Text(text) => Some(Value::from_json(text).unwrap_or_else(|| Value::text(text))),
            Output::TooLong => None,
        }
    }
}

impl Known<'_> {
    fn value(&self) -> Value {
        let text = |text: Option<&str>| text.map_or(Value::Null, Value::text);
        let mut known = BTreeMap::from([
            ("state".to_owned(), Value::text(self.state.as_str())),
            ("error".to_owned(), text(self.error)),
            ("run".to_owned(), text(self.run.map(|run| run.to_string()).as_deref())),
            ("succeeded".to_owned(), Value::Int(self.succeeded.into())),
            ("failed".to_owned(), Value::Int(self.failed.into())),
        ]);
        known.extend(self.output.value().map(|output| ("output".to_owned(), output)));
        Value::Map(Arc::new(known))
    }
}

impl StepRecord {
    /// What expressions know of the step.
    pub fn known(&self) -> Known<'_> {
        let items = self.items.unwrap_or(Items {
            total: 1,
            succeeded: u32::from(self.state == State::Succeeded),
            failed: u32::from(self.state == State::Failed),
        });
        let output = match &self.output {
            Some(text) => Output::Text(text),
            None if self.reason.is_some_and(StepReason::is_output_too_long) => Output::TooLong,
            None => Output::Nothing,
        };
        let error = (!self.error.is_empty()).then_some(&*self.error);
        let (succeeded, failed) = (items.succeeded, items.failed);
        Known { state: self.state, output, error, run: self.child, succeeded, failed }
    }

    /// Which expressions of the step were evaluated.
    pub fn evaluated(&self) -> Evaluated {
        match self.reason {
            Some(StepReason::Skipped(Skip::When)) => Evaluated::Conditions,
            Some(StepReason::Skipped(_) | StepReason::Reused { .. }) => Evaluated::Nothing,
            _ => Evaluated::All,
        }
    }
}

/// Which expressions of a step were evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Evaluated {
    Nothing,
    /// Those that decide whether the step starts.
    Conditions,
    All,
}

/// An expression of a step and what it gave, for people.
#[derive(Debug, Clone, PartialEq)]
pub struct StepExpression {
    /// Its place in the definition of the workflow, such as `steps.load.when`.
    pub field: String,
    pub text: String,
    /// `None` means that it was not evaluated.
    pub value: Option<Result<Value, Invalid>>,
}

/// Takes down the names that expressions use.
#[derive(Debug, Default)]
struct Noted(RefCell<BTreeSet<String>>);

impl Steps for Noted {
    fn check(&self, name: &str) -> Result<(), String> {
        self.0.borrow_mut().insert(name.to_owned());
        Ok(())
    }
}

impl Workflow {
    /// The value of `steps` in its expressions. `known` is asked for the steps with these indexes; `None` means that the
    /// step is left out.
    pub fn steps_value<'a>(
        &self,
        steps: impl IntoIterator<Item = usize>,
        known: impl Fn(usize) -> Option<Known<'a>>,
    ) -> Value {
        let steps = steps.into_iter().filter_map(|index| {
            let name = self.step(index)?.name.as_str().to_owned();
            Some((name, known(index)?.value()))
        });
        Value::Map(Arc::new(steps.collect::<BTreeMap<String, Value>>()))
    }

    /// The steps that the expressions of a step name.
    pub fn named(&self, graph: &Graph, step: usize) -> Vec<usize> {
        let noted = Noted::default();
        let Some(definition) = self.step(step) else { return Vec::new() };
        let scope = Scope::WORKFLOW.with_steps(&noted).with_items(true);
        // What cannot be parsed names nothing; it was refused when the workflow was saved.
        let expression = |text: &str| drop(Expression::parse_in(text, &scope));
        for switch in
            graph.nodes()[step].needs.iter().filter_map(|needed| self.step(*needed)?.switch.as_deref())
        {
            expression(&switch.on);
        }
        let conditions = definition.when.as_deref().into_iter();
        conditions.chain(definition.map.as_ref().map(|map| map.over.as_str())).for_each(expression);
        let template = match &definition.work {
            Work::Wait(Wait::Until(until)) => Some(until),
            Work::Wait(Wait::Event(event)) => event.key.as_ref(),
            _ => None,
        };
        drop(template.map(|text| Template::parse_in(text, &scope)));
        drop(definition.check_templates(&noted));
        self.indexes(noted)
    }

    /// The steps that its output names.
    pub fn named_by_output(&self) -> Vec<usize> {
        let noted = Noted::default();
        if let Some(output) = &self.output {
            drop(Expression::parse_in(output, &Scope::WORKFLOW.with_steps(&noted)));
        }
        self.indexes(noted)
    }

    fn indexes(&self, noted: Noted) -> Vec<usize> {
        let names = noted.0.into_inner();
        if names.is_empty() {
            return Vec::new();
        }
        let named = self.all().enumerate().filter(|(_, step)| names.contains(step.name.as_str()));
        named.map(|(index, _)| index).collect()
    }

    /// Whether the `when` of a step holds, and every switch that lists the step chose it.
    pub fn holds(&self, graph: &Graph, step: usize, values: &Values) -> Result<bool, Invalid> {
        let Some(definition) = self.step(step) else { return Ok(false) };
        for needed in &graph.nodes()[step].needs {
            let Some(switch) = self.step(*needed).and_then(|needed| needed.switch.as_deref()) else {
                continue;
            };
            if !switch.targets().any(|(_, name)| *name == definition.name) {
                continue;
            }
            let on = Expression::parse_in(&switch.on, &Scope::CHECKED_WORKFLOW)
                .and_then(|on| on.evaluate_text(values));
            let on = on.map_err(|error| failed(self.field(*needed, "switch.on"), &switch.on, &error))?;
            if !switch.lets(&on, &definition.name) && !is_planted(Fault::SwitchIsIgnored) {
                return Ok(false);
            }
        }
        let Some(when) = &definition.when else { return Ok(true) };
        let holds =
            Condition::parse_in(when, &Scope::CHECKED_WORKFLOW).and_then(|condition| condition.holds(values));
        holds.map_err(|error| failed(self.field(step, "when"), when, &error))
    }

    /// The items of a step with `map`. `None` means that the step has no `map`.
    pub fn items(&self, step: usize, values: &Values) -> Result<Option<Arc<[Value]>>, Invalid> {
        let Some(map) = self.step(step).and_then(|step| step.map.as_ref()) else { return Ok(None) };
        let field = || self.field(step, "map");
        let items =
            Expression::parse_in(&map.over, &Scope::CHECKED_WORKFLOW).and_then(|over| over.evaluate(values));
        match items.map_err(|error| failed(field(), &map.over, &error))? {
            Value::List(items) if items.len() > MAP_ITEMS_MAX as usize => {
                let message = format!("map_too_long: gives {} items, at most {MAP_ITEMS_MAX}", items.len());
                Err(Invalid::new(field(), message))
            }
            Value::List(items) => Ok(Some(items)),
            other => Err(Invalid::new(field(), format!("gives {}, not a list", other.kind()))),
        }
    }

    /// When a step with `wait` ends, if it starts now. `None` means that no time ends it.
    pub fn wait_until(
        &self,
        step: usize,
        values: &Values,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, Invalid> {
        let until = match self.step(step).map(|step| &step.work) {
            Some(Work::Wait(Wait::For(span))) => return Ok(Some(now + *span)),
            Some(Work::Wait(Wait::Until(until))) => until,
            Some(Work::Wait(Wait::Event(event))) => return Ok(event.within.map(|within| now + within)),
            _ => return Ok(None),
        };
        let rendered = self.rendered(step, "wait.until", until, values)?;
        let instant = rendered.trim().parse::<Timestamp>();
        instant.map(Some).map_err(|_| {
            Invalid::new(self.field(step, "wait.until"), format!("gives `{rendered}`, which is no instant"))
        })
    }

    /// The key of the event that a step waits for. `None` means that any event will do, or that it waits for none.
    pub fn event_key(&self, step: usize, values: &Values) -> Result<Option<Arc<str>>, Invalid> {
        let key = match self.step(step).map(|step| &step.work) {
            Some(Work::Wait(Wait::Event(event))) => event.key.as_ref(),
            _ => None,
        };
        let key = key.map(|key| self.rendered(step, "wait.event.key", key, values));
        Ok(key.transpose()?.map(Arc::from))
    }

    fn rendered(&self, step: usize, of: &str, text: &str, values: &Values) -> Result<String, Invalid> {
        let rendered =
            Template::parse_in(text, &Scope::CHECKED_WORKFLOW).and_then(|template| template.render(values));
        rendered.map_err(|error| failed(self.field(step, of), text, &error))
    }

    /// The parameters of a run of the step: those of the workflow, with those of the step on top. `None` means that the
    /// step has none of its own.
    pub fn step_params(
        &self,
        step: usize,
        outer: &Params,
        values: &Values,
    ) -> Result<Option<Params>, Invalid> {
        let Some(own) = self.step(step).filter(|step| step.params != Params::default()) else {
            return Ok(None);
        };
        let path = self.field(step, "");
        let rendered = render_json("params", &own.params.0, values);
        let merged = rendered.and_then(|json| outer.merged(&Params(json.to_string().into())));
        merged.map(Some).map_err(|error| error.under(&path))
    }

    /// The expressions of a step, in the order of their evaluation. Those that were evaluated are evaluated again: what a
    /// step needs has ended when it starts, so that they give the same.
    pub fn expressions(
        &self,
        graph: &Graph,
        step: usize,
        outer: &Params,
        values: &Values,
        evaluated: Evaluated,
    ) -> Vec<StepExpression> {
        let Some(definition) = self.step(step) else { return Vec::new() };
        let mut expressions = Vec::new();
        let mut add =
            |when: Evaluated, field: String, text: &str, value: &dyn Fn() -> Result<Value, Invalid>| {
                let value = (when <= evaluated).then(value);
                expressions.push(StepExpression { field, text: text.to_owned(), value });
            };
        let expression = |field: String, text: &str| {
            let value =
                Expression::parse_in(text, &Scope::CHECKED_WORKFLOW).and_then(|of| of.evaluate(values));
            value.map_err(|error| failed(field, text, &error))
        };
        for needed in &graph.nodes()[step].needs {
            let Some(switch) = self.step(*needed).and_then(|needed| needed.switch.as_deref()) else {
                continue;
            };
            if switch.targets().any(|(_, name)| *name == definition.name) {
                let field = self.field(*needed, "switch.on");
                add(Evaluated::Conditions, field.clone(), &switch.on, &|| {
                    expression(field.clone(), &switch.on)
                });
            }
        }
        for (of, text, when) in [
            ("when", definition.when.as_ref(), Evaluated::Conditions),
            ("map", definition.map.as_ref().map(|map| &map.over), Evaluated::All),
        ] {
            let Some(text) = text else { continue };
            add(when, self.field(step, of), text, &|| expression(self.field(step, of), text));
        }
        let (of, text) = match &definition.work {
            Work::Wait(Wait::Until(until)) => ("wait.until", Some(until)),
            Work::Wait(Wait::Event(event)) => ("wait.event.key", event.key.as_ref()),
            _ => ("", None),
        };
        if let Some(text) = text {
            let rendered = || self.rendered(step, of, text, values).map(Value::text);
            add(Evaluated::All, self.field(step, of), text, &rendered);
        }
        // The parameters of each item may depend on it: its run shows them.
        if definition.params != Params::default() && definition.map.is_none() {
            let params = || {
                let params = self.step_params(step, outer, values)?;
                Ok(params.and_then(|params| Value::from_json(&params.0)).unwrap_or(Value::Null))
            };
            add(Evaluated::All, self.field(step, "params"), &definition.params.0, &params);
        }
        expressions
    }

    /// The output of the workflow. `None` means that the workflow defines no output.
    pub fn evaluate_output(&self, values: &Values) -> Result<Option<Value>, Invalid> {
        let Some(output) = &self.output else { return Ok(None) };
        let value =
            Expression::parse_in(output, &Scope::CHECKED_WORKFLOW).and_then(|output| output.evaluate(values));
        value.map(Some).map_err(|error| failed("output".to_owned(), output, &error))
    }
}

fn failed(field: String, text: &str, error: &Error) -> Invalid {
    Invalid::new(field, error.in_text(text))
}
