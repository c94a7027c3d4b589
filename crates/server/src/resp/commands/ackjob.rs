//! ACKJOB id... : acknowledges messages, which deletes them. Replies with how many existed.

use futures_util::future::join_all;
use punctual_core::name::Namespace;
use punctual_core::queue::{MessageId, Verb};
use punctual_wire::resp::Request;

use crate::resp::args;
use crate::resp::endpoint::Endpoint;
use crate::resp::fault::Fault;
use crate::resp::session::Session;

/// Messages acted on together: what fits into one commit.
const ACT_MAX: usize = punctual_core::limits::COMMIT_BATCH_MAX;

pub(in crate::resp) async fn many(session: &mut Session, requests: &[&Request]) -> Result<(), Fault> {
    act_each(session, requests, Verb::Ack).await
}

/// Runs one verb for several requests at once; each reply counts its own messages.
pub(super) async fn act_each(session: &mut Session, requests: &[&Request], verb: Verb) -> Result<(), Fault> {
    let (endpoint, namespace) = (&session.endpoint, &session.namespace);
    let counts =
        join_all(requests.iter().map(|request| async move {
            act(endpoint, namespace, verb, args::ids(request.words(1))?).await
        }))
        .await;
    for count in counts {
        match count {
            Ok(count) => session.out.count(count),
            Err(Fault::Said(text)) => session.out.error(&text),
            Err(Fault::Gone) => return Err(Fault::Gone),
        }
    }
    Ok(())
}

pub(super) async fn act(
    endpoint: &Endpoint,
    namespace: &Namespace,
    verb: Verb,
    ids: Vec<MessageId>,
) -> Result<u64, Fault> {
    let mut count = 0;
    let mut ids = ids;
    while !ids.is_empty() {
        let rest = ids.split_off(ids.len().min(ACT_MAX));
        count += endpoint.queues.act(namespace, verb, ids).await?;
        ids = rest;
    }
    Ok(count)
}
