//! ENQUEUE id... : puts jobs back into their queue at once. Replies with how many.

use punctual_core::queue::Verb;
use punctual_wire::resp::Request;

use super::ackjob::act;
use crate::resp::args;
use crate::resp::fault::Fault;
use crate::resp::session::Session;

pub(in crate::resp) async fn run(session: &mut Session, request: &Request) -> Result<(), Fault> {
    let ids = args::ids(request.words(1))?;
    let count = act(&session.endpoint, &session.namespace, Verb::Enqueue, ids).await?;
    session.out.count(count);
    Ok(())
}
