//! The doors: how people and programs get in.
//!
//! A door translates, authorises and delegates to one `Handle`; it holds no rules, so doors cannot differ. People and
//! programs come by REST, other nodes by gRPC. `listen` lets connections in, `routes` is the table of what is served (nothing is served that has no
//! row there), `openapi` describes it and `metrics` counts it.

pub mod limits;
mod settings;
mod listen;
mod places;
mod patience;
mod routes;
mod rest;
pub mod grpc;
mod openapi;
mod metrics;

use std::sync::Arc;

use axum::Router;
use punctual_core::time::Clock;
use punctual_node::Handle;

use metrics::Requests;
use places::Places;

pub use listen::serve;
pub use routes::{Right, Route, table};
pub use settings::Settings;

/// What every door needs: the node behind it, the time, the name it goes by, and how it is set.
#[derive(Debug, Clone)]
pub struct Doors {
    pub handle: Handle,
    clock: Arc<dyn Clock>,
    node: Arc<str>,
    settings: Arc<Settings>,
    places: Arc<Places>,
    requests: Arc<Requests>,
}

impl Doors {
    pub fn new(handle: Handle, clock: Arc<dyn Clock>, node: &str, settings: Settings) -> Doors {
        Doors {
            handle,
            clock,
            node: node.into(),
            places: Places::new(&settings),
            settings: Arc::new(settings),
            requests: Arc::new(Requests::new()),
        }
    }
}

/// Every door on one router.
pub fn router(doors: Doors) -> Router {
    let guard = rest::guard::Guard::of(&doors);
    rest::guard::around(routes::router(), guard).with_state(doors)
}
