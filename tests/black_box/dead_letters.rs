//! From a failing job to its end: attempts with their times and their progress, a dead letter, a replay that succeeds.

use punctual_core::Timestamp;
use punctual_tests::api::RUNS;
use punctual_tests::history::has_ended;
use punctual_tests::wait::{self, SOON};
use punctual_tests::{Export, Node, Scene};
use punctual_verify::Options;
use serde_json::{Value, json};

/// Fails until it is told another region.
fn picky() -> Value {
    let shell =
        "case \"$PUNCTUAL_PARAMS\" in *west*) echo served;; *) echo no such region >&2; exit 3;; esac";
    json!({
        "schedule": { "manual": true },
        "task": { "shell": shell },
        "params": { "region": "east" },
        "retry": { "attempts": 3, "delay": "200ms", "backoff": "fixed" },
    })
}

#[track_caller]
fn wait_for_end(node: &Node, id: &Value) -> Value {
    let id = id.as_str().expect("a run has an id").to_owned();
    wait::until(&format!("run {id} has ended"), SOON, || Some(node.api().run(&id)).filter(has_ended))
}

fn letters(node: &Node) -> Vec<Value> {
    node.cli(["dlq", "list", "-o", "json"]).json().as_array().expect("a listing is a list").clone()
}

fn instant(value: &Value) -> Timestamp {
    value.as_str().and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("no instant: {value}"))
}

#[test]
fn a_dead_letter_is_replayed_with_other_params() {
    let scene = Scene::new();
    let node = scene.start();
    node.api().put_job("picky", &picky());
    let run = wait_for_end(&node, &node.api().start_job("picky")["id"]);
    assert_eq!(run["state"], "failed", "{run}");
    let attempts = run["attempts"].as_array().expect("a run shows its attempts");
    assert_eq!(attempts.len(), 3, "{run}");
    for attempt in attempts {
        assert_eq!((&attempt["result"], &attempt["exit_code"]), (&json!("failed"), &json!(3)), "{attempt}");
        assert!(attempt["worker"].is_string() && attempt["started_at"].is_string(), "{attempt}");
    }
    for pair in attempts.windows(2) {
        let pause = instant(&pair[1]["assigned_at"]).since(instant(&pair[0]["finished_at"]));
        // What lasts goes by a clock of its own; both show whole milliseconds, so a pause may look shorter by one.
        assert!(pause.as_millis() >= 199, "tried again too soon: {run}");
    }
    assert!(run["lateness_ms"].is_u64(), "{run}");

    let id = run["id"].as_str().expect("a run has an id");
    let shown = node.cli(["dlq", "show", id]).ok();
    assert!(shown.contains("{\"region\":\"east\"}") && shown.contains("failed (3)"), "{shown}");
    node.cli(["dlq", "replay", id, "--params", "{\"region\": \"west\"}"]).ok();
    let replay = wait::until("the replay has ended", SOON, || {
        let runs = node.api().runs_of("picky");
        runs.into_iter().find(|run| run["retry_of"] == id && has_ended(run))
    });
    assert_eq!((&replay["state"], &replay["trigger"]), (&json!("succeeded"), &json!("retry")), "{replay}");
    assert_eq!(replay["output"].as_str().map(str::trim), Some("served"));
    assert_eq!(replay["due_at"], run["due_at"], "the due time stays");
    assert_eq!(letters(&node), Vec::<Value>::new());
    let twice = node.cli(["dlq", "replay", id]);
    assert_eq!(twice.status.code(), Some(4), "it was decided about: {twice:?}");
    let due = "2026-11-01T08:00:00.000Z";
    let retried = node.cli(["run", "retry", id, "--due", due, "-o", "json"]).json();
    let retried = wait_for_end(&node, &retried["id"]);
    assert_eq!(retried["due_at"], due);
    assert!(retried["lateness_ms"].as_u64().is_some_and(|late| late < 3_600_000), "{retried}");
    Export::of(&node).verify(&scene, &node, &Options { may_be_empty: true, ..Options::default() });
}

#[test]
fn the_letters_of_a_job_are_decided_about_together() {
    let scene = Scene::new();
    let node = scene.start();
    let mut job = picky();
    job["retry"] = json!({ "attempts": 1 });
    for name in ["picky", "other"] {
        node.api().put_job(name, &job);
    }
    for name in ["picky", "picky", "picky", "other"] {
        wait_for_end(&node, &node.api().start_job(name)["id"]);
    }
    assert_eq!(letters(&node).len(), 4);
    let some = node.cli(["dlq", "list", "--job", "other", "-o", "json"]).json();
    assert_eq!(some.as_array().map(Vec::len), Some(1), "{some}");

    let said =
        node.cli(["dlq", "replay", "--all", "--job", "picky", "--params", "{\"region\": \"west\"}"]).ok();
    assert_eq!(said.lines().filter(|line| line.starts_with("replayed ")).count(), 3, "{said}");
    wait::until_so("all of them have succeeded, one after the other", SOON, || {
        let runs = node.api().runs_of("picky");
        runs.iter().filter(|run| run["trigger"] == "retry" && run["state"] == "succeeded").count() == 3
    });
    let refused = node.cli(["dlq", "discard", "--all", "--job", "other"]);
    assert_eq!(refused.status.code(), Some(2), "a script is not asked: {refused:?}");
    node.cli(["dlq", "discard", "--all", "--job", "other", "--yes"]).ok();
    assert_eq!(letters(&node), Vec::<Value>::new());
    let left = node.api().runs_of("other");
    assert_eq!(left[0]["state"], "failed", "its history stays: {left:?}");
}

#[test]
fn only_the_newest_attempt_reports_progress() {
    let scene = Scene::new();
    let node = scene.start();
    let run = node.api().submit(&json!({ "task": { "shell": "sleep 300" } }));
    let id = run["id"].as_str().expect("a run has an id");
    let token = wait::until("it runs", SOON, || {
        let run = node.api().run(id);
        run["attempts"][0]["token"].as_str().map(str::to_owned)
    });
    let say = |token: &str| {
        let body = json!({ "token": token, "percent": 40 });
        node.api().post(&format!("{RUNS}/{id}/progress"), &body).expect("the node answers")
    };
    assert_eq!(say(&token).status, 204);
    wait::until_so("it is shown", SOON, || node.api().run(id)["progress"] == 40);
    let outdated = say("1");
    assert_eq!((outdated.status, &outdated.json()["code"]), (409, &json!("outdated_token")), "{outdated:?}");
    node.cli(["run", "cancel", id]).ok();
    wait_for_end(&node, &run["id"]);
    assert_eq!(say(&token).status, 409, "it has ended");
}
