//! FASTACK id... : the same as ACKJOB, because there are no replicas on other nodes.

use punctual_core::queue::Verb;
use punctual_wire::resp::Request;

use super::ackjob::act_each;
use crate::resp::fault::Fault;
use crate::resp::session::Session;

pub(in crate::resp) async fn many(session: &mut Session, requests: &[&Request]) -> Result<(), Fault> {
    act_each(session, requests, Verb::Ack).await
}
