//! Configures and starts a node.

use std::sync::Arc;
use std::time::Duration;

use punctual_core::command::{Command, Expect, PutJob};
use punctual_core::ids::{SessionId, WorkerId};
use punctual_core::limits::{AD_HOC_KEPT, FUNCTIONS_MAX, WORKER_SLOTS_MAX};
use punctual_core::name::{Name, Namespace};
use punctual_core::task::Kind;
use punctual_core::time::Clock;
use punctual_core::worker::{Announcement, Kinds};
use punctual_node::driver::Hot;
use punctual_node::node::Config;
use punctual_node::retention::{self, PACE};
use punctual_node::{Failure, cluster::Cluster};
use punctual_server::grpc::peer::Trusted;
use punctual_server::{Everyone, Nearby, Workers};
use punctual_store::memory::Memory;
use punctual_store::{Opened, sqlite};
use punctual_worker::Egress;
use punctual_worker::function::{Context, Error, Functions, Output};
use punctual_worker::session::{self, Authorities};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::near::{InProcess, Nowhere};
use super::{Job, Node, NodeError, Scratch};
use crate::clock::{SystemClock, Watcher};
use crate::cluster::{self, Joined, Joining};

/// A store in memory, for tests and first steps.
const MEMORY: &str = "memory:";
/// The folder of a store given as just `sqlite`.
const FOLDER: &str = "punctual-data";
/// The default name of a node.
const NAME: &str = "embedded";
/// Leaves room for the session id that makes worker names unique.
const NAME_BYTES_MAX: usize = 64;
const SLOTS: u32 = 16;
const SHARD_LEASE: Duration = Duration::from_secs(3);
const ATTEMPT_LEASE: Duration = Duration::from_secs(15);
const LEASE_MIN: Duration = Duration::from_secs(1);
const DRAIN: Duration = Duration::from_secs(10);
/// How long a start may take until the shards of its jobs are led.
const START_MAX: Duration = Duration::from_secs(60);
/// The pause before a job is put again.
const AGAIN: Duration = Duration::from_millis(100);
/// The longest interval between clock checks.
const LOOK: Duration = Duration::from_secs(3600);
/// Concurrent transactions on a store with several writers.
const LANES_SHARED: usize = 2;

/// The configuration of a node; see [`Node::builder`].
#[derive(Debug, Clone)]
#[must_use = "it is a node when it was started"]
pub struct Builder {
    store: Option<String>,
    name: String,
    namespace: String,
    functions: Functions,
    jobs: Vec<Job>,
    slots: u32,
    shard_lease: Duration,
    attempt_lease: Duration,
    drain: Duration,
    trusted: Option<Vec<u8>>,
    /// The first invalid setting; `start` returns it as an error.
    wrong: Option<String>,
}

impl Default for Builder {
    fn default() -> Self {
        Builder {
            store: None,
            name: NAME.to_owned(),
            namespace: Namespace::default().as_str().to_owned(),
            functions: Functions::default(),
            jobs: Vec::new(),
            slots: SLOTS,
            shard_lease: SHARD_LEASE,
            attempt_lease: ATTEMPT_LEASE,
            drain: DRAIN,
            trusted: None,
            wrong: None,
        }
    }
}

impl Builder {
    /// The store of jobs and runs: `sqlite:DIR` for one process, `postgres://…` or `mysql://…` for several,
    /// `memory:` for tests.
    pub fn store(mut self, url: impl Into<String>) -> Builder {
        self.store = Some(url.into());
        self
    }

    /// Registers a function that runs may call: `async fn(Context) -> Result<Output, Error>`.
    pub fn function<F, Fut>(mut self, name: &str, function: F) -> Builder
    where
        F: Fn(Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Output, Error>> + Send + 'static,
    {
        let added = name.parse().map(|parsed: Name| self.functions.add(parsed, function));
        let wrong = match added {
            Ok(true) => None,
            Ok(false) => Some(format!("function `{name}` is registered twice: give each a name of its own")),
            Err(error) => Some(format!("function `{name}`: {error}")),
        };
        self.wrong = self.wrong.or(wrong);
        self
    }

    /// A job that must exist when the node has started. An existing job of the same name is changed if it differs.
    pub fn job(mut self, job: Job) -> Builder {
        self.jobs.push(job);
        self
    }

    /// The name of this node in listings and logs.
    pub fn name(mut self, name: impl Into<String>) -> Builder {
        self.name = name.into();
        self
    }

    /// The namespace of its jobs and runs, unless a job names another.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Builder {
        self.namespace = namespace.into();
        self
    }

    /// Functions that may run at once.
    pub fn slots(mut self, slots: u32) -> Builder {
        self.slots = slots;
        self
    }

    /// How long other nodes wait for a silent node before they take over its shards; the same for all nodes
    /// on a store.
    pub fn shard_lease(mut self, lease: Duration) -> Builder {
        self.shard_lease = lease;
        self
    }

    /// How long an attempt of a silent node is waited for before it is retried elsewhere.
    pub fn attempt_lease(mut self, lease: Duration) -> Builder {
        self.attempt_lease = lease;
        self
    }

    /// How long [`Node::stop`] lets running functions finish.
    pub fn drain(mut self, drain: Duration) -> Builder {
        self.drain = drain;
        self
    }

    /// Trusts these certificates in PEM, besides those of the system, for servers on the same store that use TLS.
    pub fn trust(mut self, certificates: impl Into<Vec<u8>>) -> Builder {
        self.trusted = Some(certificates.into());
        self
    }

    /// Opens the store, joins the cluster on it, and puts the jobs. Needs a multi-threaded runtime, because a
    /// function that blocks would stop everything else.
    pub async fn start(self) -> Result<Node, NodeError> {
        let namespace = self.check()?;
        let mut drafts = Vec::new();
        for job in &self.jobs {
            drafts.extend(job.read(&namespace)?);
        }
        // An error means that a provider is installed already, which is fine.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let session = cluster::session().map_err(start)?;
        let Opened { store, sessions } = self.open(session).await?;
        let over_tls = self.trusted.is_some();
        let joined = match sessions {
            Some(sessions) => {
                let trusted = self.trusted.clone().map(Trusted::Given);
                let joining = Joining { session, sessions, address: None, trusted, hot: Hot::default() };
                Some(joining.join(&store, &self.name, self.shard_lease).await.map_err(start)?)
            }
            None => None,
        };
        let (joined, key, post) = match joined {
            Some(Joined { cluster, key, post }) => (Some(cluster), Some(key), Some(post)),
            None => (None, None, None),
        };
        let clock: Arc<dyn Clock> = match &joined {
            Some(Cluster { clock, .. }) => Arc::clone(clock) as Arc<dyn Clock>,
            None => Arc::new(SystemClock::new()),
        };
        let is_shared = joined.is_some();
        let node = punctual_node::Node::start(Config {
            store,
            clock: Arc::clone(&clock),
            lanes: if is_shared { LANES_SHARED } else { 1 },
            attempt_lease: self.attempt_lease,
            shard_lease: self.shard_lease,
            cluster: joined,
        })
        .map_err(start)?;
        let watcher = Watcher::start(node.nudge(), LOOK).map_err(start)?;
        let (stop, stopped) = watch::channel(false);
        let (mut tasks, handle) = (JoinSet::new(), node.handle());
        tasks.spawn(retention::run(node.handle(), Arc::clone(&clock), PACE, AD_HOC_KEPT, stopped.clone()));
        let (nodes, dialled) = watch::channel(Vec::new());
        if let Some(post) = post {
            tasks.spawn(post.carry(node.handle()));
            tasks.spawn(cluster::tell_workers(node.handle(), Arc::new(nodes), stopped));
        }
        let workers = Workers {
            links: node.links(),
            admission: Arc::new(Everyone),
            node: format!("{}@{session}", self.name).into(),
            lease: self.attempt_lease,
            nodes: dialled,
        };
        let near = Nearby::new(workers, node.handle());
        let scratch = Scratch(std::env::temp_dir().join(format!("punctual-{session}")));
        let (stop_working, stopped) = watch::channel(false);
        let mut worker = JoinSet::new();
        let token = key.map(|key| key.as_token());
        let (settings, config) =
            self.worker(session, token, &clock, &scratch, InProcess { endpoint: near.clone(), over_tls });
        let (status, _) = watch::channel(session::Status::default());
        worker.spawn(session::run(settings, config, status, asked(stopped)));
        let running = Node {
            namespace,
            clock,
            handle,
            node,
            near,
            stop_working,
            worker,
            stop,
            tasks,
            scratch,
            _watcher: watcher,
        };
        let until = Instant::now() + START_MAX;
        for draft in drafts {
            let punctual_wire::job_file::Draft { namespace, name, definition } = draft;
            let put = PutJob { namespace, name, definition, expect: Expect::Anything };
            running.insist(Command::PutJob(put), until).await?;
        }
        Ok(running)
    }

    fn check(&self) -> Result<Namespace, NodeError> {
        let wrong = |message: String| Err(NodeError::Invalid(message));
        if let Some(message) = &self.wrong {
            return wrong(message.clone());
        }
        if self.functions.names().len() > FUNCTIONS_MAX {
            return wrong(format!(
                "at most {FUNCTIONS_MAX} functions: let one do several things by its parameters"
            ));
        }
        if !(1..=WORKER_SLOTS_MAX).contains(&self.slots) {
            return wrong(format!("slots: 1 to {WORKER_SLOTS_MAX}, not {}", self.slots));
        }
        if self.shard_lease < LEASE_MIN || self.attempt_lease < LEASE_MIN {
            return wrong("leases: at least 1s each".to_owned());
        }
        if let Err(error) = self.name.parse::<Name>() {
            return wrong(format!("name: {error}"));
        }
        if self.name.len() > NAME_BYTES_MAX {
            return wrong(format!("name: at most {NAME_BYTES_MAX} characters"));
        }
        self.namespace.parse().map_err(|error| NodeError::Invalid(format!("namespace: {error}")))
    }

    async fn open(&self, session: SessionId) -> Result<Opened, NodeError> {
        let Some(url) = &self.store else {
            let message =
                "a node needs a store: `.store(\"sqlite:DIR\")`, or `postgres://…` for several processes";
            return Err(NodeError::Invalid(message.to_owned()));
        };
        let options = sqlite::Options::default();
        if url == MEMORY {
            return Ok(Opened { store: Arc::new(Memory::new(options.shards)), sessions: None });
        }
        Ok(punctual_store::open(url, FOLDER.as_ref(), options, session).await?)
    }

    /// The worker runs registered functions only: no programs and no HTTP requests, which any writer of jobs
    /// could choose.
    fn worker(
        &self,
        session: SessionId,
        token: Option<String>,
        clock: &Arc<dyn Clock>,
        scratch: &Scratch,
        near: InProcess,
    ) -> (session::Settings, punctual_worker::Config) {
        let kinds: Kinds = [Kind::Noop, Kind::Function].into_iter().collect();
        let announcement = Announcement {
            kinds,
            functions: self.functions.names(),
            ..Announcement::of(self.slots as usize)
        };
        // Two nodes of one program are two workers, even if they have the same name.
        let (name, life) = (format!("{}-{session}", self.name), session.0.unsigned_abs());
        let config = punctual_worker::Config {
            id: WorkerId::new(&name, life),
            slots: self.slots as usize,
            clock: Arc::clone(clock),
            logs: Arc::new(Nowhere),
            scratch: scratch.0.clone(),
            guardian: None,
            heartbeat: punctual_worker::HEARTBEAT,
            grace: punctual_worker::GRACE,
            egress: Arc::new(Egress::default()),
            kinds,
            functions: self.functions.clone(),
        };
        let settings = session::Settings {
            servers: Vec::new(),
            near: Some(Arc::new(near)),
            token,
            ca: self.trusted.clone().map(Authorities::Given),
            name,
            life,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            announcement,
            drain: self.drain,
        };
        (settings, config)
    }
}

impl Node {
    /// Retries while the shard has no leader: after a start it soon gets one.
    async fn insist(&self, command: Command, until: Instant) -> Result<(), NodeError> {
        loop {
            match self.handle.command(command.clone()).await {
                Ok(_) => return Ok(()),
                Err(Failure::NotLed(_) | Failure::Unavailable(_) | Failure::Unknown(_))
                    if Instant::now() < until && self.handle.status().failed.is_none() =>
                {
                    tokio::time::sleep(AGAIN).await;
                }
                Err(failure) => return Err(failure.into()),
            }
        }
    }
}

fn start(error: impl std::fmt::Display) -> NodeError {
    NodeError::Start(error.to_string())
}

async fn asked(mut stop: watch::Receiver<bool>) {
    // An error means that the sender is gone; that counts as a stop too.
    drop(stop.wait_for(|stop| *stop).await);
}
