//! Invalid requests get a 4xx with a code, a message and the field, and change nothing.

use punctual_core::ids::RunId;
use punctual_tests::api::{JOBS, RUNS};
use punctual_tests::{Answer, Api, Export, Scene};
use reqwest::Method;
use serde_json::{Value, json};

/// Bad jobs, each with the field that is to blame.
fn bad_jobs() -> Vec<(&'static str, Value)> {
    let with = |name: &str, value: Value| {
        let mut job = json!({ "schedule": { "every": "1h" }, "task": { "noop": {} } });
        job[name] = value;
        job
    };
    let schedule = |schedule: Value| with("schedule", schedule);
    let task = |task: Value| with("task", task);
    vec![
        ("schedule.cron", schedule(json!({ "cron": "61 * * * *" }))),
        ("schedule.cron", schedule(json!({ "cron": "* * *" }))),
        ("schedule.cron", schedule(json!({ "cron": "0 0 30 2 *" }))),
        ("schedule.cron", schedule(json!({ "cron": "*".repeat(300) }))),
        ("schedule.cron", schedule(json!({ "cron": 5 }))),
        ("schedule.timezone", schedule(json!({ "cron": "0 0 * * *", "timezone": "Mars/Olympus" }))),
        ("schedule.every", schedule(json!({ "every": "soon" }))),
        ("schedule.every", schedule(json!({ "every": "-1s" }))),
        ("schedule.every", schedule(json!({ "every": "0s" }))),
        ("schedule.every", schedule(json!({ "every": "99999999999999999999s" }))),
        ("schedule.at", schedule(json!({ "at": "tomorrow" }))),
        ("schedule.max_runs", schedule(json!({ "every": "1s", "max_runs": 0 }))),
        ("schedule.moon", schedule(json!({ "every": "1s", "moon": "full" }))),
        ("schedule", schedule(json!({ "every": "1s", "cron": "* * * * *" }))),
        ("schedule", schedule(json!("every day"))),
        ("schedule", schedule(Value::Array(vec![json!({ "every": "1s" }); 17]))),
        ("task", task(json!({}))),
        ("task", task(json!({ "shell": "true", "noop": {} }))),
        ("task.shell", task(json!({ "shell": "" }))),
        ("task.shell", task(json!({ "shell": "a\u{0}b" }))),
        ("task.shell", task(json!({ "shell": "x".repeat(200_000) }))),
        ("task.process.command", task(json!({ "process": { "command": [] } }))),
        (
            "task.process.env",
            task(json!({ "process": { "command": ["true"], "env": { "LD_PRELOAD": "x" } } })),
        ),
        ("params", with("params", json!([1, 2]))),
        ("params", with("params", json!({ "big": "x".repeat(300_000) }))),
        ("priority", with("priority", json!(10))),
        ("priority", with("priority", json!(-1))),
        ("retry.attempts", with("retry", json!({ "attempts": 0 }))),
        ("retry.attempts", with("retry", json!({ "attempts": 1_000_000 }))),
        ("retry.delay", with("retry", json!({ "delay": "often" }))),
        ("timeout", with("timeout", json!("0s"))),
        ("overlap", with("overlap", json!("maybe"))),
        ("misfire.policy", with("misfire", json!({ "policy": "pray" }))),
        ("limits.running", with("limits", json!({ "running": 0 }))),
        ("keep", with("keep", json!({ "runs": 0 }))),
        ("colour", with("colour", json!("red"))),
        ("name", with("name", json!("another-name"))),
    ]
}

fn bad_submits() -> Vec<(&'static str, Value)> {
    let with = |name: &str, value: Value| {
        let mut submit = json!({ "task": { "noop": {} } });
        submit[name] = value;
        submit
    };
    let mut both = with("due_at", json!("2030-01-01T00:00:00Z"));
    both["delay"] = json!("1s");
    vec![
        ("task", json!({})),
        ("due_at", with("due_at", json!("later"))),
        ("due_at", with("due_at", json!(17))),
        ("delay", with("delay", json!("1y"))),
        ("delay", both),
        ("key", with("key", json!("k".repeat(1000)))),
        ("key", with("key", json!(""))),
        ("priority", with("priority", json!("high"))),
        ("schedule", with("schedule", json!({ "every": "1s" }))),
    ]
}

#[track_caller]
fn check_refused(what: &str, answer: Option<Answer>, field: Option<&str>) {
    let answer = answer.unwrap_or_else(|| panic!("no answer to {what}"));
    assert!((400..500).contains(&answer.status), "{what}: {answer:?}");
    assert!(answer.content_type.starts_with("application/problem+json"), "{what}: {answer:?}");
    let problem = answer.json();
    for said in ["code", "message"] {
        assert!(
            problem[said].as_str().is_some_and(|text| !text.is_empty()),
            "{what}: no {said} in {problem}"
        );
    }
    if let Some(field) = field {
        assert_eq!(problem["field"], field, "{what}: {problem}");
    }
    let text = answer.text.to_lowercase();
    for secret in ["panicked", "src/", ".rs:", "sqlite", "select ", "/home/", "/tmp/", "stack backtrace"] {
        assert!(!text.contains(secret), "{what}: `{secret}` is nobody's business: {problem}");
    }
}

#[test]
fn an_invalid_job_or_submit_is_refused_by_its_field() {
    let scene = Scene::new();
    let node = scene.start();
    let api = node.api();
    for (field, job) in bad_jobs() {
        let sent: String = job.to_string().chars().take(120).collect();
        check_refused(&sent, api.put(&format!("{JOBS}/bad"), &job), Some(field));
    }
    for (field, submit) in bad_submits() {
        let sent: String = submit.to_string().chars().take(120).collect();
        check_refused(&sent, api.post(RUNS, &submit), Some(field));
    }
    let export = Export::of(&node);
    assert_eq!(export.runs().len(), 0);
    assert_eq!(api.get(JOBS).expect("the node answers").ok()["items"], json!([]));
}

#[test]
fn a_request_that_is_no_request_is_refused_and_the_node_goes_on() {
    let scene = Scene::new();
    let node = scene.start();
    let api = node.api();
    let job = json!({ "schedule": { "manual": true }, "task": { "noop": {} } });
    for text in ["", "{", "nul\0", "[]", "\"a job\"", "{\"a\":}", "{} {}", "\u{feff}{}"] {
        check_refused(text, put_text(api, text.to_owned()), None);
    }
    let deep = format!("{{\"params\":{}{}}}", "[".repeat(10_000), "]".repeat(10_000));
    check_refused("a deep nest", put_text(api, deep), None);
    let huge = format!("{{\"description\":\"{}\"}}", "x".repeat(2 << 20));
    // On a connection of its own: nobody has to read all of it before refusing it.
    check_refused("two mebibytes", put_text(&Api::new(api.address()), huge), None);
    for name in ["a%20b", "%00", "..%2f..%2fetc", "naïve", &"x".repeat(129)] {
        check_refused(name, api.put(&format!("{JOBS}/{name}"), &job), None);
    }
    for space in ["Upper", "a..b", "%20"] {
        check_refused(space, api.put(&format!("/api/v1/namespaces/{space}/jobs/x"), &job), None);
    }
    for path in [
        format!("{RUNS}/none"),
        format!("{RUNS}/-1"),
        format!("{RUNS}/99999999999999999999999"),
        format!("{RUNS}/17"),
        format!("{RUNS}?limit=0"),
        format!("{RUNS}?limit=1000000"),
        format!("{RUNS}?limit=many"),
        format!("{RUNS}?state=asleep"),
        format!("{RUNS}?after=nowhere"),
        format!("{RUNS}?since=yesterday"),
        format!("{JOBS}/none"),
        format!("{JOBS}/none/next"),
        "/api/v1/nothing".to_owned(),
        "/api/v2/namespaces".to_owned(),
    ] {
        check_refused(&path, api.get(&path), None);
    }
    // An id of a shard that this store does not have is as unknown as any other.
    let far = RunId(i64::MAX).to_string();
    for path in [
        format!("{RUNS}/17/cancel"),
        format!("{RUNS}/17/retry"),
        format!("{RUNS}/{far}/cancel"),
        format!("{RUNS}/{far}/retry"),
        format!("/api/v1/namespaces/default/dead-letters/{far}/discard"),
        format!("{JOBS}/none/run"),
    ] {
        check_refused(&path, api.post(&path, &json!({})), None);
    }
    check_refused("a strange method", api.send(Method::PATCH, RUNS, Some("{}".to_owned()), None), None);
    let revision = Some(("If-Match", "\"7\""));
    check_refused(
        "an edit of what is not there",
        api.send(Method::PUT, &format!("{JOBS}/x"), Some(job.to_string()), revision),
        None,
    );

    assert_eq!(Export::of(&node).runs().len(), 0);
    assert_eq!(api.get(JOBS).expect("the node answers").ok()["items"], json!([]));
    assert_eq!(api.put_job("good", &job)["revision"], 1, "and a good one is taken as ever");
}

fn put_text(api: &Api, text: String) -> Option<Answer> {
    api.send(Method::PUT, &format!("{JOBS}/x"), Some(text), None)
}
