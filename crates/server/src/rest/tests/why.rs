//! Why runs wait and jobs do not run, on a node without workers.

use punctual_wire::rest::{Problem, Run, Why};
use serde_json::{Value, json};

use super::{JOBS, RUNS, Scene};

async fn why(scene: &Scene, path: &str) -> Why {
    scene.get(&format!("{path}/why")).await.read(200)
}

#[tokio::test]
async fn a_run_says_why_it_has_not_started() {
    let scene = Scene::new().await;
    let delayed: Run = scene.post(RUNS, json!({ "task": { "noop": {} }, "delay": "1h" })).await.read(201);
    let said = why(&scene, &format!("{RUNS}/{}", delayed.id)).await;
    assert_eq!((said.code.as_str(), said.until), ("delayed", Some(delayed.due_at)));

    let routed = json!({ "task": { "noop": {} }, "route": { "selector": { "zone": "eu" } } });
    let ready: Run = scene.post(RUNS, routed).await.read(201);
    let said = why(&scene, &format!("{RUNS}/{}", ready.id)).await;
    assert_eq!((said.code.as_str(), said.details.missing), ("no_worker_fits", vec!["worker".to_owned()]));

    let cancelled = scene.post(&format!("{RUNS}/{}/cancel", delayed.id), json!({})).await;
    assert_eq!(cancelled.status, 200);
    let said = why(&scene, &format!("{RUNS}/{}", delayed.id)).await;
    assert_eq!((said.code.as_str(), said.message.contains("cancelled on request")), ("ended", true));
    assert_eq!(scene.get(&format!("{RUNS}/1/why")).await.read::<Problem>(404).status, 404);
}

#[tokio::test]
async fn a_held_run_names_the_run_that_it_waits_for() {
    let scene = Scene::new().await;
    let job = format!("{JOBS}/a");
    scene.put(&job, json!({ "task": { "noop": {} }, "overlap": "queue" })).await;
    let first: Run = scene.post(&format!("{job}/run"), json!({})).await.read(201);
    let second: Run = scene.post(&format!("{job}/run"), json!({})).await.read(201);
    let said = why(&scene, &format!("{RUNS}/{}", second.id)).await;
    assert_eq!((said.code.as_str(), said.details.run), ("overlap", Some(first.id)));
    assert_eq!(said.details.job.unwrap().as_str(), "a");
    let of_job = why(&scene, &job).await;
    assert_eq!((of_job.code.as_str(), of_job.details.run), ("no_worker_fits", Some(first.id)));
}

#[tokio::test]
async fn a_skipped_run_and_its_job_say_that_an_earlier_run_was_active() {
    let scene = Scene::new().await;
    let job = format!("{JOBS}/a");
    scene.put(&job, json!({ "task": { "noop": {} } })).await;
    let first: Run = scene.post(&format!("{job}/run"), json!({})).await.read(201);
    let skipped: Run = scene.post(&format!("{job}/run"), json!({})).await.read(201);
    assert_eq!(why(&scene, &format!("{RUNS}/{}", skipped.id)).await.code, "overlap");
    scene.post(&format!("{RUNS}/{}/cancel", first.id), json!({})).await;
    let said = why(&scene, &job).await;
    assert_eq!((said.code.as_str(), said.details.run), ("overlap", Some(skipped.id)));
}

#[tokio::test]
async fn a_job_says_why_it_does_not_run() {
    let scene = Scene::new().await;
    let job = format!("{JOBS}/a");
    scene.put(&job, json!({ "task": { "noop": {} } })).await;
    assert_eq!(why(&scene, &job).await.code, "manual");
    scene.put(&job, json!({ "task": { "noop": {} }, "schedule": { "every": "1h" } })).await;
    let said = why(&scene, &job).await;
    assert_eq!((said.code.as_str(), said.until.is_some()), ("scheduled", true));
    scene.post(&format!("{job}/pause"), json!({ "reason": "too slow" })).await;
    let said = why(&scene, &job).await;
    assert_eq!(said.code, "paused");
    assert!(said.message.contains("paused: too slow; it is due again when someone resumes it"), "{said:?}");
    let refused = scene.post(&format!("{job}/pause"), json!({ "until": "2999-01-01T00:00:00Z" })).await;
    assert_eq!(refused.read::<Value>(422)["field"], "until");
    assert_eq!(scene.get(&format!("{JOBS}/nobody/why")).await.status, 404);
}
