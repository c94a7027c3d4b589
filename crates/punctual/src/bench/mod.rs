//! `punctual bench`: measures the speed of Punctual on this machine.
//!
//! Every measurement uses durable commits on a real disk, with the load generator on the same cores. Each
//! stands beside a baseline measured in the same run, because a machine's speed varies.

mod data_folder;
mod member;
mod remote_worker;
mod load;
mod bare;
mod statistics;
mod runs;
mod remote;
mod slots;
mod lateness;
mod fires;
mod herd;
mod server;
mod jobs;
mod progress;
mod workflow;
mod shares;

use clap::Subcommand;
use serde::Serialize;

use crate::cli::failure::{Exit, Failure};
use crate::cli::output::Output;

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// No-op runs from submit to history, beside a bare writer of the same rows
    #[command(
        after_help = "Examples:\n  punctual bench runs\n  punctual bench runs --count 200000 -o json\n  punctual bench runs --prune\n  punctual bench runs --store postgres://punctual@localhost/bench --nodes 2"
    )]
    Runs(runs::Runs),
    /// Runs through a worker over the network: how many, how soon they start, and four slots shared by three nodes
    #[command(
        after_help = "Examples:\n  punctual bench remote\n  punctual bench remote --count 100000 --rate 1000 --seconds 10"
    )]
    Remote(remote::Remote),
    /// How late jobs start, spread over the second and all on the second
    #[command(after_help = "Examples:\n  punctual bench lateness --jobs 1000 --every 1s --seconds 30")]
    Lateness(lateness::Lateness),
    /// So many fires a second: how soon after its due time each run is made, and how many within a second
    #[command(after_help = "Examples:\n  punctual bench fires --rate 10000 --seconds 10")]
    Fires(fires::Fires),
    /// Many jobs due in one instant: how long until all are made and started, and what REST feels of it
    #[command(after_help = "Examples:\n  punctual bench herd --jobs 100000")]
    Herd(herd::Herd),
    /// Many stored cron jobs: how fast they are created, and what a restart and idling cost
    #[command(after_help = "Examples:\n  punctual bench jobs --count 1000000")]
    Jobs(jobs::Jobs),
    /// Progress reports of running attempts: the processor time and commits that they cost, and how soon they are seen
    #[command(after_help = "Examples:\n  punctual bench progress --attempts 100 --rate 1000 -o json")]
    Progress(progress::Progress),
    /// Workflows of no-op steps: how soon a step follows another, and a chain, a fan-out and a map beside plain runs
    #[command(
        after_help = "Examples:\n  punctual bench workflow --chain 1000 --fan 5000 --map 10000 -o json\n  punctual bench workflow --store postgres://punctual@localhost/bench"
    )]
    Workflow(workflow::Workflow),
    /// What a small namespace feels of a flood in another one, and how exact the weights of two keys are
    #[command(after_help = "Examples:\n  punctual bench shares --count 100000 -o json")]
    Shares(shares::Shares),
}

impl Verb {
    pub(crate) async fn run(self, output: Output) -> Result<(), Failure> {
        let failed = |error: anyhow::Error| Failure::new(Exit::Failed, format!("{error:#}"));
        match self {
            Verb::Runs(bench) => show(output, &bench.run().await.map_err(failed)?),
            Verb::Remote(bench) => show(output, &bench.run().await.map_err(failed)?),
            Verb::Lateness(bench) => show(output, &bench.run().await.map_err(failed)?),
            Verb::Fires(bench) => show(output, &bench.run().await.map_err(failed)?),
            Verb::Herd(bench) => show(output, &bench.run().await.map_err(failed)?),
            Verb::Jobs(bench) => show(output, &bench.run().await.map_err(failed)?),
            Verb::Progress(bench) => show(output, &bench.run().await.map_err(failed)?),
            Verb::Workflow(bench) => show(output, &bench.run().await.map_err(failed)?),
            Verb::Shares(bench) => show(output, &bench.run().await.map_err(failed)?),
        }
    }
}

/// The result of a benchmark: an object for programs, and lines for people.
trait Found: Serialize {
    fn lines(&self) -> Vec<(&'static str, String)>;
}

fn show(output: Output, found: &impl Found) -> Result<(), Failure> {
    output.show(found, |output| {
        let mut table = output.table(&["WHAT", "MEASURED"]);
        for (what, measured) in found.lines() {
            table.add_row([what.to_owned(), measured]);
        }
        table.text()
    })
}
