//! LATENCY: always empty; latencies are in `/metrics`.

use punctual_wire::resp::Request;

use crate::resp::args::is;
use crate::resp::fault::{Fault, SYNTAX};
use crate::resp::session::Session;

pub(in crate::resp) async fn run(session: &mut Session, request: &Request) -> Result<(), Fault> {
    let word = request.word(1);
    if is(word, "LATEST") || (is(word, "HISTORY") && request.len() == 3) {
        session.out.array(0);
    } else if is(word, "RESET") {
        session.out.number(0);
    } else if is(word, "DOCTOR") {
        session.out.text("No latency is recorded here. The times of commits and requests are in /metrics.");
    } else if is(word, "GRAPH") && request.len() == 3 {
        let event = String::from_utf8_lossy(request.word(2)).into_owned();
        return Err(Fault::of(format!("ERR No samples available for event '{event}'")));
    } else {
        return Err(SYNTAX);
    }
    Ok(())
}
