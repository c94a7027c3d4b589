//! A lane: threads that own connections and work off what they are asked, in order.
//!
//! SQLite blocks, so it lives on threads of its own. What is asked for is carried out even if nobody waits for the
//! answer any more: a commit whose caller is gone is still a commit.

use std::sync::Arc;
use std::thread::{self, JoinHandle};

use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

use crate::{Error, Result};

/// Asks that may wait in a lane; beyond it the asker waits.
const QUEUE_MAX: usize = 1024;

type Work<O> = Box<dyn FnOnce(&mut O) + Send>;

pub(super) struct Lane<O> {
    name: &'static str,
    /// None: the lane is closing.
    asks: Option<mpsc::Sender<Work<O>>>,
    threads: Vec<JoinHandle<()>>,
}

impl<O: Send + 'static> Lane<O> {
    /// One thread for each owner of a connection.
    pub(super) fn start(name: &'static str, owners: Vec<O>) -> Result<Self> {
        let (asks, asked) = mpsc::channel(QUEUE_MAX);
        let asked = Arc::new(Mutex::new(asked));
        let mut lane = Lane { name, asks: Some(asks), threads: Vec::new() };
        for owner in owners {
            let asked = Arc::clone(&asked);
            let thread = thread::Builder::new().name(format!("store-{name}"));
            let thread = thread.spawn(move || work_off(owner, &asked));
            lane.threads
                .push(thread.map_err(|error| Error::Unusable(format!("cannot start a thread: {error}")))?);
        }
        Ok(lane)
    }

    pub(super) async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut O) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.ask_about((), |owner, ()| work(owner)).await
    }

    /// What is asked about is let go after the answer: freeing a large batch takes time that nobody should wait for.
    pub(super) async fn ask_about<A: Send + 'static, T: Send + 'static>(
        &self,
        about: A,
        work: impl FnOnce(&mut O, &A) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (work, answer) = packed(about, work);
        let asks = self.asks.as_ref().ok_or_else(|| self.ended())?;
        asks.send(work).await.map_err(|_| self.ended())?;
        answer.await.unwrap_or_else(|_| Err(self.broke_off()))
    }

    /// The same from a thread that may block.
    pub(super) fn ask_blocking<A: Send + 'static, T: Send + 'static>(
        &self,
        about: A,
        work: impl FnOnce(&mut O, &A) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (work, answer) = packed(about, work);
        let asks = self.asks.as_ref().ok_or_else(|| self.ended())?;
        asks.blocking_send(work).map_err(|_| self.ended())?;
        answer.blocking_recv().unwrap_or_else(|_| Err(self.broke_off()))
    }

    fn ended(&self) -> Error {
        Error::Unusable(format!("the store's {} thread has ended: restart", self.name))
    }

    /// A panic in the middle of the work: nobody can say how far it got.
    fn broke_off(&self) -> Error {
        Error::Unknown(format!("the store's {} thread broke off", self.name))
    }
}

impl<O> Drop for Lane<O> {
    /// Waits until what was asked is done and the connections are closed.
    fn drop(&mut self) {
        self.asks = None;
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so already.
            let _ = thread.join();
        }
    }
}

fn packed<O, A: Send + 'static, T: Send + 'static>(
    about: A,
    work: impl FnOnce(&mut O, &A) -> Result<T> + Send + 'static,
) -> (Work<O>, oneshot::Receiver<Result<T>>) {
    let (answer, answered) = oneshot::channel();
    let work = Box::new(move |owner: &mut O| {
        // Whoever asked may have gone away; the work is done all the same.
        let _ = answer.send(work(owner, &about));
    });
    (work, answered)
}

fn work_off<O>(mut owner: O, asked: &Mutex<mpsc::Receiver<Work<O>>>) {
    loop {
        // The lock is held while waiting: the next ask goes to whoever holds it, the others wait for the lock.
        let work = asked.lock().blocking_recv();
        match work {
            Some(work) => work(&mut owner),
            None => return,
        }
    }
}
