//! Queues: list, show, pause, flush, and add or take messages.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use punctual_core::limits::TAKE_MAX;
use punctual_core::queue::{
    Add, Ask, Delivered, Notice, Pause, QueueKey, QueueName, QueueRefusal, QueueStat, Said, Wait,
};
use punctual_wire::Text;
use punctual_wire::rest::{
    AddMessage, AddMessages, Added, AddedMessage, AddedMessages, Code, Flushed, MessageState, Messages, Page,
    Problem, Queue, QueueSettings, Take, Taken, Way,
};
use serde::Deserialize;
use tracing::error;

use super::body::{self, LongJson, MaybeJson};
use super::problem::{Failed, internal};
use super::request::{Asked, In, QueueAt, page_limit};
use crate::Endpoints;
use crate::limits::{FLUSHED_AT_ONCE, FLUSHED_MAX, TAKEN_AT_ONCE, TAKEN_BYTES_MAX};

/// A page of queues.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Listing {
    limit: Option<Text<usize>>,
    after: Option<QueueName>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Look {
    count: Option<Text<u32>>,
    newest: Option<Text<bool>>,
}

pub(crate) async fn list(
    State(endpoints): State<Endpoints>,
    In(namespace): In,
    Asked(listing): Asked<Listing>,
) -> Result<Json<Page<Queue>>, Failed> {
    let limit = page_limit(listing.limit)?;
    let after = listing.after.map(|name| QueueKey { namespace: namespace.clone(), name });
    let queues = endpoints.handle.reads().queues(Some(&namespace), after.as_ref(), limit + 1).await?;
    let page = Page::cut(queues, limit, |record| record.key.name.to_string());
    Ok(Json(Page { items: page.items.iter().map(Queue::of_record).collect(), next: page.next }))
}

pub(crate) async fn stat(
    State(endpoints): State<Endpoints>,
    QueueAt(queue): QueueAt,
) -> Result<Json<Queue>, Failed> {
    let stat = endpoints.stat(&queue).await?.ok_or_else(|| no_such_queue(&queue))?;
    Ok(Json(Queue::of_stat(&queue, &stat)))
}

/// Replaces the settings of a queue, which is created if it does not exist.
pub(crate) async fn set(
    State(endpoints): State<Endpoints>,
    QueueAt(queue): QueueAt,
    body::Json(body): body::Json<QueueSettings>,
) -> Result<Json<Queue>, Failed> {
    let settings = Box::new(body.into_core(&queue.name)?);
    match endpoints.handle.queue(Ask::Set { queue: queue.clone(), settings }).await? {
        Said::Acted(_) => stat(State(endpoints), QueueAt(queue)).await,
        said => Err(unexpected(said)),
    }
}

/// 201 with the new message, or 200 with the existing message that has the same key.
pub(crate) async fn add(
    State(endpoints): State<Endpoints>,
    QueueAt(queue): QueueAt,
    LongJson(body): LongJson<AddMessage>,
) -> Result<Response, Failed> {
    let messages = vec![body.into_core()?];
    let mut said = endpoints.add(Add { queue, messages }).await?;
    let notice = said.pop().ok_or_else(internal)?.map_err(Problem::from)?;
    let status = if notice.is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(Added::of(notice))).into_response())
}

/// Adds each message independently: some may be added and others refused.
pub(crate) async fn add_many(
    State(endpoints): State<Endpoints>,
    QueueAt(queue): QueueAt,
    LongJson(body): LongJson<AddMessages>,
) -> Result<Json<AddedMessages>, Failed> {
    let messages = body.into_core()?;
    let said = endpoints.add(Add { queue, messages }).await?;
    let items = said.into_iter().map(|one| match one {
        Ok(notice) => {
            let Added { id, is_new } = Added::of(notice);
            AddedMessage { id: Some(id), is_new, problem: None }
        }
        Err(refusal) => AddedMessage { id: None, is_new: false, problem: Some(refusal.into()) },
    });
    Ok(Json(AddedMessages { items: items.collect() }))
}

/// A client that disconnects while it waits takes nothing.
pub(crate) async fn take(
    State(endpoints): State<Endpoints>,
    QueueAt(queue): QueueAt,
    MaybeJson(body): MaybeJson<Take>,
) -> Result<Json<Messages>, Failed> {
    let (count, wait) = body.checked()?;
    let also = body.others()?.into_iter();
    let also = also.map(|name| QueueKey { namespace: queue.namespace.clone(), name });
    let queues: Vec<QueueKey> = std::iter::once(queue.clone()).chain(also).collect();
    let taken = endpoints.take(&queues, count, wait).await?;
    let items =
        taken.iter().map(|(queue, message)| endpoints.taken(queue, message, MessageState::Active)).collect();
    Ok(Json(Messages { items }))
}

pub(crate) async fn peek(
    State(endpoints): State<Endpoints>,
    QueueAt(queue): QueueAt,
    Asked(look): Asked<Look>,
) -> Result<Json<Messages>, Failed> {
    let count = look.count.map_or(1, |count| count.0);
    if !(1..=TAKE_MAX).contains(&count) {
        return Err(Problem::parameter("count", format!("must be 1 to {TAKE_MAX}")).into());
    }
    let newest = look.newest.is_some_and(|newest| newest.0);
    let seen = endpoints.handle.peek(&queue, count, newest).await?;
    let mut bytes = 0;
    let fitting = seen.iter().take_while(|message| {
        let fits = bytes < TAKEN_BYTES_MAX;
        bytes += message.body.len();
        fits
    });
    let items = fitting.map(|message| endpoints.taken(&queue, message, MessageState::Queued)).collect();
    Ok(Json(Messages { items }))
}

pub(crate) async fn pause(
    State(endpoints): State<Endpoints>,
    QueueAt(queue): QueueAt,
    MaybeJson(way): MaybeJson<Way>,
) -> Result<Json<Queue>, Failed> {
    endpoints.let_through(&queue, |before| way.set(before, true)).await
}

pub(crate) async fn resume(
    State(endpoints): State<Endpoints>,
    QueueAt(queue): QueueAt,
    MaybeJson(way): MaybeJson<Way>,
) -> Result<Json<Queue>, Failed> {
    endpoints.let_through(&queue, |before| way.set(before, false)).await
}

/// Deletes in small steps, so that other commands do not wait for the whole flush.
pub(crate) async fn flush(
    State(endpoints): State<Endpoints>,
    QueueAt(queue): QueueAt,
) -> Result<Json<Flushed>, Failed> {
    let mut deleted = 0;
    while deleted < FLUSHED_MAX {
        match endpoints.handle.queue(Ask::Flush { queue: queue.clone(), limit: FLUSHED_AT_ONCE }).await? {
            Said::Flushed(0) => return Ok(Json(Flushed { deleted, more: false })),
            Said::Flushed(some) => deleted += some,
            said => return Err(unexpected(said)),
        }
    }
    Ok(Json(Flushed { deleted, more: true }))
}

impl Endpoints {
    async fn add(&self, add: Add) -> Result<Vec<Result<Notice, QueueRefusal>>, Failed> {
        match self.handle.queue(Ask::Add(add)).await? {
            Said::Added(said) => Ok(said),
            said => Err(unexpected(said)),
        }
    }

    /// Takes in small steps, up to the size limit of an answer, so fewer than `count` may come. Only the
    /// first step waits.
    async fn take(
        &self,
        queues: &[QueueKey],
        count: u32,
        wait: Option<Duration>,
    ) -> Result<Vec<(QueueKey, Delivered)>, Failed> {
        let (mut taken, mut bytes) = (Vec::new(), 0);
        let mut wait = wait.map_or(Wait::No, Wait::For);
        let mut left = count;
        while left > 0 && bytes < TAKEN_BYTES_MAX {
            let some = left.min(TAKEN_AT_ONCE);
            let piece = match self.handle.take(queues, some, std::mem::replace(&mut wait, Wait::No)).await {
                Ok(piece) => piece,
                // The messages taken so far must still be delivered.
                Err(_) if !taken.is_empty() => break,
                Err(failure) => return Err(failure.into()),
            };
            let came = u32::try_from(piece.len()).unwrap_or(u32::MAX);
            bytes += piece.iter().map(|(_, message)| message.body.len()).sum::<usize>();
            taken.extend(piece);
            if came < some {
                break;
            }
            left -= some;
        }
        Ok(taken)
    }

    async fn stat(&self, queue: &QueueKey) -> Result<Option<QueueStat>, Failed> {
        match self.handle.queue(Ask::Stat { queue: queue.clone() }).await? {
            Said::Stat(stat) => Ok(stat),
            said => Err(unexpected(said)),
        }
    }

    async fn let_through(
        &self,
        queue: &QueueKey,
        change: impl FnOnce(Pause) -> Pause,
    ) -> Result<Json<Queue>, Failed> {
        let before = self.pause(queue, None).await?;
        self.pause(queue, Some(change(before))).await?;
        let stat = self.stat(queue).await?.ok_or_else(|| no_such_queue(queue))?;
        Ok(Json(Queue::of_stat(queue, &stat)))
    }

    async fn pause(&self, queue: &QueueKey, pause: Option<Pause>) -> Result<Pause, Failed> {
        match self.handle.queue(Ask::Pause { queue: queue.clone(), pause }).await? {
            Said::Paused(pause) => Ok(pause),
            said => Err(unexpected(said)),
        }
    }

    fn taken(&self, queue: &QueueKey, message: &Delivered, state: MessageState) -> Taken {
        Taken::of(queue, message, state, &self.leader_of(message.id.shard()))
    }
}

fn no_such_queue(queue: &QueueKey) -> Failed {
    let QueueKey { namespace, name } = queue;
    Problem::new(Code::NoSuchQueue, format!("no queue `{name}` in namespace `{namespace}`")).into()
}

/// A refusal, or an answer that does not fit its request, which is a bug in this program.
pub(crate) fn unexpected(said: Said) -> Failed {
    if let Said::Refused(refusal) = said {
        return Failed(refusal.into());
    }
    error!(?said, "an answer does not fit its question");
    Failed(internal())
}
