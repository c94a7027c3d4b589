//! The courier: carries notices between runs, queues and jobs, which may be led by different nodes.
//!
//! It puts the messages of attempts into their queues, withdraws them when an attempt is stopped, and tells attempts
//! what became of their message. It does the same for attempts that start the run of another job. The requests are
//! idempotent. Each is retried until it succeeds or until this node no longer leads the shard it came from: then the new
//! leader starts it again.
//!
//! Requests about one attempt run one after the other, and a withdrawal replaces a waiting delivery: no message is added
//! for a run that has ended.
//!
//! ```text
//!  request ──▶ waiting ──▶ running ──done──▶ removed
//!                 ▲           │
//!                 └── later ◀─┘ failed
//! ```

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use punctual_core::command::{Answer, Command};
use punctual_core::cross_shard::{CrossShardRequest, Exchange, Next, Subject};
use punctual_core::time::Clock;
use rustc_hash::FxHashMap;
use tokio::sync::{mpsc, watch};
use tokio::task::{Id, JoinSet};
use tokio::time::{Instant, sleep_until};
use tracing::{debug, warn};

use crate::failure::Failure;
use crate::handle::Handle;

/// Maximum number of requests running at once, enough to share commits.
const UNDER_WAY_MAX: usize = 512;
/// The pause before a failed request is retried.
const AGAIN: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Courier {
    handle: Handle,
    clock: Arc<dyn Clock>,
    requests: mpsc::UnboundedReceiver<CrossShardRequest>,
    /// Requests that have not succeeded yet.
    open: FxHashMap<Subject, Open>,
    waiting: VecDeque<Subject>,
    /// Failed requests in order of their retry time.
    later: VecDeque<(Instant, Subject)>,
    under_way: JoinSet<Outcome>,
    /// The subject of each running request.
    subjects: FxHashMap<Id, Subject>,
}

#[derive(Debug)]
struct Open {
    request: CrossShardRequest,
    is_under_way: bool,
    /// The request to run after the current one.
    next: Option<CrossShardRequest>,
}

#[derive(Debug)]
enum Outcome {
    Done,
    /// It failed, or its outcome is unknown.
    Again(String),
}

impl Courier {
    pub(crate) fn new(
        handle: Handle,
        clock: Arc<dyn Clock>,
        requests: mpsc::UnboundedReceiver<CrossShardRequest>,
    ) -> Courier {
        Courier {
            handle,
            clock,
            requests,
            open: FxHashMap::default(),
            waiting: VecDeque::new(),
            later: VecDeque::new(),
            under_way: JoinSet::new(),
            subjects: FxHashMap::default(),
        }
    }

    pub(crate) async fn run(mut self, mut stop: watch::Receiver<bool>) {
        loop {
            self.begin();
            let next = self.later.front().map(|(at, _)| *at);
            tokio::select! {
                _ = stop.wait_for(|stop| *stop) => return,
                Some(request) = self.requests.recv() => self.take(request),
                Some(ended) = self.under_way.join_next_with_id() => match ended {
                    Ok((id, outcome)) => self.ended(id, outcome),
                    Err(error) => {
                        warn!(%error, "a request between two shards ended in a panic");
                        self.ended(error.id(), Outcome::Again(error.to_string()));
                    }
                },
                () = at(next) => self.try_again(),
            }
        }
    }

    fn take(&mut self, request: CrossShardRequest) {
        let subject = request.subject();
        match self.open.get_mut(&subject) {
            None => {
                self.open.insert(subject, Open { request, is_under_way: false, next: None });
                self.waiting.push_back(subject);
            }
            // The current request is running: this one follows it, unless it adds nothing.
            Some(open) if open.is_under_way => {
                if !open.request.is_withdrawal() && (open.next.is_none() || request.is_withdrawal()) {
                    open.next = Some(request);
                }
            }
            Some(open) if request.is_withdrawal() => open.request = request,
            Some(_) => {}
        }
    }

    fn begin(&mut self) {
        while self.under_way.len() < UNDER_WAY_MAX
            && let Some(subject) = self.waiting.pop_front()
        {
            let Some(open) = self.open.get_mut(&subject) else { continue };
            open.is_under_way = true;
            let (handle, clock, request) =
                (self.handle.clone(), Arc::clone(&self.clock), open.request.clone());
            let task = self.under_way.spawn(async move { run(&handle, &*clock, request).await });
            self.subjects.insert(task.id(), subject);
        }
    }

    fn ended(&mut self, task: Id, outcome: Outcome) {
        let Some(subject) = self.subjects.remove(&task) else { return };
        let Some(open) = self.open.get_mut(&subject) else { return };
        open.is_under_way = false;
        if let Some(next) = open.next.take() {
            open.request = next;
            return self.waiting.push_back(subject);
        }
        match outcome {
            Outcome::Done => drop(self.open.remove(&subject)),
            Outcome::Again(why) => {
                debug!(?subject, why, "a request between two shards failed; retrying");
                self.later.push_back((Instant::now() + AGAIN, subject));
            }
        }
    }

    fn try_again(&mut self) {
        let now = Instant::now();
        while let Some((_, subject)) = self.later.pop_front_if(|(at, _)| *at <= now) {
            if self.handle.leads(subject.shard()) {
                self.waiting.push_back(subject);
            } else {
                self.open.remove(&subject);
            }
        }
    }
}

/// Waits until then; `None` means for ever.
async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

async fn run(handle: &Handle, clock: &dyn Clock, request: CrossShardRequest) -> Outcome {
    let mut exchange = Exchange::new(request);
    let mut next = exchange.begin(clock.now());
    loop {
        let command = match next {
            Next::Ask(command) => command,
            // Notifications are the business of the notifier.
            Next::Done | Next::Send(_) => return Outcome::Done,
            Next::Refused(refusal) => return Outcome::Again(refusal.to_string()),
            Next::Unexpected(answer) => {
                return Outcome::Again(format!(
                    "unexpected answer: {answer:?}; update all nodes to one version"
                ));
            }
        };
        let answer = match *command {
            Command::Queue(ask) => handle.queue(ask).await.map(Answer::Queue),
            command => handle.command(command).await,
        };
        next = match answer {
            Ok(answer) => exchange.heard(Ok(answer)),
            Err(Failure::Refused(refusal)) => exchange.heard(Err(refusal)),
            Err(failure) => return Outcome::Again(failure.to_string()),
        };
    }
}
