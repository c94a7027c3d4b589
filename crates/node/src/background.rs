//! Tasks that must finish even if their caller has gone. The node runs them and ends them when it stops.

use std::future::Future;
use std::pin::Pin;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

/// Maximum number of tasks running at once, and of tasks waiting to start.
const TASKS_MAX: usize = 16 * 1024;

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

#[derive(Debug, Clone)]
pub(crate) struct BackgroundTasks(mpsc::Sender<Task>);

impl BackgroundTasks {
    pub(crate) fn new() -> (BackgroundTasks, Runner) {
        let (send, tasks) = mpsc::channel(TASKS_MAX);
        (BackgroundTasks(send), Runner { tasks, under_way: JoinSet::new() })
    }

    /// False means too many tasks are waiting, or the node has stopped.
    pub(crate) fn run(&self, task: impl Future<Output = ()> + Send + 'static) -> bool {
        self.0.try_send(Box::pin(task)).is_ok()
    }
}

#[derive(Debug)]
pub(crate) struct Runner {
    tasks: mpsc::Receiver<Task>,
    under_way: JoinSet<()>,
}

impl Runner {
    /// Runs tasks until the node stops.
    pub(crate) async fn run(mut self, mut stop: watch::Receiver<bool>) {
        loop {
            let has_room = self.under_way.len() < TASKS_MAX;
            tokio::select! {
                Some(task) = self.tasks.recv(), if has_room => drop(self.under_way.spawn(task)),
                Some(_) = self.under_way.join_next() => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
        }
    }
}
