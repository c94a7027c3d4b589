//! Editing: patches, revisions and what lies between them, and a check that saves nothing.

use axum::body::Body;
use axum::http::Request;
use punctual_wire::rest::{Checked, Diff, Job, Page, Problem, Revision};
use serde_json::{Value, json};

use super::{JOBS, Scene, with_json};

async fn with_job(scene: &Scene) -> String {
    let path = format!("{JOBS}/a");
    let file = json!({ "schedule": { "every": "1m" }, "task": { "shell": "echo hi" }, "params": { "x": 1 } });
    scene.put(&path, file).await.read::<Job>(201);
    path
}

#[tokio::test]
async fn a_patch_changes_what_it_names_and_an_empty_one_nothing() {
    let scene = Scene::new().await;
    let path = with_job(&scene).await;
    let patched = scene.patch(&path, json!({ "priority": 7, "params": { "x": null, "y": 2 } })).await;
    assert_eq!((patched.header("etag"), patched.header("punctual-made")), ("\"2\"", "changed"));
    let job: Value = patched.read(200);
    assert_eq!((&job["priority"], &job["params"]), (&json!(7), &json!({ "y": 2 })));
    assert_eq!(job["schedule"]["every"], "1m", "what it does not name stays");

    for same in [json!({}), json!({ "priority": 7 }), json!({ "timeout": null })] {
        let unchanged = scene.patch(&path, same).await;
        let said = (unchanged.header("etag"), unchanged.header("punctual-made"));
        assert_eq!(said, ("\"2\"", "unchanged"));
    }
    let request = Request::patch(&path).header("content-type", "application/merge-patch+json");
    let answer = scene.send(request.body(Body::from(r#"{"priority":1}"#)).unwrap()).await;
    assert_eq!(answer.read::<Job>(200).revision, 3);
}

#[tokio::test]
async fn a_patch_on_another_revision_changes_nothing() {
    let scene = Scene::new().await;
    let path = with_job(&scene).await;
    let patch = async |header: &str, value: &str| {
        let request = Request::patch(&path).header(header, value);
        scene.send(with_json(request, &json!({ "priority": 9 }))).await
    };
    assert_eq!(patch("if-match", "\"2\"").await.read::<Problem>(412).status, 412);
    assert_eq!(
        patch("if-none-match", "*").await.read::<Problem>(400).field.as_deref(),
        Some("If-None-Match")
    );
    assert_eq!(scene.get(&path).await.read::<Job>(200).revision, 1);
    assert_eq!(patch("if-match", "\"1\"").await.read::<Job>(200).revision, 2);
    let missing = scene.patch(&format!("{JOBS}/none"), json!({})).await;
    assert_eq!(missing.read::<Problem>(404).status, 404);
}

#[tokio::test]
async fn patches_at_once_are_all_taken() {
    let scene = Scene::new().await;
    let path = with_job(&scene).await;
    let patches = (0..8).map(|n| scene.patch(&path, json!({ "params": { format!("p{n}"): n } })));
    for answer in futures_util::future::join_all(patches).await {
        answer.read::<Job>(200);
    }
    let job: Value = scene.get(&path).await.read(200);
    assert_eq!(job["params"].as_object().unwrap().len(), 9, "{job}");
}

#[tokio::test]
async fn a_patch_that_makes_no_good_job_is_refused_with_the_field() {
    let scene = Scene::new().await;
    let path = with_job(&scene).await;
    let rows = [
        (json!({ "schedule": { "cron": "* * * * *" } }), 422, "schedule"),
        (json!({ "task": null }), 422, "task"),
        (json!({ "state": "paused" }), 422, "state"),
        (json!({ "name": "b" }), 422, "name"),
        (json!([1]), 422, ""),
    ];
    for (body, status, field) in rows {
        let problem: Problem = scene.patch(&path, body.clone()).await.read(status);
        assert_eq!(problem.field.as_deref().unwrap_or(""), field, "{body}");
    }
    let yaml =
        Request::patch(&path).header("content-type", "application/yaml").body(Body::from("priority: 1"));
    assert_eq!(scene.send(yaml.unwrap()).await.status, 415);
    let put =
        Request::put(&path).header("content-type", "application/merge-patch+json").body(Body::from("{}"));
    assert_eq!(scene.send(put.unwrap()).await.status, 415, "a whole job is no patch");
    assert_eq!(scene.get(&path).await.read::<Job>(200).revision, 1, "nothing happened");
}

#[tokio::test]
async fn revisions_are_listed_shown_compared_and_put_back() {
    let scene = Scene::new().await;
    let path = with_job(&scene).await;
    scene.patch(&path, json!({ "schedule": { "every": "2m" }, "timeout": "5s" })).await.read::<Job>(200);
    scene.patch(&path, json!({ "params": { "x": 2 } })).await.read::<Job>(200);

    let first: Page<Revision> = scene.get(&format!("{path}/revisions?limit=2")).await.read(200);
    let seen: Vec<_> = first.items.iter().map(|one| (one.revision, one.changed.clone().unwrap())).collect();
    assert_eq!(
        seen,
        [(3, vec!["params".to_owned()]), (2, vec!["schedule".to_owned(), "timeout".to_owned()])]
    );
    let next = first.next.expect("there is a first one");
    let rest: Page<Revision> = scene.get(&format!("{path}/revisions?limit=2&after={next}")).await.read(200);
    assert_eq!((rest.items.len(), rest.items[0].changed.as_ref(), rest.next), (1, None, None));

    let diff: Diff = scene.get(&format!("{path}/revisions/3/diff")).await.read(200);
    assert_eq!((diff.from, diff.to, diff.changes.len()), (2, 3, 1));
    assert_eq!(diff.changes[0].path, "params.x");
    assert_eq!((&diff.changes[0].before, &diff.changes[0].after), (&Some(json!(1)), &Some(json!(2))));
    let whole: Diff = scene.get(&format!("{path}/revisions/3/diff?from=1")).await.read(200);
    let paths: Vec<&str> = whole.changes.iter().map(|change| change.path.as_str()).collect();
    assert_eq!(paths, ["params.x", "schedule.every", "timeout"]);

    let old: Value = scene.get(&format!("{path}/revisions/1")).await.read(200);
    assert_eq!((&old["revision"], &old["schedule"]["every"]), (&json!(1), &json!("1m")));
    let back: Job = scene.put(&path, old).await.read(200);
    assert_eq!(back.revision, 4, "what was is put back as a new revision");
    let nothing: Diff = scene.get(&format!("{path}/revisions/4/diff?from=1")).await.read(200);
    assert_eq!(nothing.changes, []);

    let rows = [("9", 404, ""), ("0", 404, ""), ("one", 400, "revision"), ("1/diff", 400, "from")];
    for (rest, status, field) in rows {
        let problem: Problem = scene.get(&format!("{path}/revisions/{rest}")).await.read(status);
        assert_eq!(problem.field.as_deref().unwrap_or(""), field, "{rest}");
    }
}

#[tokio::test]
async fn a_job_is_checked_and_not_saved() {
    let scene = Scene::new().await;
    let path = format!("{JOBS}/validate");
    let file =
        json!({ "name": "a", "schedule": { "cron": "0 9 * * *" }, "task": { "noop": {} }, "timeout": "2d" });
    let checked: Checked = scene.post(&path, file).await.read(200);
    assert_eq!(checked.job.priority, Some(5), "with every default");
    let due: Vec<String> = checked.next.iter().map(|fire| fire.due_at.to_string()).collect();
    assert_eq!((due.len(), due[0].as_str()), (5, "2027-01-15T09:00:00.000Z"));
    assert_eq!(checked.warnings[0].field, "timeout");
    assert_eq!(scene.get(JOBS).await.read::<Page<Job>>(200).items, [], "nothing was saved");

    let (first, last) =
        (json!({ "task": { "noop": {} } }), json!({ "needs": ["first"], "wait": { "for": "1m" } }));
    let workflow = json!({ "steps": { "first": first, "last": last } });
    let file = json!({ "name": "a", "task": { "workflow": workflow } });
    let checked: Checked = scene.post(&path, file.clone()).await.read(200);
    assert_eq!(checked.graph, None);
    let checked: Checked = scene.post(&format!("{path}?graph=true"), file).await.read(200);
    let levels = checked.graph.unwrap().nodes.into_iter().map(|node| (node.step, node.level));
    assert_eq!(levels.collect::<Vec<_>>(), [("first".to_owned(), 1), ("last".to_owned(), 2)]);

    let rows = [
        (json!({ "task": { "noop": {} } }), "name"),
        (json!({ "name": "a", "namespace": "b", "task": { "noop": {} } }), "namespace"),
        (
            json!({ "name": "a", "task": { "noop": {} }, "schedule": { "cron": "61 * * * *" } }),
            "schedule.cron",
        ),
        (json!({ "name": "a" }), "task"),
    ];
    for (body, field) in rows {
        let problem: Problem = scene.post(&path, body.clone()).await.read(422);
        assert_eq!(problem.field.as_deref(), Some(field), "{body}");
    }
}

#[tokio::test]
async fn a_job_may_be_called_validate() {
    let scene = Scene::new().await;
    let path = format!("{JOBS}/validate");
    assert_eq!(scene.put(&path, json!({ "task": { "noop": {} } })).await.read::<Job>(201).revision, 1);
    assert_eq!(scene.get(&path).await.read::<Job>(200).revision, 1);
    assert_eq!(scene.patch(&path, json!({ "priority": 1 })).await.read::<Job>(200).revision, 2);
    assert_eq!(scene.post(&format!("{path}/pause"), json!({})).await.status, 200);
    assert_eq!(scene.get(&format!("{path}/revisions")).await.read::<Page<Revision>>(200).items.len(), 3);
    assert_eq!(scene.post(&path, json!({ "name": "b", "task": { "noop": {} } })).await.status, 200);
    assert_eq!(scene.send(Request::delete(&path).body(Body::empty()).unwrap()).await.status, 204);
}
