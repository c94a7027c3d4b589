//! Consumers of another node that wait here: however many they are, they come on one stream.
//!
//! What they say is taken in the order in which they said it: whoever gives its place back gives back one that it has, or
//! that it has asked for and not yet got. When the stream ends, everyone who waits on it takes nothing.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;

use futures_util::stream::{Stream, unfold};
use punctual_core::command::{Answer, Command};
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
    under_way: JoinSet<Outcome>,
    /// What is under way: the number that it was asked under, and who waits, if somebody does.
    numbers: HashMap<Id, (i64, Option<u64>)>,
    /// By who waits.
    places: HashMap<u64, AbortHandle>,
    /// Answers that nobody had to be asked for.
    ready: VecDeque<Answered>,
}

impl Waits {
    /// The next answer; none: the other side has gone, or this node stops.
    async fn next(&mut self) -> Option<Answered> {
        loop {
            if let Some(answered) = self.ready.pop_front() {
                return Some(answered);
            }
            let has_room = self.under_way.len() < WAITS_MAX;
            let asked = tokio::select! {
                () = closed(&mut self.closing) => return None,
                Some(done) = self.under_way.join_next_with_id() => {
                    let (id, outcome) = match done {
                        Ok((id, outcome)) => (id, outcome),
                        // The place was given back: what was on its way goes back to the line.
                        Err(ended) => (ended.id(), Ok(Answer::Queue(Said::Taken(Vec::new())))),
                    };
                    self.end(id, &outcome);
                    continue;
                }
                asked = self.asks.message(), if has_room => asked.ok()??,
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
                self.ready.extend(answered(number, &Ok(Answer::Queue(Said::Acted(Acted { count })))));
            }
            Ok(command) => {
                let waiter = match &command {
                    Command::Queue(Ask::Take(take)) => take.waiter,
                    _ => None,
                };
                let handle = self.handle.clone();
                let asking = async move { handle.command_here(command).await.map_err(told) };
                let task = self.under_way.spawn(asking);
                self.numbers.insert(task.id(), (number, waiter));
                self.places.extend(waiter.map(|waiter| (waiter, task)));
            }
            Err(error) => {
                self.ready.extend(answered(number, &Err(peer::Failure::NotLed(error.to_string()))));
            }
        }
    }

    fn end(&mut self, task: Id, outcome: &Outcome) {
        let Some((number, waiter)) = self.numbers.remove(&task) else { return };
        if let Some(waiter) = waiter {
            self.places.remove(&waiter);
        }
        self.ready.extend(answered(number, outcome));
    }
}

fn answered(number: i64, outcome: &Outcome) -> Option<Answered> {
    let response = peer::response(outcome);
    let response = response.inspect_err(|error| error!(%error, "an answer to a peer cannot be written"));
    Some(Answered { number, response: Some(response.ok()?) })
}

async fn closed(closing: &mut watch::Receiver<bool>) {
    // An error means that nobody is left to say so, which comes to the same.
    drop(closing.wait_for(|closing| *closing).await);
}
