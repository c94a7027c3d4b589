//! Holds over REST: what is answered, what is shown, and what is refused.

use axum::body::Body;
use axum::http::Request;
use punctual_wire::rest::{Hold, Page, Problem, Run, Why};
use serde_json::{Value, json};

use super::{RUNS, Scene};

const HOLD: &str = "/api/v1/namespaces/default/hold";
const HOLD_ALL: &str = "/api/v1/hold";

async fn release(scene: &Scene, path: &str) -> super::Answer {
    scene.send(Request::delete(path).body(Body::empty()).unwrap()).await
}

async fn holds(scene: &Scene, path: &str) -> Vec<Hold> {
    scene.get(path).await.read::<Page<Hold>>(200).items
}

#[tokio::test]
async fn a_namespace_is_held_shown_and_released() {
    let scene = Scene::new().await;
    let order = json!({ "reason": "the bank is closed", "for": "2h", "fires": "keep" });
    let held: Hold = scene.put(HOLD, order).await.read(200);
    assert_eq!((held.namespace.as_deref(), held.shards_held, held.shards), (Some("default"), 4, 4));
    assert_eq!(held.pause.until.unwrap().to_string(), "2027-01-15T10:00:00.000Z");
    assert_eq!(holds(&scene, HOLD).await, std::slice::from_ref(&held));
    assert_eq!(holds(&scene, "/api/v1/namespaces/default.inner/hold").await, std::slice::from_ref(&held));
    assert!(holds(&scene, "/api/v1/namespaces/other/hold").await.is_empty());

    let run: Run = scene.post(RUNS, json!({ "task": { "noop": {} } })).await.read(201);
    let why: Why = scene.get(&format!("{RUNS}/{}/why", run.id)).await.read(200);
    assert_eq!((why.code.as_str(), why.until), ("held", held.pause.until));
    assert!(why.message.contains("namespace `default` is on hold: the bank is closed"), "{}", why.message);

    assert_eq!(release(&scene, HOLD).await.status, 204);
    assert!(holds(&scene, HOLD).await.is_empty());
    let why: Why = scene.get(&format!("{RUNS}/{}/why", run.id)).await.read(200);
    assert_eq!(why.code, "no_worker_fits");
}

#[tokio::test]
async fn everything_is_held_and_the_widest_hold_comes_first() {
    let scene = Scene::new().await;
    scene.put(HOLD, json!({ "reason": "one" })).await.read::<Hold>(200);
    let all: Hold = scene.put(HOLD_ALL, json!({ "reason": "all" })).await.read(200);
    assert_eq!(all.namespace, None);
    let reasons = |holds: Vec<Hold>| holds.into_iter().map(|hold| hold.pause.reason).collect::<Vec<_>>();
    assert_eq!(reasons(holds(&scene, HOLD).await), ["all", "one"]);
    assert_eq!(reasons(holds(&scene, HOLD_ALL).await), ["all", "one"]);
    assert_eq!(release(&scene, HOLD).await.status, 204);
    let wider: Problem = release(&scene, HOLD).await.read(404);
    assert_eq!(wider.code.as_str(), "no_such_hold");
    assert!(wider.message.contains("the hold of everything covers it"), "{}", wider.message);
    assert_eq!(release(&scene, HOLD_ALL).await.status, 204);
    assert!(release(&scene, HOLD).await.read::<Problem>(404).message.contains("is not on hold"));
}

#[tokio::test]
async fn a_hold_that_makes_no_sense_is_refused_with_its_field() {
    let scene = Scene::new().await;
    for (body, field) in [
        (json!({}), "reason"),
        (json!({ "reason": "" }), "reason"),
        (json!({ "reason": "x".repeat(1025) }), "reason"),
        (json!({ "reason": "x", "until": "2020-01-01T00:00:00Z" }), "until"),
        (json!({ "reason": "x", "until": "2040-01-01T00:00:00Z" }), "until"),
        (json!({ "reason": "x", "for": "0s" }), "for"),
        (json!({ "reason": "x", "for": "1h", "until": "2027-01-16T00:00:00Z" }), "for"),
        (json!({ "reason": "x", "fires": "later" }), "fires"),
        (json!({ "reason": "x", "namespace": "y" }), "namespace"),
    ] {
        let problem: Problem = scene.put(HOLD, body.clone()).await.read(422);
        assert_eq!(problem.field.as_deref(), Some(field), "{body}: {problem:?}");
    }
    assert!(holds(&scene, HOLD).await.is_empty(), "nothing was held");
    let exported: Value = scene.get(HOLD_ALL).await.read(200);
    assert_eq!(exported["items"], json!([]));
}
