//! Consumers of another node that wait here: however many they are, they come on one stream.
//!
//! When the stream ends, everyone who waits on it takes nothing.

use std::pin::Pin;

use futures_util::stream::{Stream, unfold};
use punctual_node::Handle;
use punctual_wire::grpc::peer::{self, WAITS_MAX};
use punctual_wire::grpc::v1::{Answered, WaitRequest};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tonic::{Status, Streaming};
use tracing::error;

use super::told;

pub(super) type Answers = Pin<Box<dyn Stream<Item = Result<Answered, Status>> + Send>>;

pub(super) fn answers(
    handle: Handle,
    asks: Streaming<WaitRequest>,
    closing: watch::Receiver<bool>,
) -> Answers {
    let waits = Waits { handle, asks, closing, under_way: JoinSet::new() };
    Box::pin(unfold(
        waits,
        |mut waits| async move { waits.next().await.map(|answered| (Ok(answered), waits)) },
    ))
}

struct Waits {
    handle: Handle,
    asks: Streaming<WaitRequest>,
    closing: watch::Receiver<bool>,
    under_way: JoinSet<Answered>,
}

impl Waits {
    /// The next answer; none: the other side has gone, or this node stops.
    async fn next(&mut self) -> Option<Answered> {
        loop {
            let has_room = self.under_way.len() < WAITS_MAX;
            let asked = tokio::select! {
                () = closed(&mut self.closing) => return None,
                Some(done) = self.under_way.join_next() => match done {
                    Ok(answered) => return Some(answered),
                    Err(error) => {
                        error!(%error, "what a consumer of a peer asked was not brought to its end");
                        continue;
                    }
                },
                asked = self.asks.message(), if has_room => asked.ok()??,
            };
            self.begin(asked);
        }
    }

    fn begin(&mut self, WaitRequest { number, ask }: WaitRequest) {
        let handle = self.handle.clone();
        self.under_way.spawn(async move {
            let result = match peer::command(&ask.unwrap_or_default()) {
                Ok(command) => handle.command_here(command).await.map_err(told),
                Err(error) => Err(peer::Failure::NotLed(error.to_string())),
            };
            let response = peer::response(&result)
                .map_err(|error| error!(%error, "an answer to a peer cannot be written"))
                .ok();
            Answered { number, response }
        });
    }
}

async fn closed(closing: &mut watch::Receiver<bool>) {
    // An error means that nobody is left to say so, which comes to the same.
    drop(closing.wait_for(|closing| *closing).await);
}
