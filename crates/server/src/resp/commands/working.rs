//! WORKING id: the consumer needs more time. Replies with the seconds it now has.

use punctual_core::queue::{Ask, QueueRefusal, Said};
use punctual_wire::resp::{Request, parse_id};

use crate::resp::fault::{Fault, UNEXPECTED};
use crate::resp::session::Session;

pub(in crate::resp) async fn run(session: &mut Session, request: &Request) -> Result<(), Fault> {
    let id = parse_id(request.word(1))?.ok_or(QueueRefusal::NoSuchMessage)?;
    let ask = Ask::Working { namespace: session.namespace.clone(), id };
    match session.endpoint.queues.queue(ask).await? {
        Said::Postponed(retry) => session.out.count(retry.as_secs()),
        Said::Refused(refusal) => return Err(refusal.into()),
        _ => return Err(UNEXPECTED),
    }
    Ok(())
}
