//! The output of a run, live: after a broken connection it reconnects and continues from its cursor.

use std::time::Duration;

use punctual_core::ids::RunId;
use punctual_core::log::ChunkPosition;
use punctual_core::name::Namespace;
use punctual_wire::rest::{EVENT_STREAM, LogChunk, LogEnd};
use reqwest::header::ACCEPT;
use reqwest::{Method, Response};
use serde::de::DeserializeOwned;

use crate::sse::Parser;
use crate::{Client, Error, Result};

/// The longest silence: three keep-alives of the server.
const SILENCE_MAX: Duration = Duration::from_secs(45);
/// The pause between two tries to reconnect.
const PAUSE: Duration = Duration::from_secs(1);
/// Failed tries in a row: half a minute, enough for a server to restart.
const TRIES_MAX: u32 = 30;

#[derive(Debug, Clone, Copy, Default)]
pub struct LogQuery {
    /// Continue until the run has ended.
    pub follow: bool,
    /// Only the output of this attempt, counted from 1. `None` means all attempts.
    pub attempt: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogEvent {
    Output(LogChunk),
    /// There is no more output.
    End(LogEnd),
}

/// Output as it arrives.
#[derive(Debug)]
pub struct Logs {
    client: Client,
    namespace: Namespace,
    run: RunId,
    query: LogQuery,
    /// The cursor: the place of the last output that was returned. `None` means none yet.
    reached: Option<ChunkPosition>,
    connection: Option<(Response, Parser)>,
    failures: u32,
}

impl Client {
    /// The output of a run's attempts; with `follow`, also the output still to come.
    pub async fn logs(&self, namespace: &Namespace, run: RunId, query: LogQuery) -> Result<Logs> {
        let mut logs = Logs {
            client: self.clone(),
            namespace: namespace.clone(),
            run,
            query,
            reached: None,
            connection: None,
            failures: 0,
        };
        logs.connect().await?;
        Ok(logs)
    }
}

impl Logs {
    /// The next output, or the end. Must not be called after the end.
    pub async fn next(&mut self) -> Result<LogEvent> {
        loop {
            match self.try_next().await {
                Ok(event) => {
                    self.failures = 0;
                    if let LogEvent::Output(chunk) = &event {
                        self.reached = Some(chunk.place.0);
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

    async fn try_next(&mut self) -> Result<LogEvent> {
        if self.connection.is_none() {
            self.connect().await?;
        }
        let client = self.client.clone();
        let Some((response, parser)) = &mut self.connection else { return Err(client.broken_off()) };
        loop {
            if let Some(event) = parser.next().map_err(|_| client.strange(response.status()))? {
                match event.kind.as_str() {
                    "output" => return client.decode(&event.data).map(LogEvent::Output),
                    "end" => return client.decode(&event.data).map(LogEvent::End),
                    // An event type of a newer server.
                    _ => continue,
                }
            }
            match tokio::time::timeout(SILENCE_MAX, response.chunk()).await {
                Ok(Ok(Some(bytes))) => parser.push(&bytes),
                Ok(Err(source)) => return Err(client.unreachable(source)),
                Ok(Ok(None)) | Err(_) => return Err(client.broken_off()),
            }
        }
    }

    async fn connect(&mut self) -> Result<()> {
        let path = format!("/runs/{}/logs", self.run);
        let mut request = self.client.in_namespace(Method::GET, &self.namespace, &path);
        request = request.query(&[("follow", self.query.follow)]).header(ACCEPT, EVENT_STREAM);
        request = request.query(&self.query.attempt.map(|attempt| [("attempt", attempt)]));
        if let Some(place) = self.reached {
            request = request.header("last-event-id", place.to_string());
        }
        let response = self.client.send(request).await?;
        self.connection = Some((response, Parser::default()));
        Ok(())
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

    fn decode<T: DeserializeOwned>(&self, data: &str) -> Result<T> {
        serde_json::from_str(data).map_err(|_| self.strange(reqwest::StatusCode::OK))
    }
}
