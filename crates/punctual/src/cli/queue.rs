//! `punctual queue`: queues of messages that consumers pull from.
//!
//! `add` adds messages, `get` takes them, `work` runs a command for each; the other verbs show and clean up.

mod act;
mod add;
mod look;
mod set;
mod table;
mod turn;
mod work;

use clap::{Args, Subcommand};
use punctual_core::queue::QueueName;
use punctual_wire::rest::{Direction, Way};

use super::Session;
use super::failure::Failure;

pub(crate) use act::{Ids, ack, delete};
pub(crate) use add::{Adding, add, read_body};
pub(crate) use look::{Getting, get, show};
pub(crate) use table::describe_queue;
pub(crate) use work::Work;

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// List the queues of a namespace
    #[command(after_help = "Examples:\n  punctual queue list\n  punctual queue list -n payments -o json")]
    List {
        /// The most to show
        #[arg(long, default_value_t = 1000)]
        limit: usize,
    },
    /// Show the state of a queue: length, waiting consumers, whether it is paused
    #[command(after_help = "Examples:\n  punctual queue stat mail\n  punctual queue stat mail -o json")]
    Stat { queue: QueueName },
    /// Add a message, its body from stdin, and print its id
    #[command(after_help = "\
Examples:
  echo hello | punctual queue add mail
  punctual queue add mail --body hello --delay 30m
  punctual queue add mail --body hello --retry 0s          delivered once at most
  punctual queue add mail --body hello --key order-17      once, however often it is asked for
  seq 1000 | punctual queue add mail --lines               a message a line

The line end that echo puts behind a text is not part of it; --exact keeps it.")]
    Add(Adding),
    /// Take messages from queues; a message that is not acknowledged is redelivered
    #[command(after_help = "\
Examples:
  punctual queue get mail
  punctual queue get mail --count 100 -o json
  punctual queue get mail orders --wait 10s                whichever has one first
  punctual queue get mail --ack                            and acknowledge them at once")]
    Get(Getting),
    /// Acknowledge messages: they are deleted as done
    #[command(after_help = "Example:\n  punctual queue ack D-0000000c-AAMAAAAAAAAAAAAAAAAAAAAA-05a1")]
    Ack(Ids),
    /// Give messages back as failed: they are delivered again
    #[command(after_help = "\
Examples:
  punctual queue nack D-0000000c-AAMAAAAAAAAAAAAAAAAAAAAA-05a1
  punctual queue nack D-0000000c-AAMAAAAAAAAAAAAAAAAAAAAA-05a1 --delay 1m")]
    Nack(act::Nack),
    /// Show a message with all its fields
    #[command(after_help = "\
Examples:
  punctual queue show D-0000000c-AAMAAAAAAAAAAAAAAAAAAAAA-05a1
  punctual queue show D-0000000c-AAMAAAAAAAAAAAAAAAAAAAAA-05a1 -o json
  punctual queue show D-0000000c-AAMAAAAAAAAAAAAAAAAAAAAA-05a1 --body > message")]
    Show(look::Showing),
    /// Show the first messages of a queue without taking them
    #[command(
        after_help = "Examples:\n  punctual queue peek mail --count 10\n  punctual queue peek mail --newest"
    )]
    Peek(look::Peeking),
    /// Delete all messages that are queued
    #[command(after_help = "Examples:\n  punctual queue flush mail\n  punctual queue flush mail --yes")]
    Flush {
        queue: QueueName,
        /// Delete without asking
        #[arg(long)]
        yes: bool,
    },
    /// Replace the settings of a queue; settings that are not given are removed
    // Without it, the usage would be one line of all settings.
    #[command(
        override_usage = "punctual queue set [OPTIONS] <QUEUE>",
        after_help = "\
Examples:
  punctual queue set ledger --running 1                    one message at a time, in order
  punctual queue set mail --rate 100/m --max-deliveries 5 --dead-letter mail.dead
  punctual queue set mail --none                           no settings

`set` replaces all settings: a setting that is not given is removed.
`punctual queue stat` shows them."
    )]
    Set(set::Setting),
    /// Stop adding, taking, or both
    #[command(after_help = "Examples:\n  punctual queue pause mail\n  punctual queue pause mail --in")]
    Pause(Ways),
    /// Allow adding and taking again
    #[command(after_help = "Examples:\n  punctual queue resume mail\n  punctual queue resume mail --out")]
    Resume(Ways),
    /// Delete messages in any state
    #[command(after_help = "Example:\n  punctual queue delete D-0000000c-AAMAAAAAAAAAAAAAAAAAAAAA-05a1")]
    Delete(Ids),
    /// Run a command for each message: exit code 0 acknowledges it, any other gives it back
    #[command(after_help = "\
Examples:
  punctual queue work mail -- ./send
  punctual queue work mail --slots 8 --timeout 5m -- sh -c 'jq .to | xargs notify'
  punctual queue work ledger --single -- ./book            one at a time, however many workers there are

The body is on stdin; PUNCTUAL_MESSAGE_ID, PUNCTUAL_QUEUE, PUNCTUAL_NAMESPACE and PUNCTUAL_DELIVERIES are in the
environment. SIGTERM or Ctrl-C ends it when what it has begun is done; a second one gives that back at once.")]
    Work(Work),
}

#[derive(Debug, Args)]
pub(crate) struct Ways {
    queue: QueueName,
    /// Only adding
    #[arg(long = "in", conflicts_with = "out")]
    input: bool,
    /// Only taking
    #[arg(long = "out")]
    out: bool,
}

impl Ways {
    fn way(&self) -> Way {
        let direction = match (self.input, self.out) {
            (true, _) => Direction::In,
            (_, true) => Direction::Out,
            _ => Direction::All,
        };
        Way { direction: Some(direction) }
    }
}

impl Verb {
    pub(crate) async fn run(self, session: &Session) -> Result<(), Failure> {
        let Session { client, namespace, output } = session;
        match self {
            Verb::List { limit } => look::list(session, limit).await,
            Verb::Stat { queue } => {
                let queue = client.queue(namespace, queue.as_str()).await?;
                output.show(&queue, |_| describe_queue(&queue))
            }
            Verb::Add(adding) => adding.run(session).await,
            Verb::Get(getting) => get(session, &getting).await,
            Verb::Ack(ids) => ack(session, &ids).await,
            Verb::Nack(nack) => nack.run(session).await,
            Verb::Show(showing) => showing.run(session).await,
            Verb::Peek(peeking) => peeking.run(session).await,
            Verb::Flush { queue, yes } => act::flush(session, &queue, yes).await,
            Verb::Set(setting) => setting.run(session).await,
            Verb::Pause(ways) => {
                let queue = client.pause_queue(namespace, ways.queue.as_str(), ways.way()).await?;
                output.show(&queue, |_| describe_queue(&queue))
            }
            Verb::Resume(ways) => {
                let queue = client.resume_queue(namespace, ways.queue.as_str(), ways.way()).await?;
                output.show(&queue, |_| describe_queue(&queue))
            }
            Verb::Delete(ids) => delete(session, &ids).await,
            Verb::Work(work) => work.run(session).await,
        }
    }
}
