//! QPEEK queue count: the next jobs of a queue; with a negative count the last ones, newest first.

use punctual_core::limits::TAKE_MAX;
use punctual_wire::resp::Request;

use super::getjob::write;
use crate::resp::args::{self, number_or_say};
use crate::resp::fault::Fault;
use crate::resp::session::Session;

pub(in crate::resp) async fn run(session: &mut Session, request: &Request) -> Result<(), Fault> {
    let queue = args::queue(&session.namespace, request.word(1))?;
    let wanted = number_or_say(request.word(2))?;
    let count = u32::try_from(wanted.unsigned_abs()).unwrap_or(u32::MAX).min(TAKE_MAX);
    if count == 0 {
        session.out.array(0);
        return Ok(());
    }
    let jobs = session.endpoint.queues.peek(&queue, count, wanted < 0).await?;
    session.out.array(jobs.len());
    jobs.iter().for_each(|job| write(&mut session.out, &queue, job, false));
    Ok(())
}
