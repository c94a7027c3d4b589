//! Calls a URL and follows redirects.
//!
//! Redirects are followed here and not by the client, because each is a new call: its address is checked again, and the
//! job's headers are meant only for the origin that the job named.

use std::collections::BTreeMap;

use punctual_core::attempt::Assignment;
use punctual_core::task::{Body, EXECUTION_ID, Http, Method, Request};
use punctual_wire::rest::ATTEMPT_KEY_HEADER;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION};
use reqwest::{Response, StatusCode, Url};

use super::client::{Clients, to_port};
use crate::executor::failure::explain;
use crate::log::Transcript;

/// Headers that may be sent to another origin: they contain no credentials.
const CARRIED: [&str; 4] = ["accept", "accept-language", "content-language", "content-type"];

/// The field that the job sets headers in.
pub(super) const HEADERS: &str = "task.http.headers";

/// One call in a chain of redirects.
struct Hop {
    url: Url,
    method: Method,
    headers: HeaderMap,
    body: Option<String>,
}

/// The response of the last call.
pub(super) async fn call(
    http: &Http,
    request: Request,
    assignment: &Assignment,
    clients: &Clients,
    transcript: &Transcript,
) -> Result<Response, String> {
    let mut hop = first(http, request, assignment)?;
    let mut redirects = 0;
    loop {
        let response = send(&hop, http, assignment, clients).await?;
        let Some(target) = target_of(&response).filter(|_| http.redirects > 0) else { return Ok(response) };
        if redirects == http.redirects {
            return Err(format!("sent on more than {} times, last to {target}", http.redirects));
        }
        redirects += 1;
        hop = next(hop, response.status(), &target)?;
        transcript.note(&format!("status {}: goes on to {}", response.status(), shown(&hop.url))).await;
    }
}

fn first(http: &Http, request: Request, assignment: &Assignment) -> Result<Hop, String> {
    let (url, mut headers) = (parse(&request.url)?, headers(HEADERS, &request.headers)?);
    let kind = match &http.body {
        Some(Body::Json(_)) => Some("application/json"),
        Some(Body::Text(_)) => Some("text/plain; charset=utf-8"),
        None => None,
    };
    if let Some(kind) = kind.filter(|_| request.body.is_some() && !headers.contains_key(CONTENT_TYPE)) {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    }
    headers.extend(own_headers(http, assignment));
    Ok(Hop { url, method: http.method, headers, body: request.body })
}

pub(super) fn parse(url: &str) -> Result<Url, String> {
    Url::parse(url).map_err(|error| format!("task.http.url: {error}"))
}

/// The headers that the job sets.
pub(in crate::executor) fn headers(
    field: &str,
    headers: &BTreeMap<String, String>,
) -> Result<HeaderMap, String> {
    let headers = headers.iter().map(|(name, value)| {
        let header = HeaderName::from_bytes(name.as_bytes()).ok().zip(HeaderValue::from_str(value).ok());
        header.ok_or_else(|| format!("{field}.{name}: cannot be sent"))
    });
    headers.collect()
}

/// The headers that tell a receiver that works on which execution a request is about. Like those of the job, they are
/// meant only for the origin that the job named.
pub(super) fn own_headers(http: &Http, assignment: &Assignment) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if http.accept.is_some() {
        headers.insert(EXECUTION_ID, HeaderValue::from(assignment.run.0));
        headers.extend(attempt_key(assignment));
    }
    headers
}

/// The header with the key of the attempt, if it has one.
pub(in crate::executor) fn attempt_key(assignment: &Assignment) -> Option<(HeaderName, HeaderValue)> {
    let mut key = HeaderValue::from_str(assignment.attempt_key.as_deref()?).ok()?;
    key.set_sensitive(true);
    Some((HeaderName::from_static(ATTEMPT_KEY_HEADER), key))
}

fn target_of(response: &Response) -> Option<String> {
    let is_redirect = matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308);
    let target = response.headers().get(LOCATION).filter(|_| is_redirect)?;
    Some(String::from_utf8_lossy(target.as_bytes()).chars().take(2000).collect())
}

fn next(from: Hop, status: StatusCode, target: &str) -> Result<Hop, String> {
    let url = from.url.join(target).map_err(|error| format!("sent on to `{target}`: {error}"))?;
    if from.url.scheme() == "https" && url.scheme() == "http" {
        return Err(format!("sent on from https to {}, which is not followed", shown(&url)));
    }
    let mut headers = from.headers;
    if url.origin() != from.url.origin() {
        let foreign: Vec<HeaderName> =
            headers.keys().filter(|name| !CARRIED.contains(&name.as_str())).cloned().collect();
        for name in foreign {
            headers.remove(name);
        }
    }
    // As browsers do: `303` changes the method to GET, and so do `301` and `302` after a POST.
    let looks = match (status.as_u16(), from.method) {
        (303, method) => method != Method::Head,
        (301 | 302, method) => method == Method::Post,
        _ => false,
    };
    if looks {
        headers.remove(CONTENT_TYPE);
        return Ok(Hop { url, method: Method::Get, headers, body: None });
    }
    Ok(Hop { url, method: from.method, headers, body: from.body })
}

async fn send(
    hop: &Hop,
    http: &Http,
    assignment: &Assignment,
    clients: &Clients,
) -> Result<Response, String> {
    let place = admit(&hop.url, clients).await?;
    let client = clients.get(place.is_secure, http.ca.as_deref()).await?;
    let request = client.request(method(hop.method), hop.url.clone()).headers(hop.headers.clone());
    let mut request = request.headers(of_run(assignment));
    if let Some(body) = &hop.body {
        request = request.body(body.clone());
    }
    let sent = to_port(place.port, request.send()).await;
    sent.map_err(|error| explain(&error, &place.name, place.is_secure))
}

/// The headers that every request of a run has.
pub(in crate::executor) fn of_run(assignment: &Assignment) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let said = [
        ("punctual-run-id", assignment.run.to_string()),
        ("punctual-attempt", assignment.attempt.to_string()),
        ("punctual-due-at", assignment.due.to_string()),
    ];
    for (name, value) in said {
        headers
            .extend(HeaderValue::from_str(&value).ok().map(|value| (HeaderName::from_static(name), value)));
    }
    headers
}

/// What a URL connects to.
pub(super) struct Place {
    pub(super) name: String,
    pub(super) port: u16,
    pub(super) is_secure: bool,
}

/// Checks a URL before it is called. Addresses of names are checked when they are resolved.
pub(super) async fn admit(url: &Url, clients: &Clients) -> Result<Place, String> {
    let is_secure = url.scheme() == "https";
    if !is_secure && url.scheme() != "http" {
        return Err(format!("{} is called by http or https only", shown(url)));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(format!("{} has a user or a password in it", shown(url)));
    }
    let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else {
        return Err(format!("{} has no host", shown(url)));
    };
    // A literal address is not resolved, so the client's resolver does not check it.
    if host.starts_with('[') || host.parse::<std::net::Ipv4Addr>().is_ok() {
        clients.egress().addresses(host, port).await.map_err(|refused| refused.to_string())?;
    }
    Ok(Place { name: format!("{host}:{port}"), port, is_secure })
}

fn method(method: Method) -> reqwest::Method {
    match method {
        Method::Get => reqwest::Method::GET,
        Method::Head => reqwest::Method::HEAD,
        Method::Post => reqwest::Method::POST,
        Method::Put => reqwest::Method::PUT,
        Method::Patch => reqwest::Method::PATCH,
        Method::Delete => reqwest::Method::DELETE,
        Method::Options => reqwest::Method::OPTIONS,
    }
}

/// The URL without possible secrets: query, user and password.
pub(super) fn shown(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    let port = url.port().map_or_else(String::new, |port| format!(":{port}"));
    format!("{}://{host}{port}{}", url.scheme(), url.path())
}
