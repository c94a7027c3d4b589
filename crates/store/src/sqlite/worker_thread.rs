//! Threads that own connections and process requests in order.
//!
//! SQLite blocks, so it runs on threads of its own. A request is carried out even if its caller no longer waits for the
//! answer: a commit whose caller is gone is still a commit.

use std::sync::Arc;
use std::thread::{self, JoinHandle};

use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

use crate::{Error, Result};

/// Requests that may wait; when there are more, callers wait (backpressure).
const QUEUE_MAX: usize = 1024;

type Work<O> = Box<dyn FnOnce(&mut O) + Send>;

pub(super) struct Threads<O> {
    name: &'static str,
    /// `None` means the threads are ending.
    asks: Option<mpsc::Sender<Work<O>>>,
    threads: Vec<JoinHandle<()>>,
}

impl<O: Send + 'static> Threads<O> {
    /// Starts one thread for each owner of a connection.
    pub(super) fn start(name: &'static str, owners: Vec<O>) -> Result<Self> {
        let (asks, asked) = mpsc::channel(QUEUE_MAX);
        let asked = Arc::new(Mutex::new(asked));
        let mut all = Threads { name, asks: Some(asks), threads: Vec::new() };
        for owner in owners {
            let asked = Arc::clone(&asked);
            let thread = thread::Builder::new().name(format!("store-{name}"));
            let thread = thread.spawn(move || work_off(owner, &asked));
            all.threads
                .push(thread.map_err(|error| Error::Unusable(format!("cannot start a thread: {error}")))?);
        }
        Ok(all)
    }

    pub(super) async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut O) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.ask_about((), |owner, ()| work(owner)).await
    }

    /// `about` is dropped after the answer is sent: freeing a large batch takes time, and the caller need not wait for
    /// it.
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

    /// Like `ask_about`, for a thread that may block.
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

    /// The thread panicked during the work: how far it got is unknown.
    fn broke_off(&self) -> Error {
        Error::Unknown(format!("the store's {} thread broke off", self.name))
    }
}

impl<O> Drop for Threads<O> {
    /// Waits until all requests are done and the connections are closed.
    fn drop(&mut self) {
        self.asks = None;
        for thread in self.threads.drain(..) {
            // A panic has been reported already.
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
        // The caller may have gone away; the work is done anyway.
        let _ = answer.send(work(owner, &about));
    });
    (work, answered)
}

fn work_off<O>(mut owner: O, asked: &Mutex<mpsc::Receiver<Work<O>>>) {
    loop {
        // The lock is held while waiting: its holder gets the next request, the other threads wait for the lock.
        let work = asked.lock().blocking_recv();
        match work {
            Some(work) => work(&mut owner),
            None => return,
        }
    }
}
