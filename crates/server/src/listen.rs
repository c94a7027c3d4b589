//! The accept loop: who gets a connection, for how long, and how it ends.
//!
//! Our own, because what protects a server sits here: how many connections there are, in all and from one address;
//! how long a head, a body or an answer may take; how many requests a connection carries; what happens when the
//! process has no file descriptor left. Every connection is a task that is joined. It speaks HTTP/1 and HTTP/2, whichever
//! the other side begins with, over whatever reads and writes, so that TLS comes between where there is a certificate; a
//! handshake takes a connection's place like a request does.

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
use crate::{Doors, router};

/// Bytes of a head that are read at all. What is somewhat over our own limits is answered by its name; what is far
/// over them is not worth the memory.
const HEAD_BYTES_READ: usize = 64 * 1024;
/// Headers that are read at all, likewise: hyper turns more of them away by itself, without a word.
const HEADERS_READ: usize = 512;
/// How long requests under way may take once someone asked for the end.
const PARTING_MAX: Duration = Duration::from_secs(5);
/// How often an HTTP/2 connection is looked after, and how long the other side may take to answer: one that was cut
/// without being closed is noticed within their sum.
const PING_EVERY: Duration = Duration::from_secs(5);
const PING_MAX: Duration = Duration::from_secs(15);
/// The pause after the system refused to give us a connection, doubled up to the longest.
const BACKOFF_MIN: Duration = Duration::from_millis(10);
const BACKOFF_MAX: Duration = Duration::from_secs(1);
/// Connections that are being told that there are too many; more are dropped without a word.
const TURNED_AWAY_MAX: usize = 64;
/// How long someone who is turned away may take to listen.
const TURNED_AWAY_TIME: Duration = Duration::from_secs(1);

/// Serves until `shutdown` is over, then lets the requests under way finish, within bounds.
pub async fn serve(
    listener: TcpListener,
    doors: Doors,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let (stop_in, stop) = watch::channel(false);
    let followers = Arc::clone(doors.handle.followers());
    let sessions = Arc::clone(&doors.sessions);
    let frame = Frame {
        settings: Arc::clone(&doors.settings),
        places: Arc::clone(&doors.places),
        tls: doors.tls.clone(),
        turning_away: Arc::new(Semaphore::new(TURNED_AWAY_MAX)),
        router: router(doors),
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
    // Nobody new is let in while the others leave.
    drop(listener);
    stop_in.send_replace(true);
    // They would not end by themselves, and a stop waits for the requests under way.
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

/// The other side went away; the next one may be fine.
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
        // Answers are small and someone waits for each: none is held back to fill a packet.
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
            // What is said in the clear would not be understood.
            None if self.tls.is_some() => {}
            None => {
                if let Ok(turn) = Arc::clone(&self.turning_away).try_acquire_owned() {
                    tasks.spawn(async move {
                        let _turn = turn;
                        // They may hang up first: then there is nobody to tell.
                        drop(tokio::time::timeout(TURNED_AWAY_TIME, turn_away(stream)).await);
                    });
                }
            }
        }
    }
}

/// One address is one machine. An IPv6 network of /64 is, too: whoever has one has all its addresses.
pub(crate) fn address_of(peer: SocketAddr) -> IpAddr {
    match peer.ip().to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() & !u128::from(u64::MAX)).into()),
        address @ IpAddr::V4(_) => address,
    }
}

/// One connection, from its first request to its last.
async fn speak<S>(stream: S, peer: Peer, router: Router, time: Duration, mut stop: watch::Receiver<bool>)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let reading = Reading::default();
    let activity = Arc::new(Activity::default());
    let answer = |request: Request<Incoming>| {
        let under_way = activity.begin();
        // HTTP/2 has no such header; there a connection that is not used is closed.
        let last = under_way.number() >= REQUESTS_MAX && request.version() < Version::HTTP_2;
        let router = router.clone();
        // The head and the body share one time: it began with the first byte of the head. Over HTTP/2 a head comes whole.
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
        // An error means that nobody is left to stop us, which comes to the same.
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

/// Both protocols, with what one connection may ask of us.
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

/// Says that there is no room, and waits until it was heard: closing at once would tear the answer up.
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
