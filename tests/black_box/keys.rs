//! A key makes a repeated ask have one effect (P6, T-29).

use std::collections::BTreeSet;

use punctual_tests::api::RUNS;
use punctual_tests::wait::{self, SOON};
use punctual_tests::{Export, Scene};
use serde_json::json;

#[test]
fn a_hundred_submits_of_one_key_at_once_make_one_run() {
    let scene = Scene::new();
    let mut node = scene.start();
    let body = json!({ "task": { "shell": "echo once" }, "key": "order-17" });
    let answers = node.api().post_at_once(RUNS, &body, 100);
    let runs = answers.into_iter().map(|answer| answer.expect("the node answers").ok());
    let ids: BTreeSet<String> =
        runs.map(|run| run["id"].as_str().expect("a run has an id").to_owned()).collect();
    assert_eq!(ids.len(), 1, "{ids:?}");

    let id = ids.first().expect("one id").clone();
    wait::until_so("it succeeds", SOON, || node.api().run(&id)["state"] == "succeeded");
    // A key outlives the run and the process.
    node.kill();
    node.start();
    assert_eq!(node.api().submit(&body)["id"], id.as_str());
    let header = Some(("Idempotency-Key", "order-17"));
    let bare = json!({ "task": { "shell": "echo once" } }).to_string();
    let by_header = node.api().send(reqwest::Method::POST, RUNS, Some(bare), header);
    assert_eq!(by_header.expect("the node answers").ok()["id"], id.as_str());
    assert_eq!(Export::of(&node).runs().len(), 1);
}
