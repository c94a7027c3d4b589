//! One refusal of every kind, with its status, its code and the field that it names.

use axum::body::Body;
use axum::http::Request;
use punctual_wire::rest::{Page, Problem, Run};
use serde_json::{Value, json};
use tower::ServiceExt;

use super::{Answer, JOBS, RUNS, Scene, get_of, with_json};

#[tokio::test]
async fn what_is_wrong_is_said_with_a_code_and_the_field() {
    let scene = Scene::new().await;
    scene.put(&format!("{JOBS}/a"), json!({ "task": { "noop": {} } })).await;
    let task = json!({ "task": { "noop": {} } });
    let long = "x".repeat(129);
    let rows: Vec<(Request<Body>, u16, &str, &str)> = vec![
        // Addresses.
        (get_of("/nothing"), 404, "no_such_route", ""),
        (get_of("/api/v1/nothing"), 404, "no_such_route", ""),
        (get_of("/api/v1/namespaces/Upper/jobs"), 400, "bad_parameter", "namespace"),
        (get_of("/api/v1/namespaces/a..b/jobs"), 400, "bad_parameter", "namespace"),
        (get_of("/api/v1/namespaces/%20/jobs"), 400, "bad_parameter", "namespace"),
        (get_of("/api/v1/namespaces/%ff/jobs"), 400, "bad_parameter", "path"),
        (get_of(&format!("{JOBS}/a%20b")), 400, "bad_parameter", "name"),
        (get_of(&format!("{JOBS}/%00")), 400, "bad_parameter", "name"),
        (get_of(&format!("{JOBS}/..%2f..%2fetc")), 400, "bad_parameter", "name"),
        (get_of(&format!("{JOBS}/{long}")), 400, "bad_parameter", "name"),
        (get_of(&format!("{JOBS}/none")), 404, "no_such_job", ""),
        (get_of(&format!("{JOBS}/none/next")), 404, "no_such_job", ""),
        (get_of(&format!("{RUNS}/17")), 404, "no_such_run", ""),
        (get_of(&format!("{RUNS}/17/logs")), 404, "no_such_run", ""),
        // Its shard is beyond those of the store.
        (
            Request::post(format!("{RUNS}/1234567890123456789/cancel")).body(Body::empty()).unwrap(),
            404,
            "no_such_run",
            "",
        ),
        (
            Request::post(format!("{RUNS}/1234567890123456789/retry")).body(Body::empty()).unwrap(),
            404,
            "no_such_run",
            "",
        ),
        (
            Request::post("/api/v1/namespaces/default/incidents/1234567890123456789/acknowledge")
                .body(Body::empty())
                .unwrap(),
            404,
            "no_such_incident",
            "",
        ),
        (get_of(&format!("{RUNS}/none")), 400, "bad_parameter", "id"),
        (get_of(&format!("{RUNS}/-1")), 400, "bad_parameter", "id"),
        (get_of(&format!("{RUNS}/99999999999999999999")), 400, "bad_parameter", "id"),
        (get_of(&format!("{RUNS}/{}", "9".repeat(9000))), 414, "address_too_long", ""),
        // Methods.
        (Request::patch(RUNS).body(Body::empty()).unwrap(), 405, "method_not_allowed", ""),
        (Request::delete("/healthz").body(Body::empty()).unwrap(), 405, "method_not_allowed", ""),
        (Request::post(JOBS).body(Body::empty()).unwrap(), 405, "method_not_allowed", ""),
        // Queries.
        (get_of(&format!("{RUNS}?limit=0")), 400, "bad_parameter", "limit"),
        (get_of(&format!("{RUNS}?limit=1001")), 400, "bad_parameter", "limit"),
        (get_of(&format!("{RUNS}?limit=many")), 400, "bad_parameter", "limit"),
        (get_of(&format!("{RUNS}?limit=-1")), 400, "bad_parameter", "limit"),
        (get_of(&format!("{RUNS}?limit=1&limit=2")), 400, "bad_parameter", "limit"),
        (get_of(&format!("{RUNS}?state=asleep")), 400, "bad_parameter", "state"),
        (get_of(&format!("{RUNS}?state=")), 400, "bad_parameter", "state"),
        (get_of(&format!("{RUNS}?since=yesterday")), 400, "bad_parameter", "since"),
        (get_of(&format!("{RUNS}?after=nowhere")), 400, "bad_parameter", "after"),
        (get_of(&format!("{RUNS}?job=a%20b")), 400, "bad_parameter", "job"),
        (get_of(&format!("{RUNS}?colour=red")), 400, "bad_parameter", "colour"),
        (get_of(&format!("{JOBS}?after=a%2Fb")), 400, "bad_parameter", "after"),
        (get_of(&format!("{JOBS}/a/next?count=0")), 400, "bad_parameter", "count"),
        (get_of(&format!("{JOBS}/a/next?count=1001")), 400, "bad_parameter", "count"),
        (get_of(&format!("{RUNS}/17?events=perhaps")), 400, "bad_parameter", "events"),
        (get_of("/api/v1/export/history?from=then"), 400, "bad_parameter", "from"),
        // Bodies.
        (Request::put(format!("{JOBS}/b")).body(Body::empty()).unwrap(), 400, "malformed", ""),
        (Request::post(RUNS).body(Body::empty()).unwrap(), 400, "malformed", ""),
        (Request::post(RUNS).body(Body::from("{}")).unwrap(), 415, "unsupported_media_type", "Content-Type"),
        (of_type("text/plain", "{}"), 415, "unsupported_media_type", "Content-Type"),
        (of_type("application/yaml", "a: 1"), 415, "unsupported_media_type", "Content-Type"),
        (of_type("application/json", "{"), 400, "malformed", ""),
        (of_type("application/json; charset=utf-8", "nul\0"), 400, "malformed", ""),
        (of_type("application/json", "{} {}"), 400, "malformed", ""),
        (of_type("application/json", "{\"a\":1,\"a\":2}"), 400, "malformed", ""),
        (of_type("application/json", &"[".repeat(10_000)), 400, "malformed", ""),
        (of_type("application/json", &" ".repeat(1024 * 1024 + 1)), 413, "body_too_large", ""),
        (of_type("application/json", "[]"), 422, "invalid", ""),
        (of_type("application/json", "\"run\""), 422, "invalid", ""),
        (of_type("application/json", "{}"), 422, "invalid", "task"),
        (with_json(Request::post(RUNS), &json!({ "task": { "shell": 5 } })), 422, "invalid", "task.shell"),
        (
            with_json(Request::post(RUNS), &json!({ "task": { "noop": {} }, "key": "" })),
            422,
            "invalid",
            "key",
        ),
        (
            with_json(Request::put(format!("{JOBS}/b")), &json!({ "task": { "noop": {} }, "name": "c" })),
            422,
            "invalid",
            "name",
        ),
        (
            with_json(
                Request::put(format!("{JOBS}/b")),
                &json!({ "schedule": { "cron": "61 * * * *" }, "task": {} }),
            ),
            422,
            "invalid",
            "task",
        ),
        (with_json(Request::post(format!("{JOBS}/none/run")), &json!({})), 404, "no_such_job", ""),
        (
            with_json(Request::post(format!("{JOBS}/a/run")), &json!({ "params": 5 })),
            422,
            "invalid",
            "params",
        ),
        (with_json(Request::post(format!("{JOBS}/none/pause")), &json!({})), 404, "no_such_job", ""),
        (with_json(Request::post(format!("{RUNS}/17/cancel")), &json!({})), 404, "no_such_run", ""),
        (with_json(Request::post(format!("{RUNS}/17/retry")), &json!({})), 404, "no_such_run", ""),
        // Headers.
        (
            with_json(
                Request::post(RUNS).header("idempotency-key", "a").header("idempotency-key", "b"),
                &task,
            ),
            400,
            "bad_parameter",
            "idempotency-key",
        ),
        (
            with_json(Request::post(RUNS).header("idempotency-key", "k".repeat(257)), &task),
            422,
            "invalid",
            "key",
        ),
        (
            Request::get(RUNS).header("x-large", "x".repeat(40_000)).body(Body::empty()).unwrap(),
            431,
            "headers_too_large",
            "",
        ),
        (
            Request::get(RUNS).header("host", "evil.example").body(Body::empty()).unwrap(),
            403,
            "cross_origin",
            "Host",
        ),
        (
            with_json(
                Request::post(RUNS).header("host", "localhost:7400").header("origin", "http://evil.example"),
                &task,
            ),
            403,
            "cross_origin",
            "Origin",
        ),
        (
            Request::get(RUNS)
                .header("host", "localhost")
                .header("host", "localhost")
                .body(Body::empty())
                .unwrap(),
            400,
            "bad_parameter",
            "Host",
        ),
    ];
    let without_host = Answer::of(
        scene.router.clone().oneshot(Request::get(RUNS).body(Body::empty()).unwrap()).await.unwrap(),
    )
    .await;
    assert_eq!(without_host.read::<Problem>(400).field.as_deref(), Some("Host"));
    for (request, status, code, field) in rows {
        let asked: String = format!("{} {}", request.method(), request.uri()).chars().take(120).collect();
        let answer = scene.send(request).await;
        assert_eq!(answer.header("content-type"), "application/problem+json", "{asked}");
        let problem: Value = answer.read(status);
        let found = (problem["code"].as_str(), problem["field"].as_str().unwrap_or(""));
        assert_eq!(found, (Some(code), field), "{asked}: {problem}");
        assert!(problem["message"].as_str().is_some_and(|message| !message.is_empty()), "{asked}: {problem}");
    }
    let runs: Page<Run> = scene.get(RUNS).await.read(200);
    assert_eq!(runs.items, [], "a refusal means that nothing happened");
}

#[tokio::test]
async fn a_refused_file_is_told_with_the_line_of_its_field() {
    let scene = Scene::new().await;
    let (yaml, json) = ("application/yaml", "application/json");
    let rows = [
        // (how it is sent, the file, the status, the field, the line and the column)
        (yaml, "task: { noop: {} }\nschedule:\n  every: 0s\n", 422, "schedule.every", Some((3, 10))),
        (yaml, "task: { noop: {} }\nretrys: 3\n", 422, "retrys", Some((2, 1))),
        (yaml, "schedule: { every: 5s }\n", 422, "task", Some((1, 1))),
        (yaml, "task: { noop: {} }\ntask: {}\n", 400, "", Some((2, 1))),
        (json, "{\n  \"task\": { \"shell\":\n    \"\" } }", 422, "task.shell", Some((3, 5))),
        (json, "{ \"priority\": 10, \"task\": { \"noop\": {} } }", 422, "priority", Some((1, 15))),
        // Only the node knows that the job would start itself.
        (
            yaml,
            "task: { noop: {} }\nschedule:\n  after:\n    job: b\n",
            422,
            "schedule.after.job",
            Some((4, 10)),
        ),
        (
            yaml,
            "task: { noop: {} }\nschedule: { cron: '@daily', calendar: x }\n",
            422,
            "schedule.calendar",
            Some((2, 39)),
        ),
    ];
    for (kind, file, status, field, place) in rows {
        let request = Request::put(format!("{JOBS}/b")).header("content-type", kind);
        let answer = scene.send(request.body(Body::from(file.to_owned())).unwrap()).await;
        let problem: Problem = answer.read(status);
        let found = (problem.field.as_deref().unwrap_or_default(), problem.line.zip(problem.column));
        assert_eq!(found, (field, place), "{file}: {problem:?}");
    }
    let checked = with_json(Request::post(format!("{JOBS}/validate")), &json!({ "name": "b", "task": {} }));
    assert_eq!(scene.send(checked).await.read::<Problem>(422).line, Some(1));
}

fn of_type(kind: &str, body: &str) -> Request<Body> {
    Request::post(RUNS).header("content-type", kind).body(Body::from(body.to_owned())).unwrap()
}
