//! Tasks that must finish even if their caller has gone. The node runs them and ends them when it stops.

use std::future::Future;
use std::pin::Pin;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

/// Maximum number of tasks running at once, and of tasks waiting to start.
const ERRANDS_MAX: usize = 16 * 1024;

type Errand = Pin<Box<dyn Future<Output = ()> + Send>>;

#[derive(Debug, Clone)]
pub(crate) struct Errands(mpsc::Sender<Errand>);

impl Errands {
    pub(crate) fn new() -> (Errands, Runner) {
        let (send, errands) = mpsc::channel(ERRANDS_MAX);
        (Errands(send), Runner { errands, under_way: JoinSet::new() })
    }

    /// False means too many tasks are waiting, or the node has stopped.
    pub(crate) fn run(&self, errand: impl Future<Output = ()> + Send + 'static) -> bool {
        self.0.try_send(Box::pin(errand)).is_ok()
    }
}

#[derive(Debug)]
pub(crate) struct Runner {
    errands: mpsc::Receiver<Errand>,
    under_way: JoinSet<()>,
}

impl Runner {
    /// Runs tasks until the node stops.
    pub(crate) async fn run(mut self, mut stop: watch::Receiver<bool>) {
        loop {
            let has_room = self.under_way.len() < ERRANDS_MAX;
            tokio::select! {
                Some(errand) = self.errands.recv(), if has_room => drop(self.under_way.spawn(errand)),
                Some(_) = self.under_way.join_next() => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
        }
    }
}
