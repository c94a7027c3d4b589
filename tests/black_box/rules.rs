//! What a job may ask for: to be stopped, to be tried again, to be decided about by a person.

use std::path::Path;

use punctual_tests::api::RUNS;
use punctual_tests::history::has_ended;
use punctual_tests::wait::{self, SOON};
use punctual_tests::{Api, Export, Scene};
use punctual_verify::Options;
use serde_json::{Value, json};

#[track_caller]
fn wait_for_state(api: &Api, run: &Value, state: &str) -> Value {
    let id = run["id"].as_str().expect("a run has an id");
    wait::until(&format!("run {id} is {state}"), SOON, || {
        let run = api.run(id);
        assert!(!has_ended(&run) || run["state"] == state, "waited for {state}: {run}");
        Some(run).filter(|run| run["state"] == state)
    })
}

/// A shell that tells its own pid and that of its child, then sits there.
fn sits_there(pids: &Path) -> Value {
    json!({ "shell": format!("sleep 300 & echo $$ $! > {}; wait", pids.display()) })
}

fn pids_in(file: &Path) -> Option<Vec<String>> {
    let text = std::fs::read_to_string(file).ok()?;
    let pids: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    (text.ends_with('\n') && pids.len() == 2).then_some(pids)
}

fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // A zombie is dead: only nobody has asked after it yet.
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

#[test]
fn a_cancelled_run_is_stopped_with_everything_it_started() {
    let scene = Scene::new();
    let node = scene.start();
    let file = scene.path("pids");
    let run = node.api().submit(&json!({ "task": sits_there(&file) }));
    let pids = wait::until("the task runs", SOON, || pids_in(&file));
    wait_for_state(node.api(), &run, "running");

    let id = run["id"].as_str().expect("a run has an id");
    node.cli(["run", "cancel", id]).ok();
    let ended = wait_for_state(node.api(), &run, "cancelled");
    assert_eq!(ended["reason"], "cancelled on request", "{ended}");
    wait::until_so("its processes are gone", SOON, || !pids.iter().any(|pid| is_alive(pid)));

    let again = node.api().post(&format!("{RUNS}/{id}/cancel"), &json!({})).expect("the node answers");
    assert_eq!(again.status, 409, "what has ended cannot be cancelled: {again:?}");
}

#[test]
fn a_run_that_is_not_due_yet_can_be_cancelled_and_never_starts() {
    let scene = Scene::new();
    let mut node = scene.start();
    let run = node.api().submit(&json!({ "task": { "noop": {} }, "delay": "3s" }));
    let id = run["id"].as_str().expect("a run has an id");
    node.api().post(&format!("{RUNS}/{id}/cancel"), &json!({})).expect("the node answers").ok();
    wait_for_state(node.api(), &run, "cancelled");
    node.kill();
    node.start();
    let beyond = node.api().submit(&json!({ "task": { "noop": {} }, "delay": "3s" }));
    wait_for_state(node.api(), &beyond, "succeeded");
    let kept = node.api().run(id);
    assert_eq!((&kept["state"], &kept["attempt"]), (&json!("cancelled"), &json!(0)), "{kept}");
}

#[test]
fn a_run_that_takes_too_long_is_stopped_with_everything_it_started() {
    let scene = Scene::new();
    let node = scene.start();
    let file = scene.path("pids");
    let run = node.api().submit(&json!({ "task": sits_there(&file), "timeout": "1s" }));
    let ended = wait_for_state(node.api(), &run, "timed_out");
    assert_eq!(ended["attempt"], 1, "{ended}");
    let pids = pids_in(&file).expect("the task ran");
    wait::until_so("its processes are gone", SOON, || !pids.iter().any(|pid| is_alive(pid)));
}

#[test]
fn a_run_that_fails_for_good_is_a_dead_letter_until_it_is_replayed() {
    let scene = Scene::new();
    let mut node = scene.start();
    let flag = scene.path("repaired");
    let job = json!({
        "schedule": { "manual": true },
        "task": { "shell": format!("echo trying; test -e {}", flag.display()) },
        "retry": { "attempts": 3, "delay": "100ms", "backoff": "fixed" },
    });
    node.api().put_job("fragile", &job);
    let run = node.api().start_job("fragile");
    let id = run["id"].as_str().expect("a run has an id");
    let dead = wait_for_state(node.api(), &run, "failed");
    assert_eq!((&dead["attempt"], &dead["exit_code"]), (&json!(3), &json!(1)), "{dead}");

    // It waits for a person, whatever happens to the process meanwhile.
    node.kill();
    node.start();
    let letters = || {
        let listed = node.cli(["dlq", "list", "-o", "json"]).json();
        let items = listed.get("items").unwrap_or(&listed);
        items.as_array().expect("a listing is a list").clone()
    };
    let waiting = letters();
    assert_eq!(waiting.len(), 1, "{waiting:?}");
    assert_eq!(waiting[0]["id"], id, "{waiting:?}");

    std::fs::write(&flag, "").expect("a file of the scene can be written");
    node.cli(["dlq", "replay", id]).ok();
    wait::until_so("a new run has made up for it", SOON, || {
        let replays = |run: &Value| run["retry_of"] == id && run["state"] == "succeeded";
        node.api().runs_of("fragile").iter().any(replays)
    });
    assert_eq!(letters().len(), 0, "it was decided about");
    assert_eq!(node.api().run(id)["state"], "failed", "terminal states are final");
    Export::of(&node).verify(&scene, &node, &Options { may_be_empty: true, ..Options::default() });
}

#[test]
fn runs_of_a_job_never_overlap_unless_it_says_so() {
    let scene = Scene::new();
    let node = scene.start();
    let slow = |overlap: &str| {
        let task = json!({ "shell": "sleep 0.5" });
        json!({ "schedule": { "every": "200ms" }, "task": task, "overlap": overlap })
    };
    for overlap in ["skip", "queue_one", "replace", "allow"] {
        node.api().put_job(overlap, &slow(overlap));
    }
    wait::until_so("each policy has been needed several times", SOON, || {
        let ended = |job: &str, state: &str| {
            node.api().runs_of(job).iter().filter(|run| run["state"] == state).count()
        };
        ended("skip", "skipped") >= 5
            && ended("skip", "succeeded") >= 3
            && ended("queue_one", "skipped") >= 3
            && ended("queue_one", "succeeded") >= 3
            && ended("replace", "cancelled") >= 5
            && ended("allow", "succeeded") >= 5
    });
    let export = Export::of(&node);
    export.verify(&scene, &node, &Options::default());
    assert!(export.fires("allow").iter().all(|run| run["state"] != "skipped"));
}
