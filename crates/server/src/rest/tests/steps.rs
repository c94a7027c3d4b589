//! Child runs in lists, and the approvals that wait.

use punctual_core::limits::COMMENT_BYTES_MAX;
use punctual_core::name::Name;
use punctual_wire::rest::{
    ActedOnRuns, Approval, AttentionKind, Code, Job, Overview, Page, Problem, Run, RunPage,
};
use serde_json::{Value, json};

use super::{JOBS, RUNS, Scene};

const APPROVALS: &str = "/api/v1/namespaces/default/approvals";

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

#[tokio::test]
async fn waiting_approvals_are_listed_until_they_are_given() {
    let scene = Scene::new().await;
    let inner = json!({ "workflow": { "steps": { "ask": { "approve": {} } } } });
    let steps = json!({
        "review": { "approve": { "within": "1h" } },
        "sign": { "approve": {} },
        "ship": { "needs": ["sign"], "task": inner },
    });
    scene.put(&format!("{JOBS}/release"), json!({ "task": { "workflow": { "steps": steps } } })).await;
    let run: Run = scene.post(&format!("{JOBS}/release/run"), json!({})).await.read(201);
    let list =
        async |query: &str| -> Page<Approval> { scene.get(&format!("{APPROVALS}{query}")).await.read(200) };
    let first = list("?limit=1").await;
    let review = &first.items[0];
    assert_eq!((review.run, review.step.as_str()), (run.id, "review"));
    assert_eq!(review.job.as_ref().map(Name::as_str), Some("release"));
    assert_eq!(review.since.to_string(), "2027-01-15T08:00:00.000Z");
    assert_eq!(review.until.map(|at| at.to_string()).as_deref(), Some("2027-01-15T09:00:00.000Z"));
    let rest = list(&format!("?after={}", first.next.as_deref().expect("there is a second"))).await;
    let told: Vec<_> = rest.items.iter().map(|item| (item.step.as_str(), item.until)).collect();
    assert_eq!((told, rest.next.is_none()), (vec![("sign", None)], true));
    assert!(
        scene.get("/api/v1/namespaces/other/approvals").await.read::<Page<Approval>>(200).items.is_empty()
    );
    for (query, field) in
        [("after=7", "after"), ("after=7-x", "after"), ("limit=0", "limit"), ("job=a", "job")]
    {
        let problem: Problem = scene.get(&format!("{APPROVALS}?{query}")).await.read(400);
        assert_eq!(problem.field.as_deref(), Some(field), "{query}");
    }

    let overview: Overview = scene.get("/api/v1/overview").await.read(200);
    let entry = overview.attention.iter().find(|entry| entry.kind == AttentionKind::Approvals);
    let entry = entry.expect("approvals need a person");
    assert_eq!((entry.run, entry.count, entry.subject.as_deref()), (Some(run.id), 2, Some("release")));
    assert_eq!(entry.message, "step `review` waits for an approval");

    for (step, status) in
        [("ship%2Fask", 409), ("ship%2Fnothing", 404), ("nothing%2Fask", 404), ("sign%2Fask", 404)]
    {
        let path = format!("{RUNS}/{}/steps/{step}/approve", run.id);
        let problem: Problem = scene.post(&path, json!({})).await.read(status);
        let expected = if status == 409 { Code::WrongState } else { Code::NoSuchStep };
        assert_eq!(problem.code, expected, "{step}: {}", problem.message);
    }
    let long = json!({ "comment": "x".repeat(COMMENT_BYTES_MAX + 1) });
    for path in ["steps/review/approve", "steps/review/reject", "pause"] {
        let problem: Problem = scene.post(&format!("{RUNS}/{}/{path}", run.id), long.clone()).await.read(422);
        assert_eq!((problem.code, problem.field.as_deref()), (Code::Invalid, Some("comment")), "{path}");
    }
    let most = json!({ "comment": "x".repeat(COMMENT_BYTES_MAX) });
    scene.post(&format!("{RUNS}/{}/steps/review/approve", run.id), most).await.read::<Run>(200);
    assert_eq!(list("").await.items.len(), 1);
    scene.post(&format!("{RUNS}/{}/cancel", run.id), json!({})).await.read::<Run>(200);
    assert_eq!(list("").await.items, []);
    let overview: Overview = scene.get("/api/v1/overview").await.read(200);
    assert_eq!(overview.attention, []);
}
