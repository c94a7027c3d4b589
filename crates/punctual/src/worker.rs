//! A worker inside a program: it runs the program's functions for a server, and needs no store.
//!
//! ```no_run
//! use punctual::{Context, Error, Output, Worker};
//!
//! async fn settle(cx: Context) -> Result<Output, Error> {
//!     let from = cx.resumed::<u64>()?.unwrap_or(0);
//!     for row in from..1_000 {
//!         if row % 100 == 0 {
//!             cx.checkpoint(&row).await?;
//!         }
//!     }
//!     Ok("settled".into())
//! }
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let token = std::env::var("PUNCTUAL_TOKEN")?;
//! let worker =
//!     Worker::builder().server("http://127.0.0.1:7400").token(token).function("settle", settle).start().await?;
//! tokio::signal::ctrl_c().await?;
//! worker.stop().await?;
//! # Ok(())
//! # }
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use punctual_core::limits::{LABELS_MAX, WORKER_SLOTS_MAX};
use punctual_core::name::Name;
use punctual_core::task::Kind;
use punctual_core::worker::Announcement;
use punctual_worker::function::{Context, Error, Output};
use punctual_worker::session::{Authorities, Ended, Status};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::cluster;
use crate::embed::{Registered, Scratch};
use crate::wiring::{Remote, stopped, work};

const SLOTS: u32 = 16;
const DRAIN: Duration = Duration::from_secs(30);

/// An error of a worker, by what can be done about it.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// A setting of the builder is invalid: correct it.
    #[error("{0}")]
    Invalid(String),
    /// The server refuses this worker, and would refuse it again.
    #[error("the server refuses the worker: {0}")]
    Refused(String),
    /// The system does not let the worker run.
    #[error("the worker cannot run: {0}")]
    Failed(String),
}

impl From<Ended> for WorkerError {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::Refused(refused) => WorkerError::Refused(refused.to_string()),
            Ended::Worker(error) => WorkerError::Failed(error.to_string()),
        }
    }
}

/// The configuration of a worker; see [`Worker::builder`].
#[derive(Debug, Clone)]
#[must_use = "it is a worker when it was started"]
pub struct WorkerBuilder {
    servers: Vec<String>,
    token: Option<String>,
    trusted: Option<Vec<u8>>,
    name: Option<String>,
    labels: BTreeMap<String, String>,
    slots: u32,
    weight: u32,
    drain: Duration,
    functions: Registered,
}

impl WorkerBuilder {
    /// The URL of a scheduling node. One is enough, because it names the others; give several to start while one is
    /// away.
    pub fn server(mut self, url: impl Into<String>) -> WorkerBuilder {
        self.servers.push(url.into());
        self
    }

    /// A token with the role `worker`.
    pub fn token(mut self, token: impl Into<String>) -> WorkerBuilder {
        self.token = Some(token.into());
        self
    }

    /// Trusts these certificates in PEM, besides those of the system.
    pub fn trust(mut self, certificates: impl Into<Vec<u8>>) -> WorkerBuilder {
        self.trusted = Some(certificates.into());
        self
    }

    /// The name of the worker in listings and logs, different for each worker. The default is made up.
    pub fn name(mut self, name: impl Into<String>) -> WorkerBuilder {
        self.name = Some(name.into());
        self
    }

    /// A label that jobs can select.
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> WorkerBuilder {
        self.labels.insert(name.into(), value.into());
        self
    }

    /// Functions that may run at once.
    pub fn slots(mut self, slots: u32) -> WorkerBuilder {
        self.slots = slots;
        self
    }

    /// The worker's share of the runs of jobs with `route.strategy: weighted`.
    pub fn weight(mut self, weight: u32) -> WorkerBuilder {
        self.weight = weight;
        self
    }

    /// How long [`Worker::stop`] lets running functions finish.
    pub fn drain(mut self, drain: Duration) -> WorkerBuilder {
        self.drain = drain;
        self
    }

    /// Registers a function that runs may call: `async fn(Context) -> Result<Output, Error>`.
    pub fn function<F, Fut>(mut self, name: &str, function: F) -> WorkerBuilder
    where
        F: Fn(Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Output, Error>> + Send + 'static,
    {
        self.functions.add(name, function);
        self
    }

    /// Connects, and returns when the first node has taken the worker. While no node answers it goes on trying, so give
    /// it a deadline if the program has one. Needs a multi-threaded runtime, because a function that blocks would stop
    /// everything else.
    pub async fn start(self) -> Result<Worker, WorkerError> {
        let made_up = cluster::session().map_err(|error| WorkerError::Failed(error.to_string()))?;
        let scratch = Scratch::new(made_up);
        let remote = self.check(format!("worker-{made_up}"), &scratch)?;
        // An error means that a provider is installed already, which is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let (status_in, mut status) = watch::channel(Status::default());
        let (stop, stop_seen) = watch::channel(false);
        let mut task = JoinSet::new();
        task.spawn(work(remote, status_in, stopped(stop_seen)));
        let mut worker = Worker { stop, status: status.clone(), task, _scratch: scratch };
        tokio::select! {
            ended = worker.ended() => ended?,
            // An error means that the task has ended.
            Ok(_) = status.wait_for(|status| !status.nodes.is_empty()) => {}
        }
        Ok(worker)
    }

    fn check(self, made_up: String, scratch: &Scratch) -> Result<Remote, WorkerError> {
        let invalid = |message: String| Err(WorkerError::Invalid(message));
        let functions = self.functions.check().map_err(WorkerError::Invalid)?;
        let name = self.name.unwrap_or(made_up);
        if self.servers.is_empty() {
            return invalid("a worker needs a server: `.server(\"http://host:7400\")`".to_owned());
        }
        if functions.names().is_empty() {
            return invalid("a worker needs a function: `.function(\"settle\", settle)`".to_owned());
        }
        if !(1..=WORKER_SLOTS_MAX).contains(&self.slots) {
            return invalid(format!("slots: 1 to {WORKER_SLOTS_MAX}, not {}", self.slots));
        }
        if self.weight == 0 {
            return invalid("weight: 1 or more, not 0".to_owned());
        }
        if self.labels.len() > LABELS_MAX {
            return invalid(format!("label: at most {LABELS_MAX}"));
        }
        if let Err(error) = name.parse::<Name>() {
            return invalid(format!("name: {error}"));
        }
        Ok(Remote {
            servers: self.servers,
            token: self.token,
            ca: self.trusted.map(Authorities::Given),
            name,
            announcement: Announcement {
                labels: self.labels,
                kinds: [Kind::Function].into_iter().collect(),
                functions: functions.names(),
                weight: self.weight,
                ..Announcement::of(self.slots as usize)
            },
            data: scratch.path().to_owned(),
            guardian: None,
            drain: self.drain,
            egress: Vec::new(),
            functions,
        })
    }
}

/// A running worker. If dropped, it ends at once, and its running attempts are retried elsewhere after their lease;
/// [`Worker::stop`] ends it gracefully.
#[derive(Debug)]
pub struct Worker {
    stop: watch::Sender<bool>,
    status: watch::Receiver<Status>,
    /// The one task of the worker; aborted on drop.
    task: JoinSet<Result<(), Ended>>,
    _scratch: Scratch,
}

impl Worker {
    pub fn builder() -> WorkerBuilder {
        WorkerBuilder {
            servers: Vec::new(),
            token: None,
            trusted: None,
            name: None,
            labels: BTreeMap::new(),
            slots: SLOTS,
            weight: 1,
            drain: DRAIN,
            functions: Registered::default(),
        }
    }

    /// The nodes that it is connected to.
    pub fn nodes(&self) -> Vec<String> {
        self.status.borrow().nodes.clone()
    }

    /// Waits until the worker has ended: because it was refused, or because it cannot run.
    pub async fn ended(&mut self) -> Result<(), WorkerError> {
        match self.task.join_next().await {
            Some(Ok(ended)) => Ok(ended?),
            Some(Err(error)) => Err(WorkerError::Failed(error.to_string())),
            None => Ok(()),
        }
    }

    /// Takes no more runs, lets running functions finish within the time of [`WorkerBuilder::drain`], and ends. Runs that
    /// are stopped continue on another worker.
    pub async fn stop(mut self) -> Result<(), WorkerError> {
        self.stop.send_replace(true);
        self.ended().await
    }
}
