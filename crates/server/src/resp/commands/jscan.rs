//! JSCAN [cursor] [COUNT n] [BUSYLOOP] [QUEUE q] [STATE s]... [REPLY all|id]: the jobs, page by page.

use punctual_core::limits::PAGE_MAX;
use punctual_core::queue::{Message, MessagePosition, MessageView, QueueKey};
use punctual_wire::resp::{JobId, Request};

use super::qscan::Page;
use super::show;
use crate::resp::args::{self, Words, is};
use crate::resp::fault::Fault;
use crate::resp::scans::Spot;
use crate::resp::session::Session;
use crate::resp::settings::FLUSH_BYTES;

const STATES: [&str; 4] = ["wait-repl", "active", "queued", "acked"];

#[derive(Default)]
struct Wanted {
    page: Page,
    queue: Option<QueueKey>,
    /// The states to list. Empty means all.
    states: Vec<&'static str>,
    all: bool,
}

impl Wanted {
    fn fits(&self, message: &Message) -> bool {
        let state = if message.is_queued() { "queued" } else { "active" };
        self.states.is_empty() || self.states.contains(&state)
    }
}

pub(in crate::resp) async fn run(session: &mut Session, request: &Request) -> Result<(), Fault> {
    let wanted = read(session, request)?;
    let mut at = match wanted.page.spot(&session.endpoint)? {
        None => match &wanted.queue {
            Some(queue) => Some((queue.clone(), None)),
            None => next_queue(session, None).await?.map(|queue| (queue, None)),
        },
        Some(Spot::Message(queue, after)) if queue.namespace == session.namespace => Some((queue, after)),
        Some(_) => return Err(Fault::new("ERR invalid cursor or option name")),
    };
    let (mut found, mut left, mut bytes) = (Vec::new(), wanted.page.size(), 0);
    // With bodies a reply may become large, so stop at a size limit.
    while let Some((queue, after)) = at.take_if(|_| left > 0 && bytes < FLUSH_BYTES) {
        let limit = left.min(if wanted.all { 10 } else { PAGE_MAX });
        let messages = session.endpoint.queues.messages(&queue, after, limit).await?;
        left -= messages.len().max(1).min(left);
        // A page may end early because of its size; only an empty page is the end of the queue.
        at = if messages.is_empty() {
            match wanted.queue {
                Some(_) => None,
                None => next_queue(session, Some(&queue)).await?.map(|queue| (queue, None)),
            }
        } else {
            let last: Option<MessagePosition> = messages.last().map(|message| message.position());
            Some((queue.clone(), last))
        };
        for message in messages.into_iter().filter(|message| wanted.fits(message)) {
            bytes += if wanted.all { message.body.len() } else { 0 };
            found.push((queue.clone(), message));
        }
    }
    let cursor = at.map_or(0, |(queue, after)| session.endpoint.scans.keep(Spot::Message(queue, after)));
    session.out.array(2);
    session.out.text(&cursor.to_string());
    session.out.array(found.len());
    let now = session.endpoint.clock.now();
    for (queue, message) in found {
        if wanted.all {
            show::write(session, &MessageView::of(queue, &message, now));
        } else {
            let id = JobId::new(message.id, message.ttl(), message.retry.is_zero());
            session.out.simple(id.as_str());
        }
    }
    Ok(())
}

async fn next_queue(session: &Session, after: Option<&QueueKey>) -> Result<Option<QueueKey>, Fault> {
    let queues = session.endpoint.queues.queues(&session.namespace, after, 1).await?;
    Ok(queues.into_iter().next().map(|queue| queue.key))
}

fn read(session: &Session, request: &Request) -> Result<Wanted, Fault> {
    let mut wanted = Wanted::default();
    let mut words = Words::of(request, 1);
    while let Some(word) = words.next() {
        if wanted.page.take(word, &mut words)? {
            continue;
        }
        let is_known = ["QUEUE", "STATE", "REPLY"].iter().any(|known| is(word, known));
        if !is_known || !words.has_next() {
            return Err(Fault::new("ERR invalid cursor or option name"));
        }
        let value = words.next().unwrap_or_default();
        if is(word, "QUEUE") {
            wanted.queue = Some(args::queue(&session.namespace, value)?);
        } else if is(word, "STATE") {
            let state = STATES.into_iter().find(|state| is(value, state));
            wanted.states.push(state.ok_or(Fault::new("ERR Invalid job state name"))?);
        } else if is(value, "ALL") {
            wanted.all = true;
        } else if is(value, "ID") {
            wanted.all = false;
        } else {
            return Err(Fault::new("ERR Invalid REPLY type, try ID or ALL"));
        }
    }
    Ok(wanted)
}
