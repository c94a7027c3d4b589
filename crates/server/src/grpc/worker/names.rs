//! The names of the workers connected to this node: two live workers never share one.
//!
//! A worker that restarts is a new life of its name, and everything assigned to the earlier life is lost
//! (decision 002). So a second worker with the same name would end the attempts of the first. Before a new
//! worker takes a name in use, the connected worker is asked whether it is alive. If it answers, the new
//! worker is refused. If its stream ends, or if it is silent for a lease, the new worker takes its name.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use punctual_core::ids::WorkerId;
use tokio::sync::watch;
use tokio::time::timeout;
use tonic::Status;
use tracing::warn;

/// The name of the worker inside a node's process.
const LOCAL: &str = "local";

#[derive(Debug, Default)]
pub(super) struct Names(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    connected: HashMap<String, Connected>,
    /// Numbers streams and questions.
    count: u64,
}

#[derive(Debug)]
struct Connected {
    worker: WorkerId,
    /// The number of the worker's stream.
    stream: u64,
    asks: watch::Sender<Option<Asked>>,
    answers: watch::Receiver<u64>,
}

/// What a stream is asked because another worker wants its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// Whether its worker is alive; the worker repeats the number.
    DoYouLive(u64),
    /// To end: another worker has the name now.
    Leave,
}

/// A name that a stream has taken; released on drop.
#[derive(Debug)]
pub(super) struct Taken {
    names: Arc<Names>,
    name: String,
    stream: u64,
    asks: watch::Receiver<Option<Asked>>,
    answers: watch::Sender<u64>,
}

impl Names {
    /// Takes the name of a worker, once no other live worker has it.
    pub(super) async fn take(self: &Arc<Self>, worker: &WorkerId, lease: Duration) -> Result<Taken, Status> {
        if worker.name() == LOCAL {
            let why =
                format!("the name `{LOCAL}` is that of the worker inside a node; choose another with --name");
            return Err(Status::failed_precondition(why));
        }
        loop {
            let (ask, stream, mut answers) = match self.take_or_ask(worker) {
                Ok(taken) => return Ok(taken),
                Err(asked) => asked,
            };
            match timeout(lease, answers.wait_for(|answer| *answer >= ask)).await {
                Ok(Ok(_)) => return Err(taken(worker)),
                // Its stream has ended.
                Ok(Err(_)) => {}
                Err(_) => self.evict(worker.name(), stream),
            }
        }
    }

    /// Takes a free name. If it is in use, asks its worker whether it is alive, and returns the number of the
    /// question, the stream, and where the answer appears.
    fn take_or_ask(self: &Arc<Self>, worker: &WorkerId) -> Result<Taken, (u64, u64, watch::Receiver<u64>)> {
        let mut table = self.lock();
        table.count += 1;
        let number = table.count;
        // The same worker on another stream: its node drops the older stream.
        if let Some(other) = table.connected.get(worker.name()).filter(|other| other.worker != *worker) {
            other.asks.send_replace(Some(Asked::DoYouLive(number)));
            return Err((number, other.stream, other.answers.clone()));
        }
        let (asks_in, asks) = watch::channel(None);
        let (answers, answers_out) = watch::channel(0);
        let connected =
            Connected { worker: worker.clone(), stream: number, asks: asks_in, answers: answers_out };
        let name = worker.name().to_owned();
        table.connected.insert(name.clone(), connected);
        drop(table);
        Ok(Taken { names: Arc::clone(self), name, stream: number, asks, answers })
    }

    /// Ends a stream whose worker does not answer.
    fn evict(&self, name: &str, stream: u64) {
        let mut table = self.lock();
        if table.connected.get(name).is_some_and(|other| other.stream == stream)
            && let Some(other) = table.connected.remove(name)
        {
            warn!(worker = %other.worker, "a worker has not answered for a lease; another of its name takes its place");
            other.asks.send_replace(Some(Asked::Leave));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        // No code panics while it holds this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taken {
    /// Waits for the next question to this stream.
    pub(super) async fn asked(&mut self) -> Asked {
        while self.asks.changed().await.is_ok() {
            if let Some(asked) = *self.asks.borrow_and_update() {
                return asked;
            }
        }
        // Another stream of the same worker has replaced this one; the node ends it.
        std::future::pending().await
    }

    /// Records that the worker answered.
    pub(super) fn answered(&self, answer: u64) {
        if answer > 0 {
            self.answers.send_replace(answer);
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let mut table = self.names.lock();
        if table.connected.get(&self.name).is_some_and(|other| other.stream == self.stream) {
            table.connected.remove(&self.name);
        }
    }
}

fn taken(worker: &WorkerId) -> Status {
    let name = worker.name();
    warn!(worker = name, "a second worker wants a name that is in use, and is refused");
    Status::failed_precondition(format!(
        "a worker named `{name}` is connected already; give this one another name with --name, \
         or stop the other one first"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(15);

    fn worker(life: u64) -> WorkerId {
        WorkerId::new("w", life)
    }

    #[tokio::test]
    async fn a_name_is_refused_while_its_worker_answers() {
        let names = Arc::new(Names::default());
        let mut first = names.take(&worker(1), LEASE).await.unwrap();
        let answers = async {
            let Asked::DoYouLive(ask) = first.asked().await else { panic!("it was sent away") };
            first.answered(ask);
        };
        let other = worker(2);
        let (refused, ()) = tokio::join!(names.take(&other, LEASE), answers);
        let refused = refused.unwrap_err();
        assert!(refused.message().contains("`w`") && refused.message().contains("--name"), "{refused}");
        drop(first);
        names.take(&worker(2), LEASE).await.unwrap();
    }

    #[tokio::test]
    async fn a_name_is_free_when_its_stream_ends_while_it_is_asked() {
        let names = Arc::new(Names::default());
        let mut first = names.take(&worker(1), LEASE).await.unwrap();
        let ends = async {
            first.asked().await;
            drop(first);
        };
        let other = worker(2);
        let (taken, ()) = tokio::join!(names.take(&other, LEASE), ends);
        assert!(taken.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_worker_that_says_nothing_for_a_lease_loses_its_name() {
        let names = Arc::new(Names::default());
        let mut first = names.take(&worker(1), LEASE).await.unwrap();
        let second = names.take(&worker(2), LEASE).await.unwrap();
        assert_eq!(first.asked().await, Asked::Leave);
        // The end of the first stream does not free the name of the second.
        drop(first);
        assert!(names.lock().connected.contains_key("w"));
        drop(second);
        assert!(names.lock().connected.is_empty());
    }

    #[tokio::test]
    async fn one_worker_may_come_by_a_second_stream() {
        let names = Arc::new(Names::default());
        let first = names.take(&worker(1), LEASE).await.unwrap();
        let second = names.take(&worker(1), LEASE).await.unwrap();
        drop(first);
        assert!(names.lock().connected.contains_key("w"));
        drop(second);
    }

    #[tokio::test]
    async fn the_name_of_a_nodes_own_worker_is_refused() {
        let refused = Arc::new(Names::default()).take(&WorkerId::new(LOCAL, 1), LEASE).await.unwrap_err();
        assert!(refused.message().contains("--name"), "{refused}");
    }
}
