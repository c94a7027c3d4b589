//! Three `punctual server` processes on one real store, and workers beside them.
//!
//! The nodes keep their ports over a restart, as machines keep their names. They run nothing themselves. Everything is
//! killed when the cluster is dropped, workers first and the store last.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_store::conformance::servers::{mariadb, postgres};
use punctual_verify::Options;
use redis::Connection;
use serde_json::{Value, json};

use crate::api::{Answer, Api};
use crate::fault::{Language, Proxy};
use crate::history::has_ended;
use crate::wait::{self, SOON};
use crate::{Export, Node, Scene, Worker, binary, messages};

pub const NODES: usize = 3;
/// Few enough that three nodes take them quickly, many enough that luck leaves nobody without one.
pub const SHARDS: u16 = 32;
/// Below what the system hands out by itself: nobody takes the port of a node that is down for a moment.
const PORT_MIN: u16 = 20_000;
const PORTS: u16 = 12_000;
/// After this long without a move, the shards count as settled. A node that has just started gets its share later.
const SETTLED: Duration = Duration::from_secs(2);
/// The administrator's token of every cluster here.
pub const ADMIN: &str = "5f0c1b7e9d2a4c6831f7e0b9a8d6c5e45f0c1b7e9d2a4c6831f7e0b9a8d6c5e4";

/// Where a cluster keeps what it knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    Postgres,
    MariaDb,
}

impl Kept {
    /// The address of an empty store on the server of this process.
    pub fn address(self) -> String {
        let url = match self {
            Kept::Postgres => postgres::Server::shared().database(),
            Kept::MariaDb => mariadb::Server::shared().database(),
        };
        with_parameters(&url)
    }

    /// The same, where an acknowledged change is on disk: the server of this process that syncs.
    pub fn durable_address(self) -> String {
        let url = match self {
            Kept::Postgres => postgres::Server::durable().database(),
            Kept::MariaDb => mariadb::Server::durable().database(),
        };
        format!("{url}?shards={SHARDS}&durability=full")
    }

    /// What a statement on a store of `address` prints. `{}` stands for the schema of the tables.
    pub fn sql(self, store: &str, statement: &str) -> String {
        let (_, after) = store.rsplit_once('/').expect("an address names a database");
        let (database, _) = after.split_once('?').expect("an address of a test has parameters");
        match self {
            Kept::Postgres => postgres::Server::shared().sql(database, &statement.replace("{}", "punctual.")),
            Kept::MariaDb => mariadb::Server::shared().sql(database, &statement.replace("{}", "")),
        }
    }

    /// What is spoken to it.
    pub fn language(self) -> Language {
        match self {
            Kept::Postgres => Language::Postgres,
            Kept::MariaDb => Language::MariaDb,
        }
    }

    /// A way of its own to this store for each node.
    pub fn ways(self, store: &str) -> Vec<Proxy> {
        let (_, after) = store.split_once("@127.0.0.1:").expect("a store of a test is on this machine");
        let (port, _) = after.split_once('/').expect("an address names a database");
        let port = port.parse().expect("a port is a number");
        (0..NODES).map(|_| Proxy::local(self.language(), port)).collect()
    }
}

/// The address of a store for a test: the servers of tests sync nothing.
pub fn with_parameters(url: &str) -> String {
    format!("{url}?shards={SHARDS}&durability=relaxed")
}

#[derive(Debug)]
pub struct Cluster {
    pub workers: Vec<Worker>,
    pub nodes: Vec<Node>,
    /// The URLs that workers are given, one for each node.
    pub endpoints: Vec<String>,
    folder: PathBuf,
}

impl Cluster {
    /// Three nodes on a store that lead everything between them, each started with further words.
    #[track_caller]
    pub fn start(scene: &Scene, store: &str, words: &[&str]) -> Cluster {
        let mut cluster = Cluster::new(scene, store, words);
        cluster.start_all();
        cluster
    }

    /// Starts every node and waits until each leads its share.
    #[track_caller]
    pub fn start_all(&mut self) {
        for node in &mut self.nodes {
            node.spawn();
        }
        self.wait_until_ready();
    }

    /// Waits until every node that was started leads its share.
    #[track_caller]
    pub fn wait_until_ready(&mut self) {
        for node in &mut self.nodes {
            node.wait_until_ready();
        }
        self.wait_until_spread();
    }

    /// Three nodes that are not started yet.
    pub fn new(scene: &Scene, store: &str, words: &[&str]) -> Cluster {
        let said = ["--store", store].into_iter().chain(words.iter().copied());
        let said: Vec<String> = said.map(str::to_owned).collect();
        Cluster::of_each(scene, |_, _| said.clone())
    }

    /// Three nodes that lead everything between them, each with its own way to the store.
    #[track_caller]
    pub fn start_by(ways: &[Proxy], scene: &Scene, store: &str, words: &[&str]) -> Cluster {
        let mut cluster = Cluster::of_each(scene, |number, _| {
            let by = ["--store".to_owned(), ways[number].instead(store)];
            by.into_iter().chain(words.iter().map(|word| (*word).to_owned())).collect()
        });
        cluster.start_all();
        cluster
    }

    /// Three nodes that are not started yet, each with words of its own; given are its number and where it listens.
    pub fn of_each(scene: &Scene, mut words: impl FnMut(usize, &str) -> Vec<String>) -> Cluster {
        let secret = admin_token(scene);
        let places = free_places();
        let node = |(number, place): (usize, &String)| {
            let data = scene.path(&format!("node-{number}"));
            let mut said = ["server", "--http", place].map(str::to_owned).to_vec();
            said.extend(words(number, place));
            said.extend(["--data".to_owned(), data.display().to_string()]);
            said.extend(["--bootstrap-token-file".to_owned(), secret.display().to_string()]);
            let node = scene.node().with_data(&data).with_token(ADMIN).with_program(binary::path(), said);
            node.with_env("PUNCTUAL_NODE_NAME", node_name(number))
        };
        let nodes = places.iter().enumerate().map(node).collect();
        let endpoints = places.iter().map(|place| format!("http://{place}")).collect();
        Cluster { workers: Vec::new(), nodes, endpoints, folder: scene.path("") }
    }

    /// One more node for a store, on whatever ports are free; it is not started yet.
    pub fn newcomer(&self, scene: &Scene, name: &str, store: &str, words: &[&str]) -> Node {
        server(scene, name, store, words)
    }

    /// A connection to the Redis-protocol endpoint of a running node.
    #[track_caller]
    pub fn queues(&self, node: usize) -> Connection {
        wait::until("a node lets clients of queues in", SOON, || {
            messages::dial(self.nodes[node].resp_port(), Some(ADMIN))
        })
    }

    /// How many shards each node says that it leads.
    pub fn shards_led(&self) -> Vec<usize> {
        let led = |node| shards_led(self.api(node), |told| told["name"] == node_name(node));
        (0..NODES).map(led).collect()
    }

    /// Waits until every shard is led and every node leads some.
    #[track_caller]
    pub fn wait_until_spread(&self) {
        wait::until_so("every node leads its share", SOON, || {
            let led = self.shards_led();
            led.iter().sum::<usize>() == usize::from(SHARDS) && !led.contains(&0)
        });
    }

    /// A worker for all nodes, taken by one of them.
    #[track_caller]
    pub fn add_worker(&mut self, name: &str, words: &[&str]) {
        let token = self.worker_token(name);
        let slots: &[&str] = if words.contains(&"--slots") { &[] } else { &["--slots", "8"] };
        let words = [&["--token", token.as_str()], slots, words].concat();
        let mut worker = Worker::spawn(&self.folder.join(name), name, &self.servers(), &words);
        worker.wait_until_ready();
        self.workers.push(worker);
    }

    pub fn api(&self, node: usize) -> &Api {
        self.nodes[node].api()
    }

    /// A client of every node, running or not.
    pub fn endpoints(&self) -> Vec<Api> {
        let endpoint = |url: &String| Api::new(url).with_token(Some(ADMIN.to_owned()));
        self.endpoints.iter().map(endpoint).collect()
    }

    /// The addresses of all nodes, as a worker is told them.
    pub fn servers(&self) -> String {
        self.endpoints.join(",")
    }

    /// A token for a worker.
    #[track_caller]
    pub fn worker_token(&self, name: &str) -> String {
        self.nodes[0].cli(["token", "add", name, "--role", "worker"]).ok().trim().to_owned()
    }

    /// Sends a request to a node until it is taken there: 503 means later, as it says, and so does no answer.
    #[track_caller]
    pub fn insist(&self, node: usize, mut send: impl FnMut(&Api) -> Option<Answer>) -> Value {
        wait::until("a node takes a request", SOON, || {
            let answer = send(self.api(node))?;
            if answer.status == 503 {
                assert!(
                    answer.retry_after.is_some(),
                    "who is turned away is told when to come again: {answer:?}"
                );
                return None;
            }
            Some(answer.ok())
        })
    }

    /// So many jobs that fire every second, named `job-00` and on; all that is missed is made up.
    #[track_caller]
    pub fn put_jobs(&self, count: usize) {
        for number in 0..count {
            let task = if number % 5 == 0 { json!({ "shell": "true" }) } else { json!({ "noop": {} }) };
            let job = json!({ "schedule": { "every": "1s" }, "task": task, "overlap": "allow",
                "misfire": { "policy": "all" }, "keep": { "runs": 100_000 } });
            self.insist(number % NODES, |api| {
                api.put(&format!("{}/{}", crate::api::JOBS, job_name(number)), &job)
            });
        }
    }

    /// Jobs that fire every second and write down what they are and when they were due, in this file.
    #[track_caller]
    pub fn put_writing_jobs(&self, count: usize, file: &Path) {
        let shell = format!("echo $PUNCTUAL_JOB $PUNCTUAL_DUE >> {}", file.display());
        for number in 0..count {
            let job = json!({ "schedule": { "every": "1s" }, "task": { "shell": shell }, "overlap": "allow",
                "misfire": { "policy": "all" }, "keep": { "runs": 100_000 } });
            self.insist(number % NODES, |api| {
                api.put(&format!("{}/{}", crate::api::JOBS, job_name(number)), &job)
            });
        }
    }

    /// Waits until so many more fires happened, as this node sees it.
    #[track_caller]
    pub fn wait_for_fires(&self, by: usize, more: usize) {
        let fired = || Export::if_given(&self.nodes[by]).map(|export| export.all_fires().count());
        let before = wait::until("a node knows what fired", SOON, fired);
        wait::until_so("the jobs go on", SOON, || fired().is_some_and(|now| now >= before + more));
    }

    /// Waits until nobody takes or gives a shard any more. Newcomers count after a while, and move some.
    #[track_caller]
    pub fn wait_until_settled(&self) {
        let (mut seen, mut since) = (self.shards_led(), wait::now());
        wait::until_so("every shard stays where it is", SOON, || {
            let now = self.shards_led();
            if now != seen || now.iter().sum::<usize>() != usize::from(SHARDS) {
                (seen, since) = (now, wait::now());
            }
            since.elapsed() > SETTLED
        });
    }

    /// Waits until all that was due by now has fired and ended, and lets `punctual verify` look at it.
    #[track_caller]
    pub fn verified(&self, scene: &Scene, by: usize, skew: Duration) -> Export {
        let through = wait::wall_clock();
        let export = wait::until("everything that was due has ended", 2 * SOON, || {
            Export::if_given(&self.nodes[by]).filter(|export| is_done(export, through))
        });
        let options = Options {
            skew,
            fired_through: Some(through),
            ended_through: Some(through),
            ..Options::default()
        };
        export.verify(scene, &self.nodes[by], &options);
        export
    }
}

/// A `punctual server` on a store and on free ports; it is not started yet.
pub fn server(scene: &Scene, name: &str, store: &str, words: &[&str]) -> Node {
    let (data, secret) = (scene.path(name), admin_token(scene));
    let paths = ["--data".to_owned(), data.display().to_string()];
    let secret = ["--bootstrap-token-file".to_owned(), secret.display().to_string()];
    let said = ["server", "--http", "127.0.0.1:0", "--store", store].into_iter().chain(words.iter().copied());
    let said = said.map(str::to_owned).chain(paths).chain(secret);
    let node = scene.node().with_data(&data).with_token(ADMIN).with_program(binary::path(), said);
    node.with_env("PUNCTUAL_NODE_NAME", name)
}

/// The file that holds the administrator's token.
fn admin_token(scene: &Scene) -> PathBuf {
    let secret = scene.write("admin-token", ADMIN);
    fs::set_permissions(&secret, Permissions::from_mode(0o600)).expect("a mode can be set");
    secret
}

pub fn node_name(number: usize) -> String {
    format!("node-{number}")
}

/// How many shards the node at an address says that it leads; none when it says nothing.
pub fn shards_of(api: &Api) -> usize {
    let port = api.address().rsplit(':').next().map(|port| format!(":{port}")).unwrap_or_default();
    shards_led(api, |node| node["address"].as_str().is_some_and(|address| address.ends_with(&port)))
}

/// How many shards one of the nodes leads, as this one says.
fn shards_led(api: &Api, is_it: impl Fn(&Value) -> bool) -> usize {
    let led = || {
        let nodes = api.get("/api/v1/nodes").filter(Answer::is_ok)?.json();
        nodes["items"].as_array()?.iter().find(|node| is_it(node))?["shards"].as_u64()
    };
    usize::try_from(led().unwrap_or(0)).unwrap_or(0)
}

pub fn job_name(number: usize) -> String {
    format!("job-{number:02}")
}

/// Whether all that was due by then has fired and ended.
pub fn is_done(export: &Export, through: Timestamp) -> bool {
    let due = |run: &&&Value| instant(&run["due_at"]) <= through;
    let all_ended = export.runs().values().filter(due).all(|run| has_ended(run));
    let mut newest: BTreeMap<&str, Timestamp> = BTreeMap::new();
    for fire in export.all_fires() {
        let newest = newest.entry(fire["job"].as_str().unwrap_or_default()).or_insert(Timestamp::MIN);
        *newest = instant(&fire["due_at"]).max(*newest);
    }
    all_ended && newest.values().all(|newest| *newest > through)
}

/// How long after its due time a run came into being.
pub fn lateness(run: &Value) -> Duration {
    instant(&run["created_at"]).since(instant(&run["due_at"]))
}

#[track_caller]
pub fn instant(written: &Value) -> Timestamp {
    let text = written.as_str().unwrap_or_else(|| panic!("no instant: {written}"));
    text.parse().unwrap_or_else(|_| panic!("no instant: {text}"))
}

/// Addresses that nobody listens on.
fn free_places() -> Vec<String> {
    let first =
        u16::try_from(std::process::id().wrapping_mul(7) % u32::from(PORTS)).expect("it is below a port");
    let ports = (0..PORTS).map(|step| PORT_MIN + (first + step) % PORTS);
    // Held until all are found, so that they differ.
    let free = ports.filter_map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok()).take(NODES);
    let held: Vec<TcpListener> = free.collect();
    held.iter().map(|listener| listener.local_addr().expect("it is bound").to_string()).collect()
}
