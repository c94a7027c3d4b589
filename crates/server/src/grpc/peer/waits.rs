//! Callers of another node that wait for messages or locks here, all on one stream.
//!
//! Requests are handled in the order in which they were sent, so the end of a wait always follows its begin.
//! When the stream ends, every wait on it ends without a message, and messages that were taken but not yet
//! sent return to their queue. A lock that was given is released likewise.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;

use futures_util::stream::{Stream, unfold};
use punctual_core::command::{Answer, Command};
use punctual_core::lock::{self, LockKey};
use punctual_core::name::Namespace;
use punctual_core::queue::{Acted, Ask, Said};
use punctual_node::Handle;
use punctual_wire::grpc::peer::{self, WAITS_MAX};
use punctual_wire::grpc::v1::{Answered, WaitRequest};
use tokio::sync::watch;
use tokio::task::{AbortHandle, Id, JoinSet};
use tonic::{Status, Streaming};
use tracing::error;

use super::told;

pub(super) type Answers = Pin<Box<dyn Stream<Item = Result<Answered, Status>> + Send>>;

type Outcome = Result<Answer, peer::Failure>;

pub(super) fn answers(
    handle: Handle,
    asks: Streaming<WaitRequest>,
    closing: watch::Receiver<bool>,
) -> Answers {
    let waits = Waits {
        handle,
        asks,
        closing,
        under_way: JoinSet::new(),
        numbers: HashMap::new(),
        places: HashMap::new(),
        ready: VecDeque::new(),
    };
    let next = |mut waits: Waits| async move { waits.next().await.map(|answered| (Ok(answered), waits)) };
    Box::pin(unfold(waits, next))
}

struct Waits {
    handle: Handle,
    asks: Streaming<WaitRequest>,
    closing: watch::Receiver<bool>,
    under_way: JoinSet<Untold>,
    /// The tasks in progress: the request's number and the consumer, if it waits.
    numbers: HashMap<Id, (i64, Option<u64>)>,
    /// The waiting tasks, by consumer.
    places: HashMap<u64, AbortHandle>,
    /// Answers to send, with the request's number. There are few: each is sent before more requests are read.
    ready: VecDeque<(i64, Untold)>,
}

/// An outcome that was not sent yet.
struct Untold {
    handle: Handle,
    /// `None` means that nothing was asked for that must be given back.
    taker: Option<Taker>,
    outcome: Outcome,
}

/// What gets back what was given to a caller that has gone.
enum Taker {
    /// The namespace of the taken messages.
    Messages(Namespace),
    Lock(LockKey, u64),
}

impl Untold {
    fn new(handle: &Handle, taker: Option<Taker>, outcome: Outcome) -> Untold {
        Untold { handle: handle.clone(), taker, outcome }
    }

    fn tell(mut self, number: i64) -> Option<Answered> {
        self.taker = None;
        let response = peer::response(&self.outcome);
        let response = response.inspect_err(|error| error!(%error, "an answer to a peer cannot be written"));
        Some(Answered { number, response: Some(response.ok()?) })
    }
}

impl Drop for Untold {
    fn drop(&mut self) {
        match (self.taker.take(), &self.outcome) {
            (Some(Taker::Messages(namespace)), Ok(Answer::Queue(Said::Taken(taken)))) => {
                self.handle.return_taken(&namespace, taken);
            }
            (Some(Taker::Lock(key, waiter)), Ok(Answer::Lock(_))) => self.handle.withdraw_lock(key, waiter),
            _ => {}
        }
    }
}

impl Waits {
    /// The next answer. `None` means that the peer is gone or that this node stops.
    async fn next(&mut self) -> Option<Answered> {
        loop {
            if let Some((number, untold)) = self.ready.pop_front() {
                if let Some(answered) = untold.tell(number) {
                    return Some(answered);
                }
                continue;
            }
            let asked = tokio::select! {
                () = closed(&mut self.closing) => return None,
                Some(done) = self.under_way.join_next_with_id() => {
                    let (id, untold) = match done {
                        Ok((id, untold)) => (id, untold),
                        // The wait was ended; messages on their way return to the queue.
                        Err(ended) => (ended.id(), self.untold(Ok(Answer::Queue(Said::Taken(Vec::new()))))),
                    };
                    self.end(id, untold);
                    continue;
                }
                asked = self.asks.message() => asked.ok()??,
            };
            self.begin(asked);
        }
    }

    fn begin(&mut self, WaitRequest { number, ask }: WaitRequest) {
        match peer::command(&ask.unwrap_or_default()) {
            Ok(Command::Queue(Ask::Unwait { waiter, .. })) => {
                let place = self.places.remove(&waiter);
                place.iter().for_each(AbortHandle::abort);
                let count = u64::from(place.is_some());
                let acted = self.untold(Ok(Answer::Queue(Said::Acted(Acted { count }))));
                self.ready.push_back((number, acted));
            }
            Ok(withdraw @ Command::Lock(lock::Ask::Withdraw { waiter, .. })) => {
                // What was answered already is withdrawn by the command itself.
                self.places.remove(&waiter).iter().for_each(AbortHandle::abort);
                self.spawn(number, withdraw, None, None);
            }
            Ok(_) if self.under_way.len() >= WAITS_MAX => {
                let message = "as many consumers wait here as may; try again".to_owned();
                let full = self.untold(Err(peer::Failure::NotLed(message)));
                self.ready.push_back((number, full));
            }
            Ok(command) => {
                let (waiter, taker) = match &command {
                    Command::Queue(Ask::Take(take)) => {
                        (take.waiter, Some(Taker::Messages(take.queue.namespace.clone())))
                    }
                    Command::Lock(lock::Ask::Acquire(acquire)) => {
                        (Some(acquire.waiter), Some(Taker::Lock(acquire.key.clone(), acquire.waiter)))
                    }
                    _ => (None, None),
                };
                self.spawn(number, command, waiter, taker);
            }
            Err(error) => {
                let strange = self.untold(Err(peer::Failure::NotLed(error.to_string())));
                self.ready.push_back((number, strange));
            }
        }
    }

    fn spawn(&mut self, number: i64, command: Command, waiter: Option<u64>, taker: Option<Taker>) {
        let handle = self.handle.clone();
        let asking = async move {
            let outcome = handle.command_here(command).await.map_err(told);
            Untold::new(&handle, taker, outcome)
        };
        let task = self.under_way.spawn(asking);
        self.numbers.insert(task.id(), (number, waiter));
        self.places.extend(waiter.map(|waiter| (waiter, task)));
    }

    fn end(&mut self, task: Id, untold: Untold) {
        let Some((number, waiter)) = self.numbers.remove(&task) else { return };
        if let Some(waiter) = waiter {
            self.places.remove(&waiter);
        }
        self.ready.push_back((number, untold));
    }

    /// An outcome without messages.
    fn untold(&self, outcome: Outcome) -> Untold {
        Untold::new(&self.handle, None, outcome)
    }
}

async fn closed(closing: &mut watch::Receiver<bool>) {
    // An error means that the sender is gone; that counts as closed too.
    drop(closing.wait_for(|closing| *closing).await);
}
