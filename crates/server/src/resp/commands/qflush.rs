//! QFLUSH queue: deletes the queued jobs and replies with how many. Jobs in a consumer's hands stay.

use punctual_core::limits::COMMIT_BATCH_MAX;
use punctual_core::queue::{Ask, QueueKey, Said};
use punctual_wire::resp::Request;

use crate::resp::args;
use crate::resp::endpoint::Endpoint;
use crate::resp::fault::{Fault, UNEXPECTED};
use crate::resp::session::Session;

/// Jobs deleted in one step, so that other commands do not wait for the whole flush.
const SLICE: u32 = COMMIT_BATCH_MAX as u32 / 4;

pub(in crate::resp) async fn run(session: &mut Session, request: &Request) -> Result<(), Fault> {
    let queue = args::queue(&session.namespace, request.word(1))?;
    let deleted = flush(&session.endpoint, &queue).await?;
    session.out.count(deleted);
    Ok(())
}

pub(super) async fn flush(endpoint: &Endpoint, queue: &QueueKey) -> Result<u64, Fault> {
    let mut deleted = 0;
    loop {
        match endpoint.queues.queue(Ask::Flush { queue: queue.clone(), limit: SLICE }).await? {
            Said::Flushed(0) => return Ok(deleted),
            Said::Flushed(count) => deleted += count,
            Said::Refused(refusal) => return Err(refusal.into()),
            _ => return Err(UNEXPECTED),
        }
    }
}
