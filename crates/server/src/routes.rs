//! The table of REST routes: path, method and the right that each needs.
//!
//! The router is built from the table, so a route without a row cannot exist and a row without a right does
//! not compile.

use Method as M;
use axum::Router;
use axum::handler::Handler;
use axum::http::Method;
use axum::routing::{MethodFilter, MethodRouter, on};

use crate::rest::{
    approvals, calendars, cron, dead_letters, descriptors, events, export, fires, health, holds, incidents,
    job_list, job_log, jobs, live, locks, logs, messages, namespaces, nodes, overview, pings, problem,
    progress, queues, revisions, run_actions, runs, skips, statistics, steps, tokens, whoami, why,
};
use crate::{Endpoints, console, metrics, openapi};

/// What a request needs permission for; the gate decides whether the caller has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// No token is needed: the answer says only that the server is up, or is a file of the console.
    Anyone,
    /// Report for a ping, with its key.
    Ping,
    /// Any valid token, whatever its role.
    Token,
    /// Read the contents of a namespace.
    Read,
    /// Start, stop and repeat runs.
    Run,
    /// Change jobs.
    Edit,
    /// Read and change what belongs to no namespace, such as tokens.
    Admin,
    /// Take work and report on it.
    Worker,
    /// Report for an attempt: with the right to run jobs, or with the key of the attempt.
    Report,
}

impl Right {
    /// The rights that a role can have.
    pub(crate) const OF_ROLES: [Right; 5] =
        [Right::Read, Right::Run, Right::Edit, Right::Admin, Right::Worker];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Right::Anyone => "anyone",
            Right::Ping => "ping",
            Right::Token => "token",
            Right::Read => "read",
            Right::Run => "run",
            Right::Edit => "edit",
            Right::Admin => "admin",
            Right::Worker => "worker",
            Right::Report => "report",
        }
    }
}

#[derive(Debug)]
pub struct Route {
    pub method: Method,
    pub path: &'static str,
    pub right: Right,
    handler: MethodRouter<Endpoints>,
}

const JOB: &str = "/api/v1/namespaces/{namespace}/jobs/{name}";
/// A job may also be named `validate`: see `served`.
pub(crate) const VALIDATE: &str = "/api/v1/namespaces/{namespace}/jobs/validate";

pub fn table() -> Vec<Route> {
    let mut routes = jobs_and_calendars();
    routes.extend(runs_and_dead_letters());
    routes.extend(alerts());
    routes.extend(pings());
    routes.extend(queues_and_messages());
    routes.extend(locks());
    routes.extend(cluster_and_server());
    routes
}

fn jobs_and_calendars() -> Vec<Route> {
    const JOBS: &str = "/api/v1/namespaces/{namespace}/jobs";
    const REVISION: &str = "/api/v1/namespaces/{namespace}/jobs/{name}/revisions/{revision}";
    const HOLD: &str = "/api/v1/namespaces/{namespace}/hold";
    const CALENDARS: &str = "/api/v1/namespaces/{namespace}/calendars";
    const CALENDAR: &str = "/api/v1/namespaces/{namespace}/calendars/{name}";
    const DESCRIPTORS: &str = "/api/v1/namespaces/{namespace}/descriptors";
    const DESCRIPTOR: &str = "/api/v1/namespaces/{namespace}/descriptors/{name}";
    vec![
        row(M::GET, JOBS, Right::Read, job_list::list),
        row(M::PUT, JOB, Right::Edit, jobs::put),
        row(M::GET, JOB, Right::Read, jobs::show),
        row(M::PATCH, JOB, Right::Edit, jobs::patch),
        row(M::DELETE, JOB, Right::Edit, jobs::delete),
        row(M::POST, VALIDATE, Right::Edit, jobs::validate),
        row(M::POST, "/api/v1/namespaces/{namespace}/jobs/{name}/run", Right::Run, jobs::run),
        row(M::POST, "/api/v1/namespaces/{namespace}/jobs/{name}/backfill", Right::Run, jobs::backfill),
        row(M::POST, "/api/v1/namespaces/{namespace}/events/{name}", Right::Run, jobs::send_event),
        row(M::POST, "/api/v1/namespaces/{namespace}/jobs/{name}/pause", Right::Edit, jobs::pause),
        row(M::POST, "/api/v1/namespaces/{namespace}/jobs/{name}/resume", Right::Edit, jobs::resume),
        row(M::GET, "/api/v1/namespaces/{namespace}/jobs/{name}/next", Right::Read, jobs::next),
        row(M::GET, "/api/v1/namespaces/{namespace}/jobs/{name}/why", Right::Read, why::of_job),
        row(M::GET, "/api/v1/namespaces/{namespace}/jobs/{name}/revisions", Right::Read, revisions::list),
        row(M::GET, REVISION, Right::Read, revisions::show),
        row(
            M::GET,
            "/api/v1/namespaces/{namespace}/jobs/{name}/revisions/{revision}/diff",
            Right::Read,
            revisions::diff,
        ),
        row(M::GET, "/api/v1/namespaces/{namespace}/jobs/{name}/graph", Right::Read, steps::graph_of_job),
        row(M::GET, "/api/v1/namespaces/{namespace}/jobs/{name}/log", Right::Read, job_log::list),
        row(M::GET, "/api/v1/namespaces/{namespace}/jobs/{name}/skips", Right::Read, skips::list),
        row(M::GET, "/api/v1/namespaces/{namespace}/jobs/{name}/stats", Right::Read, statistics::of_job),
        row(M::GET, HOLD, Right::Read, holds::list),
        row(M::PUT, HOLD, Right::Edit, holds::put),
        row(M::DELETE, HOLD, Right::Edit, holds::release),
        row(M::GET, CALENDARS, Right::Read, calendars::list),
        row(M::PUT, CALENDAR, Right::Edit, calendars::put),
        row(M::GET, CALENDAR, Right::Read, calendars::show),
        row(M::DELETE, CALENDAR, Right::Edit, calendars::delete),
        row(M::GET, "/api/v1/namespaces/{namespace}/calendars/{name}/days", Right::Read, calendars::days),
        row(M::GET, DESCRIPTORS, Right::Read, descriptors::list),
        row(M::PUT, DESCRIPTOR, Right::Edit, descriptors::put),
        row(M::GET, DESCRIPTOR, Right::Read, descriptors::show),
        row(M::DELETE, DESCRIPTOR, Right::Edit, descriptors::delete),
    ]
}

fn runs_and_dead_letters() -> Vec<Route> {
    const RUNS: &str = "/api/v1/namespaces/{namespace}/runs";
    const RUN: &str = "/api/v1/namespaces/{namespace}/runs/{id}";
    vec![
        row(M::GET, RUNS, Right::Read, runs::list),
        row(M::POST, RUNS, Right::Run, runs::submit),
        row(M::POST, "/api/v1/namespaces/{namespace}/runs/actions", Right::Run, run_actions::act),
        row(M::GET, RUN, Right::Read, runs::show),
        row(M::GET, "/api/v1/namespaces/{namespace}/runs/{id}/logs", Right::Read, logs::show),
        row(M::GET, "/api/v1/namespaces/{namespace}/runs/{id}/events", Right::Read, events::show),
        row(M::GET, "/api/v1/namespaces/{namespace}/runs/{id}/why", Right::Read, why::of_run),
        row(M::POST, "/api/v1/namespaces/{namespace}/runs/{id}/cancel", Right::Run, runs::cancel),
        row(M::POST, "/api/v1/namespaces/{namespace}/runs/{id}/move", Right::Run, runs::move_run),
        row(M::POST, "/api/v1/namespaces/{namespace}/runs/{id}/retry", Right::Run, runs::retry),
        row(M::POST, "/api/v1/namespaces/{namespace}/runs/{id}/pause", Right::Run, steps::pause),
        row(M::POST, "/api/v1/namespaces/{namespace}/runs/{id}/resume", Right::Run, steps::resume),
        row(M::GET, "/api/v1/namespaces/{namespace}/runs/{id}/graph", Right::Read, steps::graph_of_run),
        row(
            M::GET,
            "/api/v1/namespaces/{namespace}/runs/{id}/steps/{step}/expressions",
            Right::Read,
            steps::expressions,
        ),
        row(
            M::POST,
            "/api/v1/namespaces/{namespace}/runs/{id}/steps/{step}/approve",
            Right::Run,
            steps::decide,
        ),
        row(
            M::POST,
            "/api/v1/namespaces/{namespace}/runs/{id}/steps/{step}/reject",
            Right::Run,
            steps::decide,
        ),
        row(M::POST, "/api/v1/namespaces/{namespace}/runs/{id}/steps/{step}/skip", Right::Run, steps::decide),
        row(
            M::POST,
            "/api/v1/namespaces/{namespace}/runs/{id}/steps/{step}/cancel",
            Right::Run,
            steps::decide,
        ),
        row(M::POST, "/api/v1/namespaces/{namespace}/runs/{id}/progress", Right::Report, progress::report),
        row(M::POST, "/api/v1/task_progress", Right::Report, progress::report_plainly),
        row(M::GET, "/api/v1/namespaces/{namespace}/approvals", Right::Read, approvals::list),
        row(M::GET, "/api/v1/namespaces/{namespace}/dead-letters", Right::Read, dead_letters::list),
        row(M::POST, "/api/v1/namespaces/{namespace}/dead-letters", Right::Run, dead_letters::decide),
        row(M::GET, "/api/v1/namespaces/{namespace}/dead-letters/{id}", Right::Read, dead_letters::show),
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
    ]
}

fn alerts() -> Vec<Route> {
    vec![
        row(M::GET, "/api/v1/namespaces/{namespace}/incidents", Right::Read, incidents::list),
        row(M::GET, "/api/v1/namespaces/{namespace}/incidents/{id}", Right::Read, incidents::show),
        row(
            M::POST,
            "/api/v1/namespaces/{namespace}/incidents/{id}/acknowledge",
            Right::Run,
            incidents::acknowledge,
        ),
        row(M::POST, "/api/v1/namespaces/{namespace}/incidents/{id}/silence", Right::Run, incidents::silence),
        row(M::GET, "/api/v1/channels", Right::Read, incidents::channels),
        row(M::POST, "/api/v1/channels/{channel}/test", Right::Admin, incidents::test),
    ]
}

fn pings() -> Vec<Route> {
    const PING: &str = "/api/v1/namespaces/{namespace}/pings/{name}";
    const START: &str = "/api/v1/namespaces/{namespace}/pings/{name}/start";
    const FAIL: &str = "/api/v1/namespaces/{namespace}/pings/{name}/fail";
    vec![
        row(M::GET, PING, Right::Ping, pings::succeed),
        row(M::POST, PING, Right::Ping, pings::succeed),
        row(M::GET, START, Right::Ping, pings::start),
        row(M::POST, START, Right::Ping, pings::start),
        row(M::GET, FAIL, Right::Ping, pings::fail),
        row(M::POST, FAIL, Right::Ping, pings::fail),
        row(M::GET, "/api/v1/namespaces/{namespace}/pings/{name}/key", Right::Edit, pings::key),
    ]
}

fn queues_and_messages() -> Vec<Route> {
    vec![
        row(M::GET, "/api/v1/namespaces/{namespace}/queues", Right::Read, queues::list),
        row(M::GET, "/api/v1/namespaces/{namespace}/queues/{queue}", Right::Read, queues::stat),
        row(M::PUT, "/api/v1/namespaces/{namespace}/queues/{queue}", Right::Edit, queues::set),
        row(M::POST, "/api/v1/namespaces/{namespace}/queues/{queue}/messages", Right::Run, queues::add),
        row(M::POST, "/api/v1/namespaces/{namespace}/queues/{queue}/batch", Right::Run, queues::add_many),
        row(M::POST, "/api/v1/namespaces/{namespace}/queues/{queue}/take", Right::Run, queues::take),
        row(M::GET, "/api/v1/namespaces/{namespace}/queues/{queue}/peek", Right::Read, queues::peek),
        row(M::POST, "/api/v1/namespaces/{namespace}/queues/{queue}/pause", Right::Edit, queues::pause),
        row(M::POST, "/api/v1/namespaces/{namespace}/queues/{queue}/resume", Right::Edit, queues::resume),
        row(M::POST, "/api/v1/namespaces/{namespace}/queues/{queue}/flush", Right::Edit, queues::flush),
        row(M::POST, "/api/v1/namespaces/{namespace}/messages", Right::Run, messages::act),
        row(M::GET, "/api/v1/namespaces/{namespace}/messages/{message}", Right::Read, messages::show),
        row(
            M::POST,
            "/api/v1/namespaces/{namespace}/messages/{message}/working",
            Right::Run,
            messages::working,
        ),
    ]
}

fn locks() -> Vec<Route> {
    const LOCK: &str = "/api/v1/namespaces/{namespace}/locks/{name}";
    vec![
        row(M::GET, "/api/v1/namespaces/{namespace}/locks", Right::Read, locks::list),
        row(M::GET, LOCK, Right::Read, locks::show),
        row(M::POST, LOCK, Right::Run, locks::acquire),
        row(M::POST, "/api/v1/namespaces/{namespace}/locks/{name}/renew", Right::Run, locks::renew),
        row(M::POST, "/api/v1/namespaces/{namespace}/locks/{name}/release", Right::Run, locks::release),
    ]
}

fn cluster_and_server() -> Vec<Route> {
    const TOKENS: &str = "/api/v1/tokens";
    const HOLD: &str = "/api/v1/hold";
    vec![
        row(M::GET, "/api/v1/whoami", Right::Token, whoami::show),
        row(M::GET, "/api/v1/namespaces", Right::Read, namespaces::list),
        row(M::GET, "/api/v1/cron/explain", Right::Read, cron::explain),
        row(M::GET, "/api/v1/overview", Right::Read, overview::show),
        row(M::GET, "/api/v1/fires", Right::Read, fires::list),
        row(M::GET, "/api/v1/live", Right::Read, live::follow),
        row(M::GET, "/api/v1/nodes", Right::Read, nodes::nodes),
        row(M::GET, "/api/v1/workers", Right::Read, nodes::workers),
        row(M::POST, "/api/v1/workers/{worker}/drain", Right::Admin, nodes::drain),
        row(M::POST, "/api/v1/workers/{worker}/resume", Right::Admin, nodes::resume),
        row(M::GET, "/api/v1/export/history", Right::Read, export::history),
        row(M::GET, HOLD, Right::Read, holds::list),
        row(M::PUT, HOLD, Right::Admin, holds::put),
        row(M::DELETE, HOLD, Right::Admin, holds::release),
        row(M::GET, TOKENS, Right::Admin, tokens::list),
        row(M::POST, TOKENS, Right::Admin, tokens::add),
        row(M::DELETE, "/api/v1/tokens/{name}", Right::Admin, tokens::remove),
        row(M::GET, "/api/v1/openapi.json", Right::Read, openapi::openapi),
        row(M::GET, "/metrics", Right::Read, metrics::metrics),
        row(M::GET, "/healthz", Right::Anyone, health::healthz),
        row(M::GET, "/readyz", Right::Anyone, health::readyz),
        row(M::GET, "/", Right::Anyone, console::index),
        row(M::GET, "/favicon.svg", Right::Anyone, console::icon),
        row(M::GET, "/assets/{file}", Right::Anyone, console::asset),
    ]
}

fn row<H: Handler<T, Endpoints>, T: 'static>(
    method: Method,
    path: &'static str,
    right: Right,
    handler: H,
) -> Route {
    let filter = MethodFilter::try_from(method.clone()).expect("the methods of the table are HTTP's own");
    Route { method, path, right, handler: on(filter, handler) }
}

/// Every route with each path it is served at.
pub(crate) fn served() -> impl Iterator<Item = Route> {
    // The literal path `…/jobs/validate` shadows `…/jobs/{name}`. Serve the job's methods there too, so that
    // a job may be named `validate`.
    let of_job = table().into_iter().filter(|route| route.path == JOB);
    let hidden = of_job.map(|route| Route { path: VALIDATE, ..route });
    table().into_iter().chain(hidden)
}

pub(crate) fn router() -> Router<Endpoints> {
    served()
        .fold(Router::new(), |router, route| router.route(route.path, route.handler))
        .fallback(problem::no_such_route)
        .method_not_allowed_fallback(problem::method_not_allowed)
}
