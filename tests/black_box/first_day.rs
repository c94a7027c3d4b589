//! The first thing anyone tries.

use std::time::Duration;

use punctual_tests::wait::{self, SOON};
use punctual_tests::{Export, Node, Scene};
use punctual_verify::Options;
use serde_json::Value;

/// Two seconds late is missed here, so that a short outage meets the misfire policy.
const HELLO: &str = r#"
name: hello
schedule: { every: 1s }
task: { shell: "echo hello" }
misfire: { policy: once, grace: 2s }
"#;

fn listed(node: &Node) -> Vec<Value> {
    let runs = node.cli(["run", "list", "--job", "hello", "-o", "json"]).json();
    let items = runs.get("items").unwrap_or(&runs);
    items.as_array().expect("a listing is a list").clone()
}

fn succeeded(node: &Node) -> Vec<Value> {
    listed(node).into_iter().filter(|run| run["state"] == "succeeded").collect()
}

#[test]
fn a_job_file_is_applied_runs_are_listed_and_a_kill_loses_nothing() {
    let scene = Scene::new();
    let mut node = scene.start();
    let file = scene.write("hello.yaml", HELLO);
    node.cli(["job".as_ref(), "apply".as_ref(), file.as_os_str()]).ok();

    let before = wait::until("three runs have said hello", SOON, || {
        Some(succeeded(&node)).filter(|runs| runs.len() >= 3)
    });
    for run in &before {
        assert_eq!(run["output"].as_str().map(str::trim), Some("hello"), "{run}");
        assert_eq!((&run["exit_code"], &run["attempt"]), (&0.into(), &1.into()), "{run}");
    }
    let id = before[0]["id"].as_str().expect("a run has an id");
    let shown = node.cli(["run", "show", id, "-o", "json"]).json();
    assert_eq!(shown["id"], before[0]["id"]);

    node.kill();
    // Long enough for several fires to be missed by more than the grace.
    wait::pass(Duration::from_secs(6));
    node.start();

    let misfire = wait::until("the gap is made up for", SOON, || {
        succeeded(&node).into_iter().find(|run| run["trigger"] == "misfire")
    });
    wait::until_so("the schedule goes on", SOON, || {
        let later =
            |run: &Value| run["trigger"] == "schedule" && run["due_at"].as_str() > misfire["due_at"].as_str();
        succeeded(&node).iter().any(later)
    });

    let export = Export::of(&node);
    let after = export.runs();
    for run in &before {
        let id = run["id"].as_str().expect("a run has an id");
        let kept = after.get(id).unwrap_or_else(|| panic!("run {id} was shown and is gone"));
        assert_eq!((&kept["state"], &kept["output"]), (&run["state"], &run["output"]));
    }
    let misfires = export.fires("hello").iter().filter(|run| run["trigger"] == "misfire").count();
    assert_eq!(misfires, 1, "`once` makes the newest of the missed fires");
    assert_eq!(export.skips("hello").len(), 1, "and records the others as one range");
    export.verify(&scene, &node, &Options::default());
}

#[test]
fn a_stop_is_clean_and_the_next_start_goes_on() {
    let scene = Scene::new();
    let mut node = scene.start();
    let file = scene.write("hello.yaml", HELLO);
    node.cli(["job".as_ref(), "apply".as_ref(), file.as_os_str()]).ok();
    let before = wait::until("a run has said hello", SOON, || succeeded(&node).pop());
    let status = node.stop();
    assert!(status.success(), "it was asked to stop, and ended with {status}");
    node.start();
    assert!(succeeded(&node).iter().any(|run| run["id"] == before["id"]));
    let status = node.stop();
    assert!(status.success(), "it was asked to stop, and ended with {status}");
}

#[test]
fn a_refused_command_prints_a_sentence_and_exits_nonzero() {
    let scene = Scene::new();
    let node = scene.start();
    let file = scene.write("bad.yaml", "name: bad\nschedule: { every: soon }\ntask: { noop: {} }\n");
    let refused = node.cli(["job".as_ref(), "apply".as_ref(), file.as_os_str()]);
    assert_eq!(refused.status.code(), Some(4), "{refused:?}");
    assert!(refused.err.contains("every"), "{refused:?}");
    let missing = node.cli(["run", "show", "1"]);
    assert_eq!(missing.status.code(), Some(3), "{missing:?}");
    assert!(missing.err.starts_with("error: "), "{missing:?}");
    let usage = node.cli(["job", "frobnicate"]);
    assert_eq!(usage.status.code(), Some(2), "{usage:?}");
}
