//! The endpoints: the protocols through which clients, workers and other nodes reach this node.
//!
//! An endpoint translates, authorises and delegates to one `Handle`; it holds no rules, so all endpoints
//! behave alike. REST (clients) and gRPC (workers, attempts and other nodes) share one port; `resp`, the Redis protocol
//! for queues, has its own. `listen` accepts connections, with `tls` if there is a certificate; `mail`
//! reaches nodes that accept no connections; `auth` checks tokens; `routes` is the table of all REST routes;
//! `openapi` describes it, `metrics` counts it, and `console` serves the page for browsers. `reports` is what all ways
//! of a progress report share, and `progress_queue` takes those that come as messages.

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
mod reports;
mod progress_queue;
pub mod grpc;
pub mod mail;
pub mod resp;
mod openapi;
mod metrics;
mod console;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use punctual_core::ids::ShardId;
use punctual_core::time::Clock;
use punctual_node::Handle;

use grpc::worker::Sessions;
use metrics::Requests;
use places::Places;
use reports::ReportCounts;

pub use auth::{
    Bootstrap, Caller, Gate, Peer, Refused, SECRET_BYTES_MAX, SECRET_BYTES_MIN, Secret, Weak, begin,
};
pub use console::Console;
pub use grpc::worker::{Admission, Nearby, NodesToo, Workers};
pub use listen::serve;
pub use progress_queue::ProgressQueue;
pub use routes::{Right, Route, table};
pub use settings::Settings;
pub use tls::{Files, Tls};

/// What every endpoint needs: the node behind it, the clock, the node's name and the settings.
#[derive(Debug, Clone)]
pub struct Endpoints {
    pub handle: Handle,
    clock: Arc<dyn Clock>,
    /// The system clock of this machine. It is only compared with `clock`.
    system_clock: Arc<dyn Clock>,
    node: Arc<str>,
    settings: Arc<Settings>,
    places: Arc<Places>,
    requests: Arc<Requests>,
    reports: Arc<ReportCounts>,
    /// The counters of the Redis-protocol endpoint.
    queue_endpoint: resp::Seen,
    /// Decides which caller may do what.
    pub gate: Arc<Gate>,
    tls: Option<Arc<Tls>>,
    /// Whether this node also has the role `work`.
    works: bool,
    /// The endpoint for workers. `None` means that no worker connects over the network.
    workers: Option<Workers>,
    sessions: Arc<Sessions>,
    /// The key that peers authenticate with, and the connections to them. `None` means that there are no peers.
    peers: Option<(grpc::peer::Key, mail::Post)>,
    /// The address of the Redis-protocol endpoint. `None` means that it is closed.
    queues_at: Option<SocketAddr>,
    console: Arc<Console>,
    /// What was last read of all jobs, for the overview.
    summaries: Arc<rest::overview::Summaries>,
    /// Held while coming fires are counted.
    forecasting: Arc<tokio::sync::Mutex<()>>,
}

impl Endpoints {
    /// Endpoints without access control and without TLS, of a node that also works: the setup of `dev`.
    pub fn new(handle: Handle, clock: Arc<dyn Clock>, node: &str, settings: Settings) -> Endpoints {
        Endpoints {
            handle,
            system_clock: Arc::clone(&clock),
            clock,
            node: node.into(),
            places: Places::new(&settings),
            settings: Arc::new(settings),
            requests: Arc::new(Requests::new()),
            reports: Arc::default(),
            queue_endpoint: resp::Seen::default(),
            gate: Arc::new(Gate::open()),
            tls: None,
            works: true,
            workers: None,
            sessions: Arc::default(),
            peers: None,
            queues_at: None,
            console: Arc::default(),
            summaries: Arc::default(),
            forecasting: Arc::default(),
        }
    }

    /// Sets where the files of the console come from.
    #[must_use]
    pub fn with_console(self, console: Console) -> Endpoints {
        Endpoints { console: Arc::new(console), ..self }
    }

    /// Sets the system clock, for a node that goes by its store's clock.
    #[must_use]
    pub fn with_system_clock(self, system_clock: Arc<dyn Clock>) -> Endpoints {
        Endpoints { system_clock, ..self }
    }

    /// Sets the address of the Redis-protocol endpoint.
    #[must_use]
    pub fn with_queues_at(self, place: Option<SocketAddr>) -> Endpoints {
        Endpoints { queues_at: place, ..self }
    }

    /// The name of the node that leads a shard.
    pub(crate) fn leader_of(&self, shard: ShardId) -> Arc<str> {
        self.handle.led_by(shard).unwrap_or_else(|| Arc::clone(&self.node))
    }

    /// Opens the endpoint for the other nodes of the cluster, and sets the way to reach them.
    #[must_use]
    pub fn with_peers(mut self, key: grpc::peer::Key, post: mail::Post) -> Endpoints {
        self.peers = Some((key, post));
        self
    }

    /// Opens the endpoint for workers.
    #[must_use]
    pub fn with_workers(mut self, workers: Workers) -> Endpoints {
        self.workers = Some(workers);
        self
    }

    /// Puts the endpoints behind a gate.
    #[must_use]
    pub fn behind(self, gate: Gate) -> Endpoints {
        Endpoints { gate: Arc::new(gate), ..self }
    }

    /// Makes the endpoints accept TLS only.
    #[must_use]
    pub fn over(self, tls: Tls) -> Endpoints {
        Endpoints { tls: Some(Arc::new(tls)), ..self }
    }

    /// The endpoints of a node without the role `work`.
    #[must_use]
    pub fn without_work(self) -> Endpoints {
        Endpoints { works: false, ..self }
    }
}

/// Every endpoint on one router.
pub fn router(endpoints: Endpoints) -> Router {
    let guard = rest::guard::Guard::of(&endpoints);
    let workers = endpoints.workers.clone();
    let workers = workers.map(|workers| {
        grpc::worker::router(workers, endpoints.handle.clone(), Arc::clone(&endpoints.sessions))
    });
    let peers = endpoints.peers.clone().map(|(key, _)| {
        let service = grpc::peer::service(endpoints.clone(), key);
        Router::new().route_service("/punctual.v1.Peer/{*method}", service)
    });
    let attempts = rest::guard::around_service(grpc::attempts::router(endpoints.clone()), &guard);
    let rest = rest::guard::around(routes::router(), guard).with_state(endpoints);
    // The guard is for short REST requests; its limits do not fit gRPC streams, which stay open.
    workers.unwrap_or_default().merge(peers.unwrap_or_default()).merge(attempts).merge(rest)
}
