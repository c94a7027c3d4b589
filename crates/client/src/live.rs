//! A stream of events about a run. After a broken connection it reconnects and continues after the last event.

use std::time::Duration;

use punctual_core::name::Namespace;
use punctual_wire::rest::EVENT_STREAM;
use reqwest::header::ACCEPT;
use reqwest::{Method, Response};
use serde::de::DeserializeOwned;

use crate::sse::{Event, Parser};
use crate::{Client, Error, Result};

/// The longest silence: three keep-alives of the server.
const SILENCE_MAX: Duration = Duration::from_secs(45);
/// The pause between two tries to reconnect.
const PAUSE: Duration = Duration::from_secs(1);
/// Failed tries in a row: half a minute, enough for a server to restart.
const TRIES_MAX: u32 = 30;

#[derive(Debug)]
pub(crate) struct LiveStream {
    client: Client,
    namespace: Namespace,
    path: String,
    query: Vec<(&'static str, String)>,
    /// The cursor: the id of the last event that had one. Empty means none yet.
    reached: String,
    connection: Option<(Response, Parser)>,
    failures: u32,
}

impl LiveStream {
    /// Connects at once, so that a refusal is known.
    pub(crate) async fn open(
        client: &Client,
        namespace: &Namespace,
        path: String,
        query: Vec<(&'static str, String)>,
    ) -> Result<LiveStream> {
        let mut live = LiveStream {
            client: client.clone(),
            namespace: namespace.clone(),
            path,
            query,
            reached: String::new(),
            connection: None,
            failures: 0,
        };
        live.connect().await?;
        Ok(live)
    }

    pub(crate) async fn next(&mut self) -> Result<Event> {
        loop {
            match self.try_next().await {
                Ok(event) => {
                    self.failures = 0;
                    if !event.id.is_empty() {
                        event.id.clone_into(&mut self.reached);
                    }
                    return Ok(event);
                }
                Err(error) if self.failures >= TRIES_MAX || !is_passing(&error) => return Err(error),
                Err(_) => {
                    self.failures += 1;
                    self.connection = None;
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    async fn try_next(&mut self) -> Result<Event> {
        if self.connection.is_none() {
            self.connect().await?;
        }
        let client = &self.client;
        let Some((response, parser)) = &mut self.connection else { return Err(client.broken_off()) };
        loop {
            if let Some(event) = parser.next().map_err(|_| client.strange(response.status()))? {
                return Ok(event);
            }
            match tokio::time::timeout(SILENCE_MAX, response.chunk()).await {
                Ok(Ok(Some(bytes))) => parser.push(&bytes),
                Ok(Err(source)) => return Err(client.unreachable(source)),
                Ok(Ok(None)) | Err(_) => return Err(client.broken_off()),
            }
        }
    }

    async fn connect(&mut self) -> Result<()> {
        let mut request = self.client.in_namespace(Method::GET, &self.namespace, &self.path);
        request = request.query(&self.query).header(ACCEPT, EVENT_STREAM);
        if !self.reached.is_empty() {
            request = request.header("last-event-id", &self.reached);
        }
        let response = self.client.send(request).await?;
        self.connection = Some((response, Parser::default()));
        Ok(())
    }

    pub(crate) fn decode<T: DeserializeOwned>(&self, event: &Event) -> Result<T> {
        serde_json::from_str(&event.data).map_err(|_| self.client.strange(reqwest::StatusCode::OK))
    }
}

/// Whether the same request may succeed a moment later.
fn is_passing(error: &Error) -> bool {
    match error {
        Error::Unreachable { .. } | Error::BrokenOff { .. } => true,
        Error::Problem(problem) => problem.code.retry_after().is_some(),
        Error::Strange { .. } => false,
    }
}

impl Client {
    fn broken_off(&self) -> Error {
        Error::BrokenOff { server: self.server().to_owned() }
    }
}
