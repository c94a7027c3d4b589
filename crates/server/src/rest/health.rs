//! Health and readiness only, so no token is needed.

use axum::extract::State;
use axum::http::StatusCode;
use punctual_store::Durability;

use crate::Doors;

pub(crate) async fn healthz(State(doors): State<Doors>) -> (StatusCode, &'static str) {
    match doors.handle.status().failed {
        None => (StatusCode::OK, "ok\n"),
        Some(_) => (StatusCode::SERVICE_UNAVAILABLE, "failed\n"),
    }
}

pub(crate) async fn readyz(State(doors): State<Doors>) -> (StatusCode, &'static str) {
    match (doors.handle.status().ready, doors.handle.store().durability()) {
        (true, Durability::Full) => (StatusCode::OK, "ready\n"),
        (true, Durability::Relaxed) => (StatusCode::OK, "ready, durability relaxed\n"),
        (false, _) => (StatusCode::SERVICE_UNAVAILABLE, "not ready\n"),
    }
}
