//! TIME: seconds and microseconds of the node's clock.

use punctual_wire::resp::Request;

use crate::resp::fault::Fault;
use crate::resp::session::Session;

pub(in crate::resp) async fn run(session: &mut Session, _: &Request) -> Result<(), Fault> {
    let millis = session.endpoint.clock.now().as_millis();
    session.out.array(2);
    session.out.text(&(millis / 1000).to_string());
    session.out.text(&(millis % 1000 * 1000).to_string());
    Ok(())
}
