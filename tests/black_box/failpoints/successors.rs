//! A server that dies around the commit that ends a step and starts its successors (T-33): every successor has one run.
//!
//! The end of a step, the decisions that follow from it and the runs of its successors are one commit. So the server dies
//! before and after that commit, `TIMES=1000` for the full count. A large fan-out needs several commits, and the server
//! dies between them too, ten times.

use punctual_tests::chance::told;
use punctual_tests::fault::failpoint::{Death, VARIABLE};
use punctual_tests::{Export, Scene, Worker, binary};
use punctual_verify::Options;
use serde_json::{Value, json};

use super::lives::{Server, dies};
use crate::workflows::ended;

const TIMES: usize = 12;
/// Points before and after the commit, in turn. The worker lives on and sends its report again.
const POINTS: [&str; 8] = [
    "node.report.taken",
    "node.commit.done",
    "node.report.applied",
    "sqlite.commit.committed",
    "node.commit.begun",
    "sqlite.commit.acknowledged",
    "sqlite.commit.written",
    "node.order.begun",
];
/// A life is at most so many commits, reports or orders long.
const LIFE_MAX: usize = 4;
/// Lives for which one workflow has enough steps.
const LIVES: usize = 10;
const DIAMONDS: usize = 30;
/// A batch holds about a thousand runs.
const FAN: usize = 3500;

/// Starts so many runs of a workflow, one after the other, and lets the server die while they go on.
fn die(workflow: &Value, runs: usize, steps: usize, deaths: impl Iterator<Item = Death>) {
    let scene = Scene::new();
    let mut node = scene.start_center("10s");
    let job = json!({ "task": { "workflow": workflow }, "overlap": "queue", "keep": { "runs": 100_000 } });
    node.api().put_job("flow", &job);
    let start = |_| node.api().start_job("flow")["id"].as_str().expect("a run has an id").to_owned();
    let ids: Vec<String> = (0..runs).map(start).collect();
    node.kill();
    // The server keeps its port, so that the worker finds it again.
    let (endpoint, data) = (node.api().clone(), scene.data().display().to_string());
    let place = endpoint.address().trim_start_matches("http://").to_owned();
    let mut node = node.with_program(binary::path(), ["dev", "--http", &place, "--data", &data]);
    let _worker = Worker::spawn(&scene.path("w"), "w", endpoint.address(), &["--slots", "64"]);
    let mut kills = 0;
    for death in deaths {
        assert!(dies(&mut Server::new(&mut node, endpoint.clone()), &death), "it never came by {death:?}");
        kills += 1;
    }
    node.set_env(VARIABLE, None);
    node.start();
    let under_way =
        node.api().get("/api/v1/nodes").expect("the node answers").ok()["items"][0]["live_runs"].clone();
    println!("{kills} kills, {under_way} runs under way after them");
    for run in &ids {
        let whole = ended(&node, run);
        assert_eq!(whole["state"], "succeeded", "{whole:#}");
    }
    let export = Export::of(&node);
    let of_steps = export.runs_of_steps();
    assert_eq!(of_steps.len(), runs * steps, "every step has a run");
    assert!(of_steps.values().all(|count| *count == 1), "a step has two runs: {of_steps:?}");
    export.verify(&scene, &node, &Options { may_be_empty: true, still: true, ..Options::default() });
}

/// One diamond after the other: steps with two successors, and steps that wait for two.
fn diamonds() -> Value {
    let mut steps = json!({ "a0": { "task": { "noop": {} } } });
    for number in 0..DIAMONDS {
        for side in ["b", "c"] {
            steps[format!("{side}{number}")] =
                json!({ "needs": [format!("a{number}")], "task": { "noop": {} } });
        }
        let needs = [format!("b{number}"), format!("c{number}")];
        steps[format!("a{}", number + 1)] = json!({ "needs": needs, "task": { "noop": {} } });
    }
    json!({ "steps": steps })
}

#[test]
fn a_server_killed_around_the_end_of_a_step_starts_each_successor_once() {
    let times = told("TIMES").unwrap_or(TIMES);
    let deaths = (0..times).map(|number| {
        let life = number / POINTS.len() % LIFE_MAX;
        Death::at(POINTS[number % POINTS.len()], u32::try_from(life).expect("a life is short"))
    });
    die(&diamonds(), times / LIVES + 1, 3 * DIAMONDS + 1, deaths);
}

#[test]
fn a_server_killed_amid_a_fan_out_starts_the_rest_once() {
    let workflow = json!({ "steps": {
        "list": { "task": { "shell": format!("echo [$(seq -s, {FAN})]") } },
        "each": { "needs": ["list"], "map": "steps.list.output", "task": { "noop": {} } },
        "join": { "needs": ["each"], "task": { "noop": {} } },
    } });
    // Each life is one commit long, and every second one keeps it.
    let points = ["node.commit.done", "node.commit.begun"].into_iter().cycle().take(10);
    die(&workflow, 1, FAN + 2, points.map(|point| Death::at(point, 0)));
}
