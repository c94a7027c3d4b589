//! Workflows of no-op steps, every step durable: a chain, a fan-out and a map.
//!
//! The baseline is as many plain no-op runs as the fan-out has steps, measured in the same run. The time from the end of
//! a step to the start of the next one is measured inside the worker, in a chain of functions that do nothing.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use punctual_client::Client;
use punctual_core::command::Expect;
use punctual_core::ids::RunId;
use punctual_core::limits::WORKFLOW_STEPS_MAX;
use punctual_core::name::{Name, Namespace};
use punctual_core::run::Status;
use punctual_node::Handle;
use punctual_wire::job_file::JobFile;
use punctual_wire::rest;
use punctual_worker::function::Functions;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::Found;
use super::data_folder::{DataFolder, Stopwatch};
use super::load::{ended, through};
use super::member::{Member, settle};
use super::server::Server;
use super::statistics::{median, percentile};

/// Two functions: one does nothing, the other returns the items of the map.
const STEP: &str = "step";
const LIST: &str = "list";
const JOB: &str = "bench";
/// How many workflows wait while memory is measured.
const WAITING: usize = 4;
/// A node reads its first pages after it is ready, and its allocator returns memory after some seconds.
const SETTLED: Duration = Duration::from_secs(15);

#[derive(Debug, Args)]
pub(crate) struct Workflow {
    /// Steps of the chain
    #[arg(long, default_value_t = 1000)]
    chain: usize,
    /// Steps of the fan-out, its first and its last step included
    #[arg(long, default_value_t = WORKFLOW_STEPS_MAX)]
    fan: usize,
    /// Items of the map
    #[arg(long, default_value_t = 10_000)]
    map: usize,
    /// How often to measure; the median counts
    #[arg(long, default_value_t = 3)]
    repeat: usize,
    /// Attempts that may be under way at once
    #[arg(long, default_value_t = 2048)]
    slots: usize,
    /// A server to measure, postgres://… or mysql://…: what is written stays there [default: SQLite in a new folder]
    #[arg(long, value_name = "URL", env = "PUNCTUAL_BENCH_STORE", hide_env_values = true)]
    store: Option<String>,
    #[command(flatten)]
    data: DataFolder,
}

#[derive(Debug, Serialize)]
pub(crate) struct Measured {
    /// From the end of a step to the start of the next one.
    step_p50_ms: f64,
    step_p99_ms: f64,
    chain_seconds: f64,
    fan_seconds: f64,
    map_seconds: f64,
    /// As many plain runs as the fan-out has steps.
    runs_seconds: f64,
    /// The fan-out relative to the plain runs.
    fan_ratio: f64,
    /// All versions of the workflow's own row in a chain, as JSON.
    parent_bytes_written: usize,
    /// The check of the fan-out over REST.
    validate_ms: f64,
    /// All pages of its graph over REST.
    graph_ms: f64,
    /// Of a node that was started with workflows whose steps all wait.
    memory_bytes_per_step: f64,
    chain: usize,
    fan: usize,
    map: usize,
}

impl Found for Measured {
    fn lines(&self) -> Vec<(&'static str, String)> {
        vec![
            (
                "end of a step to the next",
                format!("p50 {:.2} ms, p99 {:.2} ms", self.step_p50_ms, self.step_p99_ms),
            ),
            ("chain", format!("{} steps in {:.2} s", self.chain, self.chain_seconds)),
            ("fan-out", format!("{} steps in {:.2} s", self.fan, self.fan_seconds)),
            ("map", format!("{} items in {:.2} s", self.map, self.map_seconds)),
            ("as many plain runs", format!("{:.2} s", self.runs_seconds)),
            ("fan-out to plain runs", format!("{:.2}", self.fan_ratio)),
            ("row of the workflow, in a chain", format!("{} bytes", self.parent_bytes_written)),
            ("check of the fan-out", format!("{:.0} ms", self.validate_ms)),
            ("graph of the fan-out", format!("{:.0} ms", self.graph_ms)),
            ("memory of a step that waits", format!("{:.0} bytes", self.memory_bytes_per_step)),
        ]
    }
}

/// Every measurement, in order.
#[derive(Debug, Default)]
struct Each {
    /// In microseconds, from the end of a step to the start of the next one.
    steps: Vec<i64>,
    chain: Vec<f64>,
    fan: Vec<f64>,
    map: Vec<f64>,
    runs: Vec<f64>,
    validate: Vec<f64>,
    graph: Vec<f64>,
}

impl Workflow {
    pub(crate) async fn run(self) -> anyhow::Result<Measured> {
        let folder = self.data.folder("workflow")?;
        let times = Times::default();
        let functions = self.functions(&times)?;
        let member = Member::start_with(self.store.as_deref(), &folder, self.slots, functions).await?;
        settle(std::slice::from_ref(&member)).await?;
        let client = Client::new(&format!("http://{}", member.endpoint), None)?;
        let bench = Bench { handle: member.handle.clone(), client };
        let mut each = Each::default();
        for _ in 0..self.repeat.max(1) {
            self.measure(&bench, &times, &mut each).await?;
        }
        let (run, _) = bench.start(&chain(self.chain, &noop())).await?;
        let parent_bytes_written = bytes_written(&bench.handle, run).await?;
        member.shut_down().await?;
        let memory_bytes_per_step = self.memory().await?;
        each.steps.sort_unstable();
        let (fan_seconds, runs_seconds) = (median(each.fan), median(each.runs));
        Ok(Measured {
            step_p50_ms: percentile(&each.steps, 50) / 1000.0,
            step_p99_ms: percentile(&each.steps, 99) / 1000.0,
            chain_seconds: median(each.chain),
            fan_seconds,
            map_seconds: median(each.map),
            runs_seconds,
            fan_ratio: fan_seconds / runs_seconds,
            parent_bytes_written,
            validate_ms: 1000.0 * median(each.validate),
            graph_ms: 1000.0 * median(each.graph),
            memory_bytes_per_step,
            chain: self.chain,
            fan: self.fan,
            map: self.map,
        })
    }

    /// What a node needs for each step that waits, its part of the job included. A process of its own is measured.
    #[expect(clippy::cast_precision_loss, reason = "bytes of memory and numbers of steps fit")]
    async fn memory(&self) -> anyhow::Result<f64> {
        let folder = self.data.folder("workflow-memory")?;
        let wait = json!({ "wait": { "for": "1d" } });
        let steps: Map<_, _> = (0..self.fan).map(|at| (format!("s{at}"), wait.clone())).collect();
        let steps = Value::Object(steps);
        let mut server = Server::start(folder.path())?;
        server.client().await?;
        tokio::time::sleep(SETTLED).await;
        let empty = server.allocated_kib()?;
        let (_, client) = server.client().await?;
        let namespace = Namespace::default();
        for number in 0..WAITING {
            let name: Name = format!("{JOB}-{number}").parse()?;
            client.put_job(&namespace, &name, &job(&name, &steps)?, Expect::Anything).await?;
            let run = client.run_job(&namespace, &name, &rest::Start::default()).await?.id.0;
            let waits = |node: &rest::GraphNode| node.state == Some(rest::StepState::Active);
            while !client.run_graph(&namespace, run, None).await?.nodes.iter().all(waits) {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        drop(server);
        let mut server = Server::start(folder.path())?;
        server.client().await?;
        tokio::time::sleep(SETTLED).await;
        let more = server.allocated_kib()?.saturating_sub(empty);
        Ok(1024.0 * more as f64 / (WAITING * self.fan) as f64)
    }

    fn functions(&self, times: &Times) -> anyhow::Result<Functions> {
        let (mut functions, began, times) = (Functions::default(), Stopwatch::start(), Arc::clone(times));
        functions.add(STEP.parse()?, move |_| {
            times.lock().unwrap_or_else(PoisonError::into_inner).push(began.elapsed());
            async { Ok(().into()) }
        });
        let items = json!((0..self.map).collect::<Vec<_>>());
        functions.add(LIST.parse()?, move |_| {
            let items = items.clone();
            async { Ok(items.into()) }
        });
        Ok(functions)
    }

    async fn measure(&self, bench: &Bench, times: &Times, each: &mut Each) -> anyhow::Result<()> {
        bench.through(&chain(self.chain, &json!({ "function": STEP })), self.chain).await?;
        let times = std::mem::take(&mut *times.lock().unwrap_or_else(PoisonError::into_inner));
        let between = times.windows(2).map(|pair| i64::try_from((pair[1] - pair[0]).as_micros()));
        each.steps.extend(between.collect::<Result<Vec<_>, _>>()?);
        each.chain.push(bench.through(&chain(self.chain, &noop()), self.chain).await?.seconds);

        let fan = fan(self.fan);
        each.runs.push(through(std::slice::from_ref(&bench.handle), self.fan).await?);
        let whole = bench.through(&fan, self.fan).await?;
        each.fan.push(whole.seconds);
        each.validate.push(bench.validate(&fan).await?);
        each.graph.push(bench.graph(whole.run, self.fan).await?);

        let map = json!({
            "list": { "task": { "function": LIST } },
            "each": { "needs": ["list"], "map": "steps.list.output", "task": noop() },
        });
        each.map.push(bench.through(&map, self.map + 1).await?.seconds);
        Ok(())
    }
}

/// When each step of a chain of functions was executed.
type Times = Arc<Mutex<Vec<Duration>>>;

fn noop() -> Value {
    json!({ "noop": {} })
}

fn chain(steps: usize, task: &Value) -> Value {
    let needs = |at: usize| at.checked_sub(1).map(|before| vec![format!("s{before}")]);
    let step = |at| (format!("s{at}"), json!({ "needs": needs(at).unwrap_or_default(), "task": task }));
    Value::Object((0..steps).map(step).collect())
}

/// One step, then all others but one at the same time, then the last one.
fn fan(steps: usize) -> Value {
    let branch = |at| (format!("s{at}"), json!({ "needs": ["first"], "task": noop() }));
    let mut fan: Map<_, _> = (0..steps.saturating_sub(2)).map(branch).collect();
    let all: Vec<&String> = fan.keys().collect();
    let last = json!({ "needs": all, "task": noop() });
    fan.extend([("first".to_owned(), json!({ "task": noop() })), ("last".to_owned(), last)]);
    Value::Object(fan)
}

fn job(name: &Name, steps: &Value) -> anyhow::Result<JobFile> {
    Ok(serde_json::from_value(json!({ "name": name, "task": { "workflow": { "steps": steps } } }))?)
}

struct Bench {
    handle: Handle,
    client: Client,
}

/// A workflow that has ended.
struct Whole {
    run: RunId,
    seconds: f64,
}

impl Bench {
    /// Saves the job and starts it. The time counts from the start.
    async fn start(&self, steps: &Value) -> anyhow::Result<(RunId, Stopwatch)> {
        let (namespace, name): (_, Name) = (Namespace::default(), JOB.parse()?);
        self.client.put_job(&namespace, &name, &job(&name, steps)?, Expect::Anything).await?;
        let watch = Stopwatch::start();
        let run = self.client.run_job(&namespace, &name, &rest::Start::default()).await?;
        Ok((run.id.0, watch))
    }

    /// From the start to the last history row, of a workflow whose steps have so many runs.
    async fn through(&self, steps: &Value, runs: usize) -> anyhow::Result<Whole> {
        let before = self.handle.reads().stats().await?.history_runs;
        let (run, watch) = self.start(steps).await?;
        ended(&self.handle, before + runs as u64 + 1).await?;
        let seconds = watch.seconds();
        let whole = self.client.run(&Namespace::default(), run, false).await?;
        anyhow::ensure!(whole.state.0 == Status::Succeeded, "a workflow did not succeed: {:?}", whole.reason);
        Ok(Whole { run, seconds })
    }

    async fn validate(&self, steps: &Value) -> anyhow::Result<f64> {
        let (file, watch) = (job(&JOB.parse()?, steps)?, Stopwatch::start());
        self.client.validate_job(&Namespace::default(), &file).await?;
        Ok(watch.seconds())
    }

    async fn graph(&self, run: RunId, steps: usize) -> anyhow::Result<f64> {
        let (watch, mut nodes, mut after) = (Stopwatch::start(), 0, None);
        loop {
            let page = self.client.run_graph(&Namespace::default(), run, after.as_deref()).await?;
            nodes += page.nodes.len();
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        let seconds = watch.seconds();
        anyhow::ensure!(nodes == steps, "the graph has {nodes} steps of {steps}");
        Ok(seconds)
    }
}

/// Adds up all versions of a run's row until the run has ended. Each commit that writes the row wakes the follower.
async fn bytes_written(handle: &Handle, run: RunId) -> anyhow::Result<usize> {
    let mut follower = handle.followers().follow(run)?;
    let mut bytes = 0;
    loop {
        let found = handle.reads().run(&Namespace::default(), run).await?.context("the run is gone")?;
        bytes += serde_json::to_vec(&rest::Run::from(&*found.run))?.len();
        if found.run.status().is_terminal() {
            return Ok(bytes);
        }
        anyhow::ensure!(follower.news().await, "the node stops");
    }
}
