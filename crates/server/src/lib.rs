//! The doors: how people and programs get in.
//!
//! A door translates, authorises and delegates to one `Handle`; it holds no rules, so doors cannot differ. There are two
//! on one port: REST for people and programs, gRPC for workers and other nodes; `resp`, on a port of its own, is for queues. `listen` lets connections in, through
//! `tls` if there is a certificate; `mail` is the way to nodes that have no door; `auth` asks who comes; `routes` is the table of what is served (nothing is served that
//! has no row there), `openapi` describes it and `metrics` counts it.

pub mod limits;
mod linger;
mod settings;
mod tls;
mod listen;
mod places;
mod patience;
mod activity;
mod auth;
mod routes;
mod rest;
pub mod grpc;
pub mod mail;
pub mod resp;
mod openapi;
mod metrics;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use punctual_core::ids::ShardId;
use punctual_core::time::Clock;
use punctual_node::Handle;

use grpc::worker::Sessions;
use metrics::Requests;
use places::Places;

pub use auth::{
    Bootstrap, Caller, Gate, Peer, Refused, SECRET_BYTES_MAX, SECRET_BYTES_MIN, Secret, Weak, begin,
};
pub use grpc::worker::{Admission, Everyone, Nearby, NodesToo, Workers};
pub use listen::serve;
pub use routes::{Right, Route, table};
pub use settings::Settings;
pub use tls::{Files, Tls};

/// What every door needs: the node behind it, the time, the name it goes by, and how it is set.
#[derive(Debug, Clone)]
pub struct Doors {
    pub handle: Handle,
    clock: Arc<dyn Clock>,
    node: Arc<str>,
    settings: Arc<Settings>,
    places: Arc<Places>,
    requests: Arc<Requests>,
    /// What the door of queues counts.
    queue_door: resp::Seen,
    /// Who may come in.
    pub gate: Arc<Gate>,
    tls: Option<Arc<Tls>>,
    /// Whether this node works, too.
    works: bool,
    /// None: no worker comes in over the network.
    workers: Option<Workers>,
    sessions: Arc<Sessions>,
    /// What peers prove themselves with, and the way to them; none: there are no peers.
    peers: Option<(grpc::peer::Key, mail::Post)>,
    /// Where the door for queues is open; none: there is none.
    queues_at: Option<SocketAddr>,
}

impl Doors {
    /// Doors that let everyone in, in the clear, of a node that works: as `dev` has them.
    pub fn new(handle: Handle, clock: Arc<dyn Clock>, node: &str, settings: Settings) -> Doors {
        Doors {
            handle,
            clock,
            node: node.into(),
            places: Places::new(&settings),
            settings: Arc::new(settings),
            requests: Arc::new(Requests::new()),
            queue_door: resp::Seen::default(),
            gate: Arc::new(Gate::open()),
            tls: None,
            works: true,
            workers: None,
            sessions: Arc::default(),
            peers: None,
            queues_at: None,
        }
    }

    /// Tells where the door for queues is.
    #[must_use]
    pub fn with_queues_at(self, place: Option<SocketAddr>) -> Doors {
        Doors { queues_at: place, ..self }
    }

    /// What the node is called that leads a shard.
    pub(crate) fn leader_of(&self, shard: ShardId) -> Arc<str> {
        self.handle.led_by(shard).unwrap_or_else(|| Arc::clone(&self.node))
    }

    /// Opens the door for the other nodes of a cluster, and knows the way to theirs.
    #[must_use]
    pub fn with_peers(mut self, key: grpc::peer::Key, post: mail::Post) -> Doors {
        self.peers = Some((key, post));
        self
    }

    /// Opens the door for workers.
    #[must_use]
    pub fn with_workers(mut self, workers: Workers) -> Doors {
        self.workers = Some(workers);
        self
    }

    /// Doors that a gate stands before.
    #[must_use]
    pub fn behind(self, gate: Gate) -> Doors {
        Doors { gate: Arc::new(gate), ..self }
    }

    /// Doors that speak TLS only.
    #[must_use]
    pub fn over(self, tls: Tls) -> Doors {
        Doors { tls: Some(Arc::new(tls)), ..self }
    }

    /// Doors of a node that leaves the work to others.
    #[must_use]
    pub fn without_work(self) -> Doors {
        Doors { works: false, ..self }
    }
}

/// Every door on one router.
pub fn router(doors: Doors) -> Router {
    let guard = rest::guard::Guard::of(&doors);
    let workers = doors.workers.clone();
    let workers = workers
        .map(|workers| grpc::worker::router(workers, doors.handle.clone(), Arc::clone(&doors.sessions)));
    let peers = doors.peers.clone().map(|(key, _)| {
        let service = grpc::peer::service(doors.clone(), key);
        Router::new().route_service("/punctual.v1.Peer/{*method}", service)
    });
    let rest = rest::guard::around(routes::router(), guard).with_state(doors);
    // What holds for requests of people and browsers does not hold for a stream that stays open.
    workers.unwrap_or_default().merge(peers.unwrap_or_default()).merge(rest)
}
