//! Looking for runs: every filter, the log of a job, and the word of an attempt.

use punctual_core::attempt::{Outcome, Report};
use punctual_core::ids::WorkerId;
use punctual_core::worker::Announcement;
use punctual_node::Link;
use punctual_wire::rest::{AttemptResult, LogRecord, Page, Problem, Run};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{JOBS, NOW, RUNS, Scene};

#[tokio::test]
async fn runs_are_filtered_by_trigger_and_key() {
    let scene = Scene::new().await;
    scene.put(&format!("{JOBS}/a"), json!({ "task": { "noop": {} } })).await;
    let manual: Run = scene.post(&format!("{JOBS}/a/run"), json!({ "key": "order-17" })).await.read(201);
    let later = json!({ "task": { "noop": {} }, "delay": "1h", "key": "order-17" });
    let submitted: Run = scene.post(RUNS, later).await.read(201);
    let plain: Run = scene.post(RUNS, json!({ "task": { "noop": {} }, "delay": "1h" })).await.read(201);
    let list = async |query: &str| {
        let page: Page<Run> = scene.get(&format!("{RUNS}?{query}")).await.read(200);
        page.items.into_iter().map(|run| run.id).collect::<Vec<_>>()
    };
    assert_eq!(list("trigger=manual").await, [manual.id]);
    assert_eq!(list("trigger=submit,manual").await.len(), 3);
    assert_eq!(list("trigger=misfire").await, []);
    assert_eq!(list("key=order-17").await.len(), 2);
    assert_eq!(list("key=order-17&trigger=submit").await, [submitted.id]);
    assert_eq!(list("key=order-17&job=a").await, [manual.id]);
    assert_eq!(list("key=order-17&state=waiting").await, [submitted.id]);
    assert_eq!(list("key=order").await, []);
    assert!(list("").await.contains(&plain.id));
    let rows =
        [("trigger=moon", "trigger"), ("trigger=", "trigger"), ("key=", "key"), ("attempts=2", "attempts")];
    for (query, field) in rows {
        let problem: Problem = scene.get(&format!("{RUNS}?{query}")).await.read(400);
        assert_eq!(problem.field.as_deref(), Some(field), "{query}");
    }
}

#[tokio::test]
async fn the_children_of_a_run_are_listed_by_their_parent() {
    let scene = Scene::new().await;
    let split = json!({ "task": { "noop": {} }, "route": { "shards": 5 } });
    let parent: Run = scene.post(RUNS, split).await.read(201);
    assert_eq!((parent.state.0.as_str(), parent.attempt), ("running", 0));
    let page = async |query: &str| {
        let page: Page<Run> = scene.get(&format!("{RUNS}?parent={}{query}", parent.id)).await.read(200);
        let indices: Vec<u32> = page.items.iter().filter_map(|run| Some(run.shard?.index)).collect();
        (indices, page.next)
    };
    let (first, next) = page("&limit=3").await;
    assert_eq!(first, [0, 1, 2]);
    assert_eq!(page(&format!("&limit=3&after={}", next.unwrap())).await, (vec![3, 4], None));
    assert_eq!(page("&state=ready").await.0.len(), 5);
    assert_eq!(page("&state=failed").await.0, [0; 0]);
    let whole: Run = scene.get(&format!("{RUNS}/{}", parent.id)).await.read(200);
    let children = whole.children.unwrap();
    let brief: Run = scene.get(&format!("{RUNS}/{}?children=false", whole.id)).await.read(200);
    assert_eq!((brief.id, brief.children), (whole.id, None));
    let second: Run = scene.get(&format!("{RUNS}/{}", children[1].run)).await.read(200);
    assert_eq!((second.parent, second.step.as_deref()), (Some(parent.id), Some("1")));
    assert_eq!(second.trigger.0.word(), "parent");

    assert_eq!(page("&trigger=parent&since=2000-01-01T00:00:00Z").await.0.len(), 5);
    for none in ["&key=k", "&trigger=manual", "&until=2000-01-01T00:00:00Z"] {
        assert_eq!(page(none).await.0, [0; 0], "{none}");
    }
    scene.get(&format!("{RUNS}?parent=7")).await.read::<Problem>(404);
    // A run without children has none.
    let page: Page<Run> = scene.get(&format!("{RUNS}?parent={}", children[0].run)).await.read(200);
    assert!(page.items.is_empty());
}

#[tokio::test]
async fn an_attempt_tells_its_progress_and_leaves_a_record_in_the_log() {
    let scene = Scene::new().await;
    let (orders, mut given) = mpsc::unbounded_channel();
    let link =
        Link { worker: WorkerId::new("w", 1), announced: Announcement::of(4), holding: Vec::new(), orders };
    let reporter = scene.node.link(link).await;
    reporter.send(vec![Report::Lent { total: 4 }]).await;
    scene.put(&format!("{JOBS}/a"), json!({ "task": { "shell": "echo hello" } })).await;
    let run: Run = scene.post(&format!("{JOBS}/a/run"), json!({})).await.read(201);
    given.recv().await.expect("it is handed out");
    let path = format!("{RUNS}/{}", run.id);
    let under_way: Run = scene.get(&path).await.read(200);
    let attempts = under_way.attempts.unwrap();
    assert_eq!((attempts.len(), attempts[0].result, under_way.lateness_ms), (1, None, Some(0)));

    let token = attempts[0].token;
    let say = async |token: &str, percent: Value| {
        scene.post(&format!("{path}/progress"), json!({ "token": token, "percent": percent })).await
    };
    assert_eq!(say(&token.to_string(), json!(40)).await.status, 204);
    assert_eq!(say("7", json!(40)).await.read::<Value>(409)["code"], "outdated_token");
    assert_eq!(
        say(&token.to_string(), json!(101)).await.read::<Problem>(422).field.as_deref(),
        Some("percent")
    );
    let bare = scene.post(&format!("{path}/progress"), json!({ "percent": 5 })).await;
    assert_eq!(bare.read::<Problem>(422).field.as_deref(), Some("token"));

    let outcome = Outcome { output: "hello".into(), ..Outcome::succeeded(NOW) };
    let token = punctual_core::ids::Token(token.0);
    reporter.send(vec![Report::Finished { run: run.id.0, token, outcome }]).await;
    // The acknowledgement comes after the commit.
    given.recv().await.expect("it is acknowledged");
    let ended: Run = scene.get(&path).await.read(200);
    assert_eq!((ended.progress, ended.state.to_string().as_str()), (Some(40), "succeeded"));
    assert_eq!(ended.attempts.unwrap()[0].result, Some(AttemptResult::Succeeded));
    let listed: Page<Run> = scene.get(&format!("{RUNS}?job=a&attempts=true")).await.read(200);
    assert_eq!(listed.items[0].attempts.as_ref().map(Vec::len), Some(1));

    let log: Page<LogRecord> = scene.get(&format!("{JOBS}/a/log?limit=1")).await.read(200);
    let record = &log.items[0];
    assert_eq!(
        (record.command.as_str(), record.output.as_str(), record.err.as_str()),
        ("echo hello", "hello", "")
    );
    assert!(record.start_time.is_some() && record.end_time.is_some() && record.schedule_time.is_some());
    let fields: Value = scene.get(&format!("{JOBS}/a/log")).await.read(200);
    let promised =
        ["job_name", "command", "err", "output", "plan_time", "schedule_time", "start_time", "end_time"];
    assert!(promised.iter().all(|field| fields["items"][0].get(field).is_some()), "{fields}");
    let none: Page<LogRecord> = scene.get(&format!("{JOBS}/a/log?state=FAILED")).await.read(200);
    assert_eq!(none.items, []);
    assert_eq!(scene.get(&format!("{JOBS}/none/log")).await.status, 404);
}

#[tokio::test]
async fn namespaces_are_listed_and_default_is_always_one() {
    let scene = Scene::new().await;
    let list = async |query: &str| {
        let page: Value = scene.get(&format!("/api/v1/namespaces{query}")).await.read(200);
        let item =
            |item: &Value| format!("{} {} {}", item["name"].as_str().unwrap(), item["jobs"], item["queues"]);
        let items = page["items"].as_array().unwrap().iter().map(item).collect::<Vec<_>>();
        (items, page["next"].as_str().map(str::to_owned))
    };
    assert_eq!(list("").await, (vec!["default 0 0".to_owned()], None));
    for namespace in ["billing", "payments.clearing"] {
        let path = format!("/api/v1/namespaces/{namespace}/jobs/a");
        scene.put(&path, json!({ "task": { "noop": {} } })).await;
    }
    let add = json!({ "body": "x" });
    scene.post("/api/v1/namespaces/billing/queues/mail/messages", add).await;
    let all = ["billing 1 1", "default 0 0", "payments/clearing 1 0"].map(str::to_owned);
    assert_eq!(list("").await, (all.to_vec(), None));
    assert_eq!(list("?limit=1").await, (all[..1].to_vec(), Some("billing".to_owned())));
    assert_eq!(list("?limit=1&after=billing").await, (all[1..2].to_vec(), Some("default".to_owned())));
    assert_eq!(list("?after=default").await, (all[2..].to_vec(), None));
    assert_eq!(scene.get("/api/v1/namespaces?after=A").await.status, 400);
}

#[tokio::test]
async fn runs_are_found_by_words_of_keys_labels_and_parameters() {
    let scene = Scene::new().await;
    let job = json!({
        "task": { "noop": {} }, "labels": { "team": "Billing" }, "search": ["customer"], "overlap": "allow"
    });
    scene.put(&format!("{JOBS}/a"), job).await;
    let start = async |body: Value| {
        let run: Run = scene.post(&format!("{JOBS}/a/run"), body).await.read(201);
        run.id
    };
    let acme = start(json!({ "params": { "customer": "ACME Ltd", "secret": "hidden" } })).await;
    let other = start(json!({ "params": { "customer": 4711 }, "key": "order-17" })).await;
    let list = async |query: &str| {
        let page: Page<Run> = scene.get(&format!("{RUNS}?{query}")).await.read(200);
        page.items.into_iter().map(|run| run.id).collect::<Vec<_>>()
    };
    assert_eq!(list("search=acme").await, [acme]);
    assert_eq!(list("search=471").await, [other]);
    assert_eq!(list("search=order-17").await, [other]);
    assert_eq!(list("search=BILL").await, [other, acme]);
    assert_eq!(list("search=bill%20lt").await, [acme]);
    assert_eq!(list("search=bill&limit=1").await, [other]);
    assert_eq!(list("search=bill&state=succeeded").await, []);
    assert_eq!(list("search=hidden").await, [], "the job does not name this parameter");
    let long = format!("search={}", "x".repeat(257));
    assert_eq!(list(&format!("search=acme&parent={acme}")).await, [], "it has no children");
    for query in ["search=", "search=a", &long] {
        let problem: Problem = scene.get(&format!("{RUNS}?{query}")).await.read(400);
        assert_eq!(problem.field.as_deref(), Some("search"), "{query}");
    }
}
