//! Three `punctual server` processes on one real store, and workers beside them.
//!
//! The nodes keep their ports over a restart, as machines keep their names. They run nothing themselves. Everything is
//! killed when the cluster is dropped, workers first and the store last.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_store::conformance::servers::{mariadb, postgres};
use punctual_verify::Options;
use serde_json::{Value, json};

use crate::api::{Answer, Api};
use crate::history::has_ended;
use crate::wait::{self, SOON};
use crate::{Export, Node, Scene, Worker, binary};

pub const NODES: usize = 3;
/// Few enough that three nodes take them quickly, many enough that luck leaves nobody without one.
pub const SHARDS: u16 = 32;
/// Below what the system hands out by itself: nobody takes the port of a node that is down for a moment.
const PORT_MIN: u16 = 20_000;
const PORTS: u16 = 12_000;
/// The administrator's token of every cluster here.
const ADMIN: &str = "5f0c1b7e9d2a4c6831f7e0b9a8d6c5e45f0c1b7e9d2a4c6831f7e0b9a8d6c5e4";

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
}

/// The address of a store for a test: the servers of tests sync nothing.
pub fn with_parameters(url: &str) -> String {
    format!("{url}?shards={SHARDS}&durability=relaxed")
}

#[derive(Debug)]
pub struct Cluster {
    pub workers: Vec<Worker>,
    pub nodes: Vec<Node>,
    places: Vec<String>,
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
        for node in &mut self.nodes {
            node.wait_until_ready();
        }
        self.wait_until_spread();
    }

    /// Three nodes that are not started yet.
    pub fn new(scene: &Scene, store: &str, words: &[&str]) -> Cluster {
        let secret = scene.write("admin-token", ADMIN);
        fs::set_permissions(&secret, Permissions::from_mode(0o600)).expect("a mode can be set");
        let places = free_places();
        let node = |number: usize, place: &String| {
            let data = scene.path(&format!("node-{number}"));
            let said = ["server", "--store", store, "--http", place].into_iter().chain(words.iter().copied());
            let mut said: Vec<String> = said.map(str::to_owned).collect();
            said.extend(["--data".to_owned(), data.display().to_string()]);
            said.extend(["--bootstrap-token-file".to_owned(), secret.display().to_string()]);
            let node = scene.node().with_data(&data).with_token(ADMIN).with_program(binary::path(), said);
            node.with_env("PUNCTUAL_NODE_NAME", node_name(number))
        };
        let nodes = places.iter().enumerate().map(|(number, place)| node(number, place)).collect();
        Cluster { workers: Vec::new(), nodes, places, folder: scene.path("") }
    }

    /// Waits until every shard is led and every node leads some.
    #[track_caller]
    pub fn wait_until_spread(&self) {
        wait::until_so("every node leads its share", SOON, || {
            let led: Vec<usize> = (0..NODES).map(|node| self.shards_led_by(node)).collect();
            led.iter().sum::<usize>() == usize::from(SHARDS) && !led.contains(&0)
        });
    }

    /// How many shards a node says that it leads; none when it says nothing.
    pub fn shards_led_by(&self, node: usize) -> usize {
        let led = || {
            let nodes = self.api(node).get("/api/v1/nodes").filter(Answer::is_ok)?.json();
            let is_it = |other: &&Value| other["name"] == node_name(node);
            nodes["items"].as_array()?.iter().find(is_it)?["shards"].as_u64()
        };
        usize::try_from(led().unwrap_or(0)).unwrap_or(0)
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

    /// The way to every node, whether or not it is there.
    pub fn doors(&self) -> Vec<Api> {
        let door = |place: &String| Api::new(place).with_token(Some(ADMIN.to_owned()));
        self.places.iter().map(door).collect()
    }

    /// The addresses of all nodes, as a worker is told them.
    pub fn servers(&self) -> String {
        let servers: Vec<String> = self.places.iter().map(|place| format!("http://{place}")).collect();
        servers.join(",")
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

pub fn node_name(number: usize) -> String {
    format!("node-{number}")
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
