//! Child runs in lists.

use punctual_wire::rest::{ActedOnRuns, Job, Overview, Page, Problem, Run, RunPage};
use serde_json::{Value, json};

use super::{JOBS, RUNS, Scene};

#[tokio::test]
async fn lists_leave_child_runs_out_unless_they_are_asked_for() {
    let scene = Scene::new().await;
    scene.put(&format!("{JOBS}/split"), json!({ "task": { "noop": {} }, "route": { "shards": 5 } })).await;
    let parent: Run = scene.post(&format!("{JOBS}/split/run"), json!({})).await.read(201);
    let list = async |query: &str| -> RunPage { scene.get(&format!("{RUNS}?{query}")).await.read(200) };
    let ids = async |query: &str| -> Vec<_> { list(query).await.items.iter().map(|run| run.id).collect() };
    for query in ["", "job=split", "state=running", "search=split", "children=false"] {
        let found = ids(query).await;
        assert!(found.iter().all(|run| *run == parent.id), "{query}: {found:?}");
    }
    assert_eq!(ids("job=split").await, [parent.id]);
    assert_eq!(ids("children=true").await.len(), 6);
    assert_eq!(ids("children=true&job=split&limit=4").await.len(), 4);
    assert_eq!(ids("trigger=parent").await.len(), 5);
    assert_eq!(ids("trigger=manual,parent").await.len(), 6);
    assert_eq!(ids("state=ready").await, []);
    assert_eq!(ids("state=ready&children=true").await.len(), 5);

    let count = async |query: &str| {
        let counts = list(&format!("count=true&{query}")).await.counts.expect("counts are asked for");
        (counts.running, counts.ready)
    };
    assert_eq!(count("").await, (1, 0));
    assert_eq!(count("children=true").await, (1, 5));
    assert_eq!(count(&format!("parent={}", parent.id)).await, (0, 5));

    let overview: Overview = scene.get("/api/v1/overview").await.read(200);
    assert_eq!((overview.runs.running, overview.runs.ready), (1, 0));
    let jobs: Page<Job> = scene.get(&format!("{JOBS}?last=30")).await.read(200);
    assert_eq!(jobs.items[0].last.as_ref().map(Vec::len), Some(1));
    let log: Page<Value> = scene.get(&format!("{JOBS}/split/log")).await.read(200);
    assert_eq!(log.items.len(), 1);
    let body = json!({ "action": "cancel", "filter": { "job": ["split"] }, "dry_run": true });
    let acted: ActedOnRuns = scene.post(&format!("{RUNS}/actions"), body).await.read(200);
    assert_eq!(acted.matched, 1);
    let history = String::from_utf8(scene.get("/api/v1/export/history").await.body).unwrap();
    let exported = history.lines().filter(|line| line.contains("\"type\":\"run\"")).count();
    assert_eq!(exported, 6, "an export has every run: {history}");
    let problem: Problem = scene.get(&format!("{RUNS}?children=maybe")).await.read(400);
    assert_eq!(problem.field.as_deref(), Some("children"));
}
