//! The open streams, so that shutdown can end them and wait for them.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;
use tokio::task::JoinSet;
use tonic::Status;

use super::names::Names;

/// Workers connected at once.
const SESSIONS_MAX: usize = 10_000;

#[derive(Debug)]
pub(crate) struct Sessions {
    tasks: Mutex<JoinSet<()>>,
    names: Arc<Names>,
    closing: watch::Sender<bool>,
}

impl Default for Sessions {
    fn default() -> Self {
        Sessions { tasks: Mutex::default(), names: Arc::default(), closing: watch::Sender::new(false) }
    }
}

impl Sessions {
    pub(crate) fn closing(&self) -> watch::Receiver<bool> {
        self.closing.subscribe()
    }

    /// The names of the connected workers.
    pub(super) fn names(&self) -> Arc<Names> {
        Arc::clone(&self.names)
    }

    pub(super) fn begin(&self, session: impl Future<Output = ()> + Send + 'static) -> Result<(), Status> {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        if tasks.len() >= SESSIONS_MAX {
            return Err(Status::resource_exhausted(format!(
                "this node has {SESSIONS_MAX} connected workers, the most it allows; connect to another node"
            )));
        }
        tasks.spawn(session);
        Ok(())
    }

    /// Tells every session to end.
    pub(crate) fn close(&self) {
        self.closing.send_replace(true);
    }

    /// Waits until all sessions have ended.
    pub(crate) async fn closed(&self) {
        let mut tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        while tasks.join_next().await.is_some() {}
    }
}
