//! REST against a real node on the memory store, without a network: what goes in, what comes out.

mod access;
mod attempt_keys;
mod reports;
mod editing;
mod dead_letters;
mod looking;
mod live;
mod overview;
mod incidents;
mod listing;
mod why;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderValue, Method, Request, Response, StatusCode};
use axum::routing::get;
use punctual_core::Timestamp;
use punctual_core::time::ManualClock;
use punctual_node::{AttemptKeys, Config, Node};
use punctual_store::memory::Memory;
use punctual_wire::rest::{Code, Job, Line, Page, Problem, Run, Skip};
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::{Endpoints, Settings, router, table};

mod bad_input;
mod refusals;
mod queues;
mod locks;
mod pings;
mod cron;
mod statistics;
mod steps;
mod backfill;
mod holds;

const JOBS: &str = "/api/v1/namespaces/default/jobs";
const RUNS: &str = "/api/v1/namespaces/default/runs";

const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

struct Scene {
    node: Node,
    clock: Arc<ManualClock>,
    router: Router,
}

impl Scene {
    async fn new() -> Scene {
        Scene::on(Arc::new(Memory::new(4)), |endpoints| endpoints).await
    }

    /// Endpoints of a node on this store, as the test wants them.
    async fn on(store: Arc<Memory>, wanted: impl FnOnce(Endpoints) -> Endpoints) -> Scene {
        let clock = Arc::new(ManualClock::at(NOW));
        let node = Node::start(Config {
            store,
            clock: clock.clone(),
            lanes: 1,
            attempt_lease: Duration::from_secs(15),
            records: true,
            shard_lease: Duration::from_secs(3),
            cluster: None,
            attempt_keys: Some(AttemptKeys::of(b"a secret of the tests")),
            channels: None,
        })
        .unwrap();
        let handle = node.handle();
        assert!(handle.wait_until(|status| status.ready).await);
        let settings = Settings { hosts: vec!["scheduler.example".to_owned()], ..Settings::default() };
        let router = router(wanted(Endpoints::new(handle, clock.clone(), "test", settings)));
        Scene { node, clock, router }
    }

    async fn send(&self, mut request: Request<Body>) -> Answer {
        request.headers_mut().entry("host").or_insert(HeaderValue::from_static("localhost"));
        Answer::of(self.router.clone().oneshot(request).await.unwrap()).await
    }

    async fn get(&self, path: &str) -> Answer {
        self.send(Request::get(path).body(Body::empty()).unwrap()).await
    }

    async fn post(&self, path: &str, body: Value) -> Answer {
        self.send(with_json(Request::post(path), &body)).await
    }

    async fn put(&self, path: &str, body: Value) -> Answer {
        self.send(with_json(Request::put(path), &body)).await
    }

    async fn patch(&self, path: &str, body: Value) -> Answer {
        self.send(with_json(Request::patch(path), &body)).await
    }
}

fn with_json(request: axum::http::request::Builder, body: &Value) -> Request<Body> {
    request.header("content-type", "application/json").body(Body::from(body.to_string())).unwrap()
}

#[derive(Debug)]
struct Answer {
    status: StatusCode,
    headers: axum::http::HeaderMap,
    body: Vec<u8>,
}

impl Answer {
    async fn of(response: Response<Body>) -> Answer {
        let (parts, body) = response.into_parts();
        let body = to_bytes(body, usize::MAX).await.unwrap().to_vec();
        Answer { status: parts.status, headers: parts.headers, body }
    }

    #[track_caller]
    fn read<T: serde::de::DeserializeOwned>(&self, status: u16) -> T {
        let text = String::from_utf8_lossy(&self.body);
        assert_eq!(self.status.as_u16(), status, "{text}");
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

#[tokio::test]
async fn a_job_is_put_read_listed_and_deleted() {
    let scene = Scene::new().await;
    let path = format!("{JOBS}/hello");
    let file = json!({ "schedule": { "every": "1s" }, "task": { "shell": "echo hi" } });
    let made = scene.put(&path, file.clone()).await;
    assert_eq!((made.header("etag"), made.header("punctual-made")), ("\"1\"", "created"));
    let job: Job = made.read(201);
    assert_eq!(job.next_due_at.unwrap().to_string(), "2027-01-15T08:00:01.000Z");

    let again = scene.put(&path, file).await;
    assert_eq!((again.status.as_u16(), again.header("punctual-made")), (200, "unchanged"));
    // What was read can be put back as it is.
    let read: Value = scene.get(&path).await.read(200);
    let same = scene.put(&path, read).await;
    assert_eq!(same.header("punctual-made"), "unchanged");

    let changed = scene.put(&path, json!({ "task": { "noop": {} } })).await;
    assert_eq!((changed.header("etag"), changed.header("punctual-made")), ("\"2\"", "changed"));
    let listed: Page<Job> = scene.get(JOBS).await.read(200);
    assert_eq!((listed.items.len(), listed.next), (1, None));

    let gone = scene.send(Request::delete(&path).body(Body::empty()).unwrap()).await;
    assert_eq!(gone.status, 204);
    assert_eq!(scene.get(&path).await.read::<Problem>(404).message, "no job `hello` in namespace `default`");
}

#[tokio::test]
async fn a_put_may_ask_for_a_new_job_or_for_one_revision() {
    let scene = Scene::new().await;
    let put = async |header: &str, value: &str, priority: u8| {
        let body = json!({ "task": { "noop": {} }, "priority": priority });
        let request = Request::put(format!("{JOBS}/a")).header(header, value);
        scene.send(with_json(request, &body)).await.status.as_u16()
    };
    assert_eq!(put("if-match", "\"1\"", 1).await, 404, "there is nothing to edit yet");
    assert_eq!(put("if-none-match", "*", 1).await, 201);
    assert_eq!(put("if-none-match", "*", 2).await, 409);
    assert_eq!(put("if-match", "\"7\"", 2).await, 412);
    assert_eq!(put("if-match", "\"1\"", 2).await, 200);
    assert_eq!(put("if-match", "1", 2).await, 400);
    assert_eq!(put("if-match", "*", 2).await, 400);
    assert_eq!(put("if-none-match", "\"1\"", 2).await, 400);
    let wrong = Request::delete(format!("{JOBS}/a")).header("if-match", "\"1\"").body(Body::empty());
    assert_eq!(scene.send(wrong.unwrap()).await.status, 412);
}

#[tokio::test]
async fn of_two_concurrent_conditional_edits_one_wins() {
    let scene = Scene::new().await;
    let path = format!("{JOBS}/a");
    scene.put(&path, json!({ "task": { "noop": {} } })).await;
    for round in 1..=20_u32 {
        let edit = |priority: u32| {
            let body =
                json!({ "task": { "noop": {} }, "priority": priority, "description": round.to_string() });
            let request = Request::put(&path).header("if-match", format!("\"{round}\""));
            scene.send(with_json(request, &body))
        };
        let (one, other) = tokio::join!(edit(1), edit(2));
        let mut statuses = [one.status.as_u16(), other.status.as_u16()];
        let won = if statuses[0] == 200 { 1 } else { 2 };
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 412], "round {round}");
        let job: Value = scene.get(&path).await.read(200);
        assert_eq!((&job["revision"], &job["priority"]), (&json!(round + 1), &json!(won)), "round {round}");
        let lost: Problem = if won == 1 { other.read(412) } else { one.read(412) };
        assert_eq!(lost.code, Code::WrongRevision);
    }
}

#[tokio::test]
async fn the_history_of_a_deleted_job_is_still_listed() {
    let scene = Scene::new().await;
    let path = format!("{JOBS}/a");
    let mut ids = Vec::new();
    for _ in 0..2 {
        scene
            .put(&path, json!({ "task": { "noop": {} }, "schedule": { "at": "2900-01-01T00:00:00Z" } }))
            .await;
        for _ in 0..2 {
            let run: Run = scene.post(&format!("{path}/run"), json!({ "delay": "1h" })).await.read(201);
            ids.push(run.id);
        }
        // Drops the planned due time.
        scene.put(&path, json!({ "task": { "noop": {} } })).await;
        let gone = scene.send(Request::delete(&path).body(Body::empty()).unwrap()).await;
        assert_eq!(gone.status, 204);
    }
    ids.reverse();
    for limit in [1, 3, 10] {
        let (mut listed, mut after) = (Vec::new(), String::new());
        loop {
            let page: Page<Run> = scene.get(&format!("{RUNS}?job=a&limit={limit}{after}")).await.read(200);
            listed.extend(page.items.iter().map(|run| run.id));
            let Some(next) = page.next else { break };
            after = format!("&after={next}");
        }
        assert_eq!(listed, ids, "pages of {limit}");
    }
    let first: Page<Skip> = scene.get(&format!("{path}/skips?limit=1")).await.read(200);
    let next = first.next.expect("each of the two jobs has a record");
    let second: Page<Skip> = scene.get(&format!("{path}/skips?limit=1&after={next}")).await.read(200);
    assert_eq!((second.items.len(), second.next), (1, None));
    for skip in first.items.iter().chain(&second.items) {
        assert_eq!((skip.reason.as_str(), skip.count, skip.revision), ("edited", Some(1), 1));
    }
    assert!(first.items[0].job_id > second.items[0].job_id, "the newest first");
    assert_eq!(scene.get(&format!("{path}/skips?after=x")).await.status, 400);
    assert_eq!(scene.get(&format!("{JOBS}/nobody/skips")).await.status, 404);
    assert_eq!(scene.get(&format!("{RUNS}?job=nobody")).await.status, 404);
}

#[tokio::test]
async fn a_job_may_be_put_as_yaml() {
    let scene = Scene::new().await;
    let put = async |text: &str| {
        let request = Request::put(format!("{JOBS}/a")).header("content-type", "application/yaml");
        scene.send(request.body(Body::from(text.to_owned())).unwrap()).await
    };
    assert_eq!(put("task:\n  shell: echo hi\n").await.status, 201);
    assert_eq!(put("task: { noop: {} }\n---\ntask: { noop: {} }\n").await.status, 400);
    let problem: Problem = put("task: { nop: {} }\n").await.read(422);
    assert_eq!(problem.field.as_deref(), Some("task.nop"));
}

#[tokio::test]
async fn a_listing_goes_page_by_page() {
    let scene = Scene::new().await;
    for name in ["a", "b", "c"] {
        scene.put(&format!("{JOBS}/{name}"), json!({ "task": { "noop": {} } })).await;
        scene.post(RUNS, json!({ "task": { "noop": {} }, "delay": "1h" })).await;
    }
    let first: Page<Job> = scene.get(&format!("{JOBS}?limit=2")).await.read(200);
    assert_eq!((first.items.len(), first.next.as_deref()), (2, Some("b")));
    let rest: Page<Job> = scene.get(&format!("{JOBS}?limit=2&after=b")).await.read(200);
    assert_eq!((rest.items.len(), rest.next), (1, None));

    let first: Page<Run> = scene.get(&format!("{RUNS}?limit=2")).await.read(200);
    let next = first.next.expect("there is a third");
    let rest: Page<Run> = scene.get(&format!("{RUNS}?limit=2&after={next}")).await.read(200);
    assert_eq!((rest.items.len(), rest.next), (1, None));
    let ids: Vec<_> = first.items.iter().chain(&rest.items).map(|run| run.id).collect();
    assert!(ids.windows(2).all(|pair| pair[0] > pair[1]), "newest first: {ids:?}");
}

#[tokio::test]
async fn runs_are_filtered_by_state_job_and_time() {
    let scene = Scene::new().await;
    scene.put(&format!("{JOBS}/a"), json!({ "task": { "noop": {} } })).await;
    let started: Run = scene.post(&format!("{JOBS}/a/run"), json!({})).await.read(201);
    let waiting: Run = scene.post(RUNS, json!({ "task": { "noop": {} }, "delay": "1h" })).await.read(201);
    let list = async |query: &str| {
        let page: Page<Run> = scene.get(&format!("{RUNS}?{query}")).await.read(200);
        page.items.into_iter().map(|run| run.id).collect::<Vec<_>>()
    };
    assert_eq!(list("job=a").await, [started.id]);
    assert_eq!(list("state=waiting").await, [waiting.id]);
    assert_eq!(list("state=PENDING").await.len(), 2);
    assert_eq!(list("state=waiting,ready").await.len(), 2);
    assert_eq!(list("state=COMPLETED").await, []);
    assert_eq!(list("since=2027-01-15T08:00:00Z").await.len(), 2);
    assert_eq!(list("until=2027-01-15T08:00:00Z").await, []);
    assert_eq!(scene.get(&format!("{RUNS}?job=none")).await.read::<Problem>(404).status, 404);
}

#[tokio::test]
async fn a_key_makes_a_repeated_ask_have_one_effect() {
    let scene = Scene::new().await;
    let body = json!({ "task": { "noop": {} }, "key": "order-17" });
    let first: Run = scene.post(RUNS, body.clone()).await.read(201);
    let again: Run = scene.post(RUNS, body).await.read(200);
    assert_eq!(again.id, first.id);
    let header = Request::post(RUNS).header("idempotency-key", "order-17");
    let by_header: Run = scene.send(with_json(header, &json!({ "task": { "noop": {} } }))).await.read(200);
    assert_eq!((by_header.id, by_header.key.as_deref()), (first.id, Some("order-17")));

    scene.put(&format!("{JOBS}/a"), json!({ "task": { "noop": {} } })).await;
    let run = async || {
        let request = Request::post(format!("{JOBS}/a/run")).header("idempotency-key", "k");
        scene.send(request.body(Body::empty()).unwrap()).await
    };
    let first: Run = run().await.read(201);
    assert_eq!(run().await.read::<Run>(200).id, first.id);
}

#[tokio::test]
async fn a_run_is_shown_cancelled_and_tried_again() {
    let scene = Scene::new().await;
    let run: Run = scene.post(RUNS, json!({ "task": { "noop": {} }, "delay": "1h" })).await.read(201);
    let path = format!("{RUNS}/{}", run.id);
    assert_eq!(scene.post(&format!("{path}/retry"), json!({})).await.read::<Problem>(409).status, 409);
    let cancelled: Run = scene.post(&format!("{path}/cancel"), json!({})).await.read(200);
    assert_eq!(cancelled.state.to_string(), "cancelled");
    assert_eq!(scene.post(&format!("{path}/cancel"), json!({})).await.status, 409);

    let shown: Run = scene.get(&format!("{path}?events=true")).await.read(200);
    assert_eq!(shown.events.unwrap().len(), 2);
    assert_eq!(scene.get(&path).await.read::<Run>(200).events, None);
    assert_eq!(scene.get(&format!("{path}/logs")).await.body, b"");

    let again: Run = scene.post(&format!("{path}/retry"), json!({})).await.read(201);
    assert_eq!(again.retry_of, Some(run.id));
    let letter = format!("/api/v1/namespaces/default/dead-letters/{}", run.id);
    assert_eq!(scene.post(&format!("{letter}/replay"), json!({})).await.status, 409);
    assert_eq!(scene.post(&format!("{letter}/discard"), json!({})).await.status, 409);
}

#[tokio::test]
async fn a_paused_job_has_no_next_fire() {
    let scene = Scene::new().await;
    scene.put(&format!("{JOBS}/a"), json!({ "schedule": { "every": "1m" }, "task": { "noop": {} } })).await;
    let next = async || scene.get(&format!("{JOBS}/a/next?count=3")).await.read::<Value>(200);
    let due = next().await["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|fire| fire["due_at"].clone())
        .collect::<Vec<_>>();
    assert_eq!(due, ["2027-01-15T08:01:00.000Z", "2027-01-15T08:02:00.000Z", "2027-01-15T08:03:00.000Z"]);
    let paused: Job = scene.post(&format!("{JOBS}/a/pause"), json!({})).await.read(200);
    assert_eq!(paused.next_due_at, None);
    assert_eq!(next().await["items"], json!([]));
    let resumed: Job = scene.post(&format!("{JOBS}/a/resume"), json!({})).await.read(200);
    assert!(resumed.next_due_at.is_some());
}

#[tokio::test]
async fn an_export_tells_every_job_run_and_event() {
    let scene = Scene::new().await;
    scene.put(&format!("{JOBS}/a"), json!({ "schedule": { "every": "1m" }, "task": { "noop": {} } })).await;
    for _ in 0..3 {
        scene.post(RUNS, json!({ "task": { "noop": {} }, "delay": "1h" })).await;
    }
    let answer = scene.get("/api/v1/export/history").await;
    assert_eq!(answer.header("content-type"), "application/x-ndjson");
    let text = String::from_utf8(answer.body).unwrap();
    let lines: Vec<Line> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let count = |is: fn(&Line) -> bool| lines.iter().filter(|line| is(line)).count();
    assert_eq!(count(|line| matches!(line, Line::Job { .. })), 1);
    assert_eq!(count(|line| matches!(line, Line::Run { .. })), 3);
    assert_eq!(count(|line| matches!(line, Line::Event(_))), 3);
    assert!(matches!(lines.last(), Some(Line::Stats(stats)) if stats.live_runs == 3));
}

fn get_of(path: &str) -> Request<Body> {
    Request::get(path).header("host", "localhost").body(Body::empty()).unwrap()
}

#[tokio::test]
async fn the_own_pages_of_the_server_may_ask_for_changes() {
    let scene = Scene::new().await;
    for host in ["127.0.0.1:7400", "localhost:7400", "[::1]:7400", "Scheduler.example:443"] {
        let request = Request::post(RUNS).header("host", host).header("origin", format!("http://{host}"));
        let answer = scene.send(with_json(request, &json!({ "task": { "noop": {} } }))).await;
        assert_eq!(answer.status, 201, "{host}");
    }
}

#[tokio::test]
async fn a_node_that_stops_is_not_available_and_says_when_to_ask_again() {
    let Scene { node, router, .. } = Scene::new().await;
    node.shut_down().await;
    let request =
        with_json(Request::post(RUNS).header("host", "localhost"), &json!({ "task": { "noop": {} } }));
    let answer = Answer::of(router.oneshot(request).await.unwrap()).await;
    assert_eq!(answer.header("retry-after"), "1");
    assert_eq!(answer.read::<Problem>(503).status, 503);
}

#[tokio::test]
async fn a_panic_costs_its_request_and_not_the_server() {
    async fn boom() {
        panic!("a bug");
    }
    let Scene { node: _node, router, .. } = Scene::new().await;
    let guarded = Router::<()>::new().route("/boom", get(boom)).fallback_service(router);
    let router = super::guard::around(guarded, super::guard::Guard::default());
    let answer = Answer::of(router.clone().oneshot(get_of("/boom")).await.unwrap()).await;
    assert_eq!(answer.read::<Problem>(500).message, "internal error; the server's log has the cause");
    assert_eq!(Answer::of(router.oneshot(get_of("/healthz")).await.unwrap()).await.status, 200);
}

#[tokio::test]
async fn health_says_nothing_but_how_it_is() {
    let scene = Scene::new().await;
    for (path, said) in [("/healthz", "ok\n"), ("/readyz", "ready\n")] {
        let answer = scene.get(path).await;
        assert_eq!((answer.status.as_u16(), answer.body.as_slice()), (200, said.as_bytes()));
        let version = env!("CARGO_PKG_VERSION");
        let told = answer.headers.values().any(|value| value.to_str().unwrap_or_default().contains(version));
        assert!(!told && !answer.headers.contains_key("server"), "{:?}", answer.headers);
    }
    let document: Value = scene.get("/api/v1/openapi.json").await.read(200);
    assert_eq!(document["info"]["version"], "v1", "the version of the API, not of the program");
}

#[tokio::test]
async fn every_word_of_a_query_that_is_read_is_described_and_no_other() {
    let scene = Scene::new().await;
    let document: Value = scene.get("/api/v1/openapi.json").await.read(200);
    scene.put(&format!("{JOBS}/ping"), json!({ "task": { "ping": { "period": "24h" } } })).await;
    let shown: Value = scene.get("/api/v1/namespaces/default/pings/ping/key").await.read(200);
    let key = shown["key"].as_str().unwrap();
    let mut asked = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let parameters = operation["parameters"].as_array().unwrap().iter();
            let described: BTreeSet<&str> = parameters
                .filter(|parameter| parameter["in"] == "query")
                .map(|parameter| parameter["name"].as_str().unwrap())
                .collect();
            let name = if path.contains("/pings/") { "ping" } else { "x" };
            let address = path.replace("{namespace}", "default").replace("{name}", name).replace("{id}", "1");
            let address = address.replace("{revision}", "1");
            let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
            let request = Request::builder().uri(format!("{address}?zzzzzzzz=1")).method(method);
            let request = request.header("punctual-ping-key", key);
            let answer = scene.send(request.body(Body::empty()).unwrap()).await;
            let problem: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
            let known = problem["message"].as_str().and_then(|message| message.split_once("known are "));
            let known: BTreeSet<&str> =
                known.map_or_else(BTreeSet::new, |(_, words)| words.split(", ").collect());
            assert_eq!(described, known, "{path}: {problem}");
            asked += known.len();
        }
    }
    assert!(asked > 10, "{asked}");
}

#[tokio::test]
async fn every_row_of_the_table_is_served() {
    let scene = Scene::new().await;
    for route in table() {
        let path = route
            .path
            .replace("{namespace}", "default")
            .replace("{name}", "x")
            .replace("{id}", "1")
            .replace("{revision}", "1");
        let request = Request::builder().uri(&path).method(route.method.clone()).body(Body::empty()).unwrap();
        let answer = scene.send(request).await;
        let code = serde_json::from_slice::<Value>(&answer.body).unwrap_or_default();
        assert_ne!(code["code"], "no_such_route", "{path}");
        assert_ne!(code["code"], "method_not_allowed", "{path}");
    }
}
