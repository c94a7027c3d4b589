//! Rust client of the REST API, typed.
//!
//! Each method is one route; arguments and results are the objects of `wire`. A refusal arrives as the
//! server's [`Problem`], so a caller can decide by its code.

mod error;
mod cron;
mod jobs;
mod calendars;
mod holds;
mod descriptors;
mod runs;
mod incidents;
mod pings;
mod run_events;
mod logs;
mod live;
mod sse;
mod nodes;
mod queues;
mod hold;
mod locks;
mod tokens;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use punctual_core::name::Namespace;
use punctual_wire::rest::Problem;
use reqwest::header::HeaderValue;
use reqwest::{Certificate, Method, RequestBuilder, Response, StatusCode, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use calendars::PutCalendar;
pub use cron::CronQuery;
pub use error::Error;
pub use hold::{HeldLock, Hold, Holds, hold};
pub use incidents::IncidentQuery;
pub use jobs::Put;
pub use logs::{LogEvent, LogQuery, Logs};
pub use pings::Ping;
pub use run_events::{RunEvent, RunEvents};
pub use runs::{DeadLetterQuery, RunQuery};

pub type Result<T> = std::result::Result<T, Error>;

/// How long a server may take to answer a request that is not a stream.
const ANSWER_MAX: Duration = Duration::from_secs(60);
const CONNECT_MAX: Duration = Duration::from_secs(5);
const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// A client of one server, or of the nodes of one cluster, which it tries in turn.
#[derive(Clone)]
pub struct Client {
    servers: Arc<[String]>,
    /// The index of the server that answered last: the next request goes there first.
    current: Arc<AtomicUsize>,
    token: Option<String>,
    http: reqwest::Client,
}

/// A body that is still arriving, such as an exported history.
#[derive(Debug)]
pub struct Chunks {
    server: String,
    response: Response,
}

impl Client {
    /// A client of the server at an address such as `http://127.0.0.1:7400`, or only `127.0.0.1:7400`.
    /// Several addresses are separated by commas; the next is tried when one cannot be reached.
    pub fn new(server: &str, token: Option<String>) -> Result<Client> {
        Client::trusting(server, token, None)
    }

    /// Like [`Client::new`], and also trusts the authorities of a PEM file.
    pub fn trusting(server: &str, token: Option<String>, authorities: Option<&[u8]>) -> Result<Client> {
        let servers: Arc<[String]> = server.split(',').map(with_scheme).collect();
        let failed = |source| Error::Unreachable { server: servers.join(", "), source };
        // `reqwest` takes the provider of the process. An error means that it has one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut http = reqwest::Client::builder().no_proxy().connect_timeout(CONNECT_MAX);
        if let Some(pem) = authorities {
            http = http.tls_certs_merge(Certificate::from_pem_bundle(pem).map_err(failed)?);
        }
        let http = http.build().map_err(failed)?;
        Ok(Client { servers, current: Arc::default(), token, http })
    }

    /// The server that answered last, or the first one.
    pub fn server(&self) -> &str {
        &self.servers[self.current.load(Relaxed)]
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.server()));
        match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    fn in_namespace(&self, method: Method, namespace: &Namespace, path: &str) -> RequestBuilder {
        self.request(method, &format!("/api/v1/namespaces/{}{path}", namespace.dotted()))
    }

    async fn get<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T> {
        let response = self.send(request.timeout(ANSWER_MAX)).await?;
        self.read(response).await
    }

    async fn post<T: DeserializeOwned>(&self, request: RequestBuilder, body: &impl Serialize) -> Result<T> {
        self.get(request.json(body)).await
    }

    async fn stream(&self, request: RequestBuilder) -> Result<Chunks> {
        let response = self.send(request).await?;
        Ok(Chunks { server: self.server().to_owned(), response })
    }

    /// Sends a request; every status but 2xx becomes an error.
    async fn send(&self, request: RequestBuilder) -> Result<Response> {
        let response = self.answer(request).await?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let body = response.bytes().await.map_err(|source| self.unreachable(source))?;
        match serde_json::from_slice::<Problem>(&body) {
            Ok(problem) => Err(Error::Problem(Box::new(problem))),
            Err(_) => Err(self.strange(status)),
        }
    }

    /// Tries the servers in turn. The next is tried if no connection could be made (so nothing was sent), and
    /// after any other failure only if the request may be repeated.
    async fn answer(&self, request: RequestBuilder) -> Result<Response> {
        let (http, request) = request.build_split();
        let mut request = request.map_err(|source| self.unreachable(source))?;
        let may_repeat = request.method().is_safe() || request.headers().contains_key(IDEMPOTENCY_KEY);
        // Another request may have changed `current` since this one was made.
        let is_for =
            |server: &String| base(server).is_some_and(|base| request.url().as_str().starts_with(&base));
        let mut at = self.servers.iter().position(is_for).unwrap_or_default();
        let mut left = self.servers.len();
        loop {
            left -= 1;
            let next = if left == 0 { None } else { request.try_clone() };
            let error = match http.execute(request).await {
                Ok(response) => {
                    self.current.store(at, Relaxed);
                    return Ok(response);
                }
                Err(error) => error,
            };
            let Some(mut again) = next.filter(|_| error.is_connect() || may_repeat) else {
                return Err(self.unreachable(error));
            };
            let from = at;
            at = (at + 1) % self.servers.len();
            self.move_to(&mut again, from, at);
            request = again;
        }
    }

    /// Changes the URL of a request from one server to another.
    fn move_to(&self, request: &mut reqwest::Request, from: usize, to: usize) {
        let (Some(from), Some(to)) = (base(&self.servers[from]), base(&self.servers[to])) else { return };
        let path = request.url().as_str().strip_prefix(&from).unwrap_or_default();
        if let Ok(url) = Url::parse(&format!("{to}{path}")) {
            *request.url_mut() = url;
        }
    }

    async fn read<T: DeserializeOwned>(&self, response: Response) -> Result<T> {
        let status = response.status();
        let body = response.bytes().await.map_err(|source| self.unreachable(source))?;
        serde_json::from_slice(&body).map_err(|_| self.strange(status))
    }

    fn unreachable(&self, source: reqwest::Error) -> Error {
        Error::Unreachable { server: self.servers.join(", "), source }
    }

    fn strange(&self, status: StatusCode) -> Error {
        Error::Strange { server: self.server().to_owned(), status: status.as_u16() }
    }
}

/// The base URL of a server.
fn base(server: &str) -> Option<String> {
    Url::parse(server).ok().map(|url| url.as_str().trim_end_matches('/').to_owned())
}

fn with_scheme(server: &str) -> String {
    let server = server.trim().trim_end_matches('/');
    if server.contains("://") { server.to_owned() } else { format!("http://{server}") }
}

/// Also sends the key as a header, which marks the request as repeatable.
fn keyed(request: RequestBuilder, key: Option<&str>) -> RequestBuilder {
    match key.and_then(|key| HeaderValue::from_str(key).ok()) {
        Some(key) => request.header(IDEMPOTENCY_KEY, key),
        None => request,
    }
}

/// Hides the token, because debug output ends up in logs.
impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("servers", &self.servers).finish_non_exhaustive()
    }
}

impl Chunks {
    /// The next chunk. `None` means the end.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>> {
        match self.response.chunk().await {
            Ok(chunk) => Ok(chunk.map(|bytes| bytes.to_vec())),
            Err(source) => Err(Error::Unreachable { server: self.server.clone(), source }),
        }
    }
}
