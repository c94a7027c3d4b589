//! A graph in the languages of Graphviz and Mermaid.
//!
//! Steps of `finally` have a dashed border. A dashed arrow leads from a sub-workflow to its first steps.

use std::collections::HashMap;
use std::fmt::Write as _;

use punctual_core::name::Name;
use punctual_wire::rest::{Graph, GraphNode, StepState};

use super::starts;
use crate::cli::output::one_line;

/// Characters of a line in a box.
const LINE_MAX: usize = 60;

pub(super) fn dot(graph: &Graph) -> String {
    let name = graph.job.as_ref().map_or("workflow", Name::as_str);
    let mut out = format!("digraph \"{name}\" {{\n  rankdir=LR;\n  node [shape=box];\n");
    for (index, node) in graph.nodes.iter().enumerate() {
        let escaped = |line: String| line.replace('\\', "\\\\").replace('"', "\\\"");
        let label: Vec<String> = lines(node).into_iter().map(escaped).collect();
        let style = if node.finally { ", style=dashed" } else { "" };
        let _ = writeln!(out, "  n{index} [label=\"{}\"{style}];", label.join("\\n"));
    }
    for (from, to, is_inner) in arrows(graph) {
        let style = if is_inner { " [style=dashed]" } else { "" };
        let _ = writeln!(out, "  n{from} -> n{to}{style};");
    }
    out.push_str("}\n");
    out
}

pub(super) fn mermaid(graph: &Graph) -> String {
    let mut out = "flowchart LR\n".to_owned();
    for (index, node) in graph.nodes.iter().enumerate() {
        let escaped = |line: String| {
            let line = line.replace('#', "#35;").replace('"', "#quot;");
            line.replace('<', "#lt;").replace('>', "#gt;")
        };
        let label: Vec<String> = lines(node).into_iter().map(escaped).collect();
        let _ = writeln!(out, "  n{index}[\"{}\"]", label.join("<br>"));
    }
    for (from, to, is_inner) in arrows(graph) {
        let arrow = if is_inner { "-.->" } else { "-->" };
        let _ = writeln!(out, "  n{from} {arrow} n{to}");
    }
    let finally = graph.nodes.iter().enumerate().filter(|(_, node)| node.finally);
    let finally: Vec<String> = finally.map(|(index, _)| format!("n{index}")).collect();
    if !finally.is_empty() {
        let _ =
            writeln!(out, "  classDef finally stroke-dasharray: 4\n  class {} finally", finally.join(","));
    }
    out
}

/// What stands in the box of a step.
fn lines(node: &GraphNode) -> Vec<String> {
    let mut lines = vec![node.step.clone(), node.kind.clone()];
    lines.extend(node.state.map(|state| StepState::as_str(state).to_owned()));
    lines.extend(starts(node).iter().map(|line| one_line(line, LINE_MAX)));
    lines
}

/// From and to, by index, and whether the arrow leads into a sub-workflow.
fn arrows(graph: &Graph) -> Vec<(usize, usize, bool)> {
    let index: HashMap<&str, usize> =
        graph.nodes.iter().enumerate().map(|(index, node)| (node.step.as_str(), index)).collect();
    let find = |step: &str| index.get(step).copied();
    let needs = graph.edges.iter().filter_map(|edge| Some((find(&edge.from)?, find(&edge.to)?, false)));
    let inner = graph.nodes.iter().enumerate().filter_map(|(to, node)| {
        let parent = node.parent.as_deref().filter(|_| node.level == 1)?;
        Some((find(parent)?, to, true))
    });
    needs.chain(inner).collect()
}

#[cfg(test)]
mod tests {
    use punctual_core::name::Namespace;
    use punctual_wire::job_file;

    use super::*;

    const FILE: &str = r#"
name: nightly
task:
  workflow:
    steps:
      load: { task: { shell: ./load }, map: "params.tables", parallel: 5 }
      alarm: { needs: [load], rule: any_failed, task: { shell: ./alarm } }
      settle: { needs: [load], when: 'steps.load.error != "a\b"', task: { workflow: { steps: { book: { job: book } } } } }
    finally: { clean: { task: { noop: {} } } }
"#;

    fn graph() -> Graph {
        let drafts = job_file::read_workflows(FILE, &Namespace::default()).unwrap();
        Graph::of(&drafts[0].namespace, Some(&drafts[0].name), &drafts[0].workflow).unwrap()
    }

    #[test]
    fn a_graph_is_drawn_for_graphviz() {
        let expected = r#"digraph "nightly" {
  rankdir=LR;
  node [shape=box];
  n0 [label="load\nshell\nfor each of params.tables\n5 at once"];
  n1 [label="alarm\nshell\nif any_failed"];
  n2 [label="settle\nworkflow\nwhen steps.load.error != \"a\\b\""];
  n3 [label="settle/book\njob"];
  n4 [label="clean\nnoop", style=dashed];
  n0 -> n1;
  n0 -> n2;
  n2 -> n3 [style=dashed];
}
"#;
        assert_eq!(dot(&graph()), expected);
    }

    #[test]
    fn a_graph_is_drawn_for_mermaid() {
        let expected = r##"flowchart LR
  n0["load<br>shell<br>for each of params.tables<br>5 at once"]
  n1["alarm<br>shell<br>if any_failed"]
  n2["settle<br>workflow<br>when steps.load.error != #quot;a\b#quot;"]
  n3["settle/book<br>job"]
  n4["clean<br>noop"]
  n0 --> n1
  n0 --> n2
  n2 -.-> n3
  classDef finally stroke-dasharray: 4
  class n4 finally
"##;
        assert_eq!(mermaid(&graph()), expected);
    }
}
