//! The example `rows`: one run over millions of rows survives a killed and a drained worker (R43, R63; T-21).
//!
//! `ROWS=n` settles so many rows, `FULL=1` ten million.

use std::time::Duration;

use punctual_tests::api::JOBS;
use punctual_tests::chance::told;
use punctual_tests::checkpoints::Witness;
use punctual_tests::history::has_ended;
use punctual_tests::wait;
use punctual_tests::{Api, Export, Scene, Worker};
use punctual_verify::Options;
use serde_json::{Value, json};

const JOB: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/rows.yaml");
const ROWS: u64 = 1_000_000;
const ROWS_FULL: u64 = 10_000_000;
/// A run stores one checkpoint a second, so the small run has fewer.
const CHUNKS: u64 = 20;
const CHUNKS_FULL: u64 = 100;
const PATIENCE: Duration = Duration::from_secs(600);

fn name_of(run: &Value) -> &str {
    run["worker"].as_str().and_then(|worker| worker.split('@').next()).unwrap_or_default()
}

/// Waits until a checkpoint says that so many rows are done, and returns the run.
#[track_caller]
fn until_done(api: &Api, id: &str, rows: u64) -> Value {
    wait::until("so much is done", PATIENCE, || {
        let run = api.run(id);
        assert!(!has_ended(&run), "{run}");
        let is_done = run["checkpoint"]["value"]["rows"].as_u64() >= Some(rows);
        (run["state"] == "running" && is_done).then_some(run)
    })
}

/// The first and the last row of each chunk that a worker began, in order.
fn chunks(worker: &Worker) -> Vec<(u64, u64)> {
    let chunk = |line: &str| {
        let (first, end) = line.split_once(": settles ")?.1.split_once(" to ")?;
        Some((first.parse().ok()?, end.parse().ok()?))
    };
    worker.printed().lines().filter_map(chunk).collect()
}

#[test]
fn a_run_over_many_rows_survives_a_killed_and_a_drained_worker() {
    let is_full = std::env::var_os("FULL").is_some();
    let rows = told("ROWS").unwrap_or(if is_full { ROWS_FULL } else { ROWS });
    let chunk = (rows / if is_full { CHUNKS_FULL } else { CHUNKS }).max(1);
    let scene = Scene::new();
    let node = scene.start_center("2s");
    node.cli(["job", "apply", JOB]).ok();
    let servers = [node.api().address().to_owned()];
    let start = |name: &str| Worker::of_rows(&scene.path(name), name, &servers, None);
    let mut a = start("a");
    let body = json!({ "params": { "rows": rows, "chunk": chunk } });
    let started = node.api().post(&format!("{JOBS}/rows/run"), &body).expect("the node answers").ok();
    let id = started["id"].as_str().expect("a run has an id");
    // They wait for what the first one leaves.
    let (b, c) = (start("b"), start("c"));

    until_done(node.api(), id, 40 * rows / 100);
    a.kill();
    let run = until_done(node.api(), id, 70 * rows / 100);
    let (drained, last) = if name_of(&run) == "b" { ("b", "c") } else { ("c", "b") };
    node.cli(["node", "drain", drained, "--wait"]).ok();
    let run = wait::until("the run ends", PATIENCE, || Some(node.api().run(id)).filter(has_ended));

    let attempts = run["attempts"].as_array().expect("a run has attempts");
    let told = |field: &str| attempts.iter().map(|of| of[field].as_str().unwrap_or("")).collect::<Vec<_>>();
    assert_eq!(told("result"), ["lost", "moved", "succeeded"], "{run}");
    let names: Vec<&str> = attempts.iter().map(name_of).collect();
    assert_eq!(names, ["a", drained, last], "{run}");
    let output: Value = serde_json::from_str(run["output"].as_str().expect("it has a result")).expect("JSON");
    assert_eq!(output, json!({ "rows": rows, "sum": (0..rows).map(|row| row % 97).sum::<u64>() }));

    let in_order = if drained == "b" { [&a, &b, &c] } else { [&a, &c, &b] };
    let done = in_order.map(chunks);
    check_chunks(&done, rows, chunk);
    let mut witness = Witness::default();
    in_order.iter().for_each(|worker| witness.read(&worker.printed()));
    assert_eq!(witness.check(), 2, "two attempts followed a checkpoint");
    let export = Export::of(&node);
    assert_eq!(export.resumes(), 2);
    export.verify(&scene, &node, &Options { may_be_empty: true, ..Options::default() });
}

/// Each attempt goes on without a gap from where it started. Only the chunk in hand is begun a second time.
#[track_caller]
fn check_chunks(attempts: &[Vec<(u64, u64)>; 3], rows: u64, chunk: u64) {
    let mut end = 0;
    for (attempt, least) in attempts.iter().zip([0, 40 * rows / 100, 70 * rows / 100]) {
        let first = attempt.first().expect("it has begun a chunk").0;
        assert!(first >= least && first <= end, "it starts at {first}: {attempts:?}");
        assert!(
            end.saturating_sub(first) <= chunk,
            "more than the chunk in hand is done again: {attempts:?}"
        );
        assert!(attempt.is_sorted_by(|before, after| before.1 == after.0), "{attempt:?}");
        end = attempt.last().expect("it has begun a chunk").1;
    }
    assert_eq!(end, rows, "{attempts:?}");
}
