//! PAUSE queue in|out|all|none|state|bcast ... : pauses adding, taking or both. Replies with the state.

use punctual_core::queue::{Ask, Pause, Said};
use punctual_wire::resp::Request;

use crate::resp::args::{self, is};
use crate::resp::fault::{Fault, SYNTAX, UNEXPECTED};
use crate::resp::session::Session;

pub(in crate::resp) async fn run(session: &mut Session, request: &Request) -> Result<(), Fault> {
    let queue = args::queue(&session.namespace, request.word(1))?;
    let mut wanted: Option<Pause> = None;
    for option in request.words(2) {
        let pause = wanted.unwrap_or_default();
        if is(option, "IN") {
            wanted = Some(Pause { input: true, ..pause });
        } else if is(option, "OUT") {
            wanted = Some(Pause { output: true, ..pause });
        } else if is(option, "ALL") {
            wanted = Some(Pause { input: true, output: true });
        } else if is(option, "NONE") {
            wanted = Some(Pause::default());
        // BCAST needs no broadcast: one leader decides for all nodes.
        } else if !is(option, "STATE") && !is(option, "BCAST") {
            return Err(SYNTAX);
        }
    }
    match session.endpoint.queues.queue(Ask::Pause { queue, pause: wanted }).await? {
        Said::Paused(pause) => session.out.simple(word(pause)),
        Said::Refused(refusal) => return Err(refusal.into()),
        _ => return Err(UNEXPECTED),
    }
    Ok(())
}

pub(super) fn word(pause: Pause) -> &'static str {
    match (pause.input, pause.output) {
        (false, false) => "none",
        (true, false) => "in",
        (false, true) => "out",
        (true, true) => "all",
    }
}
