//! The graph of a workflow: its steps, and which of them need which.

use punctual_core::job::Invalid;
use punctual_core::name::{Name, Namespace};
use punctual_core::workflow::{self as rule, Work};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Graph {
    pub namespace: Namespace,
    pub job: Name,
    /// Each step after all that it needs; the steps of a sub-workflow come after its own step.
    pub nodes: Vec<GraphNode>,
    pub edges: Vec<GraphEdge>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GraphNode {
    /// The name of the step; in a sub-workflow the name of its step before it: `settle/book`.
    pub step: String,
    /// The step whose sub-workflow it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The kind of its task, or `job`, `wait`, `approve` or `workflow`.
    pub kind: String,
    /// 1 for a step that needs no other; else one more than the highest level of those that it needs.
    pub level: usize,
    pub finally: bool,
    pub rule: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub map: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallel: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GraphEdge {
    /// The step that is needed.
    pub from: String,
    pub to: String,
}

impl Graph {
    pub fn of(namespace: &Namespace, job: &Name, workflow: &rule::Workflow) -> Result<Graph, Invalid> {
        let (namespace, job) = (namespace.clone(), job.clone());
        let mut graph = Graph { namespace, job, nodes: Vec::new(), edges: Vec::new() };
        graph.add(workflow, None)?;
        Ok(graph)
    }

    /// Adds the steps of a workflow. It calls itself for each level of sub-workflows, of which there are few.
    fn add(&mut self, workflow: &rule::Workflow, parent: Option<&str>) -> Result<(), Invalid> {
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
            self.edges
                .extend(node.needs.iter().map(|needed| GraphEdge { from: path(*needed), to: to.clone() }));
            self.nodes.push(GraphNode {
                step: to.clone(),
                parent: parent.map(str::to_owned),
                kind: step.work.word().to_owned(),
                level: node.level,
                finally: graph.is_finally(index),
                rule: step.rule.as_str().to_owned(),
                when: step.when.clone(),
                map: step.map.as_ref().map(|map| map.over.clone()),
                parallel: step.map.as_ref().and_then(|map| map.parallel),
            });
            if let Work::Workflow(inner) = &step.work {
                self.add(inner, Some(&to))?;
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
