//! A node inside an application: the same engine, without its own process and endpoints.
//!
//! `builder` configures and starts a node, `draft` describes jobs and runs in code.
//!
//! An embedded node cannot be dialled. Among other embedded nodes it leads its share of the shards; while a
//! `punctual server` lives on the same store, it leads nothing and works for it.

mod builder;
mod draft;
mod lock;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use punctual_core::change::RunRecord;
use punctual_core::command::{Answer, Command, RunJob};
use punctual_core::ids::{RunId, SessionId};
use punctual_core::name::{Name, Namespace};
use punctual_core::run::Run;
use punctual_node::Failure;
use punctual_store::Store;

use crate::wiring::Running;

pub use builder::Builder;
pub(crate) use builder::Registered;
pub(crate) use builder::Replaced;
pub use draft::{Job, Submit};

/// How long unfinished reads may keep a store open at shutdown, and how often that is checked.
const CLOSING_MAX: Duration = Duration::from_secs(5);
const CLOSING_LOOK: Duration = Duration::from_millis(5);

/// An error of a node, by what can be done about it.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// A setting of the builder is invalid: correct it.
    #[error("{0}")]
    Invalid(String),
    /// The store cannot be opened or used.
    #[error("the store cannot be used: {0}")]
    Store(#[from] punctual_store::Error),
    /// Nothing happened, and a retry gives the same result.
    #[error(transparent)]
    Refused(#[from] punctual_core::command::Refusal),
    /// The leader of the shard cannot be reached now: retry, with the same key if it must happen once.
    #[error("{0}")]
    Unavailable(String),
    /// The system does not let the node start.
    #[error("the node cannot start: {0}")]
    Start(String),
}

impl From<Failure> for NodeError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Refused(refusal) => NodeError::Refused(refusal),
            other => NodeError::Unavailable(other.to_string()),
        }
    }
}

impl From<punctual_wire::Error> for NodeError {
    fn from(error: punctual_wire::Error) -> Self {
        NodeError::Invalid(error.to_string())
    }
}

/// A running node. If dropped, it ends at once, and its running attempts are retried elsewhere or at the next
/// start; [`Node::stop`] ends it gracefully.
#[derive(Debug)]
pub struct Node {
    namespace: Namespace,
    running: Running,
    scratch: Scratch,
}

impl Node {
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Submits a run without a job. It is durable when this returns.
    pub async fn submit(&self, submit: Submit) -> Result<RunId, NodeError> {
        let started = submit.read(self.running.clock.now())?;
        let command = Command::Submit(punctual_core::command::Submit {
            namespace: self.namespace.clone(),
            definition: started.what,
            due: started.due,
            key: started.key,
            spread: self.handle().spread(),
        });
        self.ask(command).await
    }

    /// Starts a job manually, with its own parameters.
    pub async fn run_job(&self, name: &str) -> Result<RunId, NodeError> {
        let name: Name = name.parse().map_err(|error| NodeError::Invalid(format!("{error}")))?;
        let namespace = self.namespace.clone();
        self.ask(Command::RunJob(RunJob {
            namespace,
            name,
            params: None,
            due: None,
            key: None,
            caller: None,
        }))
        .await
    }

    /// Requests the cancellation of a run. Its state changes when its function has ended.
    pub async fn cancel(&self, run: RunId) -> Result<(), NodeError> {
        let command = Command::CancelRun {
            namespace: self.namespace.clone(),
            run,
            now: false,
            by: None,
            comment: Box::default(),
        };
        Ok(self.handle().command(command).await.map(drop)?)
    }

    /// The current state of a run. `None` means that the node's namespace has no run with this id.
    pub async fn run(&self, run: RunId) -> Result<Option<Arc<Run>>, NodeError> {
        let found = self.handle().reads().run(&self.namespace, run).await?;
        Ok(found.map(|RunRecord { run, .. }| run))
    }

    /// Waits until a run has ended, on any node.
    pub async fn finished(&self, id: RunId) -> Result<Arc<Run>, NodeError> {
        let follower = self.handle().followers().follow(id);
        let mut follower = follower.map_err(|error| NodeError::Unavailable(error.to_string()))?;
        loop {
            let found = self.run(id).await?;
            let run = found.ok_or(punctual_core::command::Refusal::NoSuchRun(id))?;
            if run.status().is_terminal() {
                return Ok(run);
            }
            if !follower.news().await {
                return Err(NodeError::Unavailable("the node is stopping".to_owned()));
            }
        }
    }

    pub(crate) fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// Tells the node that its clock was set.
    pub(crate) fn clock_was_set(&self) {
        self.running.clock_was_set();
    }

    /// The full interface of the node: its status, its store, every command.
    pub fn handle(&self) -> &punctual_node::Handle {
        self.running.handle()
    }

    /// Takes no more runs, lets running functions finish within the time of [`Builder::drain`], hands its
    /// shards over, and ends. Stopped runs are retried elsewhere or at the next start.
    pub async fn stop(self) {
        let Node { running, scratch, .. } = self;
        let store = Arc::clone(running.store());
        running.shut_down().await;
        drop(scratch);
        close(store).await;
    }

    async fn ask(&self, command: Command) -> Result<RunId, NodeError> {
        match self.handle().command(command).await? {
            Answer::Run(run) => Ok(run.id),
            Answer::Existing(run) => Ok(run),
            other => Err(NodeError::Unavailable(format!("an answer to something else: {other:?}"))),
        }
    }
}

/// Closes a store after its last pending read, so that the next user finds it unlocked.
async fn close(store: Arc<dyn Store>) {
    let until = tokio::time::Instant::now() + CLOSING_MAX;
    while Arc::strong_count(&store) > 1 && tokio::time::Instant::now() < until {
        tokio::time::sleep(CLOSING_LOOK).await;
    }
    // Dropping may wait for threads and for the disk.
    if tokio::task::spawn_blocking(move || drop(store)).await.is_err() {
        tracing::warn!("the store was not closed in peace");
    }
}

/// A folder that is removed with its node or worker.
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new(session: SessionId) -> Scratch {
        Scratch(std::env::temp_dir().join(format!("punctual-{session}")))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // The folder may not exist.
        drop(std::fs::remove_dir_all(&self.0));
    }
}
