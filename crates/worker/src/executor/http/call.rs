//! Calls a URL and follows redirects.
//!
//! Redirects are followed here and not by the client, because each is a new call: its address is checked again, and the
//! job's headers are meant only for the origin that the job named.

use punctual_core::attempt::Assignment;
use punctual_core::task::{Body, Http, Method, Request};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION};
use reqwest::{Response, StatusCode, Url};

use super::client::{Clients, to_port};
use super::failure::explain;
use crate::log::Transcript;

/// Headers that may be sent to another origin: they contain no credentials.
const CARRIED: [&str; 4] = ["accept", "accept-language", "content-language", "content-type"];

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
    let mut hop = first(http, request)?;
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

fn first(http: &Http, request: Request) -> Result<Hop, String> {
    let url = Url::parse(&request.url).map_err(|error| format!("task.http.url: {error}"))?;
    let mut headers = HeaderMap::new();
    for (name, value) in &request.headers {
        let header = HeaderName::from_bytes(name.as_bytes()).ok().zip(HeaderValue::from_str(value).ok());
        let (name, value) = header.ok_or_else(|| format!("task.http.headers.{name}: cannot be sent"))?;
        headers.insert(name, value);
    }
    let kind = match &http.body {
        Some(Body::Json(_)) => Some("application/json"),
        Some(Body::Text(_)) => Some("text/plain; charset=utf-8"),
        None => None,
    };
    if let Some(kind) = kind.filter(|_| !headers.contains_key(CONTENT_TYPE)) {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    }
    Ok(Hop { url, method: http.method, headers, body: request.body })
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
    let url = &hop.url;
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
    let place = format!("{host}:{port}");
    let client = clients.get(is_secure, http.ca.as_deref()).await?;
    let mut request = client.request(method(hop.method), url.clone()).headers(hop.headers.clone());
    request = request
        .header("punctual-run-id", assignment.run.to_string())
        .header("punctual-attempt", assignment.attempt.to_string())
        .header("punctual-due-at", assignment.due.to_string());
    if let Some(body) = &hop.body {
        request = request.body(body.clone());
    }
    let sent = to_port(port, request.send()).await;
    sent.map_err(|error| explain(&error, &place, is_secure))
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
