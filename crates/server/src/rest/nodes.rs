//! Nodes and workers. While there is one node, it is this one.

use axum::Json;
use axum::extract::State;
use punctual_wire::Text;
use punctual_wire::rest::{Node, Page, Worker};

use crate::Doors;

pub(crate) async fn nodes(State(doors): State<Doors>) -> Json<Page<Node>> {
    let status = doors.handle.status();
    let roles = ["schedule", "serve"].into_iter().chain(doors.works.then_some("work"));
    let node = Node {
        name: doors.node.as_ref().to_owned(),
        roles: roles.map(str::to_owned).collect(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        now: Text(doors.clock.now()),
        ready: status.ready,
        failed: status.failed,
        shards: status.shards_led,
        live_runs: status.live_runs,
        ready_runs: status.ready_runs,
        running_runs: status.running_runs,
        commits: status.commits,
        changes: status.changes,
        stale_reports: status.stale_reports,
    };
    Json(Page { items: vec![node], next: None })
}

pub(crate) async fn workers(State(doors): State<Doors>) -> Json<Page<Worker>> {
    let worker = |worker: punctual_node::handle::WorkerStatus| Worker {
        name: worker.id,
        node: doors.node.as_ref().to_owned(),
        slots: worker.slots,
        busy: worker.busy,
        labels: worker.announced.labels.clone(),
        kinds: worker.announced.kinds.iter().map(|kind| kind.as_str().to_owned()).collect(),
        weight: worker.announced.weight,
        cpu_percent: worker.load.map(|load| load.cpu_percent),
        memory_percent: worker.load.map(|load| load.memory_percent),
    };
    Json(Page { items: doors.handle.status().workers.into_iter().map(worker).collect(), next: None })
}
