//! A run that kills its worker again and again (T-21).

use std::time::Duration;

use punctual_tests::history::has_ended;
use punctual_tests::wait::{self, SOON};
use punctual_tests::{Export, Scene, Worker};
use punctual_verify::Options;
use serde_json::{Value, json};

/// Lost attempts after which a run is given up.
const LOSSES_MAX: usize = 3;

#[test]
fn a_run_that_kills_its_worker_is_given_up_and_others_go_on() {
    let scene = Scene::new();
    let node = scene.start_center("2s");
    let mut worker = Worker::spawn(&scene.path("a"), "a", node.api().address(), &["--slots", "4"]);
    worker.wait_until_ready();
    scene.write("pid", &worker.pid().to_string());
    node.api().put_job(
        "steady",
        &json!({ "schedule": { "every": "500ms" }, "task": { "shell": "true" }, "overlap": "allow" }),
    );
    wait::until_so("a steady run has ended", SOON, || node.api().runs_of("steady").iter().any(has_ended));
    let shell = format!("while :; do kill -9 $(cat {}); sleep 0.1; done", scene.path("pid").display());
    let poison =
        node.api().submit(&json!({ "task": { "shell": shell }, "retry": { "attempts": 9, "delay": "0s" } }));
    let id = poison["id"].as_str().expect("a run has an id");
    let mut restarts = 0;
    let run = wait::until("the run is given up", 2 * SOON, || {
        // What a supervisor does.
        if !worker.is_running() {
            worker.wait_for_end();
            worker.start_again();
            scene.write("pid", &worker.pid().to_string());
            restarts += 1;
        }
        Some(node.api().run(id)).filter(has_ended)
    });
    assert_eq!(
        (&run["state"], &run["reason"]),
        (&json!("failed"), &json!("its worker was lost too often")),
        "{run}"
    );
    let attempts = run["attempts"].as_array().expect("a run has attempts");
    assert!(attempts.iter().all(|attempt| attempt["result"] == "lost"), "{run}");
    assert_eq!((attempts.len(), restarts), (LOSSES_MAX, LOSSES_MAX), "{run}");
    let listed = node.cli(["dlq", "list"]).ok();
    assert!(listed.contains(id), "{listed}");

    // Every run that was due meanwhile is done, and the worker stays.
    let through = run["finished_at"].as_str().expect("it has ended").to_owned();
    let due_by_then = |runs: Vec<Value>| -> Vec<Value> {
        runs.into_iter().filter(|run| run["due_at"].as_str() <= Some(&through)).collect()
    };
    let steady = wait::until("what was due meanwhile has ended", SOON, || {
        Some(due_by_then(node.api().runs_of("steady"))).filter(|runs| runs.iter().all(has_ended))
    });
    assert!(!steady.is_empty() && steady.iter().all(|run| run["state"] == "succeeded"), "{steady:#?}");
    wait::pass(Duration::from_secs(1));
    assert!(worker.is_running(), "{}", worker.printed());
    Export::of(&node).verify(&scene, &node, &Options::default());
}
