//! What holds for every request, before it is looked at and after it was answered.

use std::net::IpAddr;
use std::panic::AssertUnwindSafe;

use axum::Router;
use axum::extract::Request;
use axum::http::header::{self, HeaderMap, HeaderName};
use axum::http::{HeaderValue, Method};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use punctual_wire::rest::{Code, Problem};
use tracing::error;

use super::problem::{Failed, internal};

const ADDRESS_BYTES_MAX: usize = 8 * 1024;
const HEADERS_BYTES_MAX: usize = 32 * 1024;
const HEADERS_MAX: usize = 100;

pub(crate) fn around<S: Clone + Send + Sync + 'static>(router: Router<S>) -> Router<S> {
    router.layer(middleware::from_fn(check)).layer(middleware::from_fn(catch_panic))
}

/// A panic is a bug and costs its request, not the server.
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

async fn check(request: Request, next: Next) -> Response {
    let mut response = match refusal(&request) {
        Some(problem) => Failed(problem).into_response(),
        None => next.run(request).await,
    };
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

fn refusal(request: &Request) -> Option<Problem> {
    let address = request.uri().path_and_query().map_or(0, |address| address.as_str().len());
    if address > ADDRESS_BYTES_MAX {
        return Some(Problem::new(Code::AddressTooLong, format!("at most {ADDRESS_BYTES_MAX} bytes")));
    }
    let headers = request.headers();
    let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    if bytes > HEADERS_BYTES_MAX || headers.len() > HEADERS_MAX {
        let message = format!("at most {HEADERS_MAX} headers of {HEADERS_BYTES_MAX} bytes together");
        return Some(Problem::new(Code::HeadersTooLarge, message));
    }
    foreign(request.method(), headers)
}

/// A page of another web site must not reach a server on this machine through the browser of whoever sits at it:
/// neither by asking across (`Origin`) nor by a name that was made to point here (`Host`).
fn foreign(method: &Method, headers: &HeaderMap) -> Option<Problem> {
    let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let host = text(header::HOST);
    if let Some(host) = host
        && !is_local_name(host)
    {
        let message = "ask by IP address or as localhost";
        return Some(Problem::new(Code::CrossOrigin, message).about("Host"));
    }
    let changes = method != Method::GET && method != Method::HEAD;
    match text(header::ORIGIN) {
        Some(origin) if changes && origin.split_once("://").map(|(_, authority)| authority) != host => {
            let message = "changes are taken from this server's own pages only";
            Some(Problem::new(Code::CrossOrigin, message).about("Origin"))
        }
        _ => None,
    }
}

fn is_local_name(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok()
}
