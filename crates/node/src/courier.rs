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
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use punctual_core::attempt::Assignment;
use punctual_core::command::{Answer, Command, RunJob};
use punctual_core::cross_shard::{CancelCall, CrossShardRequest};
use punctual_core::ids::{RunId, ShardId, made_at};
use punctual_core::queue::{Ask, EndNotice, News, QueueKey, Said, Sender, Whereabouts};
use punctual_core::task::Task;
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
    open: FxHashMap<About, Open>,
    waiting: VecDeque<About>,
    /// Failed requests in order of their retry time.
    later: VecDeque<(Instant, About)>,
    under_way: JoinSet<Outcome>,
    /// The subject of each running request.
    abouts: FxHashMap<Id, About>,
}

/// The subject of a request: at most one request per subject runs at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum About {
    Message(Sender),
    EndNotice(i64),
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
            abouts: FxHashMap::default(),
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
        let about = about(&request);
        match self.open.get_mut(&about) {
            None => {
                self.open.insert(about, Open { request, is_under_way: false, next: None });
                self.waiting.push_back(about);
            }
            // The current request is running: this one follows it, unless it adds nothing.
            Some(open) if open.is_under_way => {
                if !is_withdrawal(&open.request) && (open.next.is_none() || is_withdrawal(&request)) {
                    open.next = Some(request);
                }
            }
            Some(open) if is_withdrawal(&request) => open.request = request,
            Some(_) => {}
        }
    }

    fn begin(&mut self) {
        while self.under_way.len() < UNDER_WAY_MAX
            && let Some(about) = self.waiting.pop_front()
        {
            let Some(open) = self.open.get_mut(&about) else { continue };
            open.is_under_way = true;
            let (handle, clock, request) =
                (self.handle.clone(), Arc::clone(&self.clock), open.request.clone());
            let task = self.under_way.spawn(async move { run(&handle, &*clock, request).await });
            self.abouts.insert(task.id(), about);
        }
    }

    fn ended(&mut self, task: Id, outcome: Outcome) {
        let Some(about) = self.abouts.remove(&task) else { return };
        let Some(open) = self.open.get_mut(&about) else { return };
        open.is_under_way = false;
        if let Some(next) = open.next.take() {
            open.request = next;
            return self.waiting.push_back(about);
        }
        match outcome {
            Outcome::Done => drop(self.open.remove(&about)),
            Outcome::Again(why) => {
                debug!(?about, why, "a request between two shards failed; retrying");
                self.later.push_back((Instant::now() + AGAIN, about));
            }
        }
    }

    fn try_again(&mut self) {
        let now = Instant::now();
        while let Some((_, about)) = self.later.pop_front_if(|(at, _)| *at <= now) {
            if self.handle.leads(about.shard()) {
                self.waiting.push_back(about);
            } else {
                self.open.remove(&about);
            }
        }
    }
}

impl About {
    /// The shard that the request came from.
    fn shard(self) -> ShardId {
        match self {
            About::Message(sender) => sender.run.shard(),
            About::EndNotice(number) => RunId(number).shard(),
        }
    }
}

fn about(request: &CrossShardRequest) -> About {
    match request {
        CrossShardRequest::Deliver(assignment) => {
            About::Message(Sender { run: assignment.run, token: assignment.token })
        }
        CrossShardRequest::Call { sender, .. }
        | CrossShardRequest::CancelCall(CancelCall { sender, .. })
        | CrossShardRequest::Withdraw { sender, .. } => About::Message(*sender),
        CrossShardRequest::Tell(notice) => About::EndNotice(notice.number),
    }
}

fn is_withdrawal(request: &CrossShardRequest) -> bool {
    matches!(request, CrossShardRequest::Withdraw { .. } | CrossShardRequest::CancelCall(_))
}

/// Waits until then; `None` means for ever.
async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

async fn run(handle: &Handle, clock: &dyn Clock, request: CrossShardRequest) -> Outcome {
    let result = match request {
        CrossShardRequest::Deliver(assignment) => deliver(handle, clock, &assignment).await,
        CrossShardRequest::Withdraw { sender, queue } => withdraw(handle, sender, queue).await,
        CrossShardRequest::Call { sender, run } => call(handle, sender, *run).await,
        CrossShardRequest::CancelCall(cancel) => cancel_call(handle, cancel).await,
        CrossShardRequest::Tell(notice) => tell(handle, notice).await,
    };
    result.map_or_else(|failure| Outcome::Again(failure.to_string()), |()| Outcome::Done)
}

/// Puts the message of an attempt into its queue. If the queue refuses it, the attempt fails and its run's retry policy
/// decides.
async fn deliver(handle: &Handle, clock: &dyn Clock, assignment: &Assignment) -> Result<(), Failure> {
    let Task::Queue(task) = &assignment.definition.task else { return Ok(()) };
    let sender = Sender { run: assignment.run, token: assignment.token };
    let news = match assignment.message(task, clock.now()) {
        Err(invalid) => News::Undelivered { why: invalid.to_string().into() },
        Ok(deliver) => match handle.queue(Ask::Deliver(deliver)).await? {
            Said::Added(added) => match added.into_iter().next() {
                Some(Ok(notice)) => {
                    News::Delivered(Whereabouts::of(notice.id, notice.ttl, notice.at_most_once))
                }
                Some(Err(refusal)) => News::Undelivered { why: refusal.to_string().into() },
                // The message existed and has already ended: its notice tells the attempt.
                None => return Ok(()),
            },
            other => return Err(unexpected(&other)),
        },
    };
    inform(handle, sender, news).await
}

/// Withdraws the message of an attempt from its queue. The message's notice informs the attempt; without a message we
/// do it.
async fn withdraw(handle: &Handle, sender: Sender, queue: QueueKey) -> Result<(), Failure> {
    match handle.queue(Ask::Withdraw { queue, sender }).await? {
        Said::Acted(acted) if acted.count > 0 => Ok(()),
        Said::Acted(_) => {
            let why = "the attempt was stopped before its message was delivered".into();
            inform(handle, sender, News::Undelivered { why }).await
        }
        other => Err(unexpected(&other)),
    }
}

/// Starts the run of another job. If that is refused, the attempt fails.
async fn call(handle: &Handle, sender: Sender, run: RunJob) -> Result<(), Failure> {
    let news = match handle.command(Command::RunJob(run)).await {
        Ok(Answer::Run(run)) => News::Called { run: run.id, since: run.created_at },
        Ok(Answer::Existing(run)) => News::Called { run, since: made_at(run.0) },
        Ok(other) => return Err(unexpected(&other)),
        Err(Failure::Refused(refusal)) => News::Undelivered { why: refusal.to_string().into() },
        Err(failure) => return Err(failure),
    };
    inform(handle, sender, news).await
}

/// Cancels the run that an attempt has started. Its notice informs the attempt; without a run we do it.
async fn cancel_call(handle: &Handle, cancel: CancelCall) -> Result<(), Failure> {
    let sender = cancel.sender;
    match handle.command(Command::CancelCall(cancel)).await? {
        Answer::Existing(_) => Ok(()),
        _ => {
            let why = "the step was stopped before the run was started".into();
            inform(handle, sender, News::Undelivered { why }).await
        }
    }
}

/// Tells an attempt what its notice says, and deletes the notice once that is committed.
async fn tell(handle: &Handle, notice: EndNotice) -> Result<(), Failure> {
    inform(handle, notice.sender, notice.news).await?;
    handle.queue(Ask::Told { notice: notice.number }).await?;
    Ok(())
}

async fn inform(handle: &Handle, sender: Sender, news: News) -> Result<(), Failure> {
    handle.command(Command::Tell { sender, news }).await?;
    Ok(())
}

fn unexpected(answer: &impl fmt::Debug) -> Failure {
    Failure::Unknown(format!("unexpected answer: {answer:?}; update all nodes to one version"))
}
