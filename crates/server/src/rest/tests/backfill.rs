//! Backfills over REST: what is answered, what is shown, and what is refused.

use punctual_wire::rest::{Backfill, Problem, Run, RunPage, State};
use serde_json::{Value, json};

use super::{JOBS, RUNS, Scene};

/// A job that nothing executes, with a due time at 01:00 in Berlin, which is midnight in UTC.
async fn scene_with_a_job() -> Scene {
    let scene = Scene::new().await;
    let schedule = json!({ "cron": "0 1 * * *", "timezone": "Europe/Berlin" });
    let job = json!({ "schedule": schedule, "task": { "noop": {} }, "overlap": "allow" });
    scene.put(&format!("{JOBS}/report"), job).await;
    scene
}

fn january(extra: &Value) -> Value {
    let mut body = json!({ "from": "2027-01-01T00:00:00Z", "to": "2027-01-05T00:00:00Z" });
    for (name, value) in extra.as_object().into_iter().flatten() {
        body[name] = value.clone();
    }
    body
}

#[tokio::test]
async fn a_backfill_is_made_shown_paused_and_cancelled() {
    let scene = scene_with_a_job().await;
    let path = format!("{JOBS}/report/backfill");
    let asked: Backfill = scene.post(&path, january(&json!({ "dry_run": true }))).await.read(200);
    assert_eq!((asked.total, asked.run, asked.left_out), (4, None, Vec::new()));
    assert_eq!(asked.first_due_at.unwrap().to_string(), "2027-01-01T00:00:00.000Z");
    assert_eq!(asked.last_due_at.unwrap().to_string(), "2027-01-04T00:00:00.000Z");

    let limits = json!({ "limits": { "running": 2 }, "newest_first": true, "params": { "region": "east" } });
    let made: Backfill = scene.post(&path, january(&limits)).await.read(201);
    let parent = made.run.expect("it was made");
    assert_eq!((made.total, parent.trigger.to_string().as_str()), (4, "backfill"));
    let shown: Run = scene.get(&format!("{RUNS}/{}", parent.id)).await.read(200);
    let span = shown.backfill.expect("it is a backfill");
    assert_eq!((span.total, span.to.to_string().as_str()), (4, "2027-01-05T00:00:00.000Z"));
    let dues: Vec<String> =
        shown.children.unwrap().iter().map(|child| child.due_at.unwrap().to_string()).collect();
    assert_eq!(dues, ["2027-01-04T00:00:00.000Z", "2027-01-03T00:00:00.000Z"], "two at once");
    let children: RunPage = scene.get(&format!("{RUNS}?parent={}", parent.id)).await.read(200);
    let child = &children.items[0];
    assert_eq!((child.trigger.to_string().as_str(), child.shard), ("backfill", None));
    assert_eq!(child.due_at.to_string(), "2027-01-04T00:00:00.000Z");

    let again: Backfill = scene.post(&path, january(&json!({}))).await.read(200);
    assert_eq!((again.total, again.run, again.left_out.len()), (0, None, 4));
    assert_eq!(again.left_out[3].run, Some(child.id), "it has its run");
    assert_eq!(again.left_out[0].run, Some(parent.id), "the backfill is about to start it");

    let paused: Run = scene.post(&format!("{RUNS}/{}/pause", parent.id), json!({})).await.read(200);
    assert_eq!(paused.reason.as_deref(), Some("paused"));
    scene.post(&format!("{RUNS}/{}/resume", parent.id), json!({})).await.read::<Run>(200);
    let graph: Problem = scene.get(&format!("{RUNS}/{}/graph", parent.id)).await.read(404);
    assert_eq!(graph.code.as_str(), "not_a_workflow");
    let ended: Run = scene.post(&format!("{RUNS}/{}/cancel", parent.id), json!({})).await.read(200);
    assert_eq!(ended.state, State(punctual_core::run::Status::Cancelled));
    let retried: Problem = scene.post(&format!("{RUNS}/{}/retry", parent.id), json!({})).await.read(409);
    assert_eq!(retried.code.as_str(), "wrong_state");
    scene.post(&format!("{RUNS}/{}/retry", child.id), json!({})).await.read::<Run>(201);
}

#[tokio::test]
async fn a_refused_backfill_names_the_field() {
    let scene = scene_with_a_job().await;
    scene
        .put(&format!("{JOBS}/often"), json!({ "schedule": { "cron": "* * * * *" }, "task": { "noop": {} } }))
        .await;
    scene
        .put(&format!("{JOBS}/by-hand"), json!({ "schedule": { "manual": true }, "task": { "noop": {} } }))
        .await;
    let month = json!({ "from": "2026-12-01T00:00:00Z", "to": "2027-01-01T00:00:00Z" });
    let rows = [
        ("report", json!({}), 422, "from"),
        ("report", json!({ "from": "2027-01-01T00:00:00Z" }), 422, "to"),
        ("report", january(&json!({ "from": "2027-01-05T00:00:00Z" })), 422, "from"),
        ("report", january(&json!({ "to": "2027-02-05T00:00:00Z" })), 422, "to"),
        ("report", january(&json!({ "limits": { "running": 0 } })), 422, "limits.running"),
        ("report", january(&json!({ "params": 7 })), 422, "params"),
        ("often", month.clone(), 422, "to"),
        ("by-hand", month, 422, "from"),
        ("none", january(&json!({})), 404, ""),
    ];
    for (job, body, status, field) in rows {
        let problem: Problem = scene.post(&format!("{JOBS}/{job}/backfill"), body.clone()).await.read(status);
        assert_eq!(problem.field.as_deref().unwrap_or_default(), field, "{body}: {problem:?}");
    }
    let runs: RunPage = scene.get(RUNS).await.read(200);
    assert_eq!(runs.items, []);
}
