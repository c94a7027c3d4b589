//! `punctual node`: nodes and workers, and how busy they are.

use clap::Subcommand;

use super::Session;
use super::failure::Failure;
use super::output::text;

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// List the nodes
    #[command(after_help = "Example:\n  punctual node list -o json")]
    List,
    /// List the workers
    #[command(after_help = "Example:\n  punctual node workers")]
    Workers,
}

impl Verb {
    pub(crate) async fn run(self, session: &Session) -> Result<(), Failure> {
        match self {
            Verb::List => list(session).await,
            Verb::Workers => workers(session).await,
        }
    }
}

async fn list(session: &Session) -> Result<(), Failure> {
    let nodes = session.client.nodes().await?.items;
    session.output.show(&nodes, |output| {
        let mut table = output
            .table(&["NODE", "STATE", "ROLES", "VERSION", "LOAD", "SHARDS", "LIVE", "READY", "RUNNING"]);
        for node in &nodes {
            let state = match (&node.lost_at, &node.failed, node.ready) {
                (Some(at), ..) => format!("lost at {at}"),
                (None, Some(why), _) => format!("failed: {why}"),
                (None, None, true) if node.durability == "relaxed" => "ready, durability relaxed".to_owned(),
                (None, None, true) => "ready".to_owned(),
                (None, None, false) => "not ready".to_owned(),
            };
            let counts = [node.shards, node.live_runs, node.ready_runs, node.running_runs];
            let load = node.load_percent.map_or_else(|| "-".to_owned(), |load| format!("{load}%"));
            let words = [node.name.clone(), state, node.roles.join(","), node.version.clone(), load];
            table.add_row(words.into_iter().chain(counts.map(|count| count.to_string())));
        }
        text(table)
    })
}

async fn workers(session: &Session) -> Result<(), Failure> {
    let workers = session.client.workers().await?.items;
    session.output.show(&workers, |output| {
        let mut table =
            output.table(&["WORKER", "STATE", "NODES", "SLOTS", "BUSY", "CPU", "MEMORY", "LABELS"]);
        for worker in &workers {
            let counts = [worker.slots, worker.busy].map(|count| count.to_string());
            let load = [worker.cpu_percent, worker.memory_percent]
                .map(|share| share.map_or_else(|| "-".to_owned(), |share| format!("{share}%")));
            let labels: Vec<String> =
                worker.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
            let state = if worker.lost { "lost" } else { "ready" }.to_owned();
            let words =
                [worker.name.clone(), state, worker.nodes.join(",")].into_iter().chain(counts).chain(load);
            table.add_row(words.chain([labels.join(",")]));
        }
        text(table)
    })
}
