//! `task.workflow`, a graph of steps.
//!
//! It is read apart from the rest of its job: a server refuses the field, and `punctual job graph` reads it.

use std::fmt;
use std::marker::PhantomData;

use punctual_core::name::{Name, Namespace};
use punctual_core::workflow as rule;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::policy::words;
use super::{Enqueue, Grpc, Http, JsonObject, Noop, Process, Retry, Route, Task, params};
use crate::error::Error;
use crate::text::{Span, small};
use crate::tree::{Key, Node, Value};

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
    let documents = Node::from_yaml(text).map_err(|error| vec![error])?;
    let (mut drafts, mut errors) = (Vec::new(), Vec::new());
    for mut document in documents {
        let Some(workflow) = take_workflow(&mut document) else { continue };
        match read_one(document, &workflow, namespace) {
            Ok(draft) => drafts.push(draft),
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() { Ok(drafts) } else { Err(errors) }
}

/// Takes the workflow out of a job and leaves a task that does nothing. `None` means that the job has another task.
fn take_workflow(document: &mut Node) -> Option<Node> {
    let Value::Map(fields) = &mut document.value else { return None };
    let (_, task) = fields.iter_mut().find(|(key, _)| key.text == "task")?;
    let Value::Map(kinds) = &mut task.value else { return None };
    let at = kinds.iter().position(|(key, _)| key.text == "workflow")?;
    let (key, workflow) = kinds.remove(at);
    let nothing = Node { place: key.place, value: Value::Map(Vec::new()) };
    kinds.push((Key { place: key.place, text: "noop".to_owned() }, nothing));
    Some(workflow)
}

fn read_one(document: Node, workflow: &Node, namespace: &Namespace) -> Result<WorkflowDraft, Error> {
    let job = super::read(document, |file| {
        file.namespace.get_or_insert_with(|| namespace.clone());
        Ok(())
    })?;
    let whole = |node: &Node| -> Result<rule::Workflow, Error> {
        let workflow = node.to::<Workflow>()?.into_core()?;
        workflow.check()?;
        Ok(workflow)
    };
    let placed = |error: Error| {
        let place = error.place.or_else(|| workflow.place_of(&error.field));
        Error { place, ..error }.under("task.workflow")
    };
    let workflow = whole(workflow).map_err(placed)?;
    Ok(WorkflowDraft { namespace: job.namespace, name: job.name, workflow })
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a map like { steps: { load: { task: { shell: ./load } } } }")]
struct Workflow {
    steps: Option<Entries<Name, Step>>,
    finally: Option<Entries<Name, Step>>,
    output: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a map like { needs: [load], task: { shell: ./settle } }")]
struct Step {
    task: Option<StepTask>,
    job: Option<Name>,
    wait: Option<Wait>,
    approve: Option<Approve>,
    needs: Option<Vec<Name>>,
    rule: Option<Rule>,
    when: Option<String>,
    map: Option<String>,
    parallel: Option<u32>,
    switch: Option<Switch>,
    params: Option<JsonObject>,
    timeout: Option<Span>,
    grace: Option<Span>,
    retry: Option<Retry>,
    #[serde(default, deserialize_with = "small::option")]
    priority: Option<u8>,
    route: Option<Route>,
    at_most_once: Option<bool>,
}

/// The task of a job, or a workflow.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a map like { shell: \"echo hi\" }")]
struct StepTask {
    process: Option<Process>,
    shell: Option<String>,
    http: Option<Http>,
    grpc: Option<Grpc>,
    function: Option<Name>,
    queue: Option<Enqueue>,
    workflow: Option<Box<Workflow>>,
    noop: Option<Noop>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a map like { for: 30m }")]
struct Wait {
    r#for: Option<Span>,
    until: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a map like { within: 2d }, or {}")]
struct Approve {
    within: Option<Span>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a map like { on: steps.load.output, cases: { east: [settle] }, default: [alarm] }"
)]
struct Switch {
    on: Option<String>,
    cases: Option<Entries<String, Vec<Name>>>,
    default: Option<Vec<Name>>,
}

/// A map in the order in which it is written.
#[derive(Debug, Clone, PartialEq)]
struct Entries<K, V>(Vec<(K, V)>);

impl<K, V> Default for Entries<K, V> {
    fn default() -> Self {
        Entries(Vec::new())
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
    fn into_core(self) -> Result<rule::Workflow, Error> {
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
}

impl Step {
    fn into_core(self, name: Name) -> Result<rule::Step, Error> {
        const KINDS: &str = "task, job, wait and approve";
        let mut said = Vec::new();
        if let Some(task) = self.task {
            said.push(task.into_core()?);
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
        Ok(rule::Step {
            needs: self.needs.unwrap_or_default(),
            rule: self.rule.map(Into::into).unwrap_or_default(),
            when: self.when,
            map: self.map.map(|over| rule::Map { over, parallel: self.parallel }),
            switch: self.switch.map(Switch::into_core).transpose()?,
            params: params(self.params),
            policies: rule::Policies {
                timeout: self.timeout.map(|span| span.0),
                grace: self.grace.map(|span| span.0),
                retry: self.retry.map(Retry::into_core),
                priority: self.priority,
                route: self.route.map(Route::into_core),
                at_most_once: self.at_most_once.unwrap_or(false),
            },
            ..rule::Step::of(name, work)
        })
    }
}

impl StepTask {
    fn into_core(self) -> Result<rule::Work, Error> {
        let StepTask { process, shell, http, grpc, function, queue, workflow, noop } = self;
        let task = Task { process, shell, http, grpc, function, queue, noop };
        match workflow {
            None => task.into_core().map(rule::Work::Task),
            Some(_) if task != Task::default() => {
                Err(Error::invalid("task", "a workflow stands alone; move the other task to a step"))
            }
            Some(workflow) => {
                let workflow = workflow.into_core().map_err(|error| error.under("task.workflow"))?;
                Ok(rule::Work::Workflow(Box::new(workflow)))
            }
        }
    }
}

impl Wait {
    fn into_core(self) -> Result<rule::Wait, Error> {
        match (self.r#for, self.until) {
            (Some(span), None) => Ok(rule::Wait::For(span.0)),
            (None, Some(until)) => Ok(rule::Wait::Until(until)),
            _ => Err(Error::invalid("wait", "write either `for`, like 30m, or `until`, an instant")),
        }
    }
}

impl Switch {
    fn into_core(self) -> Result<rule::Switch, Error> {
        let on = self.on.ok_or_else(|| Error::invalid("switch.on", "is missing; write an expression"))?;
        let cases = self.cases.unwrap_or_default().0;
        Ok(rule::Switch { on, cases, default: self.default.unwrap_or_default() })
    }
}

#[cfg(test)]
mod tests;
