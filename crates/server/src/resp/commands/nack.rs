//! NACK id... [DELAY s]: jobs failed and return to their queue, at once or after a delay. Replies with how many.

use std::time::Duration;

use punctual_core::queue::Verb;
use punctual_wire::resp::Request;

use super::ackjob::act;
use crate::resp::args::{self, is, number};
use crate::resp::fault::Fault;
use crate::resp::session::Session;

pub(in crate::resp) async fn run(session: &mut Session, request: &Request) -> Result<(), Fault> {
    let last = request.len() - 1;
    // `DELAY` cannot be an id: ids are longer.
    let has_delay = last >= 2 && is(request.word(last - 1), "DELAY");
    let (ids, delay) = if has_delay { (last - 2, request.word(last)) } else { (last, &b"0"[..]) };
    let ids = args::ids(request.words(1).take(ids))?;
    let delay = number(delay).and_then(|seconds| u64::try_from(seconds).ok()).map(Duration::from_secs);
    let delay = delay.ok_or(Fault::new("ERR DELAY time must be a non negative number"))?;
    let count = act(&session.endpoint, &session.namespace, Verb::Nack { delay }, ids).await?;
    session.out.count(count);
    Ok(())
}
