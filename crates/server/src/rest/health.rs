//! Whether we live and whether we are ready, and nothing else: anyone may ask.

use axum::extract::State;
use axum::http::StatusCode;

use crate::Doors;

pub(crate) async fn healthz(State(doors): State<Doors>) -> (StatusCode, &'static str) {
    match doors.handle.status().failed {
        None => (StatusCode::OK, "ok\n"),
        Some(_) => (StatusCode::SERVICE_UNAVAILABLE, "failed\n"),
    }
}

pub(crate) async fn readyz(State(doors): State<Doors>) -> (StatusCode, &'static str) {
    if doors.handle.status().ready {
        (StatusCode::OK, "ready\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "not ready\n")
    }
}
