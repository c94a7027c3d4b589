//! Nodes and workers of the whole cluster; the node that answers asks all others. Workers are drained here too.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use punctual_store::Session;
use punctual_wire::Text;
use punctual_wire::rest::{Code, Node, Page, Problem, Worker};
use tokio::task::JoinSet;

use super::problem::Failed;
use super::request::WorkerAt;
use crate::Endpoints;
use crate::resp::others::reached_at;

pub(crate) async fn nodes(State(endpoints): State<Endpoints>) -> Json<Page<Node>> {
    Json(Page { items: endpoints.cluster().await.0, next: None })
}

pub(crate) async fn workers(State(endpoints): State<Endpoints>) -> Json<Page<Worker>> {
    Json(Page { items: endpoints.cluster().await.1, next: None })
}

pub(crate) async fn drain(
    State(endpoints): State<Endpoints>,
    WorkerAt(worker): WorkerAt,
) -> Result<StatusCode, Failed> {
    endpoints.drain(&worker, true).await
}

pub(crate) async fn resume(
    State(endpoints): State<Endpoints>,
    WorkerAt(worker): WorkerAt,
) -> Result<StatusCode, Failed> {
    endpoints.drain(&worker, false).await
}

impl Endpoints {
    /// Tells a worker to take no more work, or to work again. The node that it is connected to tells it.
    async fn drain(&self, worker: &str, on: bool) -> Result<StatusCode, Failed> {
        if self.handle.drain(worker, on).await {
            return Ok(StatusCode::NO_CONTENT);
        }
        if let Some((_, post)) = &self.peers {
            let members = self.handle.status().members;
            let others = members.iter().filter(|session| session.node != self.node);
            for address in others.filter_map(|session| session.address.as_deref()) {
                if post.drain(address, worker, on).await {
                    return Ok(StatusCode::NO_CONTENT);
                }
            }
        }
        let message = format!("no worker `{worker}` is connected; `punctual node workers` lists them");
        Err(Problem::new(Code::NoSuchWorker, message).into())
    }

    /// All nodes and all workers, by name.
    pub(crate) async fn cluster(&self) -> (Vec<Node>, Vec<Worker>) {
        let (others, workers): (Vec<Node>, Vec<Vec<Worker>>) = self.others().await.into_iter().unzip();
        let mut nodes: Vec<Node> =
            std::iter::once(self.this_node()).chain(others).chain(self.lost()).collect();
        nodes.sort_by(|one, other| one.name.cmp(&other.name));
        (nodes, joined(self.its_workers().await.into_iter().chain(workers.into_iter().flatten())))
    }

    /// The state of this node.
    pub(crate) fn this_node(&self) -> Node {
        let status = self.handle.status();
        let session = status.members.iter().find(|member| *member.node == *self.node);
        let roles = ["schedule", "serve"].into_iter().chain(self.works.then_some("work"));
        Node {
            name: self.node.as_ref().to_owned(),
            address: session.and_then(|session| session.address.as_deref().map(str::to_owned)),
            resp: self.queues_at.map(|at| reached_at(at, session)).map(written),
            roles: roles.map(str::to_owned).collect(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            now: Text(self.clock.now()),
            clock_offset_ms: self.system_clock.now().as_millis() - self.clock.now().as_millis(),
            ready: status.ready,
            lost_at: None,
            load_percent: session.map(|session| session.load),
            failed: status.failed,
            durability: self.handle.reads().durability().as_str().to_owned(),
            shards: status.shards_led,
            live_runs: status.live_runs,
            ready_runs: status.ready_runs,
            running_runs: status.running_runs,
            commits: status.commits,
            changes: status.changes,
            stale_reports: status.stale_reports,
        }
    }

    /// The workers connected to this node.
    pub(crate) async fn its_workers(&self) -> Vec<Worker> {
        let worker = |worker: punctual_node::handle::WorkerStatus| Worker {
            name: worker.id,
            lost: worker.lost,
            draining: worker.draining,
            stuck: worker.stuck,
            nodes: vec![self.node.as_ref().to_owned()],
            slots: worker.slots,
            busy: worker.busy,
            labels: worker.announced.labels.clone(),
            kinds: worker.announced.kinds.iter().map(|kind| kind.as_str().to_owned()).collect(),
            functions: worker.announced.functions.iter().map(|name| name.as_str().to_owned()).collect(),
            weight: worker.announced.weight,
            cpu_percent: worker.load.map(|load| load.cpu_percent),
            memory_percent: worker.load.map(|load| load.memory_percent),
        };
        self.handle.workers().await.into_iter().map(worker).collect()
    }

    /// The other live nodes, with their workers. A node that does not answer is listed too.
    async fn others(&self) -> Vec<(Node, Vec<Worker>)> {
        let Some((_, post)) = &self.peers else { return Vec::new() };
        let mut asked = JoinSet::new();
        let status = self.handle.status();
        let is_lost = |session: &Session| status.lost.iter().any(|lost| lost.session.id == session.id);
        for session in &status.members {
            if session.node == self.node || is_lost(session) {
                continue;
            }
            let session = session.clone();
            let (post, now) = (post.clone(), Text(self.clock.now()));
            asked.spawn(async move {
                let told = match session.address.as_deref() {
                    Some(address) => post.look(address).await,
                    None => None,
                };
                told.unwrap_or_else(|| (silent(&session, now), Vec::new()))
            });
        }
        asked.join_all().await
    }

    /// The nodes that were lost within the last hour.
    fn lost(&self) -> impl Iterator<Item = Node> {
        let now = Text(self.clock.now());
        self.handle.status().lost.into_iter().map(move |lost| Node {
            ready: false,
            failed: None,
            lost_at: Some(Text(lost.at)),
            load_percent: None,
            ..silent(&lost.session, now)
        })
    }
}

/// `host:port`, with an IPv6 address in brackets.
fn written((host, port): (String, u16)) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// What the session says about a node that does not answer.
fn silent(session: &Session, now: punctual_wire::text::Instant) -> Node {
    let failed = session.address.as_ref().map(|address| format!("it does not answer at {address}"));
    let roles: &[&str] = if session.embedded { &["schedule", "work"] } else { &["schedule", "serve"] };
    Node {
        name: session.node.as_ref().to_owned(),
        address: session.address.as_deref().map(str::to_owned),
        resp: None,
        roles: roles.iter().map(|role| (*role).to_owned()).collect(),
        version: String::new(),
        now,
        clock_offset_ms: 0,
        ready: failed.is_none(),
        lost_at: None,
        failed,
        durability: String::new(),
        shards: 0,
        live_runs: 0,
        ready_runs: 0,
        running_runs: 0,
        commits: 0,
        changes: 0,
        stale_reports: 0,
        load_percent: Some(session.load),
    }
}

/// Merges the entries of each worker: it is connected to every node, and each node knows only its own attempts.
fn joined(workers: impl Iterator<Item = Worker>) -> Vec<Worker> {
    let mut by_name: BTreeMap<String, Worker> = BTreeMap::new();
    for worker in workers {
        match by_name.get_mut(&worker.name) {
            Some(known) => {
                known.busy += worker.busy;
                known.lost |= worker.lost;
                known.draining |= worker.draining;
                known.stuck |= worker.stuck;
                known.nodes.extend(worker.nodes);
                known.nodes.sort();
            }
            None => {
                by_name.insert(worker.name.clone(), worker);
            }
        }
    }
    by_name.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_several_nodes_know_is_one_worker() {
        let seen = |name: &str, node: &str, busy| Worker {
            name: name.into(),
            nodes: vec![node.into()],
            slots: 4,
            busy,
            ..Worker::default()
        };
        let told = [seen("w1", "n2", 1), seen("w2", "n2", 0), seen("w1", "n1", 2)];
        let workers = joined(told.into_iter());
        let of = |worker: &Worker| (worker.name.clone(), worker.nodes.join(" "), worker.slots, worker.busy);
        let expected = [("w1".into(), "n1 n2".into(), 4, 3), ("w2".into(), "n2".into(), 4, 0)];
        assert_eq!(workers.iter().map(of).collect::<Vec<_>>(), expected);
    }
}
