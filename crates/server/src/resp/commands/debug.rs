//! DEBUG FLUSHALL deletes every job of every queue, where the settings allow it; the rest is for debugging Disque.

use std::time::Duration;

use punctual_core::limits::PAGE_MAX;
use punctual_core::queue::{Ask, Verb};
use punctual_wire::resp::Request;

use super::ackjob::act;
use super::qflush::flush;
use crate::resp::args::is;
use crate::resp::fault::Fault;
use crate::resp::session::Session;

/// The longest sleep of a connection.
const SLEEP_MAX: f64 = 60.0;

pub(in crate::resp) async fn run(session: &mut Session, request: &Request) -> Result<(), Fault> {
    let word = request.word(1);
    if is(word, "FLUSHALL") && request.len() == 2 {
        if !session.endpoint.settings.flush {
            return Err(Fault::new("ERR DEBUG FLUSHALL is not allowed here: set resp.flush, or use QFLUSH"));
        }
        flush_all(session).await?;
        session.out.simple("OK");
    } else if is(word, "SLEEP") && request.len() == 3 {
        let seconds = std::str::from_utf8(request.word(2)).ok().and_then(|text| text.parse::<f64>().ok());
        let seconds = seconds.filter(|seconds| (0.0..=SLEEP_MAX).contains(seconds));
        let seconds = seconds.ok_or(Fault::new("ERR value is not a valid float"))?;
        tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
        session.out.simple("OK");
    } else if is(word, "ERROR") && request.len() == 3 {
        return Err(Fault::of(String::from_utf8_lossy(request.word(2)).into_owned()));
    } else {
        return Err(Fault::new("ERR Syntax error, try DEBUG FLUSHALL|SLEEP <seconds>|ERROR <message>"));
    }
    Ok(())
}

async fn flush_all(session: &Session) -> Result<(), Fault> {
    let endpoint = &session.endpoint;
    let mut after = None;
    loop {
        let queues = endpoint.queues.queues(&session.namespace, after.as_ref(), PAGE_MAX).await?;
        let Some(last) = queues.last() else { return Ok(()) };
        after = Some(last.key.clone());
        for queue in queues {
            flush(endpoint, &queue.key).await?;
            // Also delete jobs that are not queued: those in a consumer's hands, and delayed ones.
            let mut place = None;
            loop {
                let messages = endpoint.queues.messages(&queue.key, place, PAGE_MAX).await?;
                let Some(last) = messages.last() else { break };
                place = Some(last.position());
                let ids = messages.iter().map(|message| message.id).collect();
                act(endpoint, &session.namespace, Verb::Delete, ids).await?;
            }
            // A queue with a waiting consumer is still in use, and stays.
            endpoint.queues.queue(Ask::Forget { queue: queue.key }).await?;
        }
    }
}
