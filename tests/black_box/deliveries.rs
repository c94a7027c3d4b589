//! Jobs that deliver into a queue, and consumers that speak the Redis protocol.

use std::time::Duration;

use punctual_tests::wait::{self, SOON};
use punctual_tests::{Node, Scene, messages};
use redis::{Connection, cmd};
use serde_json::{Value, json};

const RUNS: &str = "/api/v1/namespaces/default/runs";

fn start(scene: &Scene) -> Node {
    let mut node =
        scene.node().with_env("PUNCTUAL_DURABILITY", "relaxed").with_env("PUNCTUAL_RESP", "127.0.0.1:0");
    node.start();
    node
}

fn dial(node: &Node) -> Connection {
    messages::dial(node.resp_port(), None).expect("the endpoint is open")
}

/// A message as a consumer gets it: its id and what it says.
#[track_caller]
fn take(consumer: &mut Connection) -> (String, String) {
    let mut words = cmd("GETJOB");
    words.arg(&["TIMEOUT", "4000", "FROM", "orders"]);
    let taken = wait::until("a message comes", SOON, || {
        let taken: Vec<(String, String, String)> = words.query(consumer).unwrap_or_default();
        taken.into_iter().next()
    });
    (taken.1, taken.2)
}

fn is_empty(consumer: &mut Connection) -> bool {
    let taken: Vec<(String, String, String)> =
        cmd("GETJOB").arg(&["NOHANG", "FROM", "orders"]).query(consumer).unwrap_or_default();
    taken.is_empty()
}

#[track_caller]
fn tell(consumer: &mut Connection, word: &str, id: &str) -> i64 {
    cmd(word).arg(id).query(consumer).expect("it is answered")
}

fn put(node: &Node, task: &Value, rest: &Value) {
    let mut job = json!({ "task": { "queue": task }, "params": { "order": 17 } });
    for (field, value) in rest.as_object().into_iter().flatten() {
        job[field] = value.clone();
    }
    node.api().put_job("order", &job);
}

fn run(node: &Node) -> String {
    node.api().start_job("order")["id"].as_str().expect("an id").to_owned()
}

#[track_caller]
fn ended(node: &Node, run: &str) -> Value {
    wait::until("the run ends", SOON, || {
        let run = node.api().run(run);
        let is_open = ["waiting", "ready", "running"].contains(&run["state"].as_str().unwrap_or_default());
        (!is_open).then_some(run)
    })
}

#[test]
fn a_run_succeeds_when_a_consumer_has_acknowledged_its_message() {
    let scene = Scene::new();
    let node = start(&scene);
    put(&node, &json!({ "name": "orders", "body": "order {{ params.order }}" }), &json!({}));
    let run = run(&node);
    let mut consumer = dial(&node);
    let (id, body) = take(&mut consumer);
    assert_eq!(body, "order 17");
    let running = wait::until("the run knows its message", SOON, || {
        let run = node.api().run(&run);
        run["output"].is_string().then_some(run)
    });
    assert_eq!((&running["state"], &running["worker"]), (&json!("running"), &json!("queue orders")));
    assert_eq!(tell(&mut consumer, "ACKJOB", &id), 1);
    let run = ended(&node, &run);
    assert_eq!(run["state"], "succeeded");
    let output: Value = serde_json::from_str(run["output"].as_str().unwrap_or_default()).expect("JSON");
    assert_eq!(output["queue"], "orders");
    let told = output["message"].as_str().expect("an id");
    assert_eq!((told.len(), &told[11..]), (40, &id[11..]), "the same message, but for who answered");
    let told = node.api().get(&format!("{RUNS}/{}?events=true", run["id"].as_str().unwrap_or_default()));
    let events = told.expect("the node answers").ok()["events"].as_array().cloned().unwrap_or_default();
    assert!(events.iter().any(|event| event["what"] == "delivered"), "{events:?}");
    assert_eq!(tell(&mut consumer, "ACKJOB", &id), 0, "it is gone");
    let shown = node.cli(["job", "show", "order", "--file"]).ok();
    assert!(shown.contains("queue:") && shown.contains("name: orders"), "{shown}");
}

#[test]
fn a_rejected_message_fails_the_attempt() {
    let scene = Scene::new();
    let node = start(&scene);
    put(&node, &json!({ "name": "orders" }), &json!({ "retry": { "attempts": 2, "delay": "50ms" } }));
    let run = run(&node);
    let mut consumer = dial(&node);
    let (first, body) = take(&mut consumer);
    assert_eq!(body, r#"{"order":17}"#, "what it is given goes on");
    assert_eq!(tell(&mut consumer, "NACK", &first), 1);
    let (second, _) = take(&mut consumer);
    assert_ne!(first, second, "another attempt, another message");
    assert_eq!(tell(&mut consumer, "NACK", &second), 1);
    let run = ended(&node, &run);
    assert_eq!((&run["state"], &run["attempt"]), (&json!("failed"), &json!(2)));
    assert_eq!(run["error"], "the message was refused by its consumer");
    assert_eq!(run["attempts"][0]["result"], "failed");
    assert!(is_empty(&mut consumer));
}

#[test]
fn an_unacknowledged_message_times_its_run_out() {
    let scene = Scene::new();
    let node = start(&scene);
    let once = json!({ "retry": { "attempts": 1 } });
    put(&node, &json!({ "name": "orders", "ttl": "1s" }), &once);
    let run = ended(&node, &run(&node));
    assert_eq!(run["state"], "timed_out");
    assert_eq!(run["error"], "the message was not acknowledged within its time to live");
}

#[test]
fn a_cancelled_run_removes_its_message() {
    let scene = Scene::new();
    let node = start(&scene);
    put(&node, &json!({ "name": "orders" }), &json!({}));
    let run = run(&node);
    wait::until_so("the message is there", SOON, || {
        let stat = node.cli(["queue", "stat", "orders", "-o", "json"]);
        stat.status.success() && stat.json()["messages"] == 1
    });
    node.cli(["run", "cancel", &run]).ok();
    assert_eq!(ended(&node, &run)["state"], "cancelled");
    assert!(is_empty(&mut dial(&node)));
}

#[test]
fn a_kill_between_delivery_and_ack_loses_and_doubles_nothing() {
    let scene = Scene::new();
    let mut node = start(&scene);
    let once = json!({ "retry": { "attempts": 1 } });
    put(&node, &json!({ "name": "orders", "retry": "10m" }), &once);
    let run = run(&node);
    let (id, _) = take(&mut dial(&node));
    // That it was delivered is written within a second.
    wait::pass(Duration::from_secs(3));
    node.kill();
    node.start();
    let mut consumer = dial(&node);
    assert!(is_empty(&mut consumer), "it is in a consumer's hands");
    assert_eq!(tell(&mut consumer, "ACKJOB", &id), 1);
    let ended = ended(&node, &run);
    assert_eq!((&ended["state"], &ended["attempt"]), (&json!("succeeded"), &json!(1)));
    node.kill();
    node.start();
    assert!(is_empty(&mut dial(&node)));
}

#[test]
fn what_cannot_be_delivered_is_said_of_its_field() {
    let scene = Scene::new();
    let node = start(&scene);
    let bad = json!({ "task": { "queue": { "name": "orders", "ttl": "5s", "delay": "1m" } } });
    let answer = node.api().put("/api/v1/namespaces/default/jobs/order", &bad).expect("an answer");
    assert!(!answer.is_ok());
    assert!(answer.json().to_string().contains("task.queue.delay"), "{}", answer.json());
}
