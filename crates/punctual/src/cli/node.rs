//! `punctual node`: nodes and workers, and how busy they are.

use std::time::Duration;

use clap::Subcommand;
use punctual_wire::rest::Worker;

use super::Session;
use super::failure::Failure;
use super::output::{print, text};

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// List the nodes
    #[command(after_help = "Example:\n  punctual node list -o json")]
    List,
    /// List the workers
    #[command(after_help = "Example:\n  punctual node workers")]
    Workers,
    /// Tell a worker to take no more runs. Those that do not end within its --drain move to other workers
    #[command(after_help = "Examples:\n  punctual node drain w1\n  punctual node drain w1 --wait")]
    Drain {
        /// The name of the worker
        worker: String,
        /// Wait until it has no attempts left
        #[arg(long)]
        wait: bool,
    },
    /// Tell a drained worker to take runs again
    #[command(after_help = "Example:\n  punctual node resume w1")]
    Resume {
        /// The name of the worker
        worker: String,
    },
}

/// How often `--wait` looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

impl Verb {
    pub(crate) async fn run(self, session: &Session) -> Result<(), Failure> {
        match self {
            Verb::List => list(session).await,
            Verb::Workers => workers(session).await,
            Verb::Drain { worker, wait } => drain(session, &worker, wait).await,
            Verb::Resume { worker } => {
                session.client.resume_worker(&worker).await?;
                print(&format!("{worker} takes runs again\n"))
            }
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
            let state = match worker {
                Worker { lost: true, .. } => "lost",
                Worker { stuck: true, .. } => "stuck",
                Worker { draining: true, .. } => "draining",
                _ => "ready",
            };
            let state = state.to_owned();
            let words =
                [worker.name.clone(), state, worker.nodes.join(",")].into_iter().chain(counts).chain(load);
            table.add_row(words.chain([labels.join(",")]));
        }
        text(table)
    })
}

async fn drain(session: &Session, name: &str, wait: bool) -> Result<(), Failure> {
    session.client.drain_worker(name).await?;
    let is_it = |worker: &Worker| worker.name == name || worker.name.split('@').next() == Some(name);
    if !wait {
        return print(&format!("{name} takes no more runs\n"));
    }
    loop {
        let workers = session.client.workers().await?.items;
        let mut named = workers.iter().filter(|worker| is_it(worker) && !worker.lost);
        if named.all(|worker| worker.draining && worker.busy == 0) {
            return print(&format!("{name} is drained\n"));
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}
