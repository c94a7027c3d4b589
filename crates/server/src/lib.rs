//! The doors: how people and programs get in.
//!
//! A door translates, authorises and delegates to one `Handle`; it holds no rules, so doors cannot differ. Today there
//! is one, REST. `routes` is its table; nothing is served that has no row there.

mod routes;
mod rest;

use std::future::Future;
use std::io;
use std::sync::Arc;

use axum::Router;
use axum::serve::ListenerExt;
use punctual_core::time::Clock;
use punctual_node::Handle;
use tokio::net::TcpListener;

pub use routes::{Right, Route, table};

/// What every door needs: the node behind it, the time, and the name it goes by.
#[derive(Debug, Clone)]
pub struct Doors {
    pub handle: Handle,
    pub clock: Arc<dyn Clock>,
    pub node: Arc<str>,
}

/// Serves until `shutdown` is over, then lets the requests under way finish.
pub async fn serve(
    listener: TcpListener,
    doors: Doors,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    // Answers are small and someone waits for each: none is held back to fill a packet.
    let listener = listener.tap_io(|connection| {
        let _ = connection.set_nodelay(true);
    });
    axum::serve(listener, router(doors)).with_graceful_shutdown(shutdown).await
}

/// Every door on one router.
pub fn router(doors: Doors) -> Router {
    rest::guard::around(routes::router()).with_state(doors)
}
