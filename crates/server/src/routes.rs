//! The one table of REST: which address, which method, which right.
//!
//! The router is made from the table, so a route without a row cannot exist and a row without a right does not compile.

use axum::Router;
use axum::handler::Handler;
use axum::http::Method;
use axum::routing::{MethodFilter, MethodRouter, on};

use crate::Doors;
use crate::rest::{dead_letters, export, health, jobs, nodes, problem, runs};

/// What someone must be allowed to do; who may is asked when there are users.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// Nothing: it says only that we are there.
    Anyone,
    /// See what is in a namespace.
    Read,
    /// Start, stop and repeat runs.
    Run,
    /// Change jobs.
    Edit,
    /// See and change what belongs to no namespace.
    Admin,
}

#[derive(Debug)]
pub struct Route {
    pub method: Method,
    pub path: &'static str,
    pub right: Right,
    handler: MethodRouter<Doors>,
}

pub fn table() -> Vec<Route> {
    use Method as M;
    const JOBS: &str = "/api/v1/namespaces/{namespace}/jobs";
    const JOB: &str = "/api/v1/namespaces/{namespace}/jobs/{name}";
    const RUNS: &str = "/api/v1/namespaces/{namespace}/runs";
    const RUN: &str = "/api/v1/namespaces/{namespace}/runs/{id}";
    vec![
        row(M::GET, JOBS, Right::Read, jobs::list),
        row(M::PUT, JOB, Right::Edit, jobs::put),
        row(M::GET, JOB, Right::Read, jobs::show),
        row(M::DELETE, JOB, Right::Edit, jobs::delete),
        row(M::POST, "/api/v1/namespaces/{namespace}/jobs/{name}/run", Right::Run, jobs::run),
        row(M::POST, "/api/v1/namespaces/{namespace}/jobs/{name}/pause", Right::Edit, jobs::pause),
        row(M::POST, "/api/v1/namespaces/{namespace}/jobs/{name}/resume", Right::Edit, jobs::resume),
        row(M::GET, "/api/v1/namespaces/{namespace}/jobs/{name}/next", Right::Read, jobs::next),
        row(M::GET, RUNS, Right::Read, runs::list),
        row(M::POST, RUNS, Right::Run, runs::submit),
        row(M::GET, RUN, Right::Read, runs::show),
        row(M::GET, "/api/v1/namespaces/{namespace}/runs/{id}/logs", Right::Read, runs::logs),
        row(M::POST, "/api/v1/namespaces/{namespace}/runs/{id}/cancel", Right::Run, runs::cancel),
        row(M::POST, "/api/v1/namespaces/{namespace}/runs/{id}/retry", Right::Run, runs::retry),
        row(M::GET, "/api/v1/namespaces/{namespace}/dead-letters", Right::Read, dead_letters::list),
        row(
            M::POST,
            "/api/v1/namespaces/{namespace}/dead-letters/{id}/replay",
            Right::Run,
            dead_letters::replay,
        ),
        row(
            M::POST,
            "/api/v1/namespaces/{namespace}/dead-letters/{id}/discard",
            Right::Run,
            dead_letters::discard,
        ),
        row(M::GET, "/api/v1/nodes", Right::Admin, nodes::nodes),
        row(M::GET, "/api/v1/workers", Right::Admin, nodes::workers),
        row(M::GET, "/api/v1/export/history", Right::Admin, export::history),
        row(M::GET, "/healthz", Right::Anyone, health::healthz),
        row(M::GET, "/readyz", Right::Anyone, health::readyz),
    ]
}

fn row<H: Handler<T, Doors>, T: 'static>(
    method: Method,
    path: &'static str,
    right: Right,
    handler: H,
) -> Route {
    let filter = MethodFilter::try_from(method.clone()).expect("the methods of the table are HTTP's own");
    Route { method, path, right, handler: on(filter, handler) }
}

pub(crate) fn router() -> Router<Doors> {
    table()
        .into_iter()
        .fold(Router::new(), |router, route| router.route(route.path, route.handler))
        .fallback(problem::no_such_route)
        .method_not_allowed_fallback(problem::method_not_allowed)
}
