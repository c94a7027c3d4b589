//! The accept loop of this endpoint: which connections are accepted, and how all of them end.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::{debug, info, warn};

use super::endpoint::{Behind, Endpoint};
use super::link::{Duplex, Link};
use super::others::Others;
use super::session::Session;
use super::settings::Settings;
use crate::Endpoints;
use crate::auth::Gate;
use crate::listen::address_of;
use crate::places::Places;
use crate::tls::Tls;

/// How long running commands may take once shutdown was requested.
const PARTING_MAX: Duration = Duration::from_secs(5);
/// The pause after `accept` failed, doubled up to the maximum.
const BACKOFF_MIN: Duration = Duration::from_millis(10);
const BACKOFF_MAX: Duration = Duration::from_secs(1);
/// How long a refused client may take to read the refusal.
const TURNED_AWAY_TIME: Duration = Duration::from_millis(100);
/// How long a connection is quiet before TCP keep-alive starts.
pub(super) const KEEPALIVE: Duration = Duration::from_secs(300);
/// The interval of keep-alive probes. Linux sends nine, so a dead peer is noticed after eight minutes.
const KEEPALIVE_EVERY: Duration = Duration::from_secs(20);
const TOO_MANY: &[u8] = b"-ERR max number of clients reached\r\n";

/// Serves until `shutdown` completes, then lets running commands finish, for at most five seconds.
pub async fn serve(
    listener: TcpListener,
    endpoints: Endpoints,
    settings: Settings,
    shutdown: impl Future<Output = ()> + Send,
) -> io::Result<()> {
    let address = listener.local_addr()?;
    let behind = Behind {
        queues: Arc::new(endpoints.handle),
        gate: if settings.open { Arc::new(Gate::open()) } else { endpoints.gate },
        clock: endpoints.clock,
        name: endpoints.node,
        seen: endpoints.queue_endpoint,
        others: Others::by(endpoints.peers.map(|(_, post)| post)),
    };
    let endpoint = Arc::new(Endpoint::new(behind, address, settings));
    accept(listener, endpoint, endpoints.tls, shutdown).await
}

pub(super) async fn accept(
    listener: TcpListener,
    endpoint: Arc<Endpoint>,
    tls: Option<Arc<Tls>>,
    shutdown: impl Future<Output = ()> + Send,
) -> io::Result<()> {
    let places = Places::new(&crate::Settings {
        connections: endpoint.settings.connections,
        connections_per_address: endpoint.settings.connections_per_address,
        ..crate::Settings::default()
    });
    let (mut tasks, mut shutdown) = (JoinSet::new(), pin!(shutdown));
    let mut backoff = BACKOFF_MIN;
    loop {
        tokio::select! {
            () = &mut shutdown => break,
            Some(_) = tasks.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    backoff = BACKOFF_MIN;
                    let Some(place) = places.take(address_of(peer)) else {
                        endpoint.counts.rejected.fetch_add(1, Relaxed);
                        turn_away(stream, tls.is_some()).await;
                        continue;
                    };
                    endpoint.counts.connections.fetch_add(1, Relaxed);
                    let (endpoint, tls) = (Arc::clone(&endpoint), tls.clone());
                    tasks.spawn(async move {
                        let _place = place;
                        let client = endpoint.clients.enter(peer);
                        if let Some(stream) = open(stream, tls).await {
                            let link = Link::new(stream, endpoint.settings.request_time);
                            Session::new(Arc::clone(&endpoint), Arc::clone(&client), link).run().await;
                        }
                        endpoint.clients.leave(&client);
                    });
                }
                Err(error) => {
                    warn!(%error, "no connection can be accepted now");
                    tokio::select! {
                        () = &mut shutdown => break,
                        () = tokio::time::sleep(backoff) => {}
                    }
                    backoff = (backoff * 2).min(BACKOFF_MAX);
                }
            },
        }
    }
    // Accept no new connection while the open ones finish.
    drop(listener);
    endpoint.clients.close();
    if timeout(PARTING_MAX, async { while tasks.join_next().await.is_some() {} }).await.is_err() {
        info!(connections = tasks.len(), "stopping with clients that do not leave");
        tasks.shutdown().await;
    }
    Ok(())
}

/// The stream, with TLS if there is a certificate. `None` means that the handshake failed.
async fn open(stream: TcpStream, tls: Option<Arc<Tls>>) -> Option<Box<dyn Duplex>> {
    // Replies are small and a client waits for each: disable Nagle's algorithm.
    let _ = stream.set_nodelay(true);
    // Clients may be idle forever, so only keep-alive finds a connection that broke without being closed.
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE_EVERY);
    let _ = SockRef::from(&stream).set_tcp_keepalive(&keepalive);
    match tls {
        None => Some(Box::new(stream)),
        Some(tls) => Some(Box::new(tls.shake(stream).await?.stream)),
    }
}

async fn turn_away(mut stream: TcpStream, over_tls: bool) {
    // A TLS client would not understand a reply in plain text.
    if !over_tls && timeout(TURNED_AWAY_TIME, stream.write_all(TOO_MANY)).await.is_err() {
        debug!("a refused connection closed before it read the reason");
    }
}
