//! Lists of jobs and runs as the console asks for them, and actions on many runs.

use punctual_wire::rest::{ActedOnRuns, Code, Job, Page, Problem, Run, RunPage};
use serde_json::{Value, json};

use super::{JOBS, RUNS, Scene};

async fn put(scene: &Scene, name: &str, labels: Value, schedule: Value) {
    let file = json!({ "task": { "noop": {} }, "labels": labels, "schedule": schedule, "overlap": "allow" });
    let answer = scene.put(&format!("{JOBS}/{name}"), file).await;
    assert_eq!(answer.status, 201, "{}", String::from_utf8_lossy(&answer.body));
}

async fn three_jobs() -> Scene {
    let scene = Scene::new().await;
    put(&scene, "invoices", json!({ "team": "billing", "zone": "eu" }), json!({ "every": "1h" })).await;
    put(&scene, "mail", json!({ "team": "Billing" }), json!({ "manual": true })).await;
    put(&scene, "report", json!({}), json!({ "at": "2020-01-01T00:00:00Z" })).await;
    scene.post(&format!("{JOBS}/mail/pause"), json!({})).await;
    scene
}

async fn names(scene: &Scene, query: &str) -> Vec<String> {
    let page: Page<Job> = scene.get(&format!("{JOBS}?{query}")).await.read(200);
    page.items.iter().map(|job| job.file.name.as_ref().unwrap().to_string()).collect()
}

#[tokio::test]
async fn jobs_are_found_by_text_label_and_state() {
    let scene = three_jobs().await;
    assert_eq!(names(&scene, "").await.len(), 3);
    assert_eq!(names(&scene, "search=BILL").await, ["invoices", "mail"]);
    assert_eq!(names(&scene, "search=port").await, ["report"]);
    assert_eq!(names(&scene, "label=team%3Dbilling").await, ["invoices"]);
    assert_eq!(names(&scene, "label=team%3Dbilling&label=zone%3Deu").await, ["invoices"]);
    assert!(names(&scene, "label=team%3Dbilling&label=zone%3Dus").await.is_empty());
    assert_eq!(names(&scene, "state=paused").await, ["mail"]);
    assert_eq!(names(&scene, "state=finished").await, ["report"]);
    assert_eq!(names(&scene, "state=active&search=in").await, ["invoices"]);
}

#[tokio::test]
async fn a_page_of_found_jobs_goes_on_where_it_ended() {
    let scene = three_jobs().await;
    let first: Page<Job> = scene.get(&format!("{JOBS}?search=billing&limit=1")).await.read(200);
    assert_eq!(first.next.as_deref(), Some("invoices"));
    assert_eq!(names(&scene, "search=billing&limit=1&after=invoices").await, ["mail"]);
}

#[tokio::test]
async fn jobs_are_listed_with_their_last_runs() {
    let scene = three_jobs().await;
    let mut made = Vec::new();
    for _ in 0..3 {
        let run: Run = scene.post(&format!("{JOBS}/report/run"), json!({ "delay": "1h" })).await.read(201);
        made.push(run.id);
    }
    scene.post(&format!("{RUNS}/{}/cancel", made[0]), json!({})).await;
    let page: Page<Job> = scene.get(&format!("{JOBS}?last=2")).await.read(200);
    let last: Vec<_> = page.items.iter().map(|job| job.last.clone().unwrap()).collect();
    assert_eq!(last.iter().map(Vec::len).collect::<Vec<_>>(), [0, 0, 2]);
    assert_eq!(last[2].iter().map(|run| run.id).collect::<Vec<_>>(), made[1..], "oldest first");
    let page: Page<Job> = scene.get(&format!("{JOBS}?last=10&search=report")).await.read(200);
    let last = page.items[0].last.clone().unwrap();
    assert_eq!((last.len(), last[0].state.to_string(), last[0].took_ms), (3, "cancelled".to_owned(), None));
    let plain: Page<Job> = scene.get(JOBS).await.read(200);
    assert!(plain.items.iter().all(|job| job.last.is_none()));
}

#[tokio::test]
async fn a_bad_filter_names_its_parameter() {
    let scene = Scene::new().await;
    let long = "x".repeat(257);
    for (query, field) in [
        ("search=x", "search"),
        (&*format!("search={long}"), "search"),
        ("label=team", "label"),
        ("label=%3Dbilling", "label"),
        (&*format!("label=a%3D{long}"), "label"),
        ("state=running", "state"),
        ("last=0", "last"),
        ("last=101", "last"),
        ("last=100&limit=1000", "last"),
        ("serch=xx", "serch"),
        ("last=1&last=2", "last"),
    ] {
        let problem: Problem = scene.get(&format!("{JOBS}?{query}")).await.read(400);
        assert_eq!(problem.field.as_deref(), Some(field), "{query:.60}: {problem}");
    }
    let many = "label=a%3Db&".repeat(33);
    let problem: Problem = scene.get(&format!("{JOBS}?{}", many.trim_end_matches('&'))).await.read(400);
    assert_eq!(problem.field.as_deref(), Some("label"));
    let many = "job=a&".repeat(51);
    let problem: Problem = scene.get(&format!("{RUNS}?{}", many.trim_end_matches('&'))).await.read(400);
    assert_eq!(problem.field.as_deref(), Some("job"));
}

#[tokio::test]
async fn runs_of_several_jobs_are_listed_and_counted() {
    let scene = three_jobs().await;
    let mut made = Vec::new();
    for job in ["invoices", "mail", "report"] {
        let run: Run = scene.post(&format!("{JOBS}/{job}/run"), json!({ "delay": "1h" })).await.read(201);
        made.push(run.id);
    }
    scene.post(&format!("{RUNS}/{}/cancel", made[0]), json!({})).await;
    let list = async |query: &str| scene.get(&format!("{RUNS}?{query}")).await.read::<RunPage>(200);
    let two = list("job=invoices&job=report").await;
    let mut ids: Vec<_> = two.items.iter().map(|run| run.id).collect();
    ids.sort();
    // Ids of one millisecond are in the order of their shards.
    let mut expected = vec![made[0], made[2]];
    expected.sort();
    assert_eq!((ids, two.counts), (expected, None));
    let cancelled = list("job=invoices&job=report&state=cancelled&state=failed&count=true").await;
    assert_eq!(cancelled.items.len(), 1);
    let counts = cancelled.counts.unwrap();
    assert_eq!((counts.waiting, counts.cancelled, counts.succeeded, counts.capped), (1, 1, 0, false));
    assert_eq!(scene.get(&format!("{RUNS}?job=invoices&job=nobody")).await.status, 404);
}

const ACTIONS: &str = "/api/v1/namespaces/default/runs/actions";

#[tokio::test]
async fn many_runs_are_cancelled_and_retried_item_by_item() {
    let scene = three_jobs().await;
    let mut made = Vec::new();
    for _ in 0..3 {
        let run: Run = scene.post(&format!("{JOBS}/report/run"), json!({ "delay": "1h" })).await.read(201);
        made.push(run.id);
    }
    let filter = json!({ "action": "cancel", "filter": { "job": ["report"] }, "dry_run": true });
    let counted: ActedOnRuns = scene.post(ACTIONS, filter).await.read(200);
    assert_eq!((counted.matched, counted.more, counted.results.len()), (3, false, 0));

    let ids = json!({ "action": "cancel", "ids": [made[0], made[1], "1"] });
    let done: ActedOnRuns = scene.post(ACTIONS, ids).await.read(200);
    assert_eq!(done.matched, 3);
    let problem = |index: usize| done.results[index].problem.as_ref().map(|problem| problem.code);
    assert_eq!((problem(0), problem(1), problem(2)), (Some(Code::NoSuchRun), None, None));
    assert!(!done.results[0].done && done.results[1].done && done.results[2].done);

    let rest: ActedOnRuns =
        scene.post(ACTIONS, json!({ "action": "cancel", "filter": { "job": ["report"] } })).await.read(200);
    assert_eq!((rest.matched, rest.results[0].id), (1, made[2]));
    let retry = json!({ "action": "retry", "filter": { "job": ["report"], "state": ["cancelled"] } });
    let retried: ActedOnRuns = scene.post(ACTIONS, retry).await.read(200);
    assert_eq!(retried.matched, 3);
    for result in &retried.results {
        assert!(result.done && result.run.is_some_and(|run| !made.contains(&run)), "{result:?}");
    }

    scene.post(&format!("{JOBS}/report/run"), json!({ "delay": "1h", "key": "order-17" })).await;
    let found = json!({ "action": "cancel", "filter": { "search": "order-17" } });
    let found: ActedOnRuns = scene.post(ACTIONS, found).await.read(200);
    assert_eq!((found.matched, found.results[0].done), (1, true));
}

#[tokio::test]
async fn an_action_without_a_choice_is_refused() {
    let scene = Scene::new().await;
    for (body, field) in [
        (json!({ "action": "cancel" }), "ids"),
        (json!({ "action": "cancel", "filter": {} }), "filter"),
        (json!({ "action": "cancel", "filter": { "state": ["asleep"] } }), "filter.state"),
        (json!({ "action": "cancel", "filter": { "search": "a" } }), "filter.search"),
        (json!({ "action": "discard", "ids": ["1"] }), "action"),
    ] {
        let problem: Problem = scene.post(ACTIONS, body.clone()).await.read(422);
        assert_eq!(problem.field.as_deref(), Some(field), "{body}: {problem}");
    }
}
