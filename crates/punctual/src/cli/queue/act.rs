//! Messages by id: acknowledge, return, delete; and flushing a queue.

use std::time::Duration;

use clap::Args;
use punctual_core::queue::QueueName;
use punctual_wire::resp::parse_id;
use punctual_wire::rest::{ActOnMessages, ActedOnMessages, MESSAGES_MAX, MessageAction};
use punctual_wire::text::Span;

use super::super::Session;
use super::super::confirm::confirm;
use super::super::failure::{Exit, Failure};
use super::super::output::print;
use super::super::time::duration;

#[derive(Debug, Args)]
pub(crate) struct Ids {
    /// As `add`, `get` and `peek` print them
    #[arg(value_name = "ID", required = true, value_parser = id)]
    pub(crate) ids: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Nack {
    #[command(flatten)]
    ids: Ids,
    /// They are delivered again after this
    #[arg(long, value_name = "SPAN", value_parser = duration)]
    delay: Option<Duration>,
}

/// Parses the id of a message.
pub(super) fn id(text: &str) -> Result<String, String> {
    match parse_id(text.as_bytes()) {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err("the id of a message has 40 bytes and begins with D-".to_owned()),
    }
}

impl Nack {
    pub(super) async fn run(self, session: &Session) -> Result<(), Failure> {
        act(session, &self.ids.ids, MessageAction::Nack, self.delay, "gave back").await
    }
}

pub(crate) async fn ack(session: &Session, ids: &Ids) -> Result<(), Failure> {
    act(session, &ids.ids, MessageAction::Ack, None, "acknowledged").await
}

pub(crate) async fn delete(session: &Session, ids: &Ids) -> Result<(), Failure> {
    act(session, &ids.ids, MessageAction::Delete, None, "deleted").await
}

async fn act(
    session: &Session,
    ids: &[String],
    action: MessageAction,
    delay: Option<Duration>,
    did: &str,
) -> Result<(), Failure> {
    let mut done = 0;
    for some in ids.chunks(MESSAGES_MAX) {
        let act = ActOnMessages { action, ids: some.to_vec(), delay: delay.map(Span) };
        done += session.client.act_on_messages(&session.namespace, &act).await?.done;
    }
    session.output.show(&ActedOnMessages { done }, |_| format!("{did} {done} of {}", ids.len()))?;
    if done == 0 {
        // Fail, so that a script notices that nothing happened.
        return Err(Failure::new(Exit::NotFound, "no message has one of these ids").hint(
            "they may be acknowledged, deleted or expired; `punctual queue show ID` shows one message",
        ));
    }
    Ok(())
}

pub(super) async fn flush(session: &Session, queue: &QueueName, yes: bool) -> Result<(), Failure> {
    let Session { client, namespace, .. } = session;
    confirm(&format!("Delete all queued messages of {namespace}/{queue}?"), yes)?;
    let mut deleted = 0;
    loop {
        let flushed = client.flush_queue(namespace, queue.as_str()).await?;
        deleted += flushed.deleted;
        if !flushed.more {
            return print(&format!("deleted {deleted} messages"));
        }
    }
}
