//! Lists queues, and takes or shows messages.

use std::io::{self, Write};
use std::time::Duration;

use clap::Args;
use punctual_core::limits::TAKE_MAX;
use punctual_core::queue::QueueName;
use punctual_wire::rest::{ALSO_MAX, ActOnMessages, MESSAGES_MAX, MessageAction, TAKE_WAIT_MAX, Take, Taken};
use punctual_wire::text::Span;
use tokio::time::Instant;

use super::super::Session;
use super::super::failure::{Exit, Failure};
use super::super::paging::{gather, say_if_more};
use super::super::time::duration;
use super::table;

#[derive(Debug, Args)]
pub(crate) struct Getting {
    /// The queues; of several, messages are taken from each in turn
    #[arg(required = true, value_name = "QUEUE", num_args = 1..=ALSO_MAX + 1)]
    pub(crate) queues: Vec<QueueName>,
    /// The most messages
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(TAKE_MAX)))]
    pub(crate) count: u32,
    /// How long to wait for a message
    #[arg(long, value_name = "SPAN", value_parser = duration)]
    pub(crate) wait: Option<Duration>,
    /// Acknowledge them as soon as they are printed
    #[arg(long)]
    pub(crate) ack: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Showing {
    #[arg(value_parser = super::act::id)]
    id: String,
    /// Only the body, as it is
    #[arg(long)]
    body: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Peeking {
    queue: QueueName,
    /// The most messages
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=i64::from(TAKE_MAX)))]
    count: u32,
    /// Show the last messages instead of the first
    #[arg(long)]
    newest: bool,
}

pub(super) async fn list(session: &Session, limit: usize) -> Result<(), Failure> {
    let (queues, more) = gather(limit, async |after, size| {
        session.client.queues(&session.namespace, after.as_deref(), size).await
    })
    .await?;
    session.output.show(&queues, |output| table::queues(output, &queues))?;
    say_if_more(more);
    Ok(())
}

pub(crate) async fn get(session: &Session, getting: &Getting) -> Result<(), Failure> {
    let messages = take(session, getting).await?;
    session.output.show(&messages, |output| {
        if messages.is_empty() { String::new() } else { table::taken(output, &messages) }
    })?;
    if messages.is_empty() {
        let names: Vec<&str> = getting.queues.iter().map(QueueName::as_str).collect();
        return Err(Failure::new(Exit::NotFound, format!("no message is ready in `{}`", names.join("`, `"))));
    }
    if getting.ack {
        for some in messages.chunks(MESSAGES_MAX) {
            let ids = some.iter().map(|message| message.id.clone()).collect();
            let act = ActOnMessages { action: MessageAction::Ack, ids, delay: None };
            session.client.act_on_messages(&session.namespace, &act).await?;
        }
    }
    Ok(())
}

/// Takes until there are enough messages, the queue is empty, or the time is over.
async fn take(session: &Session, getting: &Getting) -> Result<Vec<Taken>, Failure> {
    let Some((queue, also)) = getting.queues.split_first() else { return Ok(Vec::new()) };
    let also: Vec<String> = also.iter().map(ToString::to_string).collect();
    let begun = Instant::now();
    let mut messages: Vec<Taken> = Vec::new();
    loop {
        let had = u32::try_from(messages.len()).unwrap_or(u32::MAX);
        let left = getting.wait.unwrap_or_default().saturating_sub(begun.elapsed());
        // Only the first request waits.
        let wait = (had == 0 && !left.is_zero()).then(|| Span(left.min(TAKE_WAIT_MAX)));
        let ask = Take { count: Some(getting.count - had), wait, also: also.clone() };
        let came = session.client.take_messages(&session.namespace, queue.as_str(), ask).await?.items;
        let is_over = came.is_empty() && (had > 0 || wait.is_none());
        messages.extend(came);
        if is_over || messages.len() >= getting.count as usize {
            return Ok(messages);
        }
    }
}

impl Showing {
    pub(super) async fn run(self, session: &Session) -> Result<(), Failure> {
        if self.body {
            let message = session.client.message(&session.namespace, &self.id).await?;
            let mut out = io::stdout().lock();
            return out.write_all(&message.bytes()).and_then(|()| out.flush()).map_err(Failure::io);
        }
        show(session, &self.id).await
    }
}

pub(crate) async fn show(session: &Session, id: &str) -> Result<(), Failure> {
    let message = session.client.message(&session.namespace, id).await?;
    session.output.show(&message, |output| table::shown(output, &message))
}

impl Peeking {
    pub(super) async fn run(self, session: &Session) -> Result<(), Failure> {
        let Peeking { queue, count, newest } = self;
        let messages =
            session.client.peek_messages(&session.namespace, queue.as_str(), count, newest).await?.items;
        session.output.show(&messages, |output| table::taken(output, &messages))
    }
}
