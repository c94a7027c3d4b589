//! What a job said before: listed, compared, put back; and edits that do not run over each other.

use punctual_tests::api::JOBS;
use punctual_tests::{Answer, Api, Scene};
use reqwest::Method;
use serde_json::{Value, json};

fn patch(api: &Api, body: &Value, revision: Option<u32>) -> Answer {
    let tag = revision.map(|revision| format!("\"{revision}\""));
    let header = tag.as_deref().map(|tag| ("if-match", tag));
    api.send(Method::PATCH, &format!("{JOBS}/nightly"), Some(body.to_string()), header)
        .expect("the node answers")
}

fn get(api: &Api, rest: &str) -> Value {
    api.get(&format!("{JOBS}/nightly{rest}")).expect("the node answers").ok()
}

#[test]
fn every_edit_is_a_revision_that_can_be_read_compared_and_put_back() {
    let scene = Scene::new();
    let mut node = scene.start();
    let api = node.api().clone();
    api.put_job("nightly", &json!({ "schedule": { "cron": "0 1 * * *" }, "task": { "shell": "echo hi" } }));
    patch(&api, &json!({ "schedule": { "cron": "0 2 * * *" } }), None).ok();
    patch(&api, &json!({ "retry": { "attempts": 3 }, "timeout": "1h" }), None).ok();
    let same = patch(&api, &json!({ "timeout": "1h" }), None).ok();
    assert_eq!(same["revision"], 3, "an edit that changes nothing is none");

    // What a kill leaves is the same history.
    node.kill();
    node.start();
    let api = node.api().clone();
    let revisions = get(&api, "/revisions");
    let seen: Vec<(u64, &Value)> = revisions["items"]
        .as_array()
        .expect("a page has items")
        .iter()
        .map(|one| (one["revision"].as_u64().unwrap_or(0), &one["changed"]))
        .collect();
    assert_eq!(seen, [(3, &json!(["retry", "timeout"])), (2, &json!(["schedule"])), (1, &Value::Null)]);
    let diff = get(&api, "/revisions/2/diff");
    let change = json!({ "path": "schedule.cron", "before": "0 1 * * *", "after": "0 2 * * *" });
    assert_eq!(diff, json!({ "from": 1, "to": 2, "changes": [change] }));
    assert_eq!(get(&api, "/revisions/1")["schedule"]["cron"], "0 1 * * *");

    let said = node.cli(["job", "revisions", "nightly", "--diff", "3", "--from", "1"]).ok();
    assert!(said.contains("~ schedule.cron: \"0 1 * * *\" -> \"0 2 * * *\""), "{said}");
    let back = node.cli(["job", "rollback", "nightly", "--to", "1"]).ok();
    assert!(back.contains("as it was in revision 1, now revision 4"), "{back}");
    assert_eq!(get(&api, "/revisions/4/diff?from=1")["changes"], json!([]));
    assert_eq!(node.cli(["job", "rollback", "nightly", "--to", "9"]).status.code(), Some(3));
}

#[test]
fn an_edit_on_an_older_revision_is_refused_and_changes_nothing() {
    let scene = Scene::new();
    let node = scene.start();
    let api = node.api();
    let job = json!({ "schedule": { "every": "1h" }, "task": { "noop": {} } });
    api.put_job("nightly", &job);
    assert_eq!(patch(api, &json!({ "priority": 7 }), Some(1)).status, 200);
    let before = get(api, "");
    let late = patch(api, &json!({ "priority": 1 }), Some(1));
    assert_eq!((late.status, &late.json()["code"]), (412, &json!("wrong_revision")), "{late:?}");
    for (method, body) in [(Method::PUT, Some(job.to_string())), (Method::DELETE, None)] {
        let path = format!("{JOBS}/nightly");
        let answer = api.send(method, &path, body, Some(("if-match", "\"1\""))).expect("the node answers");
        assert_eq!(answer.status, 412, "{answer:?}");
    }
    assert_eq!(get(api, ""), before, "nothing happened");
}

#[test]
fn a_job_can_be_checked_without_being_saved() {
    let scene = Scene::new();
    let node = scene.start();
    let check = |body: &Value| node.api().post(&format!("{JOBS}/validate"), body).expect("the node answers");
    let good = check(&json!({ "name": "a", "schedule": { "every": "1h" }, "task": { "noop": {} } })).ok();
    assert_eq!(good["next"].as_array().map(Vec::len), Some(5), "{good}");
    assert_eq!((&good["warnings"], &good["job"]["overlap"]), (&json!([]), &json!("skip")), "{good}");
    let odd = check(&json!({ "name": "a", "task": { "noop": {} } })).ok();
    assert_eq!(odd["warnings"][0]["field"], "schedule", "{odd}");
    let bad = check(&json!({ "name": "a", "schedule": { "cron": "nonsense" }, "task": { "noop": {} } }));
    assert_eq!((bad.status, &bad.json()["field"]), (422, &json!("schedule.cron")), "{bad:?}");
    assert_eq!(node.api().get(JOBS).expect("the node answers").ok()["items"], json!([]), "nothing was saved");
}
