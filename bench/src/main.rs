//! Measures a queue over the Redis protocol: any server that speaks Disque's commands, or those of
//! Redis's streams, ours or another beside it.
//!
//! One thread a connection, blocking: on a small machine the client takes its share of the cores, so it does as
//! little as it can.

mod client;
mod dialect;
mod throughput;
mod latency;
mod fill;

use std::time::Duration;

use anyhow::Result;
use clap::Parser;
use serde::Serialize;

#[derive(Debug, Parser)]
#[command(
    about = "How many jobs a second pass through a queue over the Redis protocol, and how soon a waiting consumer has one",
    after_help = "Examples:\n  resp-load --address 127.0.0.1:7711\n  resp-load --address 127.0.0.1:7711 --pipeline 1 --jobs 50000\n  resp-load --fill 10000000                     what memory ten million jobs need\n  resp-load --address 127.0.0.1:6379 --dialect streams    Redis's streams, for comparison"
)]
struct Options {
    /// Where the server listens
    #[arg(long, env = "RESP_ADDRESS", default_value = "127.0.0.1:7711")]
    address: String,
    /// What the server understands
    #[arg(long, default_value = "disque")]
    dialect: dialect::Dialect,
    /// What to authenticate with
    #[arg(long, env = "RESP_PASSWORD", hide_env_values = true)]
    password: Option<String>,
    /// Jobs to add, get and acknowledge
    #[arg(long, default_value_t = 400_000)]
    jobs: u64,
    /// Connections, each with a queue of its own unless `--queues` says otherwise
    #[arg(long, default_value_t = 8)]
    connections: u32,
    /// Queues that the connections share
    #[arg(long, default_value_t = 8)]
    queues: u32,
    /// ADDJOBs that are sent before their answers are read
    #[arg(long, default_value_t = 16)]
    pipeline: u32,
    /// Jobs that one GETJOB asks for
    #[arg(long, default_value_t = 100)]
    count: u32,
    /// Bytes of a body
    #[arg(long, default_value_t = 100)]
    body: usize,
    /// Jobs whose way from ADDJOB to a waiting GETJOB is timed; 0: none
    #[arg(long, default_value_t = 5_000)]
    timed: u32,
    /// Between two timed jobs
    #[arg(long, default_value_t = 500)]
    rest_us: u64,
    /// Instead: add so many jobs that stay, and see what memory the server needs for them
    #[arg(long, value_name = "JOBS")]
    fill: Option<u64>,
    /// `table` or `json`
    #[arg(short, long, default_value = "table")]
    output: Output,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Output {
    Table,
    Json,
}

#[derive(Debug, Serialize)]
struct Measured {
    jobs: u64,
    connections: u32,
    pipeline: u32,
    jobs_per_second: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    latency: Option<latency::Latency>,
}

fn main() -> Result<()> {
    let options = Options::parse();
    if let Some(jobs) = options.fill {
        let filled = fill::measure(&options, jobs)?;
        match options.output {
            Output::Json => println!("{}", serde_json::to_string(&filled)?),
            Output::Table => filled.show(),
        }
        return Ok(());
    }
    let jobs_per_second = throughput::measure(&options)?;
    let latency = match options.timed {
        0 => None,
        timed => Some(latency::measure(&options, timed, Duration::from_micros(options.rest_us))?),
    };
    let Options { jobs, connections, pipeline, .. } = options;
    let measured = Measured { jobs, connections, pipeline, jobs_per_second, latency };
    match options.output {
        Output::Json => println!("{}", serde_json::to_string(&measured)?),
        Output::Table => show(&measured),
    }
    Ok(())
}

fn show(measured: &Measured) {
    let Measured { jobs, connections, pipeline, jobs_per_second, latency } = measured;
    println!("{jobs} jobs over {connections} connections, pipeline {pipeline}");
    println!("add, get and ack     {jobs_per_second:>10.0} jobs/s");
    if let Some(latency) = latency {
        println!("add to waiting get   {:>10.2} ms p50", latency.p50_ms);
        println!("                     {:>10.2} ms p99", latency.p99_ms);
        println!("                     {:>10.2} ms at most", latency.max_ms);
    }
}
