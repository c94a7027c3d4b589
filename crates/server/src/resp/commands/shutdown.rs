//! SHUTDOWN: stops the node, where the settings allow it.

use punctual_wire::resp::Request;
use tracing::info;

use crate::resp::fault::Fault;
use crate::resp::session::Session;

pub(in crate::resp) async fn run(session: &mut Session, _: &Request) -> Result<(), Fault> {
    let Some(stop) = &session.endpoint.settings.shutdown else {
        return Err(Fault::new("ERR SHUTDOWN is not allowed here: stop the process, or set resp.shutdown"));
    };
    info!(client = %session.client.address, "asked to stop by SHUTDOWN");
    stop.send_replace(true);
    // No reply: the end of the connection is the reply.
    session.ends = true;
    Ok(())
}
