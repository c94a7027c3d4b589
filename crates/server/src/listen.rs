//! The accept loop: which connections are accepted, how long they may last, and how they end.
//!
//! We wrote it ourselves because the limits that protect a server belong here: connections in total and per
//! address; time for a head, a body and an answer; requests per connection; what happens when the process
//! runs out of file descriptors. Every connection is a task that is joined. HTTP/1 and HTTP/2 are told apart
//! by the client's first bytes, with or without TLS below. A TLS handshake counts as a connection.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, Request, Response, Version, header};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use punctual_wire::rest::{Code, Problem};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tower::ServiceExt;
use tracing::{debug, info, warn};

use crate::activity::Activity;
use crate::auth::Peer;
use crate::limits::{HEADERS_BYTES_H2_MAX, REQUESTS_MAX, RESETS_MAX, STREAM_WINDOW_BYTES, STREAMS_MAX};
use crate::patience::{Patient, Reading};
use crate::places::{Place, Places};
use crate::rest::request::Deadline;
use crate::settings::Settings;
use crate::tls::Tls;
use crate::{Endpoints, router};

/// The largest request head that is read. A head a little over our own limits gets a proper error answer; one
/// far over them is not worth the memory.
const HEAD_BYTES_READ: usize = 64 * 1024;
/// The most headers that are read, for the same reason: hyper rejects more by itself, without an explanation.
const HEADERS_READ: usize = 512;
/// How long running requests may take once shutdown was requested.
const PARTING_MAX: Duration = Duration::from_secs(5);
/// The interval of HTTP/2 pings and the time limit for their answer. A connection that broke without being
/// closed is noticed within their sum.
const PING_EVERY: Duration = Duration::from_secs(5);
const PING_MAX: Duration = Duration::from_secs(15);
/// The pause after `accept` failed, doubled up to the maximum.
const BACKOFF_MIN: Duration = Duration::from_millis(10);
const BACKOFF_MAX: Duration = Duration::from_secs(1);
/// Connections that are being sent the "too many connections" answer; further ones are dropped without an answer.
const TURNED_AWAY_MAX: usize = 64;
/// How long a refused client may take to read that answer.
const TURNED_AWAY_TIME: Duration = Duration::from_secs(1);

/// Serves until `shutdown` completes, then lets running requests finish, for at most five seconds.
pub async fn serve(
    listener: TcpListener,
    endpoints: Endpoints,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let (stop_in, stop) = watch::channel(false);
    let followers = Arc::clone(endpoints.handle.followers());
    let sessions = Arc::clone(&endpoints.sessions);
    let frame = Frame {
        settings: Arc::clone(&endpoints.settings),
        places: Arc::clone(&endpoints.places),
        tls: endpoints.tls.clone(),
        turning_away: Arc::new(Semaphore::new(TURNED_AWAY_MAX)),
        router: router(endpoints),
        stop,
    };
    let mut tasks = JoinSet::new();
    let mut shutdown = pin!(shutdown);
    let mut backoff = BACKOFF_MIN;
    loop {
        tokio::select! {
            () = &mut shutdown => break,
            Some(_) = tasks.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    if backoff > BACKOFF_MIN {
                        info!("connections are accepted again");
                        backoff = BACKOFF_MIN;
                    }
                    frame.take(stream, peer, &mut tasks);
                }
                Err(error) if is_theirs(&error) => debug!(%error, "a connection was gone before it was accepted"),
                Err(error) => {
                    if backoff == BACKOFF_MIN {
                        warn!(%error, "no connection can be accepted now");
                    }
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
    stop_in.send_replace(true);
    // Streams do not end by themselves, and shutdown waits for open requests.
    followers.close();
    sessions.close();
    sessions.closed().await;
    if tokio::time::timeout(PARTING_MAX, async { while tasks.join_next().await.is_some() {} }).await.is_err()
    {
        info!(connections = tasks.len(), "stopping with requests still under way");
        tasks.shutdown().await;
    }
    Ok(())
}

/// Whether the client caused the error; the next `accept` may succeed.
fn is_theirs(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(error.kind(), Kind::ConnectionAborted | Kind::ConnectionReset | Kind::ConnectionRefused)
}

struct Frame {
    settings: Arc<Settings>,
    places: Arc<Places>,
    tls: Option<Arc<Tls>>,
    turning_away: Arc<Semaphore>,
    router: Router,
    stop: watch::Receiver<bool>,
}

impl Frame {
    fn take(&self, stream: TcpStream, peer: SocketAddr, tasks: &mut JoinSet<()>) {
        // Answers are small and a client waits for each: disable Nagle's algorithm.
        let _ = stream.set_nodelay(true);
        let address = address_of(peer);
        match self.places.take(address) {
            Some(place) => {
                let (router, time, stop) =
                    (self.router.clone(), self.settings.request_time, self.stop.clone());
                let tls = self.tls.clone();
                tasks.spawn(async move {
                    let _place: Place = place;
                    match tls {
                        None => speak(stream, Peer { address, certified: false }, router, time, stop).await,
                        Some(tls) => {
                            if let Some(shaken) = tls.shake(stream).await {
                                let peer = Peer { address, certified: shaken.certified };
                                speak(shaken.stream, peer, router, time, stop).await;
                            }
                        }
                    }
                });
            }
            // A TLS client would not understand an answer in plain text.
            None if self.tls.is_some() => {}
            None => {
                if let Ok(turn) = Arc::clone(&self.turning_away).try_acquire_owned() {
                    tasks.spawn(async move {
                        let _turn = turn;
                        // The client may hang up first; then there is no one left to answer.
                        drop(tokio::time::timeout(TURNED_AWAY_TIME, turn_away(stream)).await);
                    });
                }
            }
        }
    }
}

/// One address counts as one client. So does an IPv6 /64 network: its owner has all its addresses.
pub(crate) fn address_of(peer: SocketAddr) -> IpAddr {
    match peer.ip().to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() & !u128::from(u64::MAX)).into()),
        address @ IpAddr::V4(_) => address,
    }
}

/// Serves one connection, from its first request to its last.
async fn speak<S>(stream: S, peer: Peer, router: Router, time: Duration, mut stop: watch::Receiver<bool>)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let reading = Reading::default();
    let activity = Arc::new(Activity::default());
    let answer = |request: Request<Incoming>| {
        let under_way = activity.begin();
        // HTTP/2 has no `Connection` header; there an idle connection is closed instead.
        let last = under_way.number() >= REQUESTS_MAX && request.version() < Version::HTTP_2;
        let router = router.clone();
        // Head and body share one time limit, from the first byte of the head. Over HTTP/2 a head arrives in
        // one piece.
        let began = reading.began();
        let until = if request.version() < Version::HTTP_2 { began } else { Instant::now() } + time;
        async move {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(Deadline { until, time });
            request.extensions_mut().insert(peer);
            let mut response: Response<Body> = router.oneshot(request).await?;
            if last {
                response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            Ok::<_, std::convert::Infallible>(response.map(|body| under_way.until_sent(body)))
        }
    };
    let http = http(time);
    let stream = Patient::new(stream, time, reading.clone());
    let connection = http.serve_connection(TokioIo::new(stream), service_fn(answer));
    let mut connection = pin!(connection);
    let stopped = async {
        // An error means that the sender is gone; that counts as a stop too.
        drop(stop.wait_for(|stop| *stop).await);
    };
    let done = tokio::select! {
        done = connection.as_mut() => done,
        () = activity.idle_for(time) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
        () = stopped => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = done {
        debug!(%error, "a connection ended badly");
    }
}

/// HTTP/1 and HTTP/2 with the limits of one connection.
fn http(time: Duration) -> auto::Builder<TokioExecutor> {
    let mut http = auto::Builder::new(TokioExecutor::new());
    http.http1()
        .timer(TokioTimer::new())
        .header_read_timeout(time)
        .max_buf_size(HEAD_BYTES_READ)
        .max_headers(HEADERS_READ);
    http.http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEADERS_BYTES_H2_MAX)
        .max_pending_accept_reset_streams(RESETS_MAX)
        .max_local_error_reset_streams(RESETS_MAX)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(STREAM_WINDOW_BYTES)
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_MAX);
    http
}

/// Answers that there are too many connections, and waits until the client has read it: closing at once could
/// discard the answer.
async fn turn_away(mut stream: TcpStream) -> io::Result<()> {
    let code = Code::TooManyConnections;
    let problem =
        Problem::new(code, "this server holds as many connections as it may: close some, or try later");
    let body = serde_json::to_string(&problem).unwrap_or_default();
    let head = format!(
        "HTTP/1.1 {} Service Unavailable\r\ncontent-type: application/problem+json\r\nretry-after: {}\r\n\
         connection: close\r\ncontent-length: {}\r\n\r\n",
        code.status(),
        code.retry_after().unwrap_or(1),
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).await?;
    stream.shutdown().await?;
    let mut unread = [0; 1024];
    while stream.read(&mut unread).await? > 0 {}
    Ok(())
}
