//! The overview and the fires of the coming days.

use punctual_wire::rest::{AttentionKind, Fires, Overview, Problem};
use serde_json::{Value, json};

use super::{JOBS, RUNS, Scene};

const OVERVIEW: &str = "/api/v1/overview";

async fn put(scene: &Scene, path: &str, schedule: Value) {
    let answer = scene.put(path, json!({ "task": { "noop": {} }, "schedule": schedule })).await;
    assert_eq!(answer.status, 201);
}

#[tokio::test]
async fn the_overview_counts_jobs_and_runs_and_names_the_next_fires() {
    let scene = Scene::new().await;
    put(&scene, &format!("{JOBS}/hourly"), json!({ "every": "1h" })).await;
    put(&scene, &format!("{JOBS}/often"), json!({ "every": "1m" })).await;
    put(&scene, "/api/v1/namespaces/billing/jobs/paused", json!({ "every": "1h" })).await;
    scene.post("/api/v1/namespaces/billing/jobs/paused/pause", json!({})).await;
    scene.post(RUNS, json!({ "task": { "noop": {} } })).await;
    scene.post(RUNS, json!({ "task": { "noop": {} }, "delay": "1h" })).await;

    let all: Overview = scene.get(OVERVIEW).await.read(200);
    assert_eq!((all.nodes.alive, all.nodes.lost), (1, 0));
    assert_eq!((all.jobs.active, all.jobs.paused, all.jobs.finished, all.jobs.capped), (2, 1, 0, false));
    assert_eq!((all.runs.waiting, all.runs.ready, all.runs.running), (1, 1, 0));
    let next: Vec<&str> = all.next.iter().map(|fire| fire.job.as_str()).collect();
    assert_eq!(next, ["often", "hourly"], "the earliest first");
    assert_eq!(all.minutes.len(), 60);
    assert!(all.minutes.windows(2).all(|pair| pair[0].at < pair[1].at));
    let kinds: Vec<AttentionKind> = all.attention.iter().map(|entry| entry.kind).collect();
    assert_eq!(kinds, [AttentionKind::NoWorkerFits, AttentionKind::JobPaused]);
    assert_eq!(all.attention[1].subject.as_deref(), Some("paused"));

    let billing: Overview = scene.get(&format!("{OVERVIEW}?namespace=billing")).await.read(200);
    assert_eq!((billing.jobs.active, billing.jobs.paused, billing.runs.waiting), (0, 1, 0));
    assert_eq!(billing.attention.len(), 1);
    assert_eq!(scene.get(&format!("{OVERVIEW}?namespace=A")).await.status, 400);
}

#[tokio::test]
async fn coming_fires_are_counted_by_hour() {
    let scene = Scene::new().await;
    put(&scene, &format!("{JOBS}/daily"), json!({ "cron": "30 9 * * *" })).await;
    put(&scene, &format!("{JOBS}/hourly"), json!({ "cron": "0 * * * *" })).await;
    put(&scene, "/api/v1/namespaces/billing/jobs/quarterly", json!({ "cron": "*/15 * * * *" })).await;
    // The clock of the scene stands at 2027-01-15T08:00:00Z.
    let path = "/api/v1/fires?from=2027-01-15T08:00:00Z&to=2027-01-15T12:00:00Z";
    let fires: Fires = scene.get(path).await.read(200);
    assert_eq!((fires.exact, fires.jobs, fires.sampled, fires.bucket_ms), (true, 3, None, 3_600_000));
    let counts: Vec<u64> = fires.buckets.iter().map(|bucket| bucket.fires).collect();
    assert_eq!(counts, [3, 6, 5, 5], "what is due now has fired");
    let at_nine = fires.buckets[1].jobs.as_ref().unwrap();
    assert_eq!((at_nine[0].job.as_str(), at_nine[0].fires, at_nine.len()), ("quarterly", 4, 3));
    let of_one: Fires = scene.get(&format!("{path}&namespace=billing&bucket=2h")).await.read(200);
    assert_eq!(of_one.buckets.iter().map(|bucket| bucket.fires).collect::<Vec<_>>(), [7, 8]);
}

#[tokio::test]
async fn a_span_that_cannot_be_names_its_parameter() {
    let scene = Scene::new().await;
    for (query, field) in [
        ("bucket=90s", "bucket"),
        ("bucket=0s", "bucket"),
        ("from=2027-01-01T00:00:00Z&to=2026-01-01T00:00:00Z", "to"),
        ("from=2027-01-01T00:00:00Z&to=2028-01-03T00:00:00Z", "to"),
        ("from=2027-01-01T00:00:00Z&to=2027-12-01T00:00:00Z", "bucket"),
        ("from=yesterday", "from"),
        ("namespace=A", "namespace"),
    ] {
        let problem: Problem = scene.get(&format!("/api/v1/fires?{query}")).await.read(400);
        assert_eq!(problem.field.as_deref(), Some(field), "{query}: {problem}");
    }
    let year = "/api/v1/fires?from=2027-01-01T00:00:00Z&to=2028-01-01T00:00:00Z&bucket=1d";
    assert_eq!(scene.get(year).await.read::<Fires>(200).buckets, []);
}
