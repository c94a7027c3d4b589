//! Looking things up afterwards: by key, in the log of a job, step by step.

use std::fs;
use std::process::Command;

use punctual_core::Timestamp;
use punctual_tests::api::{JOBS, RUNS};
use punctual_tests::history::has_ended;
use punctual_tests::wait::{self, SOON};
use punctual_tests::{Node, Scene, binary};
use serde_json::{Value, json};

#[track_caller]
fn wait_for_end(node: &Node, id: &Value) -> Value {
    let id = id.as_str().expect("a run has an id").to_owned();
    wait::until(&format!("run {id} has ended"), SOON, || Some(node.api().run(&id)).filter(has_ended))
}

fn instant(value: &Value) -> Timestamp {
    value.as_str().and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("no instant: {value}"))
}

#[test]
fn a_result_is_looked_up_later_by_its_key() {
    let scene = Scene::new();
    let mut node = scene.start();
    let body = json!({ "task": { "shell": "echo done" }, "key": "order 17/ü" });
    let run = node.api().submit(&body);
    assert_eq!(node.api().submit(&body)["id"], run["id"], "asked twice, run once");
    wait_for_end(&node, &run["id"]);
    node.kill();
    node.start();
    let found = node.cli(["run", "list", "--key", "order 17/ü", "-o", "json"]).json();
    assert_eq!((found.as_array().map(Vec::len), &found[0]["id"]), (Some(1), &run["id"]), "{found}");
    assert_eq!(found[0]["output"].as_str().map(str::trim), Some("done"));
    assert_eq!(node.cli(["run", "list", "--key", "order", "-o", "json"]).json(), json!([]));
}

#[test]
fn the_log_of_a_job_tells_what_was_run_when_and_what_it_said() {
    let scene = Scene::new();
    let node = scene.start();
    let api = node.api();
    for command in ["echo one", "echo two", "echo three; exit 1"] {
        api.put_job("talker", &json!({ "task": { "shell": command } }));
        wait_for_end(&node, &api.start_job("talker")["id"]);
    }
    let log = |query: &str| api.get(&format!("{JOBS}/talker/log?{query}")).expect("the node answers").ok();
    let first = log("limit=2");
    let commands: Vec<&str> = first["items"]
        .as_array()
        .expect("a page has items")
        .iter()
        .filter_map(|one| one["command"].as_str())
        .collect();
    assert_eq!(commands, ["echo three; exit 1", "echo two"], "newest first, each as it was then");
    let said: Vec<(&Value, bool)> = first["items"]
        .as_array()
        .expect("a page has items")
        .iter()
        .map(|one| (&one["output"], one["err"] == ""))
        .collect();
    assert_eq!(said, [(&json!("three"), false), (&json!("two"), true)], "what it said, and what went wrong");
    let next = first["next"].as_str().expect("there is a first one");
    let rest = log(&format!("limit=2&after={next}"));
    assert_eq!((rest["items"].as_array().map(Vec::len), &rest["next"]), (Some(1), &Value::Null));
    let failed = log("state=FAILED");
    assert_eq!(failed["items"].as_array().map(Vec::len), Some(1), "{failed}");
    for one in first["items"].as_array().expect("a page has items") {
        let times =
            ["plan_time", "schedule_time", "start_time", "end_time"].map(|field| instant(&one[field]));
        assert!(times.is_sorted(), "{one}");
        assert_eq!(one["job_name"], "talker");
    }
    let states = |state: &str| {
        let page = api.get(&format!("{RUNS}?job=talker&state={state}")).expect("the node answers").ok();
        page["items"].as_array().map(Vec::len)
    };
    let classic = ["PENDING", "RUNNING", "COMPLETED", "FAILED", "COMPLETED,FAILED"].map(states);
    assert_eq!(classic, [Some(0), Some(0), Some(2), Some(1), Some(3)]);
}

#[test]
fn a_job_shows_its_whole_record_and_its_name_is_taken_once() {
    let scene = Scene::new();
    let node = scene.start();
    let job = json!({ "schedule": { "cron": "0 1 * * *" }, "task": { "shell": "true" } });
    node.api().put_job("nightly", &job);
    let shown = node.cli(["job", "show", "nightly", "-o", "json"]).json();
    let fields =
        ["id", "name", "task", "schedule", "state", "revision", "next_due_at", "created_at", "updated_at"];
    for field in fields {
        assert!(!shown[field].is_null(), "{field}: {shown}");
    }
    let path = format!("{JOBS}/nightly");
    let header = Some(("if-none-match", "*"));
    let again = node.api().send(reqwest::Method::PUT, &path, Some(job.to_string()), header);
    let again = again.expect("the node answers");
    assert_eq!((again.status, &again.json()["code"]), (409, &json!("job_exists")), "{again:?}");
}

#[test]
fn one_trace_shows_a_run_from_submit_to_result() {
    let scene = Scene::new();
    // One slot: the second run waits in the queue until the result of the first has come.
    let mut node = scene.node().with_env("PUNCTUAL_SLOTS", "1");
    node.start();
    let gate = scene.path("gate");
    let held = format!("while [ ! -e {} ]; do sleep 0.05; done", gate.display());
    let one = node.api().submit(&json!({ "task": { "shell": held } }));
    let two = node.api().submit(&json!({ "task": { "shell": "echo two" } }));
    fs::write(&gate, "").expect("the gate can be opened");
    let first = wait_for_end(&node, &one["id"]);
    let ended = wait_for_end(&node, &two["id"]);
    let trace_of = |run: &Value| {
        let id = run["id"].as_str().expect("a run has an id");
        node.api().get(&format!("{RUNS}/{id}?events=true")).expect("the node answers").ok()
    };
    let (earlier, trace) = (trace_of(&one), trace_of(&two));
    let events = trace["events"].as_array().expect("they were asked for").iter();
    let steps: Vec<&str> = events.filter_map(|event| event["what"].as_str()).collect();
    assert_eq!(steps, ["created", "due", "assigned", "ended"], "{trace}");
    // The worker that gave the first result took the next run after it.
    let at = |trace: &Value, step: &str| {
        let mut events = trace["events"].as_array().expect("they were asked for").iter();
        instant(&events.find(|event| event["what"] == step).expect("the step is there")["at"])
    };
    assert_eq!(first["worker"], ended["worker"]);
    assert!(at(&earlier, "ended") <= at(&trace, "assigned"), "{earlier} {trace}");
    let attempt = &trace["attempts"][0];
    assert_eq!((&attempt["worker"], &attempt["result"]), (&ended["worker"], &json!("succeeded")), "{trace}");
    assert_eq!(trace["output"].as_str().map(str::trim), Some("two"));
    let workers = node.api().get("/api/v1/workers").expect("the node answers").ok();
    assert_eq!(workers["items"][0]["name"], ended["worker"], "it is one of those that are listed");
}

/// A program that watches gets a line for a run when it comes and another when it has ended.
#[test]
fn watch_prints_a_line_for_every_change() {
    let scene = Scene::new();
    let node = scene.start();
    let seen = scene.path("seen.txt");
    let mut watcher = Command::new(binary::path())
        .args(["run", "list", "--watch"])
        .env("PUNCTUAL_SERVER", node.api().address())
        .stdout(fs::File::create(&seen).expect("a file of the scene can be made"))
        .spawn()
        .expect("the binary can be started");
    let gate = scene.path("gate");
    let held = format!("while [ ! -e {} ]; do sleep 0.05; done", gate.display());
    let run = node.api().submit(&json!({ "task": { "shell": held } }));
    let id = run["id"].as_str().expect("a run has an id").to_owned();
    let lines = |state: &str| {
        let text = fs::read_to_string(&seen).unwrap_or_default();
        text.lines().filter(|line| line.contains(&id) && line.contains(state)).count()
    };
    wait::until_so("the run is seen running", SOON, || lines("running") == 1);
    fs::write(&gate, "").expect("the gate can be opened");
    wait::until_so("its end is seen", SOON, || lines("succeeded") == 1);
    assert_eq!(lines("running"), 1, "what has not changed is not said again");
    watcher.kill().expect("a child can be killed");
    watcher.wait().expect("a child can be waited for");
}
