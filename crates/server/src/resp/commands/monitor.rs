//! MONITOR: streams every command until the client disconnects. Commands with secrets are left out.

use std::fmt::Write;
use std::net::SocketAddr;

use punctual_core::Timestamp;
use punctual_wire::resp::Request;

use crate::resp::fault::Fault;
use crate::resp::session::Session;

/// Bytes of an argument that are shown.
const LINE_BYTES_MAX: usize = 1024;

pub(in crate::resp) async fn run(session: &mut Session, _: &Request) -> Result<(), Fault> {
    session.monitor = Some(session.endpoint.monitors.subscribe());
    session.out.simple("OK");
    Ok(())
}

pub(in crate::resp) fn line(at: Timestamp, from: SocketAddr, request: &Request) -> String {
    let millis = at.as_millis();
    let mut line = format!("{}.{:06} [0 {from}]", millis / 1000, millis % 1000 * 1000);
    for word in request.words(0) {
        if line.len() >= LINE_BYTES_MAX {
            line.push_str(" …");
            break;
        }
        let shown = word.get(..LINE_BYTES_MAX).unwrap_or(word);
        // Writing into a string cannot fail.
        let _ = write!(line, " \"{}\"", shown.escape_ascii());
    }
    line
}
