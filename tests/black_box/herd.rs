//! Many at one moment: late, not lost (P18, T-23). `RUNS=100000` for the full count.

use std::process::Command;
use std::thread;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_tests::api::RUNS;
use punctual_tests::chance::told;
use punctual_tests::cluster::instant;
use punctual_tests::history::has_ended;
use punctual_tests::wait::{self, SOON};
use punctual_tests::{Cli, Export, Node, Scene, binary};
use punctual_verify::Options;
use serde_json::{Value, json};

const CLIENTS: usize = 16;
const ALL: usize = 3200;
/// Submits by which the machine is measured.
const PROBES: usize = 320;
/// A restart takes less.
const RESTART: Duration = Duration::from_secs(5);
/// A busy machine starts and ends so many runs a second at least.
const ENDED_PER_SECOND: usize = 200;

/// Submits the same body so many times, from several clients at once.
fn submit(node: &Node, count: usize, body: &Value) {
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let api = node.api();
            scope.spawn(move || (client..count).step_by(CLIENTS).for_each(|_| drop(api.submit(body))));
        }
    });
}

/// Submits this many runs, all due at one moment, and restarts the node before that moment. `None` means that the moment
/// came before the restart was done.
fn submit_all(node: &mut Node, all: usize, lead: Duration) -> Option<Timestamp> {
    let due = wait::wall_clock() + lead;
    submit(node, all, &json!({ "task": { "noop": {} }, "due_at": due.to_string() }));
    // Nobody has to be there when they are due: they are rows.
    node.kill();
    node.start();
    (wait::wall_clock() < due).then_some(due)
}

/// How long so many submits may take here, and the restart after them: twice what a few of them took.
fn lead(node: &Node, all: usize) -> Duration {
    let began = wait::now();
    submit(node, PROBES, &json!({ "task": { "noop": {} } }));
    let times = u32::try_from(all / PROBES + 1).expect("a count of a test");
    2 * times * began.elapsed() + RESTART
}

fn is_empty(node: &Node, state: &str) -> bool {
    let page = node.api().get(&format!("{RUNS}?state={state}&limit=1")).expect("the node answers").ok();
    page["items"].as_array().is_some_and(Vec::is_empty)
}

#[test]
fn thousands_of_runs_due_at_once_all_start_on_time() {
    let all = told("RUNS").unwrap_or(ALL);
    // A machine that became slower meanwhile is given as long again as it was.
    let (scene, node, due) = (1..)
        .find_map(|times| {
            let scene = Scene::new();
            let mut node = scene.start();
            let lead = times * lead(&node, all);
            submit_all(&mut node, all, lead).map(|due| (scene, node, due))
        })
        .expect("there is always a next try");
    let ending = Duration::from_secs((all / ENDED_PER_SECOND) as u64);
    wait::until_so("all of them have ended", due.since(wait::wall_clock()) + SOON + ending, || {
        ["waiting", "ready", "running"].iter().all(|state| is_empty(&node, state))
    });
    let export = Export::of(&node);
    assert_eq!(export.runs().len(), all + PROBES);
    assert!(export.runs().values().all(|run| has_ended(run) && run["state"] == "succeeded"));
    let last = export.runs().values().map(|run| instant(&run["started_at"])).max();
    println!("{all} runs, the last started {:?} after all were due", last.map(|last| last.since(due)));
    let options = Options { ended_through: Some(due), may_be_empty: true, ..Options::default() };
    export.verify(&scene, &node, &options);
}

/// P3 on a small scale: `punctual bench fires` is the measurement at 10,000 a second.
#[test]
fn a_benchmark_of_fires_accounts_for_every_due_time() {
    let scene = Scene::new();
    let mut command = Command::new(binary::path());
    command.args(["bench", "fires", "--rate", "200", "--seconds", "3", "-o", "json", "--data"]);
    let found = Cli::run(command.arg(scene.path("bench"))).json();
    assert_eq!((&found["due"], &found["missing"]), (&json!(600), &json!(0)), "{found}");
    assert_eq!((&found["made"]["early"], &found["started"]["early"]), (&json!(0), &json!(0)), "{found}");
    assert!(found["in_time"].as_u64().is_some_and(|in_time| in_time > 0), "{found}");
}
