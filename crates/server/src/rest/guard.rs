//! Checks and headers that apply to every request.

use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{self, HeaderMap, HeaderName};
use axum::http::uri::Authority;
use axum::http::{HeaderValue, Method, Version};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use punctual_wire::rest::{Code, Problem};
use tokio::time::Instant;
use tracing::error;

use super::events;
use super::problem::{Failed, internal};
use crate::Endpoints;
use crate::auth::access_check::{self, AccessCheck};
use crate::limits::{ADDRESS_BYTES_MAX, HEADERS_BYTES_MAX, HEADERS_MAX};
use crate::linger::linger;
use crate::metrics::Requests;
use crate::settings::Settings;

/// Over TLS, browsers must not use this server without TLS for a year.
const TLS_ONLY: &str = "max-age=31536000";
/// Browsers may load nothing from an answer and may not frame it.
const CONTENT_POLICY: &str = "default-src 'none'; frame-ancestors 'none'";

#[derive(Debug, Clone)]
pub(crate) struct Guard {
    checked: Checked,
    requests: Arc<Requests>,
    access: AccessCheck,
}

/// What the checks and headers of an answer depend on.
#[derive(Debug, Clone, Default)]
struct Checked {
    settings: Arc<Settings>,
    over_tls: bool,
}

#[cfg(test)]
impl Default for Guard {
    fn default() -> Self {
        let access = AccessCheck::new(Arc::new(crate::Gate::open()), None, Arc::default());
        Guard { checked: Checked::default(), requests: Arc::new(Requests::new()), access }
    }
}

impl Guard {
    pub(crate) fn of(endpoints: &Endpoints) -> Guard {
        let checked =
            Checked { settings: Arc::clone(&endpoints.settings), over_tls: endpoints.tls.is_some() };
        let attempt_keys = endpoints.handle.attempt_keys().cloned();
        let access =
            AccessCheck::new(Arc::clone(&endpoints.gate), attempt_keys, Arc::clone(&endpoints.reports));
        Guard { checked, requests: Arc::clone(&endpoints.requests), access }
    }
}

pub(crate) fn around<S: Clone + Send + Sync + 'static>(router: Router<S>, guard: Guard) -> Router<S> {
    router
        .layer(middleware::from_fn_with_state(guard.access, access_check::check))
        .layer(middleware::from_fn_with_state(guard.checked, check))
        .layer(middleware::from_fn(catch_panic))
        .layer(middleware::from_fn_with_state(guard.requests, count))
        .layer(middleware::from_fn(linger))
}

/// The checks of a request that do not depend on its route, for services that are not REST.
pub(crate) fn around_service(router: Router, guard: &Guard) -> Router {
    router.layer(middleware::from_fn_with_state(guard.checked.clone(), check))
}

async fn count(State(requests): State<Arc<Requests>>, request: Request, next: Next) -> Response {
    let began = Instant::now();
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let response = next.run(request).await;
    let route = route.as_ref().map(MatchedPath::as_str);
    requests.answered(&method, route, response.status(), began.elapsed());
    response
}

/// A panic is a bug; it fails its request, not the server.
async fn catch_panic(request: Request, next: Next) -> Response {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    match AssertUnwindSafe(next.run(request)).catch_unwind().await {
        Ok(response) => response,
        Err(_) => {
            error!(%method, path, "a request panicked");
            Failed(internal()).into_response()
        }
    }
}

async fn check(State(checked): State<Checked>, request: Request, next: Next) -> Response {
    let mut response = match refusal(&request, &checked.settings.hosts) {
        Some(problem) => Failed(problem).into_response(),
        None => next.run(request).await,
    };
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    headers.entry(header::CONTENT_SECURITY_POLICY).or_insert(HeaderValue::from_static(CONTENT_POLICY));
    if checked.over_tls {
        headers.insert(header::STRICT_TRANSPORT_SECURITY, HeaderValue::from_static(TLS_ONLY));
    }
    response
}

fn refusal(request: &Request, hosts: &[String]) -> Option<Problem> {
    let address = request.uri().path_and_query().map_or(0, |address| address.as_str().len());
    if address > ADDRESS_BYTES_MAX {
        return Some(Problem::new(
            Code::AddressTooLong,
            format!("path and query have {address} bytes; at most {ADDRESS_BYTES_MAX} are allowed"),
        ));
    }
    let headers = request.headers();
    let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    if bytes > HEADERS_BYTES_MAX || headers.len() > HEADERS_MAX {
        let message =
            format!("at most {HEADERS_MAX} headers with {HEADERS_BYTES_MAX} bytes in all are allowed");
        return Some(Problem::new(Code::HeadersTooLarge, message));
    }
    // RFC 9112, section 3.2. With two Host headers, a proxy and this server could read one request differently.
    let named = headers.get_all(header::HOST).iter().count();
    if named > 1 || named == 0 && request.version() == Version::HTTP_11 {
        return Some(Problem::parameter("Host", "an HTTP/1.1 request has exactly one Host header"));
    }
    let authority = request.uri().authority().map(Authority::as_str);
    foreign(request.method(), headers, authority, hosts)
}

/// Refuses requests that a foreign web page makes through a user's browser: cross-origin requests (`Origin`),
/// and DNS rebinding, where the page's own name points to this server (`Host`).
///
/// HTTP/2 sends the host in `:authority` instead of `Host`.
fn foreign(
    method: &Method,
    headers: &HeaderMap,
    authority: Option<&str>,
    hosts: &[String],
) -> Option<Problem> {
    let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let host = text(header::HOST).or(authority);
    if let Some(host) = host
        && !is_own_name(host, hosts)
    {
        let message = "use an IP address, localhost, or a name in `server.hosts`";
        return Some(Problem::new(Code::CrossOrigin, message).about("Host"));
    }
    // Other reads are safe: this server sends no CORS headers, so a foreign page cannot see the answers.
    let is_guarded = (method != Method::GET && method != Method::HEAD) || events::are_wanted(headers);
    match text(header::ORIGIN) {
        Some(origin) if is_guarded && origin.split_once("://").map(|(_, authority)| authority) != host => {
            let message = "changes and live streams are for this server's own pages only";
            Some(Problem::new(Code::CrossOrigin, message).about("Origin"))
        }
        _ => None,
    }
}

fn is_own_name(host: &str, hosts: &[String]) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    let is_known = hosts.iter().any(|known| known.eq_ignore_ascii_case(name));
    is_known || name.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok()
}
