//! `disque addjob QUEUE [BODY] TIMEOUT [word…]`.
//!
//! The store replicates, and a job is durable when its id is printed: `replicate`, `nocache` and `async` are
//! accepted and have no effect.

use std::time::Duration;

use clap::Args;
use punctual_core::queue::QueueName;
use punctual_wire::rest::AddMessage;
use punctual_wire::text::Span;

use super::super::Session;
use super::super::failure::Failure;
use super::super::queue::{add, read_body};
use super::wrong;

#[derive(Debug, Args)]
pub(super) struct Addjob {
    queue: QueueName,
    /// [BODY] TIMEOUT [replicate N] [delay S] [retry S] [ttl S] [maxlen N] [priority N] [nocache] [async] [asynckey KEY]
    #[arg(required = true, trailing_var_arg = true, value_name = "WORD")]
    words: Vec<String>,
}

/// The body and the options. `None` means that the body is on stdin.
type Said = (Option<String>, AddMessage);

impl Addjob {
    pub(super) async fn run(self, session: &Session) -> Result<(), Failure> {
        let (body, options) = read(&self.words)?;
        let body = match body {
            Some(body) => body.into_bytes(),
            None => read_body(false)?,
        };
        let AddMessage { body, body_base64, .. } = AddMessage::of(&body);
        add(session, self.queue.as_str(), &AddMessage { body, body_base64, ..options }).await
    }
}

fn read(words: &[String]) -> Result<Said, Failure> {
    // Options never begin with a number: of two numbers the first is the body.
    let is_number = |at: usize| words.get(at).is_some_and(|word| word.parse::<u64>().is_ok());
    let (body, mut rest) = match (is_number(0), is_number(1)) {
        (_, true) => (words.first().cloned(), words[2..].iter().peekable()),
        (true, false) => (None, words[1..].iter().peekable()),
        (false, false) => return Err(wrong("a timeout in milliseconds comes after the queue".to_owned())),
    };
    let mut message = AddMessage::default();
    while let Some(word) = rest.next() {
        let word = word.to_ascii_lowercase();
        match word.as_str() {
            "async" | "nocache" => {}
            "replicate" => {
                // The number of replicas is up to the store.
                let _ = rest.next_if(|next| next.parse::<u64>().is_ok());
            }
            "delay" => message.delay = Some(seconds(&word, rest.next())?),
            "retry" => message.retry = Some(seconds(&word, rest.next())?),
            "ttl" => message.ttl = Some(seconds(&word, rest.next())?),
            "maxlen" => message.max_len = Some(number(&word, rest.next())?),
            "priority" => {
                let priority = u8::try_from(number(&word, rest.next())?);
                message.priority = Some(priority.map_err(|_| wrong("priority is 0 to 9".to_owned()))?);
            }
            "asynckey" | "unique" => {
                let key = rest.next().ok_or_else(|| wrong(format!("`{word}` needs a key after it")))?;
                message.key = Some(key.clone());
            }
            _ => return Err(wrong(format!("`addjob` does not know the word `{word}`"))),
        }
    }
    Ok((body, message))
}

fn seconds(word: &str, value: Option<&String>) -> Result<Span, Failure> {
    number(word, value).map(|seconds| Span(Duration::from_secs(seconds)))
}

fn number(word: &str, value: Option<&String>) -> Result<u64, Failure> {
    let number = value.and_then(|value| value.parse().ok());
    number.ok_or_else(|| wrong(format!("`{word}` needs a whole number after it")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(words: &str) -> Option<Said> {
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        read(&words).ok()
    }

    #[test]
    fn the_body_comes_from_stdin_unless_it_stands_before_the_timeout() {
        assert_eq!(said("5000").unwrap().0, None);
        assert_eq!(said("5000 replicate 3").unwrap().0, None);
        assert_eq!(said("hello 0").unwrap().0.as_deref(), Some("hello"));
        assert_eq!(said("17 0 async").unwrap().0.as_deref(), Some("17"));
        assert!(said("hello").is_none(), "there is no timeout");
    }

    #[test]
    fn words_may_be_bare_and_in_capitals() {
        let bare = said("5000 replicate nocache async").unwrap().1;
        assert_eq!(bare, AddMessage::default());
        let (_, all) =
            said("5000 REPLICATE 1 DELAY 30 RETRY 0 TTL 600 MAXLEN 9 PRIORITY 7 ASYNCKEY k").unwrap();
        assert_eq!(all.delay, Some(Span(Duration::from_secs(30))));
        assert_eq!((all.retry, all.max_len), (Some(Span(Duration::ZERO)), Some(9)));
        assert_eq!((all.priority, all.key.as_deref()), (Some(7), Some("k")));
        for wrong in ["5000 delay", "5000 delay soon", "5000 asynckey", "5000 fast", "5000 priority 300"] {
            assert!(said(wrong).is_none(), "{wrong}");
        }
    }
}
