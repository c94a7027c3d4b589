//! `/metrics` counts what happened, and costs an idle node nothing (R97, R109).

use std::collections::BTreeMap;

use punctual_tests::Scene;
use punctual_tests::wait::{self, SOON};
use serde_json::json;

fn metrics(page: &str) -> BTreeMap<String, f64> {
    let metric = |line: &str| {
        let (name, value) = line.rsplit_once(' ')?;
        Some((name.to_owned(), value.parse().ok()?))
    };
    page.lines().filter(|line| !line.starts_with('#')).filter_map(metric).collect()
}

#[test]
fn the_metrics_count_what_happened() {
    let scene = Scene::new();
    let node = scene.start();
    let api = node.api();
    let read = || metrics(&api.get("/metrics").expect("the node answers").text);
    let before = read();
    assert_eq!(before["punctual_ready"], 1.0);
    assert_eq!(before["punctual_runs_created_total"], 0.0);

    let waiting = api.submit(&json!({ "task": { "noop": {} }, "delay": "1h" }));
    let id = waiting["id"].as_str().expect("a run has an id");
    wait::until_so("it is seen to wait", SOON, || read()["punctual_live_runs{state=\"waiting\"}"] == 1.0);
    for _ in 0..3 {
        api.submit(&json!({ "task": { "shell": "echo hi" } }));
    }
    api.submit(&json!({ "task": { "shell": "exit 1" }, "retry": { "attempts": 2, "delay": "1ms" } }));
    api.post(&format!("/api/v1/namespaces/default/runs/{id}/cancel"), &json!({})).expect("an answer").ok();
    wait::until_so("all have ended", SOON, || {
        let now = read();
        let ended = now.iter().filter(|(name, _)| name.starts_with("punctual_runs_ended_total"));
        ended.map(|(_, count)| count).sum::<f64>() >= 5.0
    });

    let now = read();
    assert_eq!(now["punctual_runs_created_total"], 5.0);
    assert_eq!(now["punctual_runs_ended_total{state=\"succeeded\"}"], 3.0);
    assert_eq!(now["punctual_runs_ended_total{state=\"failed\"}"], 1.0);
    assert_eq!(now["punctual_runs_ended_total{state=\"cancelled\"}"], 1.0);
    assert_eq!(now["punctual_attempts_total{outcome=\"succeeded\"}"], 3.0);
    assert_eq!(now["punctual_attempts_total{outcome=\"failed\"}"], 2.0);
    assert_eq!(now["punctual_start_lateness_seconds_count"], 4.0, "first attempts only");
    wait::until_so("nothing waits", SOON, || read()["punctual_live_runs{state=\"waiting\"}"] == 0.0);
    assert!(now["punctual_log_bytes_total"] >= 9.0);
    assert!(now["punctual_commits_total"] >= 5.0);
    wait::until_so("the histograms and the counters agree", SOON, || {
        let now = read();
        now["punctual_commit_duration_seconds_count"] == now["punctual_commits_total"]
            && now["punctual_commit_changes_sum"] == now["punctual_changes_total"]
    });
    let submits = "{method=\"POST\",route=\"/api/v1/namespaces/{namespace}/runs\",status=\"2xx\"}";
    assert_eq!(now[&format!("punctual_http_requests_total{submits}")], 5.0);
    let route = "{method=\"POST\",route=\"/api/v1/namespaces/{namespace}/runs\"}";
    assert_eq!(now[&format!("punctual_http_request_duration_seconds_count{route}")], 5.0);
}

#[test]
fn workers_nodes_dead_letters_and_queues_are_counted() {
    let scene = Scene::new();
    let mut node = scene.node().with_env("PUNCTUAL_SLOTS", "3");
    node.start();
    let api = node.api();
    let read = || metrics(&api.get("/metrics").expect("the node answers").text);
    let before = read();
    for (name, value) in [
        ("punctual_workers{state=\"ready\"}", 1.0),
        ("punctual_workers{state=\"lost\"}", 0.0),
        ("punctual_worker_slots", 3.0),
        ("punctual_worker_slots_busy", 0.0),
        ("punctual_nodes{state=\"alive\"}", 1.0),
        ("punctual_nodes{state=\"lost\"}", 0.0),
        ("punctual_dead_letters", 0.0),
        ("punctual_queues", 0.0),
    ] {
        assert_eq!(before.get(name), Some(&value), "{name}");
    }
    api.submit(&json!({ "task": { "shell": "exit 1" }, "retry": { "attempts": 1 } }));
    wait::until_so("the dead letter is counted", SOON, || read()["punctual_dead_letters"] == 1.0);
    let go = scene.path("go");
    api.submit(
        &json!({ "task": { "shell": format!("until test -e {}; do sleep 0.05; done", go.display()) } }),
    );
    wait::until_so("the busy slot is counted", SOON, || read()["punctual_worker_slots_busy"] == 1.0);
    std::fs::write(&go, "").expect("a file of the scene can be written");
    for _ in 0..2 {
        node.cli(["queue", "add", "mail", "--body", "hello"]).ok();
    }
    node.cli(["queue", "add", "mail", "--body", "later", "--delay", "1h"]).ok();
    let of_queue = |name: &str| format!("{name}{{namespace=\"default\",queue=\"mail\"}}");
    wait::until_so("the messages are counted", SOON, || {
        let now = read();
        now.get(&of_queue("punctual_queue_length")) == Some(&2.0)
            && now.get(&of_queue("punctual_queue_messages")) == Some(&3.0)
            && now["punctual_messages"] == 3.0
            && now["punctual_queues"] == 1.0
    });
}

#[test]
fn no_address_that_someone_makes_up_becomes_a_label() {
    let scene = Scene::new();
    let node = scene.start();
    for number in 0..50 {
        node.api().get(&format!("/made/up/{number}")).expect("the node answers");
        node.api().get(&format!("/api/v1/namespaces/made-up-{number}/jobs")).expect("the node answers");
    }
    let page = node.api().get("/metrics").expect("the node answers").text;
    assert!(!page.contains("made-up") && !page.contains("/made"), "{page}");
    assert!(page.ends_with("# EOF\n"));
    let lost = "punctual_http_requests_total{method=\"none\",route=\"none\",status=\"4xx\"}";
    assert_eq!(metrics(&page)[lost], 50.0);
}
