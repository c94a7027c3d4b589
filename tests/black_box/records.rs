//! What is on record of a job that was paused, edited and deleted: it is checked whole, and people can read it.

use std::time::Duration;

use punctual_tests::api::JOBS;
use punctual_tests::{Export, Node, Scene, wait};
use punctual_verify::Options;
use reqwest::Method;
use serde_json::{Value, json};

const SOON: Duration = Duration::from_secs(60);

fn every(period: &str) -> Value {
    json!({
        "schedule": { "every": period },
        "task": { "noop": {} },
        "overlap": "allow",
        "keep": { "runs": 100_000 },
    })
}

/// Waits until the job has fired so often under its newest revision.
fn fires(node: &Node, count: usize) {
    let revision =
        node.api().get(&format!("{JOBS}/beat")).expect("the node answers").ok()["revision"].clone();
    wait::until_so("the job fires", SOON, || {
        let export = Export::of(node);
        export.fires("beat").iter().filter(|run| run["revision"] == revision).count() >= count
    });
}

fn post(node: &Node, verb: &str) {
    node.api().post(&format!("{JOBS}/beat/{verb}"), &json!({})).expect("the node answers").ok();
}

fn text_of(node: &Node) -> String {
    node.api().get("/api/v1/export/history").expect("the node answers").text
}

/// Runs `punctual verify` over these lines: whether it is content, and what it says.
fn verify(scene: &Scene, node: &Node, lines: &[&str]) -> (bool, String) {
    let file = scene.write("mutated.ndjson", &lines.join("\n"));
    let cli = node.cli(["verify".as_ref(), file.as_os_str()]);
    (cli.status.success(), format!("{}{}", cli.out, cli.err))
}

#[test]
fn a_history_with_pauses_edits_and_a_deletion_is_checked_whole() {
    let scene = Scene::new();
    let node = scene.start();
    node.api().put_job("beat", &every("50ms"));
    fires(&node, 10);
    post(&node, "pause");
    // A few due times fall into the pause.
    wait::pass(Duration::from_millis(300));
    post(&node, "resume");
    fires(&node, 3);
    node.api().put_job("beat", &every("1h"));
    node.api().put_job("beat", &every("70ms"));
    fires(&node, 3);
    let deleted = node.api().send(Method::DELETE, &format!("{JOBS}/beat"), None, None);
    assert_eq!(deleted.expect("the node answers").status, 204);

    let export = Export::of(&node);
    export.verify(&scene, &node, &Options::default());
    let reasons: Vec<&Value> = export.skips("beat").iter().map(|skip| &skip["reason"]).collect();
    assert!(reasons.contains(&&json!("paused")) && reasons.contains(&&json!("edited")), "{reasons:?}");

    let listed = node.cli(["job", "skips", "beat", "-o", "json"]).json();
    let listed = listed.as_array().expect("a listing is a list");
    assert_eq!(listed.len(), reasons.len(), "the history of a deleted job stays: {listed:?}");
    let paused = listed.iter().find(|skip| skip["reason"] == "paused").expect("the pause is listed");
    assert!(paused["count"].as_u64() >= Some(5), "{paused}");
    let runs = node.cli(["run", "list", "--job", "beat", "-o", "json"]).json();
    assert!(runs.as_array().is_some_and(|runs| !runs.is_empty()), "{runs}");

    let text = text_of(&node);
    let lines: Vec<&str> = text.lines().collect();
    let (content, said) = verify(&scene, &node, &lines);
    assert!(content, "{said}");
    // A fire before the pause and its events are taken away; the oldest may have been pruned, so a later one.
    let is_old = |run: &&Value| run["revision"] == 1;
    let lost = export.fires("beat").into_iter().filter(is_old).nth(5).expect("ten fires before the pause");
    let id = lost["id"].as_str().expect("a run has an id");
    let without: Vec<&str> = lines.iter().copied().filter(|line| !line.contains(id)).collect();
    let (content, said) = verify(&scene, &node, &without);
    assert!(!content && said.contains("neither a run nor a recorded skip"), "{said}");
    // Without the record of the pause, or without a revision, it is not content either.
    for (kind, word) in [("skip", "\"paused\""), ("revision", "\"paused\"")] {
        let kind = format!("\"type\":\"{kind}\"");
        let is_it = |line: &&str| line.contains(&kind) && line.contains(word);
        let without: Vec<&str> = lines.iter().copied().filter(|line| !is_it(line)).collect();
        assert!(without.len() < lines.len());
        let (content, said) = verify(&scene, &node, &without);
        assert!(!content, "{said}");
    }
}
