//! Refuses invalid workflows, before anything of them is stored.

use std::collections::HashMap;
use std::time::Duration;

use super::upstream::{Nameable, Upstream};
use super::{EventWait, Graph, Step, Switch, Wait, Work, Workflow};
use crate::Timestamp;
use crate::alert::{self, Alert};
use crate::invalid::Invalid;
use crate::job::Definition;
use crate::limits::{
    DURATION_MAX, MAP_ITEMS_MAX, WORKFLOW_EDGES_MAX, WORKFLOW_NESTING_MAX, WORKFLOW_STEPS_MAX,
};
use crate::name::Name;
use crate::params::Params;
use crate::task::{self, Task};
use crate::template::{Condition, Error, Expression, Scope, Steps, Template};

impl Workflow {
    /// Refuses an invalid workflow. The field of an error is a path in it.
    pub fn check(&self) -> Result<(), Invalid> {
        let mut count = Count { steps: 0, edges: 0 };
        let mut open = vec![Open { workflow: self, path: String::new(), nesting: 1 }];
        while let Some(next) = open.pop() {
            let outwards =
                |error: Invalid| if next.path.is_empty() { error } else { error.under(&next.path) };
            next.check(&mut count).map_err(outwards)?;
            open.extend(next.inner());
        }
        Ok(())
    }
}

impl Workflow {
    /// The jobs that its steps start, also those of sub-workflows, each with the path of the step in this workflow.
    pub fn jobs(&self) -> Vec<(String, &Name)> {
        self.of_steps(|step| match &step.work {
            Work::Job(job) => vec![("job".to_owned(), job)],
            _ => Vec::new(),
        })
    }

    /// The alerts of its steps, also those of sub-workflows, each with its path in this workflow.
    pub fn alerts(&self) -> Vec<(String, &Alert)> {
        self.of_steps(|step| {
            let alerts = step.alerts.iter().enumerate();
            alerts.map(|(index, alert)| (format!("alerts[{index}]"), alert)).collect()
        })
    }

    /// Parts of all steps, also of those of sub-workflows. `parts` gives each with its path in the step.
    fn of_steps<'a, T>(&'a self, parts: impl Fn(&'a Step) -> Vec<(String, T)>) -> Vec<(String, T)> {
        let mut all = Vec::new();
        let mut open = vec![Open { workflow: self, path: String::new(), nesting: 1 }];
        while let Some(next) = open.pop() {
            for (index, step) in next.workflow.all().enumerate() {
                all.extend(parts(step).into_iter().map(|(path, part)| (next.path_of(index, &path), part)));
            }
            open.extend(next.inner());
        }
        all
    }
}

/// What all levels have together.
struct Count {
    steps: usize,
    edges: usize,
}

/// A workflow that is still to be checked.
struct Open<'a> {
    workflow: &'a Workflow,
    /// Its path in the outermost workflow. Empty means the outermost.
    path: String,
    nesting: usize,
}

impl<'a> Open<'a> {
    fn check(&self, count: &mut Count) -> Result<(), Invalid> {
        let workflow = self.workflow;
        let refuse = |message: String| Err(Invalid::new("steps", message));
        if self.nesting > WORKFLOW_NESTING_MAX {
            return refuse(format!("at most {WORKFLOW_NESTING_MAX} levels of workflows"));
        }
        if workflow.steps.is_empty() {
            return refuse("a workflow has at least one step".to_owned());
        }
        count.steps += workflow.all().count();
        if count.steps > WORKFLOW_STEPS_MAX {
            return refuse(format!(
                "at most {WORKFLOW_STEPS_MAX} steps, those of `finally` and of sub-workflows included"
            ));
        }
        let listed = |step: &Step| step.switch.as_deref().map_or(0, |switch| switch.targets().count());
        count.edges += workflow.all().map(|step| step.needs.len() + listed(step)).sum::<usize>();
        if count.edges > WORKFLOW_EDGES_MAX {
            return refuse(format!(
                "at most {WORKFLOW_EDGES_MAX} entries in all `needs` and `switch`, those of sub-workflows included"
            ));
        }
        let graph = Graph::of(workflow)?;
        workflow.check_steps(&Upstream::of(&graph))
    }

    /// The workflows of its steps.
    fn inner(&self) -> impl Iterator<Item = Open<'a>> {
        self.workflow.all().enumerate().filter_map(|(index, step)| {
            let Work::Workflow(inner) = &step.work else { return None };
            let path = self.path_of(index, "task.workflow");
            Some(Open { workflow: inner, path, nesting: self.nesting + 1 })
        })
    }

    /// The path of a field of a step in the outermost workflow.
    fn path_of(&self, index: usize, of: &str) -> String {
        let path = self.workflow.field(index, of);
        if self.path.is_empty() { path } else { format!("{}.{path}", self.path) }
    }
}

impl Workflow {
    fn check_steps(&self, upstream: &Upstream) -> Result<(), Invalid> {
        let names: HashMap<&str, usize> =
            self.all().enumerate().map(|(index, step)| (step.name.as_str(), index)).collect();
        let all = Nameable { workflow: self, names: &names, upstream, step: None, with_itself: true };
        for (index, step) in self.all().enumerate() {
            let before = Nameable { step: Some(index), with_itself: false, ..all };
            let until_it = Nameable { step: Some(index), ..all };
            step.check(&before, &until_it).map_err(|error| error.under(&self.field(index, "")))?;
        }
        if let Some(output) = &self.output {
            let scope = Scope::WORKFLOW.with_steps(&all);
            Expression::parse_in(output, &scope).map_err(|error| refused("output", output, &error))?;
        }
        Ok(())
    }
}

fn refused(field: &'static str, text: &str, error: &Error) -> Invalid {
    Invalid::new(field, error.in_text(text))
}

impl Step {
    /// `before` has the steps that have ended when this one starts, `until_it` the step itself too.
    fn check(&self, before: &Nameable<'_>, until_it: &Nameable<'_>) -> Result<(), Invalid> {
        self.check_fields()?;
        alert::check_of_step(&self.alerts)?;
        let scope = Scope::WORKFLOW.with_steps(before);
        if let Some(when) = &self.when {
            Condition::parse_in(when, &scope).map_err(|error| refused("when", when, &error))?;
        }
        if let Some(map) = &self.map {
            Expression::parse_in(&map.over, &scope).map_err(|error| refused("map", &map.over, &error))?;
            if map.parallel.is_some_and(|most| most == 0 || most > MAP_ITEMS_MAX) {
                return Err(Invalid::new("parallel", format!("1 to {MAP_ITEMS_MAX}")));
            }
        }
        if let Some(switch) = &self.switch {
            switch.check(&Scope::WORKFLOW.with_steps(until_it))?;
        }
        self.check_templates(before)?;
        match &self.work {
            Work::Task(_) | Work::Workflow(_) | Work::Job(_) => Ok(()),
            Work::Wait(Wait::For(span)) => check_span("wait.for", *span),
            Work::Wait(Wait::Until(until)) => check_until(until, &scope),
            Work::Wait(Wait::Event(event)) => event.check(&scope),
            Work::Approve(within) => within.map_or(Ok(()), |within| check_span("approve.within", within)),
        }
    }

    /// Refuses an invalid task or parameter. The workflow of a step is checked apart, because workflows may nest deeply.
    pub(super) fn check_templates(&self, steps: &dyn Steps) -> Result<(), Invalid> {
        let is_mapped = self.map.is_some();
        let task = if let Work::Task(task) = &self.work { task.clone() } else { Task::Noop };
        let own = Definition { params: self.params.clone(), ..self.definition_of(task) };
        own.check_in(&Scope::TASK.with_steps(steps).with_items(is_mapped))?;
        let json = serde_json::from_str(&self.params.0);
        let json = json.map_err(|error| Invalid::new("params", format!("must be JSON: {error}")))?;
        task::check_strings(json, "params", &Scope::WORKFLOW.with_steps(steps).with_items(is_mapped))
    }

    /// Refuses fields that a step of this kind does not use.
    fn check_fields(&self) -> Result<(), Invalid> {
        let (used, hint): (&[&str], _) = match &self.work {
            Work::Task(Task::Ping(_)) => {
                return Err(Invalid::new("task.ping", "a job is a ping, a step is not"));
            }
            Work::Task(_) => return Ok(()),
            Work::Workflow(_) => (
                &["map", "params", "timeout", "priority", "alerts"],
                "give it to the steps of the sub-workflow",
            ),
            Work::Job(_) => (&["map", "params", "timeout", "alerts"], "the job has its own"),
            Work::Wait(_) | Work::Approve(_) => (&[], "leave it out"),
        };
        let policies = &self.policies;
        let given = [
            ("map", self.map.is_some()),
            ("params", self.params != Params::default()),
            ("timeout", policies.timeout.is_some()),
            ("grace", policies.grace.is_some()),
            ("retry", policies.retry.is_some()),
            ("priority", policies.priority.is_some()),
            ("route", policies.route.is_some()),
            ("at_most_once", policies.at_most_once),
            ("alerts", !self.alerts.is_empty()),
        ];
        match given.iter().find(|(field, is_given)| *is_given && !used.contains(field)) {
            Some((field, _)) => {
                let message = format!("a `{}` step does not use it; {hint}", self.work.word());
                Err(Invalid::new(*field, message))
            }
            None => Ok(()),
        }
    }
}

impl Switch {
    fn check(&self, scope: &Scope<'_>) -> Result<(), Invalid> {
        Expression::parse_in(&self.on, scope).map_err(|error| refused("switch.on", &self.on, &error))?;
        if self.cases.is_empty() {
            return Err(Invalid::new("switch.cases", "a switch has at least one case"));
        }
        Ok(())
    }
}

impl EventWait {
    fn check(&self, scope: &Scope<'_>) -> Result<(), Invalid> {
        if let Some(key) = &self.key {
            Template::parse_in(key, scope).map_err(|error| refused("wait.event.key", key, &error))?;
        }
        self.within.map_or(Ok(()), |within| check_span("wait.event.within", within))
    }
}

fn check_span(field: &'static str, span: Duration) -> Result<(), Invalid> {
    if span.is_zero() || span > DURATION_MAX {
        return Err(Invalid::new(field, "longer than nothing, and at most ten years"));
    }
    Ok(())
}

fn check_until(until: &str, scope: &Scope<'_>) -> Result<(), Invalid> {
    let template = Template::parse_in(until, scope).map_err(|error| refused("wait.until", until, &error))?;
    if template.is_literal() && until.parse::<Timestamp>().is_err() {
        let message = "is no instant; write it like 2026-12-01T08:00:00+08:00 or {{ due | plus(\"2h\") }}";
        return Err(Invalid::new("wait.until", message));
    }
    Ok(())
}
