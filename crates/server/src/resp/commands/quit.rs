//! QUIT: ends the connection after the reply. RESET: puts it back into its initial state.

use punctual_wire::resp::{Protocol, Request};

use super::auth::Who;
use super::multi::Transaction;
use crate::resp::fault::Fault;
use crate::resp::session::{Mode, Session};

pub(in crate::resp) async fn run(session: &mut Session, _: &Request) -> Result<(), Fault> {
    session.out.simple("OK");
    session.ends = true;
    Ok(())
}

pub(in crate::resp) async fn reset(session: &mut Session, _: &Request) -> Result<(), Fault> {
    session.out.speak(Protocol::Two);
    session.client.speaks(Protocol::Two.number());
    session.client.set_name("");
    session.mode = Mode::On;
    session.monitor = None;
    session.transaction = Transaction::None;
    if !session.endpoint.is_open() {
        session.who = Who::Stranger;
    }
    session.out.simple("RESET");
    Ok(())
}
