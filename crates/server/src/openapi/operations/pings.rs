//! Pings.

use axum::http::Method;
use punctual_wire::rest::{Code, PING_KEY_HEADER, PingKey, Pinged};
use punctual_wire::schema;
use serde_json::json;

use super::super::operation::{Operation, operation};
use super::get;

pub(super) fn pings() -> Vec<Operation> {
    const PING: &str = "/api/v1/namespaces/{namespace}/pings/{name}";
    const START: &str = "/api/v1/namespaces/{namespace}/pings/{name}/start";
    const FAIL: &str = "/api/v1/namespaces/{namespace}/pings/{name}/fail";
    const SUCCEEDED: &str = "Report that a program outside Punctual has succeeded; the body is its output";
    const STARTED: &str = "Report that a program outside Punctual has started";
    const FAILED: &str = "Report that a program outside Punctual has failed; the body is the error";
    vec![
        ping(Method::GET, PING, "ping_by_get", SUCCEEDED),
        ping(Method::POST, PING, "ping", SUCCEEDED),
        ping(Method::GET, START, "ping_start_by_get", STARTED),
        ping(Method::POST, START, "ping_start", STARTED),
        ping(Method::GET, FAIL, "ping_fail_by_get", FAILED),
        ping(Method::POST, FAIL, "ping_fail", FAILED),
        get("/api/v1/namespaces/{namespace}/pings/{name}/key", "show_ping_key", "Show the key of a ping")
            .answers::<PingKey>(200, "The key")
            .refuses(&[Code::NoSuchJob, Code::Invalid]),
    ]
}

/// Needs the key of the ping instead of a token.
fn ping(method: Method, path: &'static str, id: &'static str, summary: &'static str) -> Operation {
    let key = json!({ "type": "string", "maxLength": 128 });
    let has_body = method == Method::POST;
    let described = operation(method, path, id, summary)
        .header(PING_KEY_HEADER, &key)
        .query("key", &key)
        .query_of::<schema::Id>("run")
        .query("exit_code", &json!({ "type": "integer", "minimum": i32::MIN, "maximum": i32::MAX }))
        .answers::<Pinged>(200, "The run that it was about")
        .refuses(&[Code::NoSuchJob, Code::NoSuchRun, Code::Invalid, Code::TooManyRuns]);
    if has_body { described.may_take_text() } else { described }
}
