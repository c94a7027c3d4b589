//! Incidents over REST: what is shown, what a person does to one, and what is refused.

use std::time::Duration;

use punctual_wire::rest::{AttentionKind, Channel, Incident, Overview, Page, Problem, Run};
use serde_json::{Value, json};

use super::{JOBS, Scene};

const INCIDENTS: &str = "/api/v1/namespaces/default/incidents";

/// A run that nothing executes is late after a second.
async fn scene_with_an_incident() -> (Scene, Incident) {
    let scene = Scene::new().await;
    let late = json!({ "task": { "noop": {} }, "alerts": [{ "on": "late", "by": "1s", "to": ["ops"] }] });
    scene.put(&format!("{JOBS}/report"), late).await;
    scene.post(&format!("{JOBS}/report/run"), json!({})).await.read::<Run>(201);
    for _ in 0..10_000 {
        scene.clock.advance(Duration::from_millis(10));
        let page: Page<Incident> = scene.get(&format!("{INCIDENTS}?open=true")).await.read(200);
        if let Some(incident) = page.items.into_iter().next() {
            return (scene, incident);
        }
    }
    panic!("no incident has opened");
}

#[tokio::test]
async fn an_incident_is_shown_acknowledged_and_silenced() {
    let (scene, incident) = scene_with_an_incident().await;
    assert_eq!(incident.job.as_ref().map(punctual_core::name::Name::as_str), Some("report"));
    assert_eq!((incident.condition.as_str(), incident.count), ("a run is late by 1s", 1));
    let path = format!("{INCIDENTS}/{}", incident.id);
    let shown: Incident = scene.get(&path).await.read(200);
    assert_eq!(shown, incident);
    let overview: Overview = scene.get("/api/v1/overview").await.read(200);
    let attention: Vec<_> = overview.attention.iter().map(|entry| entry.kind).collect();
    assert!(attention.contains(&AttentionKind::Incidents), "{attention:?}");

    let known = json!({ "comment": "known" });
    let known: Incident = scene.post(&format!("{path}/acknowledge"), known).await.read(200);
    assert_eq!(known.acknowledged.map(|by| by.comment), Some("known".to_owned()));
    let overview: Overview = scene.get("/api/v1/overview").await.read(200);
    assert!(overview.attention.iter().all(|entry| entry.kind != AttentionKind::Incidents), "a person knows");
    let until = json!({ "until": "2027-03-01T00:00:00Z" });
    let silenced: Incident = scene.post(&format!("{path}/silence"), until).await.read(200);
    assert_eq!(silenced.silence.unwrap().until.to_string(), "2027-03-01T00:00:00.000Z");
    let again: Incident = scene.post(&format!("{path}/silence"), json!({ "until": null })).await.read(200);
    assert_eq!(again.silence, None);

    scene.put(&format!("{JOBS}/report"), json!({ "task": { "noop": {} } })).await;
    let over: Problem = scene.post(&format!("{path}/acknowledge"), json!({})).await.read(409);
    assert_eq!(over.code.as_str(), "incident_over");
    let open: Page<Incident> = scene.get(&format!("{INCIDENTS}?open=true")).await.read(200);
    let all: Page<Incident> = scene.get(&format!("{INCIDENTS}?job=report")).await.read(200);
    assert_eq!((open.items.len(), all.items.len()), (0, 1));
    assert!(all.items[0].ended_at.is_some());
}

#[tokio::test]
async fn a_wrong_request_about_an_incident_is_refused() {
    let (scene, incident) = scene_with_an_incident().await;
    let silence = format!("{INCIDENTS}/{}/silence", incident.id);
    let steps = json!({ "a": { "task": { "noop": {} }, "alerts": { "on": "failed" } } });
    let alone = json!({ "task": { "workflow": { "steps": steps } } });
    let rows: [(&str, Value, u16, &str); 7] = [
        (&silence, json!({ "until": "2026-01-01T00:00:00Z" }), 422, "until"),
        (&silence, json!({ "until": "2030-01-01T00:00:00Z" }), 422, "until"),
        (&silence, json!({ "until": null, "comment": "a".repeat(1025) }), 422, "comment"),
        (&format!("{INCIDENTS}/7/acknowledge"), json!({}), 404, ""),
        (&format!("{INCIDENTS}/a/acknowledge"), json!({}), 400, "id"),
        ("/api/v1/channels/ops/test", json!({}), 404, ""),
        ("/api/v1/namespaces/default/runs", alone, 422, "task.workflow.steps.a.alerts[0]"),
    ];
    for (path, body, status, field) in rows {
        let problem: Problem = scene.post(path, body.clone()).await.read(status);
        assert_eq!(problem.field.as_deref().unwrap_or_default(), field, "{path} {body}: {problem:?}");
    }
    let elsewhere = scene.get(&format!("/api/v1/namespaces/other/incidents/{}", incident.id)).await;
    assert_eq!(elsewhere.read::<Problem>(404).code.as_str(), "no_such_incident");
    let channels: Page<Channel> = scene.get("/api/v1/channels").await.read(200);
    assert_eq!(channels.items, [], "a node without settings has no channels");
}
