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

/// A thread; when this is dropped, it waits until the thread has ended.
pub(super) struct Thread(Option<JoinHandle<()>>);

impl Thread {
    pub(super) fn start(name: &str, work: impl FnOnce() + Send + 'static) -> Result<Thread> {
        let started = thread::Builder::new().name(format!("store-{name}")).spawn(work);
        let thread = started.map_err(|error| Error::Unusable(format!("cannot start a thread: {error}")))?;
        Ok(Thread(Some(thread)))
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        if let Some(thread) = self.0.take() {
            // A panic has been reported already.
            let _ = thread.join();
        }
    }
}

/// Field order is drop order: the channel closes first, then the threads do what is left and end.
pub(super) struct Threads<O> {
    name: &'static str,
    asks: mpsc::Sender<Work<O>>,
    threads: Vec<Thread>,
}

impl<O: Send + 'static> Threads<O> {
    /// Starts one thread for each owner of a connection.
    pub(super) fn start(name: &'static str, owners: Vec<O>) -> Result<Self> {
        let (asks, asked) = mpsc::channel(QUEUE_MAX);
        let asked = Arc::new(Mutex::new(asked));
        let mut all = Threads { name, asks, threads: Vec::new() };
        for owner in owners {
            let asked = Arc::clone(&asked);
            all.threads.push(Thread::start(name, move || run_requests(owner, &asked))?);
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
        let (work, answer) = request(about, work);
        self.asks.send(work).await.map_err(|_| self.ended())?;
        answer.await.unwrap_or_else(|_| Err(self.panicked()))
    }

    /// Like `ask_about`, for a thread that may block.
    pub(super) fn ask_blocking<A: Send + 'static, T: Send + 'static>(
        &self,
        about: A,
        work: impl FnOnce(&mut O, &A) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (work, answer) = request(about, work);
        self.asks.blocking_send(work).map_err(|_| self.ended())?;
        answer.blocking_recv().unwrap_or_else(|_| Err(self.panicked()))
    }

    fn ended(&self) -> Error {
        Error::Unusable(format!("the store's {} thread has ended: restart", self.name))
    }

    /// The thread panicked during the work: how far it got is unknown.
    fn panicked(&self) -> Error {
        Error::Unknown(format!("the store's {} thread panicked", self.name))
    }
}

fn request<O, A: Send + 'static, T: Send + 'static>(
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

fn run_requests<O>(mut owner: O, asked: &Mutex<mpsc::Receiver<Work<O>>>) {
    loop {
        // The lock is held while waiting: its holder gets the next request, the other threads wait for the lock.
        let work = asked.lock().blocking_recv();
        match work {
            Some(work) => work(&mut owner),
            None => return,
        }
    }
}
