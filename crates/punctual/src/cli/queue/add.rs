//! `punctual queue add`: the body from stdin or from an option.

use std::io::{self, BufRead, IsTerminal, Read};
use std::time::Duration;

use clap::Args;
use punctual_core::limits::MESSAGE_BYTES_MAX;
use punctual_core::queue::QueueName;
use punctual_wire::rest::{AddMessage, MESSAGES_MAX};
use punctual_wire::text::Span;

use super::super::Session;
use super::super::failure::{Exit, Failure};
use super::super::output::print;
use super::super::time::duration;

/// Bytes of messages in one request: well below the server's limit.
const REQUEST_BYTES_MAX: usize = 512 * 1024;

#[derive(Debug, Args)]
pub(crate) struct Adding {
    queue: QueueName,
    /// The body [default: read from stdin]
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["lines", "exact"])]
    body: Option<String>,
    /// Add one message for each line of stdin
    #[arg(long, conflicts_with = "exact")]
    lines: bool,
    /// Keep the line end at the end of stdin
    #[arg(long)]
    exact: bool,
    /// It is delivered after this at the earliest
    #[arg(long, value_name = "SPAN", value_parser = duration)]
    delay: Option<Duration>,
    /// Redeliver it if it is not acknowledged after this; 0s means at most one delivery [default: 5m]
    #[arg(long, value_name = "SPAN", value_parser = duration)]
    retry: Option<Duration>,
    /// Delete it after this, acknowledged or not [default: 1d]
    #[arg(long, value_name = "SPAN", value_parser = duration)]
    ttl: Option<Duration>,
    /// 0 to 9; 9 is delivered first [default: 5]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u8).range(0..=9))]
    priority: Option<u8>,
    /// Refuse the message if this many are queued already
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    max_len: Option<u64>,
    /// If a message with this key exists, print its id and add nothing
    #[arg(long, value_name = "KEY", conflicts_with = "lines")]
    key: Option<String>,
}

impl Adding {
    pub(super) async fn run(self, session: &Session) -> Result<(), Failure> {
        if self.lines {
            return self.add_lines(session).await;
        }
        let body = match &self.body {
            Some(body) => body.clone().into_bytes(),
            None => read_body(self.exact)?,
        };
        add(session, self.queue.as_str(), &self.message(&body)).await
    }

    fn message(&self, body: &[u8]) -> AddMessage {
        AddMessage {
            delay: self.delay.map(Span),
            retry: self.retry.map(Span),
            ttl: self.ttl.map(Span),
            priority: self.priority,
            max_len: self.max_len,
            key: self.key.clone(),
            ..AddMessage::of(body)
        }
    }

    /// Sends lines in several requests, so that any number of lines needs little memory.
    async fn add_lines(self, session: &Session) -> Result<(), Failure> {
        let mut stdin = io::stdin().lock();
        let (mut messages, mut bytes, mut added) = (Vec::new(), 0, 0_u64);
        loop {
            let line = read_line(&mut stdin)?;
            let is_last = line.is_none();
            if let Some(line) = line {
                bytes += line.len();
                messages.push(self.message(&line));
            }
            if messages.len() == MESSAGES_MAX
                || bytes >= REQUEST_BYTES_MAX
                || (is_last && !messages.is_empty())
            {
                added += self.add_some(session, std::mem::take(&mut messages)).await?;
                bytes = 0;
            }
            if is_last {
                break;
            }
        }
        eprintln!("added {added} messages");
        Ok(())
    }

    async fn add_some(&self, session: &Session, messages: Vec<AddMessage>) -> Result<u64, Failure> {
        let answer = session.client.add_messages(&session.namespace, self.queue.as_str(), messages).await?;
        let ids: Vec<&str> = answer.items.iter().filter_map(|one| one.id.as_deref()).collect();
        print(&ids.join("\n"))?;
        match answer.items.iter().find_map(|one| one.problem.as_ref()) {
            Some(problem) => Err(Failure::new(Exit::Refused, problem).hint("the ids printed were added")),
            None => Ok(u64::try_from(ids.len()).unwrap_or(u64::MAX)),
        }
    }
}

/// Adds a message and prints its id.
pub(crate) async fn add(session: &Session, queue: &str, message: &AddMessage) -> Result<(), Failure> {
    let added = session.client.add_message(&session.namespace, queue, message).await?;
    session.output.show(&added, |_| added.id.clone())
}

/// Reads stdin; without `exact`, removes the line end that echo adds.
pub(crate) fn read_body(exact: bool) -> Result<Vec<u8>, Failure> {
    if io::stdin().is_terminal() {
        eprintln!("hint: type the body, then Ctrl-D; or use --body TEXT");
    }
    let mut body = Vec::new();
    let most = u64::try_from(MESSAGE_BYTES_MAX).unwrap_or(u64::MAX);
    io::stdin().lock().take(most + 2).read_to_end(&mut body).map_err(Failure::io)?;
    if !exact {
        strip_line_end(&mut body);
    }
    check_length(&body)?;
    Ok(body)
}

fn read_line(from: &mut impl BufRead) -> Result<Option<Vec<u8>>, Failure> {
    let mut line = Vec::new();
    let most = u64::try_from(MESSAGE_BYTES_MAX).unwrap_or(u64::MAX);
    let read = from.take(most + 2).read_until(b'\n', &mut line).map_err(Failure::io)?;
    strip_line_end(&mut line);
    check_length(&line)?;
    Ok((read > 0).then_some(line))
}

fn check_length(body: &[u8]) -> Result<(), Failure> {
    if body.len() > MESSAGE_BYTES_MAX {
        return Err(Failure::new(Exit::Refused, format!("a message has at most {MESSAGE_BYTES_MAX} bytes"))
            .hint("store larger data elsewhere, and send its address"));
    }
    Ok(())
}

fn strip_line_end(body: &mut Vec<u8>) {
    if body.last() == Some(&b'\n') {
        body.pop();
        if body.last() == Some(&b'\r') {
            body.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_end_of_echo_is_not_part_of_the_body() {
        for (given, kept) in
            [("a\n", "a"), ("a\r\n", "a"), ("a", "a"), ("a\n\n", "a\n"), ("\n", ""), ("", "")]
        {
            let mut body = given.as_bytes().to_vec();
            strip_line_end(&mut body);
            assert_eq!(body, kept.as_bytes(), "{given:?}");
        }
    }

    #[test]
    fn lines_are_messages_and_the_last_needs_no_end() {
        let mut text = io::Cursor::new("one\n\ntwo");
        let mut lines = Vec::new();
        while let Ok(Some(line)) = read_line(&mut text) {
            lines.push(line);
        }
        assert_eq!(lines, [b"one".to_vec(), b"".to_vec(), b"two".to_vec()]);
        let mut long = io::Cursor::new("x".repeat(MESSAGE_BYTES_MAX + 5));
        assert!(read_line(&mut long).is_err(), "what is too long is not cut in two");
    }
}
