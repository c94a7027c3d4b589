//! `disque getjob [nohang] [timeout MS] [count N] from QUEUE…`: takes one job, or `count` of them.

use std::time::Duration;

use clap::Args;
use punctual_core::queue::QueueName;
use punctual_wire::rest::ALSO_MAX;

use super::super::Session;
use super::super::failure::Failure;
use super::super::queue::{Getting, get};
use super::wrong;

/// Stands for "without a limit".
const LONG: Duration = Duration::from_secs(10 * 366 * 24 * 3600);

#[derive(Debug, Args)]
pub(super) struct Getjob {
    /// [nohang] [timeout MS] [count N] [withcounters] from QUEUE...
    #[arg(required = true, value_name = "WORD")]
    words: Vec<String>,
}

impl Getjob {
    pub(super) async fn run(self, session: &Session) -> Result<(), Failure> {
        get(session, &read(&self.words)?).await
    }
}

fn read(words: &[String]) -> Result<Getting, Failure> {
    let (mut wait, mut count) = (Some(LONG), 1);
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let word = word.to_ascii_lowercase();
        let mut number = || {
            let number: Option<u64> = rest.next().and_then(|value| value.parse().ok());
            number.ok_or_else(|| wrong(format!("`{word}` needs a whole number after it")))
        };
        match word.as_str() {
            "nohang" => wait = None,
            "withcounters" => {}
            "timeout" => {
                // Zero means without a limit.
                let millis = number()?;
                wait = Some(if millis == 0 { LONG } else { Duration::from_millis(millis) });
            }
            "count" => {
                let wanted = number()?;
                count = u32::try_from(wanted).unwrap_or(0);
                if !(1..=punctual_core::limits::TAKE_MAX).contains(&count) {
                    return Err(wrong(format!("`count` is 1 to {}", punctual_core::limits::TAKE_MAX)));
                }
            }
            "from" => return from(rest.as_slice(), wait, count),
            _ => return Err(wrong(format!("`getjob` does not know the word `{word}`"))),
        }
    }
    Err(wrong("`getjob` ends with `from QUEUE`".to_owned()))
}

fn from(queues: &[String], wait: Option<Duration>, count: u32) -> Result<Getting, Failure> {
    if queues.is_empty() || queues.len() > ALSO_MAX + 1 {
        return Err(wrong(format!("`from` takes 1 to {} queues", ALSO_MAX + 1)));
    }
    let name = |queue: &String| queue.parse().map_err(|error| wrong(format!("{queue}: {error}")));
    let queues = queues.iter().map(name).collect::<Result<Vec<QueueName>, Failure>>()?;
    Ok(Getting { queues, count, wait, ack: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(words: &str) -> Option<(String, u32, Option<Duration>)> {
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        let names = |queues: &[QueueName]| queues.iter().map(QueueName::as_str).collect::<Vec<_>>().join(" ");
        read(&words).ok().map(|getting| (names(&getting.queues), getting.count, getting.wait))
    }

    #[test]
    fn one_job_is_taken_unless_more_are_asked_for() {
        assert_eq!(said("from mail"), Some(("mail".to_owned(), 1, Some(LONG))));
        assert_eq!(said("NOHANG COUNT 3 FROM mail"), Some(("mail".to_owned(), 3, None)));
        assert_eq!(said("nohang from a b c"), Some(("a b c".to_owned(), 1, None)));
        let waiting = Some(Duration::from_millis(500));
        assert_eq!(said("timeout 500 withcounters from mail"), Some(("mail".to_owned(), 1, waiting)));
        for wrong in ["mail", "from", "count from mail", "count 0 from mail", "soon from mail"] {
            assert_eq!(said(wrong), None, "{wrong}");
        }
    }
}
