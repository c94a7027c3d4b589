//! Rust client of the doors: REST, typed.
//!
//! A method is a route; what goes in and comes out are the objects of `wire`. A refusal arrives as the [`Problem`]
//! that the server sent, so a caller can decide by its code.

mod error;
mod cron;
mod jobs;
mod calendars;
mod runs;
mod logs;
mod sse;
mod nodes;
mod queues;
mod tokens;

use std::time::Duration;

use punctual_core::name::Namespace;
use punctual_wire::rest::Problem;
use reqwest::{Certificate, Method, RequestBuilder, Response, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use calendars::PutCalendar;
pub use cron::CronQuery;
pub use error::Error;
pub use jobs::Put;
pub use logs::{LogEvent, LogQuery, Logs};
pub use runs::{LetterQuery, RunQuery};

pub type Result<T> = std::result::Result<T, Error>;

/// How long a server may take to answer a question that is not a stream.
const ANSWER_MAX: Duration = Duration::from_secs(60);
const CONNECT_MAX: Duration = Duration::from_secs(5);

#[derive(Clone)]
pub struct Client {
    server: String,
    token: Option<String>,
    http: reqwest::Client,
}

/// A body that is still arriving: output, or an exported history.
#[derive(Debug)]
pub struct Chunks {
    server: String,
    response: Response,
}

impl Client {
    /// A client of the server at an address such as `http://127.0.0.1:7400`, or only `127.0.0.1:7400`.
    pub fn new(server: &str, token: Option<String>) -> Result<Client> {
        Client::trusting(server, token, None)
    }

    /// A client that trusts the authorities of a PEM file beside those that the system trusts.
    pub fn trusting(server: &str, token: Option<String>, authorities: Option<&[u8]>) -> Result<Client> {
        let server = server.trim_end_matches('/');
        let server = if server.contains("://") { server.to_owned() } else { format!("http://{server}") };
        let failed = |source| Error::Unreachable { server: server.clone(), source };
        let mut http = reqwest::Client::builder().no_proxy().connect_timeout(CONNECT_MAX);
        if let Some(pem) = authorities {
            http = http.tls_certs_merge(Certificate::from_pem_bundle(pem).map_err(failed)?);
        }
        let http = http.build().map_err(failed)?;
        Ok(Client { server, token, http })
    }

    pub fn server(&self) -> &str {
        &self.server
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.server));
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
        Ok(Chunks { server: self.server.clone(), response })
    }

    /// Sends a request and turns every answer but a 2xx into an error.
    async fn send(&self, request: RequestBuilder) -> Result<Response> {
        let response = request.send().await.map_err(|source| self.unreachable(source))?;
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

    async fn read<T: DeserializeOwned>(&self, response: Response) -> Result<T> {
        let status = response.status();
        let body = response.bytes().await.map_err(|source| self.unreachable(source))?;
        serde_json::from_slice(&body).map_err(|_| self.strange(status))
    }

    fn unreachable(&self, source: reqwest::Error) -> Error {
        Error::Unreachable { server: self.server.clone(), source }
    }

    fn strange(&self, status: StatusCode) -> Error {
        Error::Strange { server: self.server.clone(), status: status.as_u16() }
    }
}

/// Without the token: what is printed for debugging ends up in logs.
impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("server", &self.server).finish_non_exhaustive()
    }
}

impl Chunks {
    /// The next piece; none: that was all.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>> {
        match self.response.chunk().await {
            Ok(chunk) => Ok(chunk.map(|bytes| bytes.to_vec())),
            Err(source) => Err(Error::Unreachable { server: self.server.clone(), source }),
        }
    }
}
