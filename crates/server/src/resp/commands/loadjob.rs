//! LOADJOB: refused; Disque uses it only in its own append-only file.

use punctual_wire::resp::Request;

use crate::resp::fault::Fault;
use crate::resp::session::Session;

pub(in crate::resp) async fn run(_: &mut Session, _: &Request) -> Result<(), Fault> {
    Err(Fault::new("ERR LOADJOB is a special command only processed from AOF"))
}
