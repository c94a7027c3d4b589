//! Reports of progress through the queue, and what followers of a run see of them.

use std::time::Duration;

use punctual_tests::api::RUNS;
use punctual_tests::wait;
use punctual_tests::{Api, Scene, Worker};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(120);
const QUEUE: &str = "/api/v1/namespaces/default/queues/punctual.progress";

fn submit(api: &Api, body: &Value) -> String {
    let id = api.submit(body)["id"].as_str().expect("a run has an id").to_owned();
    wait::until_so("the run is running", PATIENCE, || api.run(&id)["state"] == "running");
    id
}

fn add(api: &Api, body: &str) {
    api.post(&format!("{QUEUE}/messages"), &json!({ "body": body })).expect("the node answers").ok();
}

fn shows(api: &Api, id: &str, percent: u8) {
    wait::until_so("the progress is seen", PATIENCE, || api.run(id)["progress"] == json!(percent));
}

fn is_empty(api: &Api) {
    wait::until_so("all messages are acknowledged", PATIENCE, || {
        api.get(QUEUE).expect("the node answers").ok()["messages"] == json!(0)
    });
}

#[test]
fn a_message_reports_and_a_refused_one_does_not_block_it() {
    let scene = Scene::new();
    let node = scene.start();
    let api = node.api();
    assert_eq!(api.get(QUEUE).expect("the node answers").status, 404, "nothing is made before it is used");
    let id = submit(api, &json!({ "task": { "shell": "exec sleep 300" } }));
    let number: i64 = id.parse().expect("an id is a number");
    add(api, "not json");
    add(api, &json!({ "execution_id": 7, "progress": 5 }).to_string());
    add(api, &json!({ "execution_id": number, "progress": 50 }).to_string());
    shows(api, &id, 50);
    is_empty(api);
    let page = api.get("/metrics").expect("the node answers").text;
    for outcome in ["accepted", "invalid", "not_found"] {
        let line = format!("punctual_progress_total{{way=\"queue\",outcome=\"{outcome}\"}} 1");
        assert!(page.lines().any(|had| had == line), "{line}");
    }
    let log = std::fs::read_to_string(scene.log()).expect("the node has a log");
    assert_eq!(log.matches("refused messages with progress reports").count(), 1, "one line for both");
}

#[test]
fn a_report_in_the_queue_survives_a_killed_node() {
    let scene = Scene::new();
    let mut node = scene.start_center("5s");
    let mut worker = Worker::spawn(&scene.path("w"), "w", node.api().address(), &[]);
    worker.wait_until_ready();
    let id = submit(node.api(), &json!({ "task": { "shell": "exec sleep 300" } }));
    add(node.api(), &json!({ "execution_id": id, "progress": 20 }).to_string());
    shows(node.api(), &id, 20);
    let pause = |api: &Api, verb: &str| {
        let body = json!({ "direction": "out" });
        api.post(&format!("{QUEUE}/{verb}"), &body).expect("the node answers").ok();
    };
    pause(node.api(), "pause");
    add(node.api(), &json!({ "execution_id": id, "progress": 60, "seq": 1, "checkpoint": 6 }).to_string());
    node.kill();
    node.start();
    assert_eq!(node.api().run(&id)["progress"], json!(20));
    pause(node.api(), "resume");
    shows(node.api(), &id, 60);
    assert_eq!(node.api().run(&id)["checkpoint"]["value"], json!(6));
    is_empty(node.api());
}

#[test]
fn a_follower_sees_the_progress_of_a_run_once_a_second() {
    let scene = Scene::new();
    let node = scene.start();
    let shell = r#"
row=0
while [ "$row" -lt 50 ]; do
  row=$((row + 1))
  echo "{\"percent\": $((row * 2)), \"message\": \"row $row\"}" > "$PUNCTUAL_REPORT"
  sleep 0.1
done
echo '{"checkpoint": {"row": 50}}' > "$PUNCTUAL_REPORT"
"#;
    let id = submit(node.api(), &json!({ "task": { "shell": shell } }));
    let began = wait::now();
    let text = node.api().get(&format!("{RUNS}/{id}/events?follow=true")).expect("the node answers").text;
    let seconds = began.elapsed().as_secs();
    let blocks = || text.split("\n\n").filter_map(|block| block.strip_prefix("event: progress\ndata: "));
    let seen: Vec<Value> = blocks().map(|data| serde_json::from_str(data).expect("JSON")).collect();
    assert!(seen.len() >= 3, "{text}");
    assert!(seen.len() as u64 <= seconds + 2, "{} in {seconds} s: {text}", seen.len());
    let percents: Vec<u64> = seen.iter().filter_map(|event| event["percent"].as_u64()).collect();
    assert!(percents.is_sorted() && percents.last() == Some(&100), "{percents:?}");
    let last = seen.last().expect("there are some");
    assert_eq!((&last["message"], &last["checkpoint"]["value"]), (&json!("row 50"), &json!({ "row": 50 })));
    assert!(seen[0]["at"].is_string() && seen[0]["checkpoint"].is_null(), "{text}");
    assert!(text.trim_end().lines().nth_back(1) == Some("event: end"), "{text}");

    let lines = node.cli(["run", "events", &id, "--follow"]).ok();
    let line = lines.lines().find(|line| line.contains("progress")).unwrap_or_default();
    assert!(line.ends_with("██████████ 100%, row 50, checkpoint {\"row\":50}"), "{lines}");
    assert!(lines.trim_end().lines().last().is_some_and(|line| line.contains("succeeded")), "{lines}");
}
