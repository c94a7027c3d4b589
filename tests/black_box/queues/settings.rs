//! Queues with settings (R56, R94): the order over all consumers, deliveries in a time, and the dead-letter queue.

use std::time::Duration;

use punctual_tests::wait::{self, SOON};
use punctual_tests::{Node, Scene};
use serde_json::{Value, json};

use super::{Worker, echo, lines, queued, start};

/// Takes one message: its id and its body. `None` means that the queue gives none.
fn take(node: &Node, queue: &str) -> Option<(String, String)> {
    let taken = node.cli(["queue", "get", queue, "-o", "json"]);
    if taken.status.code() == Some(3) {
        return None;
    }
    let message = taken.json()[0].clone();
    let text = |field: &str| message[field].as_str().map(str::to_owned);
    Some((text("id")?, text("body")?))
}

fn add_lines(node: &Node, queue: &str, bodies: impl Iterator<Item = u32>) {
    let text: String = bodies.map(|body| format!("{body}\n")).collect();
    echo(node, &text, &["queue", "add", queue, "--lines"]);
}

/// R94: the consumers need not know that the queue is serial.
#[test]
fn running_1_keeps_the_order_over_all_workers_and_a_kill() {
    let scene = Scene::new();
    let mut node = start(&scene);
    node.cli(["queue", "set", "ledger", "--running", "1"]).ok();
    add_lines(&node, "ledger", 10..20);
    let (first, _) = take(&node, "ledger").expect("the queue has messages");
    node.kill();
    node.start();
    assert_eq!(take(&node, "ledger"), None, "the delivery and the setting were written");
    node.cli(["queue", "ack", &first]).ok();

    let file = scene.path("order");
    let script = format!("body=$(cat); echo +$body >> {0}; sleep 0.02; echo -$body >> {0}", file.display());
    let words = ["ledger", "--slots", "4", "--", "sh", "-c", &script];
    let _workers = [Worker::start(&node, &words), Worker::start(&node, &words)];
    wait::until_so("all are done", SOON, || lines(&file).len() == 18);
    let expected: Vec<String> =
        (11..20).flat_map(|number| [format!("+{number}"), format!("-{number}")]).collect();
    assert_eq!(lines(&file), expected);
}

#[test]
fn messages_that_fail_or_expire_are_moved_once_though_the_node_is_killed() {
    let scene = Scene::new();
    let mut node = start(&scene);
    node.cli(["queue", "set", "mail", "--max-deliveries", "2", "--dead-letter", "mail.dead"]).ok();
    add_lines(&node, "mail", 0..3);
    for _ in 0..2 {
        for _ in 0..3 {
            let (id, _) = take(&node, "mail").expect("a message that was given back is delivered again");
            node.cli(["queue", "nack", &id]).ok();
        }
        node.kill();
        node.start();
    }
    echo(&node, "late", &["queue", "add", "mail", "--ttl", "1s"]);
    node.kill();
    node.start();
    wait::until_so("four messages are moved", SOON, || queued(&node, "mail.dead") == 4);
    assert_eq!(queued(&node, "mail"), 0);
    let mut bodies: Vec<String> =
        (0..4).filter_map(|_| take(&node, "mail.dead")).map(|(_, body)| body).collect();
    bodies.sort();
    assert_eq!(bodies, ["0", "1", "2", "late"]);
    node.kill();
    node.start();
    assert_eq!(queued(&node, "mail.dead"), 4, "none is moved again");
    let settings = &node.cli(["queue", "stat", "mail", "-o", "json"]).json()["settings"];
    assert_eq!((&settings["max_deliveries"], &settings["dead_letter"]), (&json!(2), &json!("mail.dead")));
}

/// R56: a message is held for a fixed time.
#[test]
fn a_held_queue_delivers_a_message_after_its_hold() {
    let scene = Scene::new();
    let node = start(&scene);
    node.cli(["queue", "set", "orders", "--hold", "4s"]).ok();
    let began = wait::now();
    echo(&node, "paid", &["queue", "add", "orders"]);
    assert_eq!(take(&node, "orders"), None, "the message is held");
    let taken = node.cli(["queue", "get", "orders", "--wait", "20s", "-o", "json"]).json();
    assert_eq!(taken[0]["body"], "paid");
    assert!(wait::now() - began >= Duration::from_secs(4));
}

#[test]
fn wrong_settings_name_the_field_and_change_nothing() {
    let scene = Scene::new();
    let node = start(&scene);
    node.cli(["queue", "set", "mail", "--running", "3"]).ok();
    let refuse = |words: &[&str], code: i32, said: &str| {
        let told = node.cli(["queue", "set", "mail"].into_iter().chain(words.iter().copied()));
        assert_eq!(told.status.code(), Some(code), "{words:?}: {told:?}");
        assert!(told.err.contains(said), "{words:?}: {told:?}");
    };
    refuse(&["--running", "0"], 4, "running: ");
    refuse(&["--rate", "0/s"], 4, "rate: ");
    refuse(&["--max-deliveries", "2"], 4, "max_deliveries: needs a `dead_letter`");
    refuse(&["--dead-letter", "mail"], 4, "dead_letter: ");
    refuse(&[], 2, "--running");
    let settings: Value = node.cli(["queue", "stat", "mail", "-o", "json"]).json()["settings"].clone();
    assert_eq!(settings["running"], json!(3));
    node.cli(["queue", "set", "mail", "--none"]).ok();
    assert!(node.cli(["queue", "stat", "mail", "-o", "json"]).json()["settings"].is_null());
}
