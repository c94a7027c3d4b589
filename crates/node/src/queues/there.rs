//! A consumer that waits on a queue of another node.
//!
//! It runs as a task of the node: the caller may go at any moment, and then messages that the leader already gave must
//! be returned.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use punctual_core::command::Command;
use punctual_core::queue::{Ask, QueueKey, Said, Take};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use super::{AGAIN, Hand, POLL, said};
use crate::failure::Failure;
use crate::handle::Handle;
use crate::leaders::{Leader, moved};

pub(super) struct There {
    pub(super) handle: Handle,
    pub(super) queue: QueueKey,
    pub(super) address: Arc<str>,
    pub(super) waiter: u64,
}

impl There {
    pub(super) async fn wait(
        self,
        count: u32,
        left: Option<Duration>,
        mut reply: oneshot::Sender<Result<Hand, Failure>>,
    ) {
        if reply.is_closed() {
            return;
        }
        let take = Take { queue: self.queue.clone(), count, waiter: Some(self.waiter) };
        let mut taking = pin!(self.ask(Ask::Take(take), POLL + self.handle.patience));
        let said = tokio::select! {
            // Poll the take first: its removal must not overtake it.
            biased;
            said = &mut taking => said,
            () = sleep(left.unwrap_or(POLL + AGAIN)) => self.give_up(taking).await,
            () = reply.closed() => self.give_up(taking).await,
            () = self.moved() => {
                // The leader has changed: release the caller; messages that the former leader gave are returned.
                drop(reply.send(Err(Failure::NotLed("another node leads it now; try again".to_owned()))));
                drop(self.hand(self.give_up(taking).await));
                return;
            }
        };
        // If the caller has gone, the messages are returned.
        drop(reply.send(self.hand(said)));
    }

    /// Removes the waiter. Messages given before that are still the answer.
    async fn give_up(
        &self,
        mut taking: Pin<&mut impl Future<Output = Result<Said, Failure>>>,
    ) -> Result<Said, Failure> {
        let patience = self.handle.patience;
        let unwait = Ask::Unwait { queue: self.queue.clone(), waiter: self.waiter };
        let mut unwait = pin!(self.ask(unwait, patience));
        let mut is_told = false;
        // Poll the take first, so that it is sent first. The removal may get lost: the other node limits the wait, too.
        let said = poll_fn(|cx| {
            if let Poll::Ready(said) = taking.as_mut().poll(cx) {
                return Poll::Ready(said);
            }
            is_told = is_told || unwait.as_mut().poll(cx).is_ready();
            Poll::Pending
        });
        let lost = || {
            Failure::Unknown(
                "the node that leads its shard did not answer in time; check before you try again".to_owned(),
            )
        };
        timeout(patience, said).await.unwrap_or_else(|_| Err(lost()))
    }

    async fn ask(&self, ask: Ask, deadline: Duration) -> Result<Said, Failure> {
        said(self.handle.peers.ask(&self.address, &Command::Queue(ask), deadline).await?)
    }

    fn hand(&self, said: Result<Said, Failure>) -> Result<Hand, Failure> {
        self.handle.hand(&self.queue, said?)
    }

    /// Returns when another node leads the queue.
    async fn moved(&self) {
        let shard = self.queue.shard(self.handle.store.shards());
        moved(self.handle.leaders.clone(), shard, &Leader::At(Arc::clone(&self.address))).await;
    }
}
