//! `punctual hold` and `punctual release`, and what they say.

use punctual_tests::Scene;
use punctual_tests::wait::{self, SOON};
use serde_json::Value;

#[test]
fn a_namespace_is_held_and_released_from_the_command_line() {
    let scene = Scene::new();
    let node = scene.start();
    let said = node.cli(["hold", "-n", "payments", "--reason", "the bank is closed", "--for", "2h"]).ok();
    assert!(said.starts_with("namespace `payments` is on hold: the bank is closed, until "), "{said}");
    let inner = ["-n", "payments/eu"];
    let shown = node.cli(["hold"].into_iter().chain(inner)).ok();
    assert!(shown.contains("payments") && shown.contains("the bank is closed"), "{shown}");
    assert!(node.cli(["hold"]).ok().contains("no hold is in force"));

    let submit = ["run", "submit", "--shell", "true", "-o", "json"];
    let run: Value = node.cli(submit.into_iter().chain(inner)).json();
    let id = run["id"].as_str().expect("a run has an id").to_owned();
    let why = node.cli(["run", "why", &id].into_iter().chain(inner)).ok();
    assert!(why.contains("namespace `payments` is on hold: the bank is closed"), "{why}");
    let refused = node.cli(["release"].into_iter().chain(inner));
    assert_eq!(refused.status.code(), Some(3), "{refused:?}");
    assert!(refused.err.contains("the hold of namespace `payments` covers it"), "{refused:?}");

    assert_eq!(node.cli(["release", "-n", "payments"]).ok().trim(), "released payments");
    wait::until_so("the run has ended", SOON, || {
        let shown = node.cli(["run", "show", &id, "-o", "json"].into_iter().chain(inner)).json();
        shown["state"] == "succeeded"
    });
}

#[test]
fn a_hold_without_a_reason_is_a_wrong_use() {
    let scene = Scene::new();
    let node = scene.start();
    for words in [
        &["hold", "--for", "2h"][..],
        &["hold", "--fires", "keep"],
        &["hold", "--reason", "x", "--for", "2h", "--until", "2040-01-01T00:00:00Z"],
        &["hold", "--reason", "x", "--fires", "later"],
    ] {
        let said = node.cli(words);
        assert_eq!(said.status.code(), Some(2), "{words:?}: {said:?}");
    }
    let empty = node.cli(["hold", "--reason", " "]);
    assert_eq!(empty.status.code(), Some(4), "{empty:?}");
    assert!(node.cli(["hold"]).ok().contains("no hold is in force"));
}
