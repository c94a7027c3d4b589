//! SELECT 0: there is one database.

use punctual_wire::resp::Request;

use crate::resp::args::number_or_say;
use crate::resp::fault::Fault;
use crate::resp::session::Session;

pub(in crate::resp) async fn run(session: &mut Session, request: &Request) -> Result<(), Fault> {
    match number_or_say(request.word(1))? {
        0 => session.out.simple("OK"),
        _ => return Err(Fault::new("ERR DB index is out of range")),
    }
    Ok(())
}
