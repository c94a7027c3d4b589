//! Workflows: their graphs, and what people decide on them.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::request::Parts;
use punctual_core::attempt;
use punctual_core::change::{RunRecord, Want};
use punctual_core::command::{ActOnSteps, Command, Refusal, StepsAct};
use punctual_core::ids::RunId;
use punctual_core::limits::PAGE_MAX;
use punctual_core::name::{Name, Namespace};
use punctual_core::task::Params;
use punctual_core::workflow::{
    self, Evaluated, Items, State as Became, StepReason, StepRecord, Work, Workflow,
};
use punctual_wire::Text;
use punctual_wire::rest::{self, Code, Comment, Graph, GraphNode, Problem, Run, StepExpressions, StepState};
use serde::Deserialize;

use super::body::MaybeJson;
use super::problem::Failed;
use super::request::{Asked, Named, RunAt, StepAt, page_limit};
use super::runs::changed;
use crate::Endpoints;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Paging {
    limit: Option<Text<usize>>,
    /// The last step of the page before.
    after: Option<String>,
}

impl Paging {
    /// A page is as large as it may be: a graph is drawn whole.
    fn of(self, namespace: &Namespace, job: Option<&Name>, workflow: &Workflow) -> Result<Graph, Failed> {
        let limit = page_limit(Some(self.limit.unwrap_or(Text(PAGE_MAX))))?;
        let graph = Graph::page(namespace, job, workflow, self.after.as_deref(), limit);
        Ok(graph.map_err(Refusal::from)?)
    }
}

pub(crate) async fn graph_of_job(
    State(endpoints): State<Endpoints>,
    at: Named,
    Asked(paging): Asked<Paging>,
) -> Result<Json<Graph>, Failed> {
    let job = endpoints.find_job(&at.namespace, &at.name).await?;
    let workflow = job.definition.workflow().ok_or_else(|| {
        Failed(Problem::new(Code::NotAWorkflow, format!("job `{}` is not a workflow", at.name)))
    })?;
    Ok(Json(paging.of(&job.namespace, Some(&job.name), workflow)?))
}

pub(crate) async fn graph_of_run(
    State(endpoints): State<Endpoints>,
    at: RunAt,
    Asked(paging): Asked<Paging>,
) -> Result<Json<Graph>, Failed> {
    let record = endpoints.find_run(&at).await?;
    let workflow = workflow_of(&record)?;
    let run = &record.run;
    let mut graph = paging.of(&run.namespace, run.job_name(), workflow)?;
    graph.run = Some(Text(run.id));
    graph.state = Some(rest::State(run.status()));
    graph.paused = run.paused_by().map(Into::into);
    endpoints.add_steps(&mut graph.nodes, workflow, run.id).await?;
    Ok(Json(graph))
}

/// The expressions of a step, and what they gave.
pub(crate) async fn expressions(
    State(endpoints): State<Endpoints>,
    at: StepAt,
) -> Result<Json<StepExpressions>, Failed> {
    let (run, name) = endpoints.find_step(&at.run, &at.step).await?;
    let record = endpoints.find_run(&RunAt { run, ..at.run }).await?;
    let workflow = workflow_of(&record)?;
    let step = workflow.all().position(|step| step.name == name);
    let step = step.ok_or(Refusal::NoSuchStep { run, step: name })?;
    let graph = workflow::Graph::of(workflow).map_err(Refusal::from)?;
    let row = endpoints.step_row(run, step).await?;
    let named = workflow.named(&graph, step);
    let mut rows = HashMap::new();
    for index in &named {
        rows.extend(endpoints.step_row(run, *index).await?.map(|row| (*index, row)));
    }
    let steps = workflow.steps_value(named, |index| rows.get(&index).map(|row| row.known()));
    let params = endpoints.params_of(&record).await?;
    let values = attempt::workflow_values(&record.run, &params).with("steps", steps);
    let evaluated = row.map_or(Evaluated::Nothing, |row| row.evaluated());
    let expressions = workflow.expressions(&graph, step, &params, &values, evaluated);
    Ok(Json(StepExpressions {
        step: at.step,
        expressions: expressions.into_iter().map(Into::into).collect(),
    }))
}

/// Approves, rejects, skips or cancels a step, as the last segment of the path says.
pub(crate) async fn decide(
    State(endpoints): State<Endpoints>,
    at: StepAt,
    parts: Parts,
    MaybeJson(comment): MaybeJson<Comment>,
) -> Result<Json<Run>, Failed> {
    let (run, step) = endpoints.find_step(&at.run, &at.step).await?;
    act(&endpoints, RunAt { run, ..at.run }, (at.act)(step), &parts, comment).await
}

pub(crate) async fn pause(
    State(endpoints): State<Endpoints>,
    at: RunAt,
    parts: Parts,
    MaybeJson(comment): MaybeJson<Comment>,
) -> Result<Json<Run>, Failed> {
    act(&endpoints, at, StepsAct::Pause, &parts, comment).await
}

pub(crate) async fn resume(
    State(endpoints): State<Endpoints>,
    at: RunAt,
    parts: Parts,
    MaybeJson(comment): MaybeJson<Comment>,
) -> Result<Json<Run>, Failed> {
    act(&endpoints, at, StepsAct::Resume, &parts, comment).await
}

async fn act(
    endpoints: &Endpoints,
    at: RunAt,
    act: StepsAct,
    parts: &Parts,
    comment: Comment,
) -> Result<Json<Run>, Failed> {
    let (by, comment) = (endpoints.name_of_caller(parts).await?, comment.into_core()?);
    let RunAt { namespace, run } = at;
    changed(endpoints, Command::ActOnSteps(ActOnSteps { namespace, run, act, by, comment })).await
}

impl Endpoints {
    /// The rows of some steps of a workflow, given the first and the last of them.
    async fn step_rows(
        &self,
        workflow: RunId,
        steps: (usize, usize),
    ) -> Result<Vec<Arc<StepRecord>>, Failed> {
        let [first, last] = [steps.0, steps.1].map(|step| u32::try_from(step).unwrap_or(u32::MAX));
        let mut rows = Vec::new();
        let mut after = first.checked_sub(1).map(|before| (before, Some(u32::MAX)));
        loop {
            let page = self.handle.reads().steps(workflow, after, PAGE_MAX).await?;
            let is_last = page.len() < PAGE_MAX || page.last().is_none_or(|row| row.key.step > last);
            after = page.last().map(|row| (row.key.step, row.key.item));
            rows.extend(page.into_iter().filter(|row| row.key.step <= last));
            if is_last {
                return Ok(rows);
            }
        }
    }

    /// The rows of the parts of a split run or of a backfill, and that of the run itself.
    pub(super) async fn parts(&self, run: RunId) -> Result<Vec<Arc<StepRecord>>, Failed> {
        self.step_rows(run, (0, 0)).await
    }

    /// The row of a step itself, without those of its items. `None` means that the step is not decided.
    async fn step_row(&self, workflow: RunId, step: usize) -> Result<Option<Arc<StepRecord>>, Failed> {
        let step = u32::try_from(step).unwrap_or(u32::MAX);
        let after = step.checked_sub(1).map(|before| (before, Some(u32::MAX)));
        let rows = self.handle.reads().steps(workflow, after, 1).await?;
        Ok(rows.into_iter().find(|row| row.key.step == step && row.key.item.is_none()))
    }

    /// The parameters of a run. A run of a sub-workflow may have those of the workflow that contains it.
    async fn params_of(&self, record: &RunRecord) -> Result<Params, Failed> {
        let mut of = record.clone();
        while of.run.params.is_none()
            && let Some(run) = of.run.parent()
        {
            of = self.find_run(&RunAt { namespace: of.run.namespace.clone(), run }).await?;
        }
        Ok(of.run.params.as_ref().unwrap_or(&of.definition.params).clone())
    }

    /// Adds what became of each step, also in sub-workflows. Of a sub-workflow with `map` each item has its own graph.
    async fn add_steps(
        &self,
        nodes: &mut [GraphNode],
        workflow: &Workflow,
        run: RunId,
    ) -> Result<(), Failed> {
        let mut places: HashMap<String, usize> = HashMap::new();
        let mut wanted: HashSet<String> = HashSet::new();
        for (place, node) in nodes.iter_mut().enumerate() {
            node.state = Some(StepState::Open);
            wanted.extend(around(&node.step).map(str::to_owned));
            wanted.insert(node.step.clone());
            places.insert(node.step.clone(), place);
        }
        let mut outer = HashMap::new();
        let mut open = vec![(String::new(), Cow::Borrowed(workflow), run, None)];
        while let Some((prefix, workflow, run, reused)) = open.pop() {
            let steps = workflow.all().map(|step| wanted.contains(&format!("{prefix}{}", step.name)));
            let wanted: Vec<usize> = steps.enumerate().filter_map(|(at, is)| is.then_some(at)).collect();
            let (Some(first), Some(last)) = (wanted.first(), wanted.last()) else { continue };
            let rows = self.step_rows(run, (*first, *last)).await?;
            let items = counted(&rows);
            for row in rows.iter().filter(|row| row.key.item.is_none()) {
                let Some(step) = usize::try_from(row.key.step).ok().and_then(|index| workflow.step(index))
                else {
                    continue;
                };
                let path = format!("{prefix}{}", step.name);
                if let Work::Workflow(inner) = &step.work {
                    outer.insert(path.clone(), Arc::clone(row));
                    if let Some(child) = row.child {
                        let (inner, reused) = self.inner_of(inner, row, reused.as_ref()).await?;
                        open.push((format!("{path}/"), Cow::Owned(inner), child, reused));
                    }
                }
                let Some(node) = places.get(&path).map(|place| &mut nodes[*place]) else { continue };
                node.add(row);
                if let Some(reused) = &reused {
                    node.reuse_with(reused);
                }
                if let (Some(told), Some(seen), false) =
                    (&mut node.items, items.get(&row.key.step), row.state.has_ended())
                {
                    (told.succeeded, told.failed) = (seen.succeeded, seen.failed);
                }
            }
        }
        skip_inner(nodes, &outer);
        self.add_runs(nodes).await
    }

    /// The sub-workflow of a step, and the row of the step if it is reused. The earlier run that it ended in may have had
    /// another sub-workflow.
    async fn inner_of(
        &self,
        inner: &Workflow,
        row: &Arc<StepRecord>,
        outer: Option<&Arc<StepRecord>>,
    ) -> Result<(Workflow, Option<Arc<StepRecord>>), Failed> {
        let is_reused = matches!(row.reason, Some(StepReason::Reused { .. }));
        let Some(reused) = outer.or(is_reused.then_some(row)) else {
            return Ok((inner.clone(), None));
        };
        let wants = row.child.iter().map(|child| (child.shard(), Want::Run(*child))).collect();
        let records = self.handle.reads().fetch(wants).await?.runs;
        let ran = records.first().and_then(|record| record.definition.workflow());
        Ok((ran.unwrap_or(inner).clone(), Some(Arc::clone(reused))))
    }

    /// Adds when the run of each active step started. The rows of other steps have it.
    async fn add_runs(&self, nodes: &mut [GraphNode]) -> Result<(), Failed> {
        let started = nodes.iter().enumerate().filter(|(_, node)| node.state == Some(StepState::Active));
        let runs: HashMap<RunId, usize> =
            started.filter_map(|(place, node)| Some((node.run?.0, place))).collect();
        let ids: Vec<RunId> = runs.keys().copied().collect();
        for ids in ids.chunks(PAGE_MAX) {
            let wants = ids.iter().map(|run| (run.shard(), Want::Run(*run))).collect();
            for record in self.handle.reads().fetch(wants).await?.runs {
                if let Some(place) = runs.get(&record.run.id) {
                    nodes[*place].add_run(&record.run);
                }
            }
        }
        Ok(())
    }

    /// The run whose workflow has a step, and the name of the step. `settle/book` is a step of a sub-workflow.
    async fn find_step(&self, at: &RunAt, path: &str) -> Result<(RunId, Name), Failed> {
        let names: Result<Vec<Name>, _> = path.split('/').map(str::parse).collect();
        let names = names.map_err(|error| Problem::parameter("step", error.to_string()))?;
        let mut run = at.run;
        for (place, name) in names.iter().enumerate() {
            if place + 1 == names.len() {
                return Ok((run, name.clone()));
            }
            let record = self.find_run(&RunAt { namespace: at.namespace.clone(), run }).await?;
            let workflow = workflow_of(&record)?;
            let no_such_step = |step: &Name| Refusal::NoSuchStep { run, step: step.clone() };
            if let Some(missing) = missing(workflow, &names[place..]) {
                return Err(no_such_step(missing).into());
            }
            let index = workflow.all().position(|step| step.name == *name);
            let row = self.step_row(run, index.ok_or_else(|| no_such_step(name))?).await?;
            let child = row.as_ref().and_then(|row| row.child);
            run = child.ok_or_else(|| without_run(name, row.as_deref()))?;
        }
        Err(Problem::parameter("step", "is empty".to_owned()).into())
    }
}

/// The workflow of a run. A backfill has none, whatever the task of its job.
fn workflow_of(record: &RunRecord) -> Result<&Workflow, Refusal> {
    let workflow = record.definition.workflow().filter(|_| !record.run.is_backfill());
    workflow.ok_or(Refusal::NotAWorkflow(record.run.id))
}

/// The first name in a path that no step has. Each name is that of a step in the sub-workflow of the step before it.
fn missing<'a>(workflow: &Workflow, path: &'a [Name]) -> Option<&'a Name> {
    let mut inside = Some(workflow);
    path.iter().find(|name| {
        let step = inside.and_then(|workflow| workflow.all().find(|step| step.name == **name));
        inside = step.and_then(|step| match &step.work {
            Work::Workflow(inner) => Some(&**inner),
            _ => None,
        });
        step.is_none()
    })
}

/// Why a step of a sub-workflow cannot be named: the step that executes the sub-workflow has no run.
fn without_run(step: &Name, row: Option<&StepRecord>) -> Refusal {
    let state = row.map_or(Became::Open, |row| row.state);
    let hint = match state {
        _ if row.is_some_and(|row| row.items.is_some()) => "it has `map`: name the run of one of its items",
        Became::Open | Became::Active => "its sub-workflow has not started yet",
        Became::Succeeded | Became::Failed | Became::Skipped => {
            "it has ended, and its sub-workflow never started"
        }
    };
    Refusal::WrongStep { step: step.clone(), state: state.as_str().into(), hint: hint.into() }
}

/// How many items of each step have ended.
fn counted(rows: &[Arc<StepRecord>]) -> HashMap<u32, Items> {
    let mut counted: HashMap<u32, Items> = HashMap::new();
    for row in rows.iter().filter(|row| row.key.item.is_some()) {
        let items = counted.entry(row.key.step).or_default();
        items.succeeded += u32::from(row.state == Became::Succeeded);
        items.failed += u32::from(row.state == Became::Failed);
    }
    counted
}

/// The steps of a sub-workflow that was skipped were skipped too. Of a reused one, the steps may be forgotten.
fn skip_inner(nodes: &mut [GraphNode], outer: &HashMap<String, Arc<StepRecord>>) {
    for node in nodes.iter_mut().filter(|node| node.state == Some(StepState::Open)) {
        let mut around = around(&node.step).filter_map(|path| outer.get(path));
        let is_decided = |row: &&Arc<StepRecord>| {
            row.state == Became::Skipped || matches!(row.reason, Some(StepReason::Reused { .. }))
        };
        node.state = around.find(is_decided).map(|row| row.state.into()).or(node.state);
    }
}

/// The paths of the steps whose sub-workflows a step belongs to, beginning with the outermost one.
fn around(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(|(end, _)| &path[..end])
}
