//! Server-sent events: how REST reports what happens to a run while a client listens.

use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures_util::{Stream, StreamExt, stream};
use punctual_core::ids::RunId;
use punctual_core::progress::Reported;
use punctual_core::run::Run;
use punctual_node::Follower;
use punctual_node::followers::NotNow;
use punctual_store::Error;
use punctual_wire::Text;
use punctual_wire::rest::{Code, EVENT_STREAM, Event, LogEnd, Page, Problem, ProgressEvent};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::problem::Failed;
use super::request::{Asked, RunAt};
use crate::Endpoints;
use crate::limits::PROGRESS_EVENT_EVERY;

/// The longest silence on an open stream: proxies close quiet connections. A follower then also reads again,
/// in case a notification from another node did not arrive.
const QUIET_MAX: Duration = Duration::from_secs(15);
/// A comment line, which clients ignore.
pub(crate) const STILL_THERE: Bytes = Bytes::from_static(b": still there\n\n");
/// Tells the client how soon to reconnect, in milliseconds.
const GREETING: Bytes = Bytes::from_static(b"retry: 1000\n\n");

/// Whether the client accepts events rather than a document.
pub(crate) fn are_wanted(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted
        .flat_map(|value| value.split(','))
        .any(|kind| kind.split(';').next().map(str::trim) == Some(EVENT_STREAM))
}

/// The last event that the client received before it reconnected.
pub(crate) fn last_event_id<T: FromStr<Err: Display>>(headers: &HeaderMap) -> Result<Option<T>, Failed> {
    let Some(value) = headers.get("last-event-id") else { return Ok(None) };
    let wrong = |message: String| Failed::from(Problem::parameter("Last-Event-ID", message));
    let text = value.to_str().map_err(|_| wrong("must be printable ASCII".to_owned()))?;
    text.parse().map(Some).map_err(|error: T::Err| wrong(error.to_string()))
}

/// Waits for news of a run.
#[derive(Debug)]
pub(crate) struct Waiting {
    follower: Follower,
    /// When a keep-alive is due. News does not move it: a read after news may find nothing to send.
    quiet_at: Instant,
}

pub(crate) enum News {
    Some,
    /// No news until a keep-alive was due.
    Quiet,
    /// The node stops.
    Over,
}

impl Waiting {
    /// Follows the run from now on: a read after this call misses no change.
    pub(crate) fn on(endpoints: &Endpoints, run: RunId) -> Result<Waiting, Failed> {
        let waiting = |follower| Waiting { follower, quiet_at: Instant::now() + QUIET_MAX };
        endpoints.handle.followers().follow(run).map(waiting).map_err(cannot_follow)
    }

    pub(crate) async fn news(&mut self) -> News {
        match timeout_at(self.quiet_at, self.follower.news()).await {
            Ok(true) => News::Some,
            Ok(false) => News::Over,
            Err(_) => {
                self.quiet_at = Instant::now() + QUIET_MAX;
                News::Quiet
            }
        }
    }
}

pub(crate) fn cannot_follow(not_now: NotNow) -> Failed {
    let code = match not_now {
        NotNow::TooMany | NotNow::TooManyLive => Code::TooManyFollowers,
        NotNow::Stopping => Code::Unavailable,
    };
    Problem::new(code, not_now.to_string()).into()
}

/// Encoded events to be sent.
#[derive(Debug, Default)]
pub(crate) struct Frames(Vec<u8>);

impl Frames {
    /// JSON contains no line breaks, so each event needs one `data` line.
    pub(crate) fn add(&mut self, event: &str, id: Option<&dyn Display>, data: &impl Serialize) {
        if let Some(id) = id {
            self.0.extend_from_slice(format!("id: {id}\n").as_bytes());
        }
        self.0.extend_from_slice(format!("event: {event}\ndata: ").as_bytes());
        // Writing to memory cannot fail, and every key is a string.
        let _ = serde_json::to_writer(&mut self.0, data);
        self.0.extend_from_slice(b"\n\n");
    }

    pub(crate) fn into_bytes(self) -> Bytes {
        self.0.into()
    }
}

pub(crate) fn answer(events: impl Stream<Item = Result<Bytes, Error>> + Send + 'static) -> Response {
    let greeting = stream::once(async { Ok(GREETING) });
    let mut response = Body::from_stream(greeting.chain(events)).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(EVENT_STREAM));
    // Tell proxies not to buffer, which would delay live events.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Query {
    follow: Option<Text<bool>>,
}

/// The events of a run, as a page or as a stream until the run has ended.
pub(crate) async fn show(
    State(endpoints): State<Endpoints>,
    at: RunAt,
    Asked(query): Asked<Query>,
    headers: HeaderMap,
) -> Result<Response, Failed> {
    let seen = last_event_id::<u64>(&headers)?.unwrap_or(0);
    let run = endpoints.find_run(&at).await?.run;
    let follow = query.follow.is_some_and(|follow| follow.0);
    if !follow && !are_wanted(&headers) {
        return Ok(axum::Json(Page { items: Event::all(&run), next: None }).into_response());
    }
    let waiting = if follow { Some(Waiting::on(&endpoints, at.run)?) } else { None };
    let progress = ProgressSent { last: None, next_at: Instant::now() };
    let story = Story { endpoints, at, seen, progress, waiting, is_done: false };
    let events = stream::try_unfold(story, |mut story| async move {
        Ok(story.next().await?.map(|frames| (frames, story)))
    });
    Ok(answer(events))
}

struct Story {
    endpoints: Endpoints,
    at: RunAt,
    /// The number of the last event that was sent.
    seen: u64,
    progress: ProgressSent,
    waiting: Option<Waiting>,
    is_done: bool,
}

/// What a follower knows of the progress of its run.
struct ProgressSent {
    last: Option<Reported>,
    /// When the next event may be sent.
    next_at: Instant,
}

impl ProgressSent {
    /// The next event. If it is too soon for another one, and this is not the end, the error is when to look again.
    fn next(&mut self, run: &Run, is_end: bool) -> Result<Option<ProgressEvent>, Instant> {
        let event = ProgressEvent::since(self.last.as_ref(), run);
        if event.is_some() {
            let now = Instant::now();
            if now < self.next_at && !is_end {
                return Err(self.next_at);
            }
            self.last = run.progress.as_deref().cloned();
            self.next_at = now + PROGRESS_EVENT_EVERY;
        }
        Ok(event)
    }
}

impl Story {
    async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        while !self.is_done {
            let record = self.endpoints.handle.reads().run(&self.at.namespace, self.at.run).await?;
            let Some(run) = record.map(|record| record.run) else { break };
            let is_end = run.status().is_terminal() || self.waiting.is_none();
            let (mut progress, look_at) = match self.progress.next(&run, is_end) {
                // Only followers get the progress; a listing of the changes does not have it either.
                Ok(progress) => (progress.filter(|_| self.waiting.is_some()), None),
                Err(later) => (None, Some(later)),
            };
            let mut frames = Frames::default();
            let seen = self.seen;
            for event in Event::all(&run).into_iter().filter(|event| event.seq > seen) {
                // In the order of time. A last report that arrives together with the end comes before it.
                let ends = event.to.0.is_terminal();
                let comes_first = |at| at < event.at || (ends && at == event.at);
                if let Some(before) = progress.take_if(|progress| comes_first(progress.at)) {
                    frames.add("progress", None, &before);
                }
                self.seen = event.seq;
                frames.add("change", Some(&event.seq), &event);
            }
            if let Some(newest) = progress {
                frames.add("progress", None, &newest);
            }
            if is_end {
                let state = punctual_wire::rest::State(run.status());
                frames.add("end", None, &LogEnd { run: Text(run.id), state });
                self.is_done = true;
            }
            if !frames.0.is_empty() {
                return Ok(Some(frames.into_bytes()));
            }
            let Some(waiting) = &mut self.waiting else { break };
            let news = tokio::select! {
                news = waiting.news() => news,
                () = sleep_until(look_at.unwrap_or_else(Instant::now)), if look_at.is_some() => News::Some,
            };
            match news {
                News::Some => {}
                News::Quiet => return Ok(Some(STILL_THERE)),
                News::Over => break,
            }
        }
        Ok(None)
    }
}
