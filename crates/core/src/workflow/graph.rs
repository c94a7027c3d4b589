//! A workflow with every name resolved: which step needs which, and on which level it is.

use std::collections::{HashMap, HashSet};

use super::{Rule, Workflow};
use crate::invalid::Invalid;
use crate::limits::WORKFLOW_DEPTH_MAX;
use crate::name::Name;

/// Names that an error lists at most.
const LISTED_MAX: usize = 8;

/// A graph without a cycle. Steps are named by their index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Graph {
    nodes: Vec<Node>,
    /// How many of them are steps. The rest are steps of `finally`.
    steps: usize,
    /// Every step after all that it needs.
    order: Vec<usize>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Node {
    /// The steps that it needs, also those whose `switch` lists it.
    pub needs: Vec<usize>,
    /// The steps that need it.
    pub followers: Vec<usize>,
    pub rule: Rule,
    /// 1 for a step that needs no other; else one more than the highest level of those that it needs.
    pub level: usize,
}

impl Graph {
    /// Refuses names that are unknown or given twice, steps that could never start, cycles, and chains that are too
    /// long. The field of an error is a path in the workflow.
    pub fn of(workflow: &Workflow) -> Result<Graph, Invalid> {
        let names = names(workflow)?;
        let steps = workflow.steps.len();
        let mut nodes = Vec::with_capacity(names.len());
        for (index, step) in workflow.all().enumerate() {
            let mut needs = Vec::with_capacity(step.needs.len());
            let mut seen = HashSet::with_capacity(step.needs.len());
            for (at, name) in step.needs.iter().enumerate() {
                let field = || workflow.field(index, &format!("needs[{at}]"));
                let needed = find(&names, name).map_err(|message| Invalid::new(field(), message))?;
                if !seen.insert(needed) {
                    return Err(Invalid::new(field(), format!("`{name}` is given twice")));
                }
                needs.push(needed);
            }
            nodes.push(Node { needs, rule: step.rule, ..Node::default() });
        }
        add_switches(workflow, &names, &mut nodes)?;
        for (index, node) in nodes.iter().enumerate() {
            if let Some((field, message)) = unreachable(workflow, index, node, steps) {
                return Err(Invalid::new(workflow.field(index, field), message));
            }
        }
        for index in 0..nodes.len() {
            for needed in nodes[index].needs.clone() {
                nodes[needed].followers.push(index);
            }
        }
        let mut graph = Graph { nodes, steps, order: Vec::new() };
        graph.sort(workflow)?;
        Ok(graph)
    }

    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Whether a step belongs to `finally`.
    pub fn is_finally(&self, step: usize) -> bool {
        step >= self.steps
    }

    /// How many steps there are without those of `finally`.
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// The steps, each after all that it needs.
    pub fn order(&self) -> &[usize] {
        &self.order
    }

    pub fn edges(&self) -> usize {
        self.nodes.iter().map(|node| node.needs.len()).sum()
    }

    pub fn depth(&self) -> usize {
        self.nodes.iter().map(|node| node.level).max().unwrap_or(0)
    }

    /// Sets the order and the levels by Kahn's algorithm.
    fn sort(&mut self, workflow: &Workflow) -> Result<(), Invalid> {
        let mut open: Vec<usize> = self.nodes.iter().map(|node| node.needs.len()).collect();
        let ready = |steps: std::ops::Range<usize>, open: &[usize]| {
            steps.filter(|step| open[*step] == 0).collect::<Vec<usize>>()
        };
        // A step of `finally` comes after all steps, also those that it does not need.
        let mut next = ready(0..self.steps, &open);
        let mut lowest = 1;
        for part in [0..self.steps, self.steps..self.nodes.len()] {
            if part.start == self.steps {
                lowest = self.depth() + 1;
                next = ready(part.clone(), &open);
            }
            let mut at = 0;
            while let Some(step) = next.get(at).copied() {
                at += 1;
                let above = self.nodes[step].needs.iter().map(|needed| self.nodes[*needed].level).max();
                let level = above.map_or(lowest, |above| (above + 1).max(lowest));
                if level > WORKFLOW_DEPTH_MAX {
                    let message = format!("a chain of more than {WORKFLOW_DEPTH_MAX} steps ends here");
                    return Err(Invalid::new(workflow.field(step, "needs"), message));
                }
                self.nodes[step].level = level;
                for follower in &self.nodes[step].followers {
                    open[*follower] -= 1;
                    if open[*follower] == 0 && part.contains(follower) {
                        next.push(*follower);
                    }
                }
            }
            if next.len() < part.len() {
                return Err(self.cycle(workflow, part, &open));
            }
            self.order.append(&mut next);
        }
        Ok(())
    }

    /// A cycle among the steps that still wait for another one.
    fn cycle(&self, workflow: &Workflow, part: std::ops::Range<usize>, open: &[usize]) -> Invalid {
        let waits = |step: &usize| open[*step] > 0;
        let mut path = Vec::new();
        let mut seen = HashMap::new();
        let mut next = part.clone().find(waits);
        // Each step that waits needs another one that waits, so the path comes back to itself.
        while let Some(step) = next.filter(|step| !seen.contains_key(step)) {
            seen.insert(step, path.len());
            path.push(step);
            next =
                self.nodes[step].needs.iter().copied().find(|needed| part.contains(needed) && waits(needed));
        }
        let from = next.and_then(|step| seen.get(&step).copied()).unwrap_or(0);
        let mut cycle = path.split_off(from);
        // It begins with the step that is written first.
        let first = (0..cycle.len()).min_by_key(|at| cycle[*at]).unwrap_or(0);
        cycle.rotate_left(first);
        let begin = cycle.first().copied().unwrap_or(part.start);
        let named: Vec<&str> = cycle.iter().map(|step| name_of(workflow, *step)).collect();
        let message = match &named[..] {
            [_] => "a step cannot need itself".to_owned(),
            _ => format!("these steps need each other in a cycle: {} → {}", listed(&named, " → "), named[0]),
        };
        Invalid::new(workflow.field(begin, "needs"), message)
    }
}

fn name_of(workflow: &Workflow, step: usize) -> &str {
    workflow.step(step).map_or("", |step| step.name.as_str())
}

/// Names for an error; the middle of a long list is left out.
fn listed(names: &[&str], between: &str) -> String {
    if names.len() <= LISTED_MAX {
        return names.join(between);
    }
    let half = LISTED_MAX / 2;
    let (head, tail) = (&names[..half], &names[names.len() - half..]);
    let left_out = names.len() - LISTED_MAX;
    format!("{}{between}({left_out} more){between}{}", head.join(between), tail.join(between))
}

/// The index of each step.
pub(super) fn names(workflow: &Workflow) -> Result<HashMap<&str, usize>, Invalid> {
    let mut names = HashMap::new();
    for (index, step) in workflow.all().enumerate() {
        let name = step.name.as_str();
        if name.contains('.') {
            let message = "the name of a step has no dot, because `steps.NAME.output` has one after it";
            return Err(Invalid::new(workflow.field(index, ""), message));
        }
        if names.insert(name, index).is_some() {
            let message = format!("another step is named `{name}` too; rename one of them");
            return Err(Invalid::new(workflow.field(index, ""), message));
        }
    }
    Ok(names)
}

pub(super) fn find(names: &HashMap<&str, usize>, name: &Name) -> Result<usize, String> {
    names.get(name.as_str()).copied().ok_or_else(|| {
        let mut known: Vec<(usize, &str)> = names.iter().map(|(name, index)| (*index, *name)).collect();
        known.sort_unstable();
        let known: Vec<&str> = known.into_iter().map(|(_, name)| name).collect();
        format!("no step is named `{name}`; the steps are {}", listed(&known, ", "))
    })
}

/// A step that a switch lists needs the step of the switch.
fn add_switches(
    workflow: &Workflow,
    names: &HashMap<&str, usize>,
    nodes: &mut [Node],
) -> Result<(), Invalid> {
    for (index, step) in workflow.all().enumerate() {
        let Some(switch) = &step.switch else { continue };
        let mut listed = HashSet::new();
        for (field, name) in switch.targets() {
            let target =
                find(names, name).map_err(|message| Invalid::new(workflow.field(index, &field), message))?;
            if target == index {
                let message = "a switch lists steps that come after it, not its own step";
                return Err(Invalid::new(workflow.field(index, &field), message));
            }
            if listed.insert(target) && !nodes[target].needs.contains(&index) {
                nodes[target].needs.push(index);
            }
        }
    }
    Ok(())
}

/// Why a step could never start, and the field that says so.
fn unreachable(
    workflow: &Workflow,
    index: usize,
    node: &Node,
    steps: usize,
) -> Option<(&'static str, String)> {
    if node.needs.is_empty() && matches!(node.rule, Rule::AnySucceeded | Rule::AnyFailed) {
        let message = format!("`{}` never holds for a step that needs no other", node.rule.as_str());
        return Some(("rule", message));
    }
    let after_all = node.needs.iter().find(|needed| index < steps && **needed >= steps)?;
    let name = name_of(workflow, *after_all);
    let message = format!("could never start: `{name}` is in `finally`, which comes after all steps");
    Some(("needs", message))
}
