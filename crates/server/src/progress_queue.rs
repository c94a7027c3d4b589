//! Progress reports that come as messages in a queue.
//!
//! The node that leads the queue takes the messages and keeps their reports, those of one attempt in the order of the
//! queue. A message is acknowledged when its report is applied or refused for good; a checkpoint must also be stored. A
//! report that could not be decided goes back to the queue. So a message is never lost, but it may be reported twice.
//!
//! ```text
//!  take ──▶ read ──▶ note, by attempt ──▶ ack
//!   ▲         └─ refused ─────────────────▶
//!   └───────────── nack, after a pause ◀── unavailable
//! ```

use std::collections::HashMap;
use std::time::Duration;

use futures_util::future::join_all;
use punctual_core::ids::{RunId, Token};
use punctual_core::name::Namespace;
use punctual_core::progress::Progress;
use punctual_core::queue::{Delivered, MessageId, QueueKey, QueueName, Verb, Wait};
use punctual_node::Failure;
use punctual_wire::rest::{Code, Problem, QueuedProgress};
use punctual_wire::tree;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tracing::{debug, error, warn};

use crate::Endpoints;
use crate::auth::{AttemptOf, Refused};
use crate::limits::PROGRESS_MESSAGES_AT_ONCE;
use crate::reports::{Outcome, Way, keyed};
use crate::rest::problem::Failed;

/// The pause before something that failed is tried again.
const AGAIN: Duration = Duration::from_secs(1);
/// The shortest time between two log lines about refused messages.
const COMPLAIN_EVERY: Duration = Duration::from_secs(10);

/// Takes the messages of the queue while this node leads it.
#[derive(Debug)]
pub struct ProgressQueue {
    endpoints: Endpoints,
    queue: QueueKey,
    /// Whether a message needs the key of its attempt.
    needs_key: bool,
    complaints: Complaints,
}

/// The attempt that a message names. Without a token it is the newest attempt of the run.
type Named = (Option<RunId>, Option<Token>);

#[derive(Debug)]
struct Queued {
    id: MessageId,
    at_most_once: bool,
    progress: Progress,
}

impl ProgressQueue {
    /// The queue is in the namespace `default`, and takes reports for runs of all namespaces.
    pub fn new(endpoints: Endpoints, queue: QueueName, needs_key: bool) -> ProgressQueue {
        let queue = QueueKey { namespace: Namespace::default(), name: queue };
        ProgressQueue { endpoints, queue, needs_key, complaints: Complaints::default() }
    }

    /// Consumes until `stop`. The messages that are taken by then are decided first, so stop the node after this.
    pub async fn run(mut self, mut stop: watch::Receiver<bool>) {
        let Some(mut queue) = self.endpoints.handle.watch_queue(&self.queue) else {
            return error!("this node already takes progress reports from another queue");
        };
        loop {
            tokio::select! {
                _ = stop.wait_for(|stop| *stop) => return,
                () = queue.news() => {}
            }
            while queue.leads() {
                let taken = tokio::select! {
                    _ = stop.wait_for(|stop| *stop) => return,
                    taken = self.take() => taken,
                };
                match taken {
                    Ok(taken) if taken.is_empty() => break,
                    Ok(taken) => self.consume(taken).await,
                    Err(error) => {
                        debug!(%error, "progress reports could not be taken from their queue; trying again");
                        sleep(AGAIN).await;
                    }
                }
            }
        }
    }

    /// If it is dropped, what it took goes back to the queue.
    async fn take(&self) -> Result<Vec<Delivered>, Failure> {
        let queues = std::slice::from_ref(&self.queue);
        let taken = self.endpoints.handle.take(queues, PROGRESS_MESSAGES_AT_ONCE, Wait::No).await?;
        Ok(taken.into_iter().map(|(_, message)| message).collect())
    }

    async fn consume(&mut self, taken: Vec<Delivered>) {
        let mut attempts: HashMap<Named, Vec<Queued>> = HashMap::new();
        let (mut done, mut again) = (Vec::new(), Vec::new());
        for message in taken {
            let Delivered { id, at_most_once, .. } = message;
            match self.read(&message.body) {
                Ok((named, progress)) => {
                    attempts.entry(named).or_default().push(Queued { id, at_most_once, progress });
                }
                Err(failed) => {
                    self.count(&Err(failed));
                    done.push(id);
                }
            }
        }
        let reports = attempts.into_iter().map(|(named, messages)| report(&self.endpoints, named, messages));
        let results = join_all(reports).await;
        for (message, result) in results.into_iter().flatten() {
            let is_decided = self.count(&result) != Outcome::Unavailable;
            // A message with at-most-once delivery cannot go back.
            let into = if is_decided || message.at_most_once { &mut done } else { &mut again };
            into.push(message.id);
        }
        self.act(Verb::Ack, done).await;
        self.act(Verb::Nack { delay: AGAIN }, again).await;
    }

    fn read(&self, body: &[u8]) -> Result<(Named, Progress), Failed> {
        let (shown, report) = tree::from_json::<QueuedProgress>(body)?.into_core()?;
        let key = match shown {
            Some(shown) => {
                let attempt = self.endpoints.handle.attempt_keys().and_then(|keys| keys.attempt(&shown));
                let (run, token) = attempt.ok_or_else(|| Failed(Refused::WrongKey.into()))?;
                Some(AttemptOf { run, token })
            }
            None if self.needs_key => {
                let message = "is missing; write the value of PUNCTUAL_ATTEMPT_KEY";
                return Err(Failed(Problem::new(Code::Unauthenticated, message).about("attempt_key")));
            }
            None => None,
        };
        let run = report.run.or(key.map(|key| key.run));
        let token = run.map_or(Ok(None), |run| keyed(key, run, report.token))?;
        Ok(((run, token), report.progress))
    }

    fn count(&mut self, result: &Result<Outcome, Failed>) -> Outcome {
        let outcome = Outcome::of(result);
        self.endpoints.reports.count(Way::Queue, outcome);
        if let Err(Failed(problem)) = result
            && outcome != Outcome::Unavailable
        {
            self.complaints.add(&self.queue, problem);
        }
        outcome
    }

    async fn act(&self, verb: Verb, ids: Vec<MessageId>) {
        if !ids.is_empty()
            && let Err(error) = self.endpoints.handle.act(&self.queue.namespace, verb, ids).await
        {
            debug!(%error, "messages with progress reports come back after their retry time");
        }
    }
}

/// Keeps the reports of one attempt, one after the other.
async fn report(
    endpoints: &Endpoints,
    (run, token): Named,
    messages: Vec<Queued>,
) -> Vec<(Queued, Result<Outcome, Failed>)> {
    // All reports before the last checkpoint are stored with it.
    let last_checkpoint = messages.iter().rposition(|message| message.progress.checkpoint.is_some());
    let attempt = endpoints.attempt_named(None, run, token).await;
    let mut results: Vec<Result<Outcome, Failed>> = Vec::with_capacity(messages.len());
    for (place, message) in messages.iter().enumerate() {
        let result = match &attempt {
            Ok(attempt) => {
                let durable = last_checkpoint == Some(place);
                endpoints.note(attempt.clone(), message.progress.clone(), durable).await
            }
            Err(failed) => Err(failed.clone()),
        };
        let is_decided = Outcome::of(&result) != Outcome::Unavailable;
        results.push(result);
        if !is_decided {
            break;
        }
    }
    // If the last checkpoint was refused, the accepted one before it is not stored yet.
    let accepted = messages.iter().zip(&results).rposition(|(message, result)| {
        message.progress.checkpoint.is_some() && matches!(result, Ok(Outcome::Accepted))
    });
    if let (Some(place), Ok(attempt)) = (accepted.filter(|place| Some(*place) != last_checkpoint), &attempt)
        && results.len() == messages.len()
    {
        let stored = endpoints.note(attempt.clone(), messages[place].progress.clone(), true).await;
        if Outcome::of(&stored) == Outcome::Unavailable {
            results.truncate(place);
            results.push(stored);
        }
    }
    if let Some(Err(failed)) = results.last()
        && Outcome::of_problem(failed.0.code) == Outcome::Unavailable
    {
        // What was not stored, and what was not tried, is reported again.
        let failed = failed.clone();
        let tried = results.len();
        let stored = if last_checkpoint.is_some_and(|last| last + 1 >= tried) { 0 } else { tried - 1 };
        results.truncate(stored);
        results.resize_with(messages.len(), || Err(failed.clone()));
    }
    messages.into_iter().zip(results).collect()
}

/// Logs refused messages, at most one line in [`COMPLAIN_EVERY`].
#[derive(Debug, Default)]
struct Complaints {
    last: Option<Instant>,
    /// Refused messages since the last line.
    messages: u64,
}

impl Complaints {
    fn add(&mut self, queue: &QueueKey, problem: &Problem) {
        self.messages += 1;
        if self.last.is_none_or(|last| last.elapsed() >= COMPLAIN_EVERY) {
            let (messages, code) = (self.messages, problem.code.as_str());
            warn!(queue = %queue.name, messages, code, "refused messages with progress reports; the last: {problem}");
            *self = Complaints { last: Some(Instant::now()), messages: 0 };
        }
    }
}
