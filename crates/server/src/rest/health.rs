//! Health and readiness only, so no token is needed.

use axum::extract::State;
use axum::http::StatusCode;
use punctual_store::Durability;

use crate::Endpoints;

pub(crate) async fn healthz(State(endpoints): State<Endpoints>) -> (StatusCode, &'static str) {
    match endpoints.handle.status().failed {
        None => (StatusCode::OK, "ok\n"),
        Some(_) => (StatusCode::SERVICE_UNAVAILABLE, "failed\n"),
    }
}

pub(crate) async fn readyz(State(endpoints): State<Endpoints>) -> (StatusCode, &'static str) {
    match (endpoints.handle.status().ready, endpoints.handle.reads().durability()) {
        (true, Durability::Full) => (StatusCode::OK, "ready\n"),
        (true, Durability::Relaxed) => (StatusCode::OK, "ready, durability relaxed\n"),
        (false, _) => (StatusCode::SERVICE_UNAVAILABLE, "not ready\n"),
    }
}
