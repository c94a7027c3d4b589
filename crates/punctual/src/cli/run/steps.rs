//! The steps of a workflow: `punctual run graph`, and what people decide on them.

use clap::Args;
use comfy_table::Cell;
use punctual_core::ids::RunId;
use punctual_wire::rest::{ByHand, Comment, Graph, GraphNode, StepState};

use crate::cli::failure::Failure;
use crate::cli::job::graph::{self, Needs};
use crate::cli::output::{Output, Tone, one_line, text};
use crate::cli::{Session, time};
use crate::wiring;

#[derive(Debug, Args)]
pub(crate) struct Decide {
    /// The run of the workflow
    pub(super) id: RunId,
    /// The name of the step; `settle/book` is step `book` in the sub-workflow of step `settle`
    pub(super) step: String,
    /// Why; it is recorded with your token's name
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(super) comment: String,
}

#[derive(Debug, Args)]
pub(crate) struct Pause {
    /// The run of the workflow
    id: RunId,
    /// Why; it is recorded with your token's name
    #[arg(long, value_name = "TEXT", default_value = "")]
    comment: String,
}

impl Decide {
    /// Carries out `approve`, `reject`, `skip` or `cancel`; `done` says what became of the step.
    pub(super) async fn run(self, session: &Session, decision: &str, done: &str) -> Result<(), Failure> {
        let Decide { id, step, comment } = self;
        let comment = Comment { comment };
        let run = session.client.decide_step(&session.namespace, id, &step, decision, &comment).await?;
        session.output.show(&run, |_| format!("{done} step {step} of run {id}"))
    }
}

impl Pause {
    pub(super) async fn run(self, session: &Session) -> Result<(), Failure> {
        let (id, comment) = (self.id, Comment { comment: self.comment });
        let run = session.client.pause_run(&session.namespace, id, &comment).await?;
        session.output.show(&run, |_| {
            format!("paused {id}: no further step starts; `punctual run resume {id}` continues it")
        })
    }
}

pub(super) async fn resume(session: &Session, at: Pause) -> Result<(), Failure> {
    let (id, comment) = (at.id, Comment { comment: at.comment });
    let run = session.client.resume_run(&session.namespace, id, &comment).await?;
    session.output.show(&run, |_| format!("resumed {id}"))
}

/// The whole graph of a workflow's run.
pub(super) async fn read(session: &Session, run: RunId) -> Result<Graph, Failure> {
    let mut graph = session.client.run_graph(&session.namespace, run, None).await?;
    while let Some(after) = graph.next.take() {
        let page = session.client.run_graph(&session.namespace, run, Some(&after)).await?;
        graph.nodes.extend(page.nodes);
        graph.edges.extend(page.edges);
        graph.next = page.next;
    }
    Ok(graph)
}

pub(super) async fn show(session: &Session, run: RunId) -> Result<(), Failure> {
    let graph = read(session, run).await?;
    graph::draw(session, &graph, |output| table(output, &graph))
}

/// A row for each step, in the order of the graph.
pub(super) fn table(output: Output, graph: &Graph) -> String {
    let now = wiring::now();
    let mut table = output
        .table(&["LEVEL", "STEP", "KIND", "NEEDS", "STATE", "WAITED", "TOOK", "RUN", "WHY"])
        .sparing(&["LEVEL", "KIND", "WAITED", "NEEDS"]);
    let needs = Needs::of(graph);
    for node in &graph.nodes {
        let took = |from: Option<_>, to: Option<_>| match (from, to) {
            (Some(from), Some(to)) => time::took(from, to),
            _ => "-".to_owned(),
        };
        let (decided, started) = (node.decided_at.map(|at| at.0), node.started_at.map(|at| at.0));
        let ended = node.ended_at.map_or(now, |at| at.0);
        table.add_row([
            Cell::new(if node.finally { "finally".to_owned() } else { node.level.to_string() }),
            Cell::new(&node.step),
            Cell::new(&node.kind),
            Cell::new(needs.told(node)),
            output.word(state(node), tone(node.state)),
            Cell::new(took(decided.filter(|_| node.run.is_some()), started)),
            Cell::new(took(started.or(decided.filter(|_| node.run.is_none())), Some(ended))),
            Cell::new(node.run.map_or("-".to_owned(), |run| run.to_string())),
            Cell::new(one_line(&why(node, now), 100)),
        ]);
    }
    text(table)
}

/// The state; of a step with `map` also how many items have ended.
fn state(node: &GraphNode) -> String {
    let word = node.state.map_or("-", StepState::as_str);
    match node.items {
        Some(items) => format!("{word} {}/{}", items.succeeded + items.failed, items.total),
        None => word.to_owned(),
    }
}

fn why(node: &GraphNode, now: punctual_core::Timestamp) -> String {
    let until = node.until.filter(|_| node.state == Some(StepState::Active));
    let until = until.map(|at| format!("until {}", time::both(at.0, now)));
    let by_hand = node.by_hand.as_ref().map(ByHand::told);
    let told = [
        node.reason.clone(),
        node.error.clone().filter(|error| node.reason.as_ref() != Some(error)),
        until,
        by_hand,
    ];
    told.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

fn tone(state: Option<StepState>) -> Tone {
    match state {
        Some(StepState::Succeeded) => Tone::Good,
        Some(StepState::Failed) => Tone::Bad,
        Some(StepState::Active) => Tone::Active,
        Some(StepState::Skipped) => Tone::Odd,
        Some(StepState::Open) | None => Tone::Plain,
    }
}
