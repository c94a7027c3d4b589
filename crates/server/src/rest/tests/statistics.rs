//! Statistics of a job: what is counted, in which buckets, and what is refused.

use std::time::Duration;

use punctual_core::attempt::{Assignment, Order, Outcome, Report};
use punctual_core::ids::WorkerId;
use punctual_core::worker::Announcement;
use punctual_node::Link;
use punctual_wire::rest::{JobStatistics, Problem, Run};
use serde_json::json;
use tokio::sync::mpsc;

use super::{JOBS, NOW, RUNS, Scene};

/// A job with two runs, of which one was cancelled and one was skipped.
async fn scene() -> Scene {
    let scene = Scene::new().await;
    scene.put(&format!("{JOBS}/a"), json!({ "task": { "shell": "true" } })).await;
    let first: Run = scene.post(&format!("{JOBS}/a/run"), json!({})).await.read(201);
    let skipped: Run = scene.post(&format!("{JOBS}/a/run"), json!({})).await.read(201);
    assert_eq!(skipped.state.to_string(), "skipped");
    scene.post(&format!("{RUNS}/{}/cancel", first.id), json!({})).await.read::<Run>(200);
    scene
}

async fn stats(scene: &Scene, query: &str) -> JobStatistics {
    scene.get(&format!("{JOBS}/a/stats?{query}")).await.read(200)
}

#[tokio::test]
async fn the_last_day_is_shown_by_hours() {
    let scene = scene().await;
    let found = stats(&scene, "").await;
    assert_eq!((found.bucket_ms, found.buckets.len()), (3_600_000, 24));
    assert_eq!(
        (found.total.runs, found.total.cancelled, found.total.skipped),
        (0, 0, 0),
        "this hour has just begun"
    );
    let found = stats(&scene, "since=2027-01-15T06:30:00Z&until=2027-01-15T08:00:00.001Z").await;
    let runs: Vec<_> = found.buckets.iter().map(|one| (one.at.to_string(), one.counts.runs)).collect();
    let expected =
        [("06", 0), ("07", 0), ("08", 2)].map(|(hour, runs)| (format!("2027-01-15T{hour}:00:00.000Z"), runs));
    assert_eq!(runs, expected);
    assert_eq!((found.total.cancelled, found.total.skipped, found.total.took_ms), (1, 1, None));
}

#[tokio::test]
async fn the_time_that_runs_took_is_shown_in_percentiles() {
    let scene = Scene::new().await;
    let (orders, mut given) = mpsc::unbounded_channel();
    let link =
        Link { worker: WorkerId::new("w", 1), announced: Announcement::of(4), holding: Vec::new(), orders };
    let worker = scene.node.link(link).await;
    worker.send(vec![Report::Lent { total: 4 }]).await;
    scene.put(&format!("{JOBS}/a"), json!({ "task": { "shell": "true" } })).await;
    scene.post(&format!("{JOBS}/a/run"), json!({})).await.read::<Run>(201);
    let orders = given.recv().await.expect("it is handed out");
    let [Order::Assign(Assignment { run, token, .. })] = orders[..] else { panic!("{orders:?}") };
    scene.clock.advance(Duration::from_millis(40));
    worker.send(vec![Report::Finished { run, token, outcome: Outcome::succeeded(NOW) }]).await;
    // The acknowledgement comes after the commit.
    given.recv().await.expect("it is acknowledged");
    let found = stats(&scene, "until=2027-01-15T09:00:00Z").await;
    let took = found.total.took_ms.expect("a run has ended");
    assert!((40..=50).contains(&took.p50), "{took:?}");
    assert_eq!((took.p95, took.p99), (took.p50, took.p50), "of one run");
}

#[tokio::test]
async fn buckets_may_be_longer() {
    let scene = scene().await;
    let found = stats(&scene, "since=2027-01-10T01:00:00Z&until=2027-01-16T00:00:00Z&bucket=1d").await;
    assert_eq!((found.bucket_ms, found.buckets.len()), (86_400_000, 6));
    assert_eq!(found.buckets[0].at.to_string(), "2027-01-10T00:00:00.000Z");
    assert_eq!(found.buckets[5].counts.runs, 2);
}

#[tokio::test]
async fn a_span_or_a_bucket_that_cannot_be_is_refused_by_its_name() {
    let scene = scene().await;
    let rows = [
        ("bucket=30m", "bucket"),
        ("bucket=0s", "bucket"),
        ("bucket=90m", "bucket"),
        ("bucket=hour", "bucket"),
        ("since=2027-01-15T08:00:00Z&until=2027-01-15T08:00:00Z", "since"),
        ("since=2030-01-01T00:00:00Z", "since"),
        ("since=2025-01-01T00:00:00Z&until=2026-01-03T00:00:00Z&bucket=1d", "since"),
        ("since=2026-11-01T00:00:00Z", "bucket"),
        ("since=yesterday", "since"),
        ("until=8", "until"),
        ("limit=5", "limit"),
    ];
    for (query, field) in rows {
        let problem: Problem = scene.get(&format!("{JOBS}/a/stats?{query}")).await.read(400);
        assert_eq!(problem.field.as_deref(), Some(field), "{query}: {problem:?}");
    }
    // The longest span, and the most buckets.
    stats(&scene, "since=2025-01-01T00:00:00Z&until=2026-01-02T00:00:00Z&bucket=1d").await;
    assert_eq!(stats(&scene, "since=2026-12-04T16:00:00Z").await.buckets.len(), 1000);
    scene.get(&format!("{JOBS}/none/stats")).await.read::<Problem>(404);
}
