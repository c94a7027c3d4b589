//! Invalid requests: a table of bodies, with the code and the field of each answer. A refusal stores nothing.
//!
//! Rows that belong to a surface of their own (calendars, templates, HTTP tasks) stand with its tests.

mod bodies;
mod requests;
mod times;
mod values;

use axum::body::Body;
use axum::http::Request;
use axum::http::request::Builder;
use punctual_wire::rest::{Job, Page, Run};
use serde_json::{Value, json};

use super::{Answer, JOBS, RUNS, Scene, get_of, with_json};

/// A request, and the status, the code and the field that answer it; no field: the whole of it is wrong.
struct Row {
    what: String,
    request: Request<Body>,
    expected: (u16, &'static str, &'static str),
}

const INVALID: (u16, &str) = (422, "invalid");
const MALFORMED: (u16, &str) = (400, "malformed");
const PARAMETER: (u16, &str) = (400, "bad_parameter");

fn row(
    what: impl Into<String>,
    request: Request<Body>,
    (status, code): (u16, &'static str),
    field: &'static str,
) -> Row {
    let what = what.into().chars().take(100).collect();
    Row { what, request, expected: (status, code, field) }
}

/// A job whose field has a value.
fn job(field: &'static str, name: &str, value: Value) -> Row {
    let mut job = json!({ "task": { "noop": {} } });
    job[name] = value;
    row(job.to_string(), with_json(put_job(), &job), INVALID, field)
}

fn schedule(field: &'static str, schedule: Value) -> Row {
    job(field, "schedule", schedule)
}

fn submit(field: &'static str, name: &str, value: Value) -> Row {
    let mut submit = json!({ "task": { "noop": {} } });
    submit[name] = value;
    row(submit.to_string(), with_json(Request::post(RUNS), &submit), INVALID, field)
}

fn put_job() -> Builder {
    Request::put(format!("{JOBS}/b"))
}

fn body(kind: &str, text: impl Into<Vec<u8>>) -> Request<Body> {
    put_job().header("content-type", kind).body(Body::from(text.into())).unwrap()
}

#[tokio::test]
async fn every_refusal_has_a_code_and_a_field_and_stores_nothing() {
    let scene = Scene::new().await;
    let rows: Vec<Row> = [
        times::crons(),
        times::zones(),
        times::durations(),
        times::instants(),
        values::numbers(),
        values::words(),
        values::tasks(),
        bodies::documents(),
        bodies::yamls(),
        requests::addresses(),
        requests::queries(),
        requests::headers(),
    ]
    .into_iter()
    .flatten()
    .collect();
    assert!(rows.len() >= 400, "{}", rows.len());
    let mut wrong = Vec::new();
    for Row { what, request, expected } in rows {
        let asked = format!("{} {what:?}", request.method());
        let answer = scene.send(request).await;
        if let Err(found) = check(&answer, expected) {
            wrong.push(format!("{asked}: {found}"));
        }
    }
    assert!(wrong.is_empty(), "{} answers are not as they should be:\n{}", wrong.len(), wrong.join("\n"));

    let runs: Page<Run> = scene.get(RUNS).await.read(200);
    let jobs: Page<Job> = scene.get(JOBS).await.read(200);
    assert_eq!((runs.items.len(), jobs.items.len()), (0, 0), "a refusal means that nothing happened");
    let export = scene.get("/api/v1/export/history").await;
    assert_eq!(String::from_utf8_lossy(&export.body).lines().count(), 1, "only the statistics");
}

fn check(answer: &Answer, (status, code, field): (u16, &str, &str)) -> Result<(), String> {
    let text = String::from_utf8_lossy(&answer.body);
    let problem: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let said = |name: &str| problem[name].as_str().unwrap_or("");
    let found = (answer.status.as_u16(), said("code"), said("field"));
    if found != (status, code, field) {
        return Err(format!("{found:?} instead of {:?}: {text}", (status, code, field)));
    }
    if answer.header("content-type") != "application/problem+json" || said("message").is_empty() {
        return Err(format!("no message: {text}"));
    }
    // What was sent may be echoed, a little of it and nothing that plays tricks on a terminal.
    if text.len() > 1000
        || said("message").chars().any(|c| c.is_control() || ('\u{202a}'..='\u{202e}').contains(&c))
    {
        return Err(format!("not fit to print: {text}"));
    }
    Ok(())
}
