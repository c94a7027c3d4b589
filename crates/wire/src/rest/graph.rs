//! The graph of a workflow: its steps, and which of them need which. The graph of a run also says what became of each.

use punctual_core::ids::{RunId, made_at};
use punctual_core::job::Invalid;
use punctual_core::limits::COMMENT_BYTES_MAX;
use punctual_core::name::{Name, Namespace};
use punctual_core::run::Run;
use punctual_core::workflow::{self as rule, StepRecord, Work};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::State;
use crate::text::Instant;
use crate::{Error, Text, schema};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Graph {
    #[schema(value_type = schema::Namespace)]
    pub namespace: Namespace,
    /// Absent for a run without a job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Name>)]
    pub job: Option<Name>,
    /// Only in the graph of a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Id>)]
    pub run: Option<Text<RunId>>,
    /// The state of the run; only in the graph of a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<State>,
    /// Who paused the run; only while it is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<ByHand>,
    /// Each step after all that it needs; the steps of a sub-workflow come after its own step.
    pub nodes: Vec<GraphNode>,
    /// The edges that lead to these steps.
    pub edges: Vec<GraphEdge>,
    /// The value of `after` for the next page. Absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct GraphNode {
    /// The name of the step; in a sub-workflow the name of its step before it: `settle/book`.
    pub step: String,
    /// The step whose sub-workflow it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The kind of its task, or `job`, `wait`, `approve` or `workflow`.
    pub kind: String,
    /// 1 for a step that needs no other; else one more than the highest level of those that it needs.
    pub level: usize,
    pub finally: bool,
    pub rule: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub map: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parallel: Option<u32>,
    /// What became of the step; only in the graph of a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<StepState>,
    /// Why it ended as it did, such as `skipped: when`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The run that executes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Id>)]
    pub run: Option<Text<RunId>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_at: Option<Instant>,
    /// When the first attempt of its run started; until then it waits for a worker. When a step that waits for an event
    /// began to: it sees every event that is sent from then on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Instant>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Instant>,
    /// When a wait ends, or an approval counts as rejected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Instant>,
    /// Only of a step with `map`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items: Option<StepItems>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Who decided on it by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_hand: Option<ByHand>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepState {
    /// Not decided yet.
    Open,
    /// It waits, or its run has not ended.
    Active,
    Succeeded,
    /// Also timed out, cancelled and rejected.
    Failed,
    Skipped,
}

/// How many items a step with `map` has, and how many of them have ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StepItems {
    pub total: u32,
    pub succeeded: u32,
    pub failed: u32,
}

/// Who decided, when and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ByHand {
    /// The name of the token. Absent if the server asks for no token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    pub at: Instant,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub comment: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GraphEdge {
    /// The step that is needed.
    pub from: String,
    pub to: String,
}

/// The expressions of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StepExpressions {
    pub step: String,
    /// In the order in which they are evaluated.
    pub expressions: Vec<StepExpression>,
}

/// An expression of a step and what it gave. Without `value` and `error` it was not evaluated, or not yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StepExpression {
    /// Its place in the workflow, such as `steps.load.when`.
    pub field: String,
    pub text: String,
    /// JSON. Of a value with more than 4,096 bytes the beginning, and `…`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Why a person decides on a workflow or a step.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a map like { comment: \"checked with the bank\" }")]
pub struct Comment {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(max_length = 1024)]
    pub comment: String,
}

/// Which steps of a graph are on a page.
struct Cut<'a> {
    /// The last step of the page before. `None` means that the page has begun.
    after: Option<&'a str>,
    limit: usize,
}

impl Graph {
    /// The whole graph.
    pub fn of(
        namespace: &Namespace,
        job: Option<&Name>,
        workflow: &rule::Workflow,
    ) -> Result<Graph, Invalid> {
        Graph::page(namespace, job, workflow, None, usize::MAX)
    }

    /// The steps that follow the step `after`, at most `limit`, and the edges that lead to them. The page is empty if there is
    /// no such step.
    pub fn page(
        namespace: &Namespace,
        job: Option<&Name>,
        workflow: &rule::Workflow,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Graph, Invalid> {
        let mut graph = Graph {
            namespace: namespace.clone(),
            job: job.cloned(),
            run: None,
            state: None,
            paused: None,
            nodes: Vec::new(),
            edges: Vec::new(),
            next: None,
        };
        graph.add(workflow, None, &mut Cut { after, limit })?;
        Ok(graph)
    }

    /// Adds the steps of a workflow until the page is full. It calls itself for each level of sub-workflows, of which there are
    /// few.
    fn add(
        &mut self,
        workflow: &rule::Workflow,
        parent: Option<&str>,
        cut: &mut Cut<'_>,
    ) -> Result<(), Invalid> {
        let graph = rule::Graph::of(workflow)?;
        let path = |index: usize| {
            let name = workflow.step(index).map_or("", |step| step.name.as_str());
            parent.map_or_else(|| name.to_owned(), |parent| format!("{parent}/{name}"))
        };
        let mut order: Vec<usize> = graph.order().to_vec();
        order.sort_by_key(|index| graph.nodes()[*index].level);
        for index in order {
            let (Some(step), node) = (workflow.step(index), &graph.nodes()[index]) else { continue };
            let to = path(index);
            match cut.after {
                Some(after) if after == to => cut.after = None,
                Some(_) => {}
                None if self.nodes.len() == cut.limit => {
                    self.next = self.nodes.last().map(|node| node.step.clone());
                    return Ok(());
                }
                None => {
                    let edge = |needed: &usize| GraphEdge { from: path(*needed), to: to.clone() };
                    self.edges.extend(node.needs.iter().map(edge));
                    let parent = parent.map(str::to_owned);
                    self.nodes.push(GraphNode::of(
                        step,
                        to.clone(),
                        parent,
                        node.level,
                        graph.is_finally(index),
                    ));
                }
            }
            if let Work::Workflow(inner) = &step.work {
                self.add(inner, Some(&to), cut)?;
                if self.next.is_some() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// The highest level of the outermost workflow.
    pub fn depth(&self) -> usize {
        let outer = self.nodes.iter().filter(|node| node.parent.is_none());
        outer.map(|node| node.level).max().unwrap_or(0)
    }
}

impl GraphNode {
    fn of(step: &rule::Step, path: String, parent: Option<String>, level: usize, finally: bool) -> GraphNode {
        GraphNode {
            step: path,
            parent,
            kind: step.work.word().to_owned(),
            level,
            finally,
            rule: step.rule.as_str().to_owned(),
            when: step.when.clone(),
            map: step.map.as_ref().map(|map| map.over.clone()),
            parallel: step.map.as_ref().and_then(|map| map.parallel),
            state: None,
            reason: None,
            run: None,
            decided_at: None,
            started_at: None,
            ended_at: None,
            until: None,
            items: None,
            error: None,
            by_hand: None,
        }
    }

    /// Adds what became of the step.
    pub fn add(&mut self, record: &StepRecord) {
        self.state = Some(record.state.into());
        self.reason = record.reason.map(|reason| reason.to_string());
        self.run = record.child.map(Text);
        self.decided_at = Some(Text(record.decided_at));
        self.ended_at = record.ended_at.map(Text);
        self.until = record.until.map(Text);
        let listens_since = record.listener.map(made_at);
        self.started_at = record.started_at.or(listens_since).map(Text);
        self.items = record.items.map(Into::into);
        self.error = (!record.error.is_empty()).then(|| record.error.to_string());
        self.by_hand = record.by_hand.as_deref().map(Into::into);
    }

    /// The step belongs to a sub-workflow that is reused: its end counts from then on.
    pub fn reuse_with(&mut self, outer: &StepRecord) {
        self.reason = outer.reason.map(|reason| reason.to_string());
        (self.decided_at, self.ended_at) = (Some(Text(outer.decided_at)), outer.ended_at.map(Text));
    }

    /// Adds what its run knows.
    pub fn add_run(&mut self, run: &Run) {
        self.started_at = run.started_at.map(Text);
    }
}

impl From<rule::StepExpression> for StepExpression {
    fn from(rule::StepExpression { field, text, value }: rule::StepExpression) -> StepExpression {
        let (value, error) = match value.transpose() {
            Ok(value) => (value.map(|value| shortened(value.to_json().to_string())), None),
            Err(error) => (None, Some(error.message)),
        };
        StepExpression { field, text, value, error }
    }
}

fn shortened(mut text: String) -> String {
    const SHOWN_BYTES_MAX: usize = 4096;
    if text.len() > SHOWN_BYTES_MAX {
        text.truncate(text.floor_char_boundary(SHOWN_BYTES_MAX));
        text.push('…');
    }
    text
}

impl From<rule::State> for StepState {
    fn from(state: rule::State) -> StepState {
        match state {
            rule::State::Open => StepState::Open,
            rule::State::Active => StepState::Active,
            rule::State::Succeeded => StepState::Succeeded,
            rule::State::Failed => StepState::Failed,
            rule::State::Skipped => StepState::Skipped,
        }
    }
}

impl StepState {
    pub fn as_str(self) -> &'static str {
        match self {
            StepState::Open => "open",
            StepState::Active => "active",
            StepState::Succeeded => "succeeded",
            StepState::Failed => "failed",
            StepState::Skipped => "skipped",
        }
    }
}

impl From<rule::Items> for StepItems {
    fn from(rule::Items { total, succeeded, failed }: rule::Items) -> StepItems {
        StepItems { total, succeeded, failed }
    }
}

impl From<&rule::ByHand> for ByHand {
    fn from(given: &rule::ByHand) -> ByHand {
        let by = given.by.as_deref().map(str::to_owned);
        ByHand { by, at: Text(given.at), comment: given.comment.to_string() }
    }
}

impl ByHand {
    /// In words: `by ops: the bank is closed`.
    pub fn told(&self) -> String {
        let by = self.by.as_deref().map_or("by hand".to_owned(), |by| format!("by {by}"));
        if self.comment.is_empty() { by } else { format!("{by}: {}", self.comment) }
    }
}

impl Comment {
    pub fn into_core(self) -> Result<Box<str>, Error> {
        if self.comment.len() > COMMENT_BYTES_MAX {
            let message = format!("has {} bytes, at most {COMMENT_BYTES_MAX}", self.comment.len());
            return Err(Error::invalid("comment", message));
        }
        Ok(self.comment.into())
    }
}
