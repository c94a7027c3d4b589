//! Polls accepted work: one connection for each origin, which is kept open and used by one poll at a time.
//!
//! Attempts of one origin share its connection, and attempts that ask the same URL about all executions share its
//! answers. Both go when the last attempt that uses them has ended. The egress rules are checked when a connection is
//! opened.

use std::sync::Arc;
use std::time::Duration;

use punctual_core::attempt::Assignment;
use punctual_core::limits::{HTTP_POLL_TIMEOUT, HTTP_RESPONSE_BYTES_MAX};
use punctual_core::schedule::format_duration;
use punctual_core::task::{Accept, Http, Request};
use punctual_wire::Error;
use punctual_wire::execution::{Execution, Executions};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Client, Response, StatusCode, Url};
use tokio::sync::{self, OnceCell};
use tokio::time::{Instant, timeout};

use super::call;
use super::client::{Clients, to_port};
use crate::executor::accepted::{Poll, Shared};
use crate::executor::failure::explain;

/// The connections and answers that attempts share.
#[derive(Debug, Default)]
pub(super) struct Polls {
    origins: Shared<OriginKey, Origin>,
    groups: Shared<GroupKey, Group>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct OriginKey {
    origin: String,
    ca: Option<String>,
}

/// Attempts with other headers may be told about other executions.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct GroupKey {
    url: Url,
    headers: Vec<(String, Vec<u8>)>,
    ca: Option<String>,
}

/// One connection. Its lock is held by the poll that uses it.
#[derive(Debug, Default)]
struct Origin {
    client: OnceCell<Client>,
    turn: sync::Mutex<()>,
}

/// The newest answer about all executions.
#[derive(Debug, Default)]
struct Group {
    newest: sync::Mutex<Option<Answer>>,
}

#[derive(Debug, Clone)]
struct Answer {
    at: Instant,
    /// The error says what was wrong.
    all: Result<Arc<Executions>, String>,
}

/// Polls the execution of one attempt.
#[derive(Debug)]
pub(super) struct Poller<'a> {
    clients: &'a Clients,
    origin: Arc<Origin>,
    ca: Option<&'a str>,
    id: String,
    url: Url,
    headers: HeaderMap,
    all: Option<All>,
    every: Duration,
    next_at: Instant,
}

#[derive(Debug)]
struct All {
    url: Url,
    headers: HeaderMap,
    group: Arc<Group>,
}

impl<'a> Poller<'a> {
    /// The error is written for the job's author.
    pub(super) fn new(
        http: &'a Http,
        accept: &Accept,
        request: &Request,
        assignment: &Assignment,
        clients: &'a Clients,
    ) -> Result<Poller<'a>, String> {
        let url = call::parse(&request.url)?;
        let mut plain = call::headers(call::HEADERS, &request.headers)?;
        plain.remove(CONTENT_TYPE);
        plain.entry(ACCEPT).or_insert(HeaderValue::from_static("application/json"));
        let ca = http.ca.clone();
        let origin = OriginKey { origin: http.origin(), ca: ca.clone() };
        let all = accept.all.as_deref().map(|all| {
            let url = call::parse(all)?;
            let headers = plain.iter().map(|(name, value)| (name.to_string(), value.as_bytes().to_vec()));
            let key = GroupKey { url: url.clone(), headers: headers.collect(), ca };
            Ok::<_, String>(All { url, headers: plain.clone(), group: clients.polls().groups.get(key) })
        });
        let mut headers = plain;
        headers.extend(call::own_headers(http, assignment));
        headers.extend(call::of_run(assignment));
        Ok(Poller {
            clients,
            origin: clients.polls().origins.get(origin),
            ca: http.ca.as_deref(),
            id: assignment.run.to_string(),
            url,
            headers,
            all: all.transpose()?,
            every: accept.poll,
            next_at: Instant::now() + accept.poll,
        })
    }

    /// The work has just been started: the next poll comes after a whole interval.
    pub(super) fn wait(&mut self) {
        self.next_at = Instant::now() + self.every;
    }

    /// The result of the next poll, when it is due.
    pub(super) async fn next(&mut self) -> Poll {
        tokio::time::sleep_until(self.next_at).await;
        let (poll, at) = match &self.all {
            Some(all) => {
                // All attempts of the group wake up together, and the first of them asks.
                let Answer { at, all } = self.newest(all).await;
                let poll = match all.map(|all| all.get(&self.id)) {
                    Ok(Some(execution)) => understood(execution),
                    // The answer may list only work that runs.
                    Ok(None) => self.ask().await,
                    Err(why) => Poll::Failed(why),
                };
                (poll, at)
            }
            None => (self.ask().await, Instant::now()),
        };
        self.next_at = at + self.every;
        poll
    }

    /// Asks for this execution alone.
    pub(super) async fn ask(&self) -> Poll {
        match self.get(&self.url, &self.headers).await {
            Ok((StatusCode::NOT_FOUND | StatusCode::GONE, _)) => {
                Poll::Unknown(format!("{} does not know this execution", call::shown(&self.url)))
            }
            Ok((status, body)) => match expect_success(&self.url, status) {
                Ok(()) => understood(Execution::parse(&body)),
                Err(why) => Poll::Failed(why),
            },
            Err(why) => Poll::Failed(why),
        }
    }

    /// An answer about all executions that is younger than the time between two polls.
    async fn newest(&self, all: &All) -> Answer {
        let mut newest = all.group.newest.lock().await;
        if let Some(answer) = newest.as_ref().filter(|answer| answer.at.elapsed() < self.every) {
            return answer.clone();
        }
        let got = self.get(&all.url, &all.headers).await.and_then(|(status, body)| {
            expect_success(&all.url, status)?;
            Executions::parse(&body).map(Arc::new).map_err(|error| not_understood(&error))
        });
        newest.insert(Answer { at: Instant::now(), all: got }).clone()
    }

    /// Sends a GET over the origin's connection.
    async fn get(&self, url: &Url, headers: &HeaderMap) -> Result<(StatusCode, Vec<u8>), String> {
        let place = call::admit(url, self.clients).await?;
        let making = self.origin.client.get_or_try_init(|| self.clients.kept(place.is_secure, self.ca));
        let client = making.await?;
        let _turn = self.origin.turn.lock().await;
        let asking = async {
            let request = client.get(url.clone()).headers(headers.clone());
            let explained = |error| explain(&error, &place.name, place.is_secure);
            let response = to_port(place.port, request.send()).await.map_err(explained)?;
            let status = response.status();
            read(response).await.map_err(explained)?.map(|body| (status, body)).ok_or_else(|| {
                format!("the answer of {} is longer than {HTTP_RESPONSE_BYTES_MAX} bytes", call::shown(url))
            })
        };
        let late =
            |_| Err(format!("{} did not answer within {}", place.name, format_duration(HTTP_POLL_TIMEOUT)));
        timeout(HTTP_POLL_TIMEOUT, asking).await.unwrap_or_else(late)
    }
}

/// The whole body: only then the connection can be used again. `None` means that it is too long.
async fn read(mut response: Response) -> Result<Option<Vec<u8>>, reqwest::Error> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        body.extend_from_slice(&chunk);
        if body.len() > HTTP_RESPONSE_BYTES_MAX {
            return Ok(None);
        }
    }
    Ok(Some(body))
}

fn expect_success(url: &Url, status: StatusCode) -> Result<(), String> {
    if status.is_success() { Ok(()) } else { Err(format!("GET {}: status {status}", call::shown(url))) }
}

fn understood(execution: Result<Execution, Error>) -> Poll {
    match execution {
        Ok(execution) => Poll::Told(execution),
        Err(error) => Poll::Failed(not_understood(&error)),
    }
}

fn not_understood(error: &Error) -> String {
    format!("the answer is not understood: {error}")
}
