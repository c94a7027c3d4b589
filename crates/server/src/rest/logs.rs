//! The output of a run: as text, or as events while it runs.
//!
//! A follower is woken, reads from its cursor in the store, and sends one page at a time, so that a slow
//! client costs one page and misses nothing. The cursor is the id of each event; a client that reconnects
//! sends it as `Last-Event-ID`.

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use futures_util::{Stream, stream};
use punctual_core::ids::Token;
use punctual_core::log::{Chunk, ChunkPosition};
use punctual_core::run::{Run, Status, What};
use punctual_store::Error;
use punctual_wire::Text;
use punctual_wire::rest::{self, LogChunk, LogEnd, Problem};
use serde::Deserialize;

use super::events::{self, Frames, Waiting};
use super::problem::Failed;
use super::request::{Asked, RunAt};
use crate::Endpoints;

/// Chunks read together: at most half a mebibyte.
const PAGE: usize = 8;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Query {
    /// Stream events until the run has ended.
    follow: Option<Text<bool>>,
    /// Only the output of this attempt, counted from 1. `None` means all attempts.
    attempt: Option<Text<u32>>,
}

pub(crate) async fn show(
    State(endpoints): State<Endpoints>,
    at: RunAt,
    Asked(query): Asked<Query>,
    headers: HeaderMap,
) -> Result<Response, Failed> {
    let seen = events::last_event_id::<ChunkPosition>(&headers)?;
    let run = endpoints.find_run(&at).await?.run;
    let only = query.attempt.map(|attempt| token_of(&run, attempt.0)).transpose()?;
    let mut reading = Reading::new(only);
    let follow = query.follow.is_some_and(|follow| follow.0);
    if !follow && !events::are_wanted(&headers) {
        let text = Body::from_stream(text(endpoints, at, reading));
        return Ok(([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response());
    }
    reading.after = reading.after.max(seen);
    let waiting = if follow { Some(Waiting::on(&endpoints, at.run)?) } else { None };
    Ok(events::answer(live(Live { endpoints, at, reading, waiting, end: None, is_done: false })))
}

/// The token of an attempt.
fn token_of(run: &Run, attempt: u32) -> Result<Token, Failed> {
    let assigned = run.entries.iter().filter(|entry| entry.what == What::Assigned);
    let index = usize::try_from(attempt).ok().and_then(|attempt| attempt.checked_sub(1));
    index.and_then(|index| assigned.map(|entry| entry.token).nth(index)).ok_or_else(|| {
        let message = match run.attempt {
            0 => "the run has no attempt yet; try again when it has started".to_owned(),
            count => format!("must be 1 to {count}: the run has {count} attempts so far"),
        };
        Problem::parameter("attempt", message).into()
    })
}

/// How far a client has read.
#[derive(Debug, Clone, Copy)]
struct Reading {
    only: Option<Token>,
    after: Option<ChunkPosition>,
}

impl Reading {
    fn new(only: Option<Token>) -> Reading {
        // Start after the output of all earlier attempts.
        let before =
            only.map(|token| ChunkPosition { token: Token(token.0.saturating_sub(1)), number: u32::MAX });
        Reading { only, after: before }
    }

    /// The next page. Empty means that there is no more output for now.
    async fn next(&mut self, endpoints: &Endpoints, at: &RunAt) -> Result<Vec<Chunk>, Error> {
        let mut page = endpoints.handle.reads().read_logs(at.run, self.after, PAGE).await?;
        if let Some(only) = self.only {
            page.retain(|chunk| chunk.token == only);
        }
        self.after = page.last().map(Chunk::place).or(self.after);
        Ok(page)
    }

    /// The state once no more output can come. `None` means that more may come.
    fn end(&self, run: &Run) -> Option<Status> {
        let attempt_is_over =
            self.only.is_some_and(|only| run.token != only || run.status() != Status::Running);
        (run.status().is_terminal() || attempt_is_over).then(|| run.status())
    }
}

fn text(endpoints: Endpoints, at: RunAt, reading: Reading) -> impl Stream<Item = Result<Bytes, Error>> {
    stream::try_unfold((endpoints, at, reading), |(endpoints, at, mut reading)| async move {
        let page = reading.next(&endpoints, &at).await?;
        let bytes: Vec<u8> = page.into_iter().flat_map(|chunk| chunk.bytes).collect();
        Ok((!bytes.is_empty()).then(|| (Bytes::from(bytes), (endpoints, at, reading))))
    })
}

struct Live {
    endpoints: Endpoints,
    at: RunAt,
    reading: Reading,
    /// `None` means that only the present output is asked for.
    waiting: Option<Waiting>,
    /// The state of the run once it has ended; the next page without output is then the last.
    end: Option<Status>,
    is_done: bool,
}

fn live(live: Live) -> impl Stream<Item = Result<Bytes, Error>> {
    stream::try_unfold(live, |mut live| async move { Ok(live.next().await?.map(|frames| (frames, live))) })
}

impl Live {
    async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        while !self.is_done {
            let page = self.reading.next(&self.endpoints, &self.at).await?;
            if !page.is_empty() {
                return Ok(Some(frames(page)));
            }
            if let Some(state) = self.end {
                self.is_done = true;
                return Ok(Some(self.last_frame(state)));
            }
            let record = self.endpoints.handle.reads().run(&self.at.namespace, self.at.run).await?;
            // The run was pruned: no output and no end state are left.
            let Some(record) = record else { break };
            self.end = match (&self.waiting, self.reading.end(&record.run)) {
                (None, _) => Some(record.run.status()),
                (Some(_), end) => end,
            };
            // The output of a run is stored before the run ends, so read the log once more after the run has ended.
            if self.end.is_none()
                && let Some(waiting) = &mut self.waiting
            {
                match waiting.news().await {
                    events::News::Some => {}
                    events::News::Quiet => return Ok(Some(events::STILL_THERE)),
                    events::News::Over => break,
                }
            }
        }
        Ok(None)
    }

    fn last_frame(&self, state: Status) -> Bytes {
        let mut frames = Frames::default();
        frames.add("end", None, &LogEnd { run: Text(self.at.run), state: rest::State(state) });
        frames.into_bytes()
    }
}

fn frames(page: Vec<Chunk>) -> Bytes {
    let mut frames = Frames::default();
    for chunk in page {
        let place = chunk.place();
        frames.add("output", Some(&place), &LogChunk::from(chunk));
    }
    frames.into_bytes()
}
