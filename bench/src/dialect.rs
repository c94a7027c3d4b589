//! The words for a job's way through a queue: Disque's, or those of Redis's streams, so that a server that knows only
//! those can be put beside ours.

use anyhow::{Result, bail};
use clap::ValueEnum;

use crate::client::{Client, Reply};

/// The consumer group that a stream is read by.
const GROUP: &[u8] = b"load";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Dialect {
    /// ADDJOB, GETJOB, ACKJOB
    Disque,
    /// XADD, XREADGROUP, XACK and XDEL
    Streams,
}

impl Dialect {
    /// Before anything is taken from a queue.
    pub(crate) fn prepare(self, client: &mut Client, queue: &[u8]) -> Result<()> {
        if self == Dialect::Streams {
            let made = client.ask(&[b"XGROUP", b"CREATE", queue, GROUP, b"0", b"MKSTREAM"]);
            // Another connection may have been first.
            made.map(drop)
                .or_else(|error| if error.to_string().contains("BUSYGROUP") { Ok(()) } else { Err(error) })?;
        }
        Ok(())
    }

    /// Notes that a job is to be added; it is answered once.
    pub(crate) fn add(self, client: &mut Client, queue: &[u8], body: &[u8]) {
        match self {
            Dialect::Disque => client.say(&[b"ADDJOB", queue, body, b"0"]),
            Dialect::Streams => client.say(&[b"XADD", queue, b"*", b"body", body]),
        }
    }

    /// The ids of at most so many jobs that are there.
    pub(crate) fn take(self, client: &mut Client, queue: &[u8], count: &[u8]) -> Result<Vec<Vec<u8>>> {
        match self {
            Dialect::Disque => jobs(client.ask(&[b"GETJOB", b"NOHANG", b"COUNT", count, b"FROM", queue])?),
            Dialect::Streams => {
                let read: [&[u8]; 9] =
                    [b"XREADGROUP", b"GROUP", GROUP, b"one", b"COUNT", count, b"STREAMS", queue, b">"];
                entries(client.ask(&read)?)
            }
        }
    }

    /// Waits for one job, ten seconds at most.
    pub(crate) fn wait(self, client: &mut Client, queue: &[u8]) -> Result<Vec<Vec<u8>>> {
        match self {
            Dialect::Disque => jobs(client.ask(&[b"GETJOB", b"TIMEOUT", b"10000", b"FROM", queue])?),
            Dialect::Streams => {
                let read: [&[u8]; 11] = [
                    b"XREADGROUP",
                    b"GROUP",
                    GROUP,
                    b"one",
                    b"COUNT",
                    b"1",
                    b"BLOCK",
                    b"10000",
                    b"STREAMS",
                    queue,
                    b">",
                ];
                entries(client.ask(&read)?)
            }
        }
    }

    /// The jobs are done, and gone; returns how many.
    pub(crate) fn ack(self, client: &mut Client, queue: &[u8], ids: &[Vec<u8>]) -> Result<u64> {
        let commands: &[&[&[u8]]] = match self {
            Dialect::Disque => &[&[b"ACKJOB"]],
            Dialect::Streams => &[&[b"XACK", queue, GROUP], &[b"XDEL", queue]],
        };
        for words in commands {
            client.begin(words.len() + ids.len());
            words.iter().for_each(|word| client.word(word));
            ids.iter().for_each(|id| client.word(id));
        }
        client.send()?;
        let mut acked = 0;
        for words in commands {
            acked = match client.hear()? {
                Reply::Number(count) => u64::try_from(count)?,
                other => bail!("{} was answered with {other:?}", String::from_utf8_lossy(words[0])),
            };
        }
        Ok(acked)
    }
}

/// The ids of what a GETJOB or a QPEEK brought.
pub(crate) fn jobs(reply: Reply) -> Result<Vec<Vec<u8>>> {
    nth_of_each(many(reply)?, 1)
}

/// The ids of what an XREADGROUP of one stream brought.
fn entries(reply: Reply) -> Result<Vec<Vec<u8>>> {
    match many(reply)?.pop() {
        None => Ok(Vec::new()),
        Some(Reply::Many(mut stream)) if stream.len() == 2 => nth_of_each(many(stream.swap_remove(1))?, 0),
        Some(other) => bail!("a stream is {other:?}"),
    }
}

fn many(reply: Reply) -> Result<Vec<Reply>> {
    match reply {
        Reply::Many(replies) => Ok(replies),
        Reply::Nothing => Ok(Vec::new()),
        other => bail!("jobs were answered with {other:?}"),
    }
}

fn nth_of_each(replies: Vec<Reply>, index: usize) -> Result<Vec<Vec<u8>>> {
    let id = |reply| match reply {
        Reply::Many(mut parts) if parts.len() > index => match parts.swap_remove(index) {
            Reply::Text(id) => Ok(id),
            other => bail!("a job's id is {other:?}"),
        },
        other => bail!("a job is {other:?}"),
    };
    replies.into_iter().map(id).collect()
}
