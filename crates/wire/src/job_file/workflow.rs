//! `task.workflow`, a graph of steps.

use std::fmt;
use std::marker::PhantomData;

use punctual_core::name::{Name, Namespace};
use punctual_core::workflow as rule;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use utoipa::ToSchema;

use super::policy::words;
use super::{Alert, Alerts, JsonObject, Retry, Route, Task, params};
use crate::error::Error;
use crate::schema;
use crate::text::{Span, small};

words!(Rule = rule::Rule { AllSucceeded, AnySucceeded, AllDone, AnyFailed, NoneFailed });

/// A job whose task is a workflow.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkflowDraft {
    pub namespace: Namespace,
    pub name: Name,
    pub workflow: rule::Workflow,
}

/// Parses every workflow of a YAML or JSON file; `namespace` is the default. Jobs with other tasks are left out. The
/// errors have one entry per document.
pub fn read_workflows(text: &str, namespace: &Namespace) -> Result<Vec<WorkflowDraft>, Vec<Error>> {
    let drafts = super::read_all(text, namespace)?.into_iter().filter_map(|draft| {
        let workflow = draft.definition.workflow()?.clone();
        Some(WorkflowDraft { namespace: draft.namespace, name: draft.name, workflow })
    });
    Ok(drafts.collect())
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a map like { steps: { load: { task: { shell: ./load } } } }")]
pub struct Workflow {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<std::collections::BTreeMap<String, Step>>)]
    pub steps: Option<Entries<Name, Step>>,
    /// Steps that start when all others have ended, also after a failure or a cancel.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<std::collections::BTreeMap<String, Step>>)]
    pub finally: Option<Entries<Name, Step>>,
    /// An expression: its value is the output of the workflow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
}

/// A step of a workflow: it has exactly one of `task`, `job`, `wait` and `approve`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a map like { needs: [load], task: { shell: ./settle } }")]
pub struct Step {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(no_recursion)]
    pub task: Option<Task>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Name>)]
    pub job: Option<Name>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<Wait>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approve: Option<Approve>,
    /// The steps that must have ended before this one is decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<schema::Name>>)]
    pub needs: Option<Vec<Name>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<Rule>,
    /// A condition. If it is false, the step is skipped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// An expression that gives a list: the step is executed once for each item.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub map: Option<String>,
    /// How many items are executed at the same time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallel: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub switch: Option<Switch>,
    /// Parameters on top of those of the workflow. Each text in them is a template.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub params: Option<JsonObject>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    #[serde(default, deserialize_with = "small::option", skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<Route>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_most_once: Option<bool>,
    /// The conditions of its runs under which people are notified: `failed`, `late` and `long`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alerts: Option<Alerts>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a map like { for: 30m }")]
pub struct Wait {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub r#for: Option<Span>,
    /// An instant, or a template of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// One event. It is the output of the step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<EventWait>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(
    deny_unknown_fields,
    expecting = "a map like { name: paid, key: \"{{ params.order }}\", within: 2d }"
)]
pub struct EventWait {
    #[schema(value_type = schema::Name)]
    pub name: Name,
    /// A template. Only an event with this key ends the wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The step fails after this long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within: Option<Span>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a map like { within: 2d }, or {}")]
pub struct Approve {
    /// It counts as rejected after this long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within: Option<Span>,
}

/// Chooses among later steps by a value.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(
    deny_unknown_fields,
    expecting = "a map like { on: steps.load.output, cases: { east: [settle] }, default: [alarm] }"
)]
pub struct Switch {
    /// An expression. It may name the step itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on: Option<String>,
    /// The steps by the text of the value.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<std::collections::BTreeMap<String, Vec<schema::Name>>>)]
    pub cases: Option<Entries<String, Vec<Name>>>,
    /// The steps for every other value.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<schema::Name>>)]
    pub default: Option<Vec<Name>>,
}

/// A map in the order in which it is written.
#[derive(Debug, Clone, PartialEq)]
pub struct Entries<K, V>(pub Vec<(K, V)>);

impl<K, V> Default for Entries<K, V> {
    fn default() -> Self {
        Entries(Vec::new())
    }
}

impl<K: Serialize, V: Serialize> Serialize for Entries<K, V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

impl<'de, K: Deserialize<'de>, V: Deserialize<'de>> Deserialize<'de> for Entries<K, V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EntriesVisitor<K, V>(PhantomData<(K, V)>);

        impl<'de, K: Deserialize<'de>, V: Deserialize<'de>> Visitor<'de> for EntriesVisitor<K, V> {
            type Value = Entries<K, V>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map with a name before each entry")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(EntriesVisitor(PhantomData))
    }
}

impl Workflow {
    pub(super) fn into_core(self) -> Result<rule::Workflow, Error> {
        let steps = |part: &str, steps: Option<Entries<Name, Step>>| {
            let steps = steps.unwrap_or_default().0.into_iter().map(|(name, step)| {
                let path = format!("{part}.{name}");
                step.into_core(name).map_err(|error| error.under(&path))
            });
            steps.collect::<Result<Vec<rule::Step>, Error>>()
        };
        Ok(rule::Workflow {
            steps: steps("steps", self.steps)?,
            finally: steps("finally", self.finally)?,
            output: self.output,
        })
    }

    pub(super) fn of(workflow: &rule::Workflow) -> Workflow {
        let steps = |steps: &[rule::Step]| {
            let steps = steps.iter().map(|step| (step.name.clone(), Step::of(step)));
            Some(Entries(steps.collect())).filter(|steps: &Entries<Name, Step>| !steps.0.is_empty())
        };
        let (steps, finally) = (steps(&workflow.steps), steps(&workflow.finally));
        Workflow { steps, finally, output: workflow.output.clone() }
    }
}

impl Step {
    fn into_core(self, name: Name) -> Result<rule::Step, Error> {
        const KINDS: &str = "task, job, wait and approve";
        let mut said = Vec::new();
        if let Some(task) = self.task {
            said.push(match task.into_core()? {
                punctual_core::task::Task::Workflow(workflow) => rule::Work::Workflow(workflow),
                task => rule::Work::Task(task),
            });
        }
        said.extend(self.job.map(rule::Work::Job));
        if let Some(wait) = self.wait {
            said.push(rule::Work::Wait(wait.into_core()?));
        }
        said.extend(self.approve.map(|approve| rule::Work::Approve(approve.within.map(|span| span.0))));
        let work = match (said.pop(), said.is_empty()) {
            (Some(work), true) => work,
            (None, _) => return Err(Error::invalid("", format!("a step has one of {KINDS}"))),
            _ => return Err(Error::invalid("", format!("a step has only one of {KINDS}"))),
        };
        if self.parallel.is_some() && self.map.is_none() {
            return Err(Error::invalid("parallel", "is allowed only together with `map`; remove it"));
        }
        let alerts = self.alerts.map(|alerts| alerts.convert("alerts", Alert::into_core)).transpose()?;
        Ok(rule::Step {
            needs: self.needs.unwrap_or_default(),
            rule: self.rule.map(Into::into).unwrap_or_default(),
            when: self.when,
            map: self.map.map(|over| Box::new(rule::Map { over, parallel: self.parallel })),
            switch: self.switch.map(Switch::into_core).transpose()?.map(Box::new),
            params: params(self.params),
            policies: rule::Policies {
                timeout: self.timeout.map(|span| span.0),
                grace: self.grace.map(|span| span.0),
                retry: self.retry.map(|retry| Box::new(retry.into_core())),
                priority: self.priority,
                route: self.route.map(|route| Box::new(route.into_core())),
                at_most_once: self.at_most_once.unwrap_or(false),
            },
            alerts: alerts.unwrap_or_default(),
            ..rule::Step::of(name, work)
        })
    }
}

impl Step {
    fn of(step: &rule::Step) -> Step {
        let mut told = Step {
            needs: (!step.needs.is_empty()).then(|| step.needs.clone()),
            rule: Some(step.rule).filter(|rule| *rule != rule::Rule::default()).map(Into::into),
            when: step.when.clone(),
            map: step.map.as_ref().map(|map| map.over.clone()),
            parallel: step.map.as_ref().and_then(|map| map.parallel),
            switch: step.switch.as_deref().map(Switch::of),
            params: serde_json::from_str(&step.params.0)
                .ok()
                .filter(|object: &JsonObject| !object.is_empty()),
            timeout: step.policies.timeout.map(Span),
            grace: step.policies.grace.map(Span),
            retry: step.policies.retry.as_deref().map(Retry::of),
            priority: step.policies.priority,
            route: step.policies.route.as_deref().map(Route::of),
            at_most_once: step.policies.at_most_once.then_some(true),
            alerts: Alerts::of(step.alerts.iter().map(Alert::of).collect()),
            ..Step::default()
        };
        match &step.work {
            rule::Work::Task(task) => told.task = Some(Task::of(task)),
            rule::Work::Workflow(inner) => {
                told.task = Some(Task { workflow: Some(Box::new(Workflow::of(inner))), ..Task::default() });
            }
            rule::Work::Job(job) => told.job = Some(job.clone()),
            rule::Work::Wait(rule::Wait::For(span)) => {
                told.wait = Some(Wait { r#for: Some(Span(*span)), ..Wait::default() });
            }
            rule::Work::Wait(rule::Wait::Until(until)) => {
                told.wait = Some(Wait { until: Some(until.clone()), ..Wait::default() });
            }
            rule::Work::Wait(rule::Wait::Event(event)) => {
                let rule::EventWait { name, key, within } = (**event).clone();
                let event = EventWait { name, key, within: within.map(Span) };
                told.wait = Some(Wait { event: Some(event), ..Wait::default() });
            }
            rule::Work::Approve(within) => told.approve = Some(Approve { within: within.map(Span) }),
        }
        told
    }
}

impl Wait {
    fn into_core(self) -> Result<rule::Wait, Error> {
        match (self.r#for, self.until, self.event) {
            (Some(span), None, None) => Ok(rule::Wait::For(span.0)),
            (None, Some(until), None) => Ok(rule::Wait::Until(until)),
            (None, None, Some(EventWait { name, key, within })) => {
                let within = within.map(|span| span.0);
                Ok(rule::Wait::Event(Box::new(rule::EventWait { name, key, within })))
            }
            _ => Err(Error::invalid(
                "wait",
                "write one of `for`, like 30m, `until`, an instant, and `event`, like { name: paid }",
            )),
        }
    }
}

impl Switch {
    fn into_core(self) -> Result<rule::Switch, Error> {
        let on = self.on.ok_or_else(|| Error::invalid("switch.on", "is missing; write an expression"))?;
        let cases = self.cases.unwrap_or_default().0;
        Ok(rule::Switch { on, cases, default: self.default.unwrap_or_default() })
    }

    fn of(switch: &rule::Switch) -> Switch {
        let default = (!switch.default.is_empty()).then(|| switch.default.clone());
        Switch { on: Some(switch.on.clone()), cases: Some(Entries(switch.cases.clone())), default }
    }
}

#[cfg(test)]
mod tests;
