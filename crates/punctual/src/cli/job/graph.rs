//! `punctual job graph`: checks the workflow of a file and draws it.

mod draw;

use std::collections::HashMap;
use std::path::PathBuf;

use clap::Args;
use comfy_table::Cell;
use punctual_core::name::{Name, Namespace};
use punctual_core::workflow::Rule;
use punctual_wire::job_file::{self, WorkflowDraft};
use punctual_wire::rest;

use crate::cli::failure::{Exit, Failure};
use crate::cli::output::{Output, one_line, print, text};
use crate::cli::sources::sources;
use crate::cli::{Format, Session};

pub(super) const EXAMPLES: &str = "\
Examples:
  punctual job graph nightly.yaml
  punctual job graph nightly.yaml -o dot | dot -Tsvg > nightly.svg
  punctual job graph flows.yaml --job nightly -o mermaid

The formats are table, json, yaml, dot and mermaid. A workflow is a job with `task: { workflow: { steps: … } }`.";

#[derive(Debug, Args)]
pub(crate) struct Graph {
    /// A file with a workflow, `-` for stdin
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The workflow to draw, if the file has several
    #[arg(long, value_name = "NAME")]
    job: Option<Name>,
}

impl Graph {
    pub(crate) fn run(self, session: &Session) -> Result<(), Failure> {
        let draft = self.read(&session.namespace)?;
        let graph = rest::Graph::of(&draft.namespace, Some(&draft.name), &draft.workflow)
            .map_err(|error| Failure::new(Exit::Refused, error))?;
        draw(session, &graph, |output| table(&graph, output))
    }

    fn read(&self, namespace: &Namespace) -> Result<WorkflowDraft, Failure> {
        let (mut drafts, mut mistakes) = (Vec::new(), Vec::new());
        for source in sources(std::iter::once(&self.file))? {
            match job_file::read_workflows(&source.text()?, namespace) {
                Ok(read) => drafts.extend(read),
                Err(errors) => mistakes.extend(errors.iter().map(|error| format!("{source}: {error}"))),
            }
        }
        if !mistakes.is_empty() {
            return Err(Failure::all(Exit::Refused, mistakes));
        }
        let names: Vec<String> = drafts.iter().map(|draft| draft.name.to_string()).collect();
        drafts.retain(|draft| self.job.as_ref().is_none_or(|job| *job == draft.name));
        let file = self.file.display();
        match (drafts.pop(), drafts.is_empty(), &self.job) {
            (Some(draft), true, _) => Ok(draft),
            (Some(_), false, _) => {
                let message = format!("{file} has several workflows: {}", names.join(", "));
                Err(Failure::new(Exit::Usage, message).hint("choose one with `--job NAME`"))
            }
            (None, _, Some(job)) if !names.is_empty() => {
                let message = format!("{file} has no workflow `{job}`");
                Err(Failure::new(Exit::NotFound, message).hint(format!("it has {}", names.join(", "))))
            }
            (None, ..) => Err(Failure::new(Exit::NotFound, format!("there is no workflow in {file}"))
                .hint("a workflow is a job with `task: { workflow: { steps: … } }`")),
        }
    }
}

/// Prints a graph in the format that the user chose.
pub(crate) fn draw(
    session: &Session,
    graph: &rest::Graph,
    table: impl FnOnce(Output) -> String,
) -> Result<(), Failure> {
    match session.output.format() {
        Format::Dot => print(&draw::dot(graph)),
        Format::Mermaid => print(&draw::mermaid(graph)),
        Format::Table | Format::Json | Format::Yaml => session.output.show(graph, table),
    }
}

/// The steps that each step needs, for a table.
pub(crate) struct Needs<'a>(HashMap<&'a str, Vec<&'a str>>);

impl<'a> Needs<'a> {
    pub(crate) fn of(graph: &'a rest::Graph) -> Needs<'a> {
        let mut needs: HashMap<&str, Vec<&str>> = HashMap::new();
        for edge in &graph.edges {
            needs.entry(&edge.to).or_default().push(edge.from.rsplit('/').next().unwrap_or_default());
        }
        Needs(needs)
    }

    /// Their names, without that of the sub-workflow, which the step itself shows.
    pub(crate) fn told(&self, node: &rest::GraphNode) -> String {
        let needs = self.0.get(node.step.as_str()).map_or("-".to_owned(), |needs| needs.join(", "));
        one_line(&needs, 60)
    }
}

fn table(graph: &rest::Graph, output: Output) -> String {
    let mut table = output.table(&["LEVEL", "STEP", "KIND", "NEEDS", "STARTS"]).sparing(&["LEVEL", "KIND"]);
    let needs = Needs::of(graph);
    for node in &graph.nodes {
        table.add_row([
            Cell::new(if node.finally { "finally".to_owned() } else { node.level.to_string() }),
            Cell::new(&node.step),
            Cell::new(&node.kind),
            Cell::new(needs.told(node)),
            Cell::new(one_line(&starts(node).join(", "), 100)),
        ]);
    }
    let count = |count: usize, word: &str| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
    let (steps, edges) = (count(graph.nodes.len(), "step"), count(graph.edges.len(), "edge"));
    let depth = graph.depth();
    let job = graph.job.as_ref().map_or("", Name::as_str);
    format!("{}/{job}: {steps}, {edges}, depth {depth}\n\n{}", graph.namespace, text(table))
}

/// When and how often a step starts, as far as it is not the default.
fn starts(node: &rest::GraphNode) -> Vec<String> {
    let rule = (node.rule != Rule::default().as_str()).then(|| format!("if {}", node.rule));
    let when = node.when.as_ref().map(|when| format!("when {when}"));
    let map = node.map.as_ref().map(|map| format!("for each of {map}"));
    let parallel = node.parallel.map(|most| format!("{most} at once"));
    [rule, when, map, parallel].into_iter().flatten().collect()
}
