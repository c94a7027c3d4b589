//! BGREWRITEAOF: does nothing, because the store compacts its files by itself.

use punctual_wire::resp::Request;

use crate::resp::fault::Fault;
use crate::resp::session::Session;

pub(in crate::resp) async fn run(session: &mut Session, _: &Request) -> Result<(), Fault> {
    session.out.simple("Background append only file rewriting started");
    Ok(())
}
