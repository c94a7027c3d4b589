//! A node with its endpoint on loopback, and workers that dial it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use punctual::client::Client;
use punctual::core::Timestamp;
use punctual::core::ids::{RunId, WorkerId};
use punctual::core::log::{Chunk, Stream};
use punctual::core::name::Namespace;
use punctual::core::run::Status;
use punctual::core::time::Clock;
use punctual::core::worker::Announcement;
use punctual::wire::job_file::{Noop, Retry, Task};
use punctual::wire::rest::{Run, Submit};
use punctual_node::{Config, Node};
use punctual_server::{Admission, Endpoints, Gate, Workers, serve};
use punctual_store::Store;
use punctual_store::memory::Memory;
use punctual_worker::function::Functions;
use punctual_worker::session::{self, Ended};
use punctual_worker::{Egress, LogSink};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

/// Nothing here takes long; what takes this long has failed.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct Real {
    pub(crate) ahead: Duration,
}

pub(crate) const REAL: Real = Real { ahead: Duration::ZERO };

impl Clock for Real {
    #[expect(clippy::disallowed_methods, reason = "leases end in real time")]
    fn now(&self) -> Timestamp {
        Timestamp::MIN + SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap() + self.ahead
    }
}

/// A node and its endpoint.
pub(crate) struct Center {
    pub(crate) node: Node,
    pub(crate) address: String,
    pub(crate) client: Client,
    /// Where workers hear of other nodes.
    pub(crate) nodes: watch::Sender<Vec<String>>,
    stop: Option<oneshot::Sender<()>>,
    served: JoinHandle<std::io::Result<()>>,
}

pub(crate) struct Setting {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) lease: Duration,
    pub(crate) admission: Arc<dyn Admission>,
    pub(crate) address: String,
    pub(crate) endpoints: punctual_server::Settings,
    /// Two centers that share no store make the same run ids in the same millisecond, which nodes of one cluster never do.
    pub(crate) ahead: Duration,
}

impl Default for Setting {
    fn default() -> Self {
        Setting {
            store: Arc::new(Memory::new(4)),
            lease: Duration::from_secs(15),
            admission: Arc::new(Gate::open()),
            address: "127.0.0.1:0".to_owned(),
            endpoints: punctual_server::Settings::default(),
            ahead: Duration::ZERO,
        }
    }
}

impl Center {
    pub(crate) async fn start(setting: Setting) -> Center {
        let clock = Arc::new(Real { ahead: setting.ahead });
        let node = Node::start(Config {
            store: setting.store,
            clock: clock.clone(),
            lanes: 1,
            attempt_lease: setting.lease,
            records: true,
            shard_lease: Duration::from_secs(3),
            cluster: None,
            attempt_keys: None,
            channels: None,
        })
        .unwrap();
        assert!(node.handle().wait_until(|status| status.ready).await);
        let listener = TcpListener::bind(&setting.address).await.expect("the port is free");
        let address = listener.local_addr().unwrap().to_string();
        let (nodes, named) = watch::channel(Vec::new());
        let workers = Workers {
            links: node.links(),
            admission: setting.admission,
            node: format!("{address} since {}", clock.now()).into(),
            lease: setting.lease,
            nodes: named,
        };
        let endpoints = Endpoints::new(node.handle(), clock, "test", setting.endpoints);
        let (stop, stopped) = oneshot::channel::<()>();
        let served =
            tokio::spawn(serve(listener, endpoints.with_workers(workers), async { drop(stopped.await) }));
        let client = Client::new(&address, None).unwrap();
        Center { node, address, client, nodes, stop: Some(stop), served }
    }

    /// Closes the endpoint; the node goes on.
    pub(crate) async fn close(&mut self) {
        drop(self.stop.take());
        within("the server", &mut self.served).await.unwrap().unwrap();
    }

    pub(crate) async fn shut_down(mut self) {
        self.close().await;
        self.node.shut_down().await;
    }

    pub(crate) async fn submit(&self, submit: Submit) -> RunId {
        self.client.submit(&Namespace::default(), &submit).await.unwrap().id.0
    }

    pub(crate) async fn run(&self, run: RunId) -> Run {
        self.client.run(&Namespace::default(), run, true).await.unwrap()
    }

    pub(crate) async fn until(&self, what: &str, run: RunId, is_so: impl Fn(&Run) -> bool) -> Run {
        within(what, async {
            loop {
                let found = self.run(run).await;
                if is_so(&found) {
                    return found;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
        .await
    }

    pub(crate) async fn ended(&self, run: RunId) -> Run {
        self.until("the run ends", run, |run| run.state.0.is_terminal()).await
    }

    pub(crate) async fn running(&self, run: RunId) -> Run {
        self.until("the run is under way", run, |run| {
            run.state.0 == Status::Running && run.started_at.is_some()
        })
        .await
    }

    /// What a run has printed so far.
    pub(crate) async fn printed(&self, run: RunId) -> String {
        let chunks = self.node.handle().reads().read_logs(run, None, 1000).await.unwrap();
        let out = chunks.into_iter().filter(|chunk| chunk.stream == Stream::Out);
        String::from_utf8(out.flat_map(|chunk| chunk.bytes).collect()).unwrap()
    }

    pub(crate) async fn workers(&self, count: usize) {
        let handle = self.node.handle();
        assert!(within("the workers", handle.wait_until(|status| status.workers == count)).await);
    }
}

pub(crate) fn shell(text: &str) -> Submit {
    Submit { task: Some(Task { shell: Some(text.to_owned()), ..Task::default() }), ..Submit::default() }
}

pub(crate) fn noop() -> Submit {
    Submit { task: Some(Task { noop: Some(Noop {}), ..Task::default() }), ..Submit::default() }
}

pub(crate) fn attempts(submit: Submit, attempts: u32) -> Submit {
    Submit { retry: Some(Retry { attempts: Some(attempts), ..Retry::default() }), ..submit }
}

/// A worker over the network, in this process.
pub(crate) struct Worker {
    stop: Option<oneshot::Sender<()>>,
    pub(crate) status: watch::Receiver<session::Status>,
    task: JoinHandle<Result<(), Ended>>,
    _folder: TempDir,
}

/// How a worker differs from the usual one.
pub(crate) struct Wanted {
    pub(crate) name: &'static str,
    pub(crate) slots: usize,
    pub(crate) drain: Duration,
    pub(crate) token: Option<String>,
}

impl Default for Wanted {
    fn default() -> Self {
        Wanted { name: "w", slots: 4, drain: Duration::ZERO, token: None }
    }
}

impl Worker {
    pub(crate) fn start(addresses: &[&str], wanted: Wanted) -> Worker {
        let folder = tempfile::tempdir().unwrap();
        // Another one for each, although many may be started within a millisecond.
        static LIVES: AtomicU64 = AtomicU64::new(0);
        let number = u64::try_from(REAL.now().as_millis()).unwrap() + LIVES.fetch_add(1, Ordering::Relaxed);
        let life = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 1;
        let announcement = Announcement::of(wanted.slots);
        let config = punctual_worker::Config {
            id: WorkerId::new(wanted.name, life),
            slots: wanted.slots,
            clock: Arc::new(REAL),
            logs: Arc::new(Nowhere),
            scratch: folder.path().to_owned(),
            guardian: Some(PathBuf::from(env!("CARGO_BIN_EXE_punctual"))),
            heartbeat: punctual_worker::HEARTBEAT,
            grace: punctual_worker::GRACE,
            egress: Arc::new(Egress::default()),
            kinds: announcement.kinds,
            functions: Functions::default(),
        };
        let settings = session::Settings {
            servers: addresses.iter().map(|address| format!("http://{address}")).collect(),
            near: None,
            token: wanted.token,
            ca: None,
            name: wanted.name.to_owned(),
            life,
            version: "0.1.0".to_owned(),
            announcement,
            drain: wanted.drain,
        };
        let (status_in, status) = watch::channel(session::Status::default());
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(session::run(settings, config, status_in, async { drop(stopped.await) }));
        Worker { stop: Some(stop), status, task, _folder: folder }
    }

    pub(crate) async fn works_for(&mut self, count: usize) {
        let nodes = self.status.wait_for(|status| status.nodes.len() == count);
        within("the worker is taken", nodes).await.unwrap();
    }

    /// As an operator stops it.
    pub(crate) async fn stop(mut self) -> Result<(), Ended> {
        drop(self.stop.take());
        self.ended().await
    }

    pub(crate) async fn ended(&mut self) -> Result<(), Ended> {
        within("the worker ends", &mut self.task).await.unwrap()
    }

    /// As if its machine had lost its power: no good-bye.
    pub(crate) async fn vanish(self) {
        self.task.abort();
        drop(self.task.await);
    }
}

#[derive(Debug)]
struct Nowhere;

#[async_trait]
impl LogSink for Nowhere {
    async fn append(&self, _chunk: Chunk) {}
}

pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, future).await.unwrap_or_else(|_| panic!("waited in vain for: {what}"))
}
