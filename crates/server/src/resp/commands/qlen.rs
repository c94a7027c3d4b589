//! QLEN queue: the number of queued jobs.

use punctual_core::queue::{Ask, QueueKey, QueueStat, Said};
use punctual_wire::resp::Request;

use crate::resp::args;
use crate::resp::endpoint::Endpoint;
use crate::resp::fault::{Fault, UNEXPECTED};
use crate::resp::session::Session;

pub(in crate::resp) async fn run(session: &mut Session, request: &Request) -> Result<(), Fault> {
    let queue = args::queue(&session.namespace, request.word(1))?;
    let stat = stat(&session.endpoint, queue).await?;
    session.out.count(stat.map_or(0, |stat| stat.len));
    Ok(())
}

/// The state of a queue. `None` means that the queue does not exist.
pub(super) async fn stat(endpoint: &Endpoint, queue: QueueKey) -> Result<Option<QueueStat>, Fault> {
    match endpoint.queues.queue(Ask::Stat { queue }).await? {
        Said::Stat(stat) => Ok(stat),
        Said::Refused(refusal) => Err(refusal.into()),
        _ => Err(UNEXPECTED),
    }
}
