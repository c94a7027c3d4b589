//! The stream of changes: what it tells, and what it refuses.

use axum::body::{Body, BodyDataStream};
use axum::http::Request;
use futures_util::StreamExt;
use punctual_wire::rest::{Code, LiveChanges, Problem, Run};
use serde_json::json;
use std::time::Duration;
use tower::ServiceExt;

use super::{JOBS, RUNS, Scene};

/// An open stream.
struct Stream(BodyDataStream);

impl Stream {
    /// Opens a stream and waits for its greeting.
    async fn open(scene: &Scene, query: &str) -> Stream {
        let request = Request::get(format!("/api/v1/live?{query}")).header("host", "localhost");
        let response = scene.router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        let mut stream = Stream(response.into_body().into_data_stream());
        let hello = stream.frame("event: hello").await;
        assert_eq!(hello, r#"{"node":"test"}"#);
        stream
    }

    /// The data of the next event of this kind.
    async fn frame(&mut self, event: &str) -> String {
        loop {
            let piece = tokio::time::timeout(Duration::from_secs(30), self.0.next()).await;
            let piece = piece.expect("an event").expect("the stream goes on").unwrap();
            let text = String::from_utf8(piece.to_vec()).unwrap();
            if let Some((_, data)) = text.split_once(&format!("{event}\ndata: ")) {
                return data.trim_end().to_owned();
            }
        }
    }

    async fn change(&mut self) -> LiveChanges {
        serde_json::from_str(&self.frame("event: change").await).unwrap()
    }

    /// Reads changes until one is as wanted.
    async fn until(&mut self, wanted: impl Fn(&LiveChanges) -> bool) -> LiveChanges {
        loop {
            let change = self.change().await;
            if wanted(&change) {
                return change;
            }
        }
    }
}

#[tokio::test]
async fn a_page_hears_of_changed_runs_jobs_and_queues() {
    let scene = Scene::new().await;
    let mut stream = Stream::open(&scene, "namespace=default&topics=runs,jobs,queues").await;
    let run: Run = scene.post(RUNS, json!({ "task": { "noop": {} }, "delay": "1h" })).await.read(201);
    let change = stream.until(|change| !change.runs.is_empty()).await;
    assert_eq!((change.runs, change.more), (vec![run.id], false));
    scene.post(&format!("{RUNS}/{}/cancel", run.id), json!({})).await;
    assert_eq!(stream.until(|change| !change.runs.is_empty()).await.runs, [run.id]);
    scene.put(&format!("{JOBS}/a"), json!({ "task": { "noop": {} } })).await;
    let change = stream.until(|change| !change.jobs.is_empty()).await;
    assert_eq!(change.jobs[0].as_str(), "a");
    let queue = "/api/v1/namespaces/default/queues/mail/messages";
    scene.post(queue, json!({ "body": "x" })).await;
    assert_eq!(stream.until(|change| !change.queues.is_empty()).await.queues, ["mail"]);
    scene.send(Request::delete(format!("{JOBS}/a")).body(Body::empty()).unwrap()).await;
    stream.until(|change| change.more).await;
}

#[tokio::test]
async fn changes_that_come_together_are_one_message() {
    let scene = Scene::new().await;
    let mut stream = Stream::open(&scene, "topics=runs").await;
    let mut made = Vec::new();
    for _ in 0..20 {
        let run: Run = scene.post(RUNS, json!({ "task": { "noop": {} }, "delay": "1h" })).await.read(201);
        made.push(run.id);
    }
    let (mut seen, mut messages) = (Vec::new(), 0);
    while seen.len() < made.len() {
        seen.extend(stream.change().await.runs);
        messages += 1;
    }
    seen.sort();
    made.sort();
    assert_eq!(seen, made);
    assert!(messages < 20, "{messages} messages");
}

#[tokio::test]
async fn a_page_hears_of_no_other_namespace_and_no_other_topic() {
    let scene = Scene::new().await;
    let mut stream = Stream::open(&scene, "namespace=billing.eu&topics=jobs").await;
    scene.put(&format!("{JOBS}/a"), json!({ "task": { "noop": {} } })).await;
    scene.post(RUNS, json!({ "task": { "noop": {} }, "delay": "1h" })).await;
    scene.put("/api/v1/namespaces/billing.eu/jobs/b", json!({ "task": { "noop": {} } })).await;
    let change = stream.change().await;
    assert_eq!((change.jobs.len(), change.jobs[0].as_str(), change.runs.len()), (1, "b", 0));
}

#[tokio::test]
async fn a_stream_ends_when_the_node_stops() {
    let scene = Scene::new().await;
    let mut stream = Stream::open(&scene, "topics=runs").await;
    scene.node.handle().followers().close();
    assert!(stream.0.next().await.is_none());
    let refused = scene.get("/api/v1/live?topics=runs").await;
    assert_eq!(refused.read::<Problem>(503).code, Code::Unavailable);
}

#[tokio::test]
async fn one_stream_more_than_allowed_is_refused() {
    let scene = Scene::new().await;
    let mut streams = Vec::new();
    for _ in 0..punctual_node::live::LIVE_FOLLOWERS_MAX {
        streams.push(Stream::open(&scene, "topics=nodes").await);
    }
    let refused = scene.get("/api/v1/live?topics=nodes").await;
    assert_eq!(refused.read::<Problem>(429).code, Code::TooManyFollowers);
    streams.pop();
    Stream::open(&scene, "topics=nodes").await;
}

#[tokio::test]
async fn an_unknown_topic_is_refused() {
    let scene = Scene::new().await;
    for (query, field) in [
        ("topics=runs,jbos", "topics"),
        ("topics=", "topics"),
        ("", "topics"),
        ("topics=runs&namespace=A", "namespace"),
        ("topics=runs&after=1", "after"),
    ] {
        let problem: Problem = scene.get(&format!("/api/v1/live?{query}")).await.read(400);
        assert_eq!(problem.field.as_deref(), Some(field), "{query}: {problem}");
    }
}

#[tokio::test]
async fn a_page_of_another_origin_opens_no_stream() {
    let scene = Scene::new().await;
    let foreign = Request::get("/api/v1/live?topics=runs").header("accept", "text/event-stream");
    let foreign = foreign.header("host", "localhost").header("origin", "http://evil.example");
    let problem: Problem = scene.send(foreign.body(Body::empty()).unwrap()).await.read(403);
    assert_eq!(problem.code, Code::CrossOrigin);
}
