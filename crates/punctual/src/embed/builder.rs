//! Configures and starts a node.

use std::sync::Arc;
use std::time::Duration;

use punctual_core::command::{Command, Expect, PutJob};
use punctual_core::limits::{FUNCTIONS_MAX, WORKER_SLOTS_MAX};
use punctual_core::name::{Name, Namespace};
use punctual_core::task::Kind;
use punctual_core::time::Clock;
use punctual_node::Failure;
use punctual_node::driver::LoadLimit;
use punctual_server::grpc::peer::Trusted;
use punctual_store::Opened;
use punctual_wire::job_file::Draft;
use punctual_wire::text::Span;
use punctual_worker::GRACE;
use punctual_worker::function::{Context, Error, Functions, Output};
use tokio::time::Instant;

use super::{Job, Node, NodeError, Scratch};
use crate::clock::SystemClock;
use crate::cluster::{self, Joining};
use crate::settings::{Overrides, Settings};
use crate::wiring::{self, Connection, Observer, Parts, Worker};

/// The default name of a node.
const NAME: &str = "embedded";
/// Leaves room for the session id that makes worker names unique.
const NAME_BYTES_MAX: usize = 64;
const DRAIN: Duration = Duration::from_secs(10);
/// How long a start may take until the shards of its jobs are led.
const START_MAX: Duration = Duration::from_secs(60);
/// The pause before a job is put again.
const AGAIN: Duration = Duration::from_millis(100);

/// The configuration of a node; see [`Node::builder`].
#[derive(Debug, Clone)]
#[must_use = "it is a node when it was started"]
pub struct Builder {
    /// The rest has the defaults of `punctual.toml`.
    pub(crate) overrides: Overrides,
    name: String,
    namespace: String,
    pub(crate) functions: Registered,
    jobs: Vec<Job>,
    drain: Duration,
    trusted: Option<Vec<u8>>,
}

/// The functions of a program, by name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Registered {
    pub(crate) known: Functions,
    /// The first mistake; a start returns it as an error.
    wrong: Option<String>,
}

impl Registered {
    pub(crate) fn add<F, Fut>(&mut self, name: &str, function: F)
    where
        F: Fn(Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Output, Error>> + Send + 'static,
    {
        let added = name.parse().map(|parsed: Name| self.known.add(parsed, function));
        let wrong = match added {
            Ok(true) => return,
            Ok(false) => format!("function `{name}` is registered twice: give each a name of its own"),
            Err(error) => format!("function `{name}`: {error}"),
        };
        self.wrong.get_or_insert(wrong);
    }

    pub(crate) fn check(&self) -> Result<Functions, String> {
        if let Some(wrong) = &self.wrong {
            return Err(wrong.clone());
        }
        if self.known.names().len() > FUNCTIONS_MAX {
            return Err(format!(
                "at most {FUNCTIONS_MAX} functions: let one do several things by its parameters"
            ));
        }
        Ok(self.known.clone())
    }
}

/// What a test replaces.
#[derive(Debug)]
pub(crate) struct Replaced {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) observer: Arc<dyn Observer>,
}

impl Default for Builder {
    fn default() -> Self {
        Builder {
            overrides: Overrides::default(),
            name: NAME.to_owned(),
            namespace: Namespace::default().as_str().to_owned(),
            functions: Registered::default(),
            jobs: Vec::new(),
            drain: DRAIN,
            trusted: None,
        }
    }
}

impl Builder {
    /// The store of jobs and runs: `sqlite:DIR` for one process, `postgres://…` or `mysql://…` for several,
    /// `memory:` for tests.
    pub fn store(mut self, url: impl Into<String>) -> Builder {
        self.overrides.store.url = Some(url.into());
        self
    }

    /// Registers a function that runs may call: `async fn(Context) -> Result<Output, Error>`.
    pub fn function<F, Fut>(mut self, name: &str, function: F) -> Builder
    where
        F: Fn(Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Output, Error>> + Send + 'static,
    {
        self.functions.add(name, function);
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
        self.overrides.slots = Some(slots as usize);
        self
    }

    /// How long other nodes wait for a silent node before they take over its shards; the same for all nodes
    /// on a store.
    pub fn shard_lease(mut self, lease: Duration) -> Builder {
        self.overrides.leases.shard = Some(Span(lease));
        self
    }

    /// How long an attempt of a silent node is waited for before it is retried elsewhere.
    pub fn attempt_lease(mut self, lease: Duration) -> Builder {
        self.overrides.leases.attempt = Some(Span(lease));
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
        self.start_with(None).await
    }

    /// `None` means that nothing is replaced.
    pub(crate) async fn start_with(self, replaced: Option<Replaced>) -> Result<Node, NodeError> {
        let (namespace, settings, functions) = self.check()?;
        let mut drafts = Vec::new();
        for job in &self.jobs {
            drafts.extend(job.read(&namespace)?);
        }
        // An error means that a provider is installed already, which is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let session = cluster::session().map_err(start)?;
        let clock = replaced.as_ref().map(|replaced| Arc::clone(&replaced.clock));
        let Opened { store, sessions } = wiring::open_any_store(&settings, session, clock.clone()).await?;
        let trusted = self.trusted.clone();
        let joining = sessions.map(|sessions| {
            let trusted = trusted.map(Trusted::Given);
            Joining { session, sessions, address: None, trusted, load_limit: LoadLimit::default() }
        });
        let scratch = Scratch::new(session);
        let parts = Parts {
            name: self.name.clone(),
            session,
            store,
            joining,
            clock: clock.unwrap_or_else(|| Arc::new(SystemClock::new())),
            worker: Some(self.worker(functions, &scratch, replaced)),
            access: None,
        };
        let running = wiring::start(&settings, parts).await.map_err(start)?;
        let node = Node { namespace, running, scratch };
        if let Err(error) = node.put(drafts).await {
            node.stop().await;
            return Err(error);
        }
        Ok(node)
    }

    fn check(&self) -> Result<(Namespace, Settings, Functions), NodeError> {
        let wrong = |message: String| Err(NodeError::Invalid(message));
        let functions = self.functions.check().map_err(NodeError::Invalid)?;
        if self.overrides.store.url.is_none() {
            return wrong(
                "a node needs a store: `.store(\"sqlite:DIR\")`, or `postgres://…` for several processes"
                    .to_owned(),
            );
        }
        if self.overrides.slots == Some(0) {
            return wrong(format!("slots: 1 to {WORKER_SLOTS_MAX}, not 0"));
        }
        if let Err(error) = self.name.parse::<Name>() {
            return wrong(format!("name: {error}"));
        }
        if self.name.len() > NAME_BYTES_MAX {
            return wrong(format!("name: at most {NAME_BYTES_MAX} characters"));
        }
        let namespace =
            self.namespace.parse().map_err(|error| NodeError::Invalid(format!("namespace: {error}")))?;
        let settings = Settings::read_for_worker(None, self.overrides.clone()).map_err(NodeError::Invalid)?;
        Ok((namespace, settings, functions))
    }

    /// The worker runs registered functions only: no programs and no HTTP requests, which any writer of jobs
    /// could choose. A test node's worker gives stopped functions no time, because it does not wait.
    fn worker(&self, functions: Functions, scratch: &Scratch, replaced: Option<Replaced>) -> Worker {
        let is_test = replaced.is_some();
        let streams = || Connection::Streams { drain: self.drain, trusted: self.trusted.clone() };
        Worker {
            kinds: [Kind::Noop, Kind::Function].into_iter().collect(),
            functions,
            scratch: scratch.path().to_owned(),
            guardian: None,
            grace: if is_test { Duration::ZERO } else { GRACE },
            connection: replaced
                .map_or_else(streams, |replaced| Connection::Channels(Some(replaced.observer))),
        }
    }
}

impl Node {
    async fn put(&self, drafts: Vec<Draft>) -> Result<(), NodeError> {
        let until = Instant::now() + START_MAX;
        for Draft { namespace, name, definition } in drafts {
            let put = PutJob { namespace, name, definition, expect: Expect::Anything };
            self.insist(Command::PutJob(put), until).await?;
        }
        Ok(())
    }

    /// Retries while the shard has no leader: after a start it soon gets one.
    async fn insist(&self, command: Command, until: Instant) -> Result<(), NodeError> {
        loop {
            match self.handle().command(command.clone()).await {
                Ok(_) => return Ok(()),
                Err(Failure::NotLed(_) | Failure::Unavailable(_) | Failure::Unknown(_))
                    if Instant::now() < until && self.handle().status().failed.is_none() =>
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
