//! PING [word], ECHO word, and commands that do nothing.

use punctual_wire::resp::Request;

use crate::resp::fault::Fault;
use crate::resp::session::Session;

pub(in crate::resp) async fn run(session: &mut Session, request: &Request) -> Result<(), Fault> {
    match request.len() {
        1 => session.out.simple("PONG"),
        2 => session.out.bulk(request.word(1)),
        _ => return Err(Fault::new("ERR wrong number of arguments for 'ping' command")),
    }
    Ok(())
}

pub(in crate::resp) async fn echo(session: &mut Session, request: &Request) -> Result<(), Fault> {
    session.out.bulk(request.word(1));
    Ok(())
}

pub(in crate::resp) async fn ok(session: &mut Session, _: &Request) -> Result<(), Fault> {
    session.out.simple("OK");
    Ok(())
}
