//! A consumer that waits at a queue of another node.
//!
//! It is an errand: whoever asked may go away at any moment, and then what the leader gave meanwhile has to go back.

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
use crate::handle::{Failure, Handle};
use crate::leaders::{Leader, changed};

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
            // The take first: what gives a place back must not overtake what asks for it.
            biased;
            said = &mut taking => said,
            () = sleep(left.unwrap_or(POLL + AGAIN)) => self.give_up(taking).await,
            () = reply.closed() => self.give_up(taking).await,
            () = self.moved() => {
                // Nobody is kept waiting by the leader of yesterday; what it gave meanwhile goes back.
                drop(reply.send(Err(Failure::NotLed("another node leads the queue now".to_owned()))));
                drop(self.hand(self.give_up(taking).await));
                return;
            }
        };
        // If nobody listens any more, what was taken goes back.
        drop(reply.send(self.hand(said)));
    }

    /// Takes the place back. What was given before is the answer all the same.
    async fn give_up(
        &self,
        mut taking: Pin<&mut impl Future<Output = Result<Said, Failure>>>,
    ) -> Result<Said, Failure> {
        let patience = self.handle.patience;
        let unwait = Ask::Unwait { queue: self.queue.clone(), waiter: self.waiter };
        let mut unwait = pin!(self.ask(unwait, patience));
        let mut is_told = false;
        // The take may still wait to be sent: it is looked at first, so that it goes first. That its end is told need
        // not arrive: the other side does not wait for ever either.
        let said = poll_fn(|cx| {
            if let Poll::Ready(said) = taking.as_mut().poll(cx) {
                return Poll::Ready(said);
            }
            is_told = is_told || unwait.as_mut().poll(cx).is_ready();
            Poll::Pending
        });
        let lost = || Failure::Unknown("the node that leads its shard did not answer in time".to_owned());
        timeout(patience, said).await.unwrap_or_else(|_| Err(lost()))
    }

    async fn ask(&self, ask: Ask, deadline: Duration) -> Result<Said, Failure> {
        said(self.handle.peers.ask(&self.address, &Command::Queue(ask), deadline).await?)
    }

    fn hand(&self, said: Result<Said, Failure>) -> Result<Hand, Failure> {
        self.handle.hand(&self.queue, said?)
    }

    /// Returns when somebody else leads the queue.
    async fn moved(&self) {
        let shard = self.queue.shard(self.handle.store.shards());
        let mut leaders = self.handle.leaders.clone();
        while matches!(leaders.borrow_and_update().of(shard), Leader::At(address) if *address == self.address)
        {
            changed(&mut leaders).await;
        }
    }
}
