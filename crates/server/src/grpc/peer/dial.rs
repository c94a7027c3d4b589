//! Dials the peers: one connection to each, made when first needed and again after it broke.
//!
//! A caller must know whether a command can have arrived. It cannot if there was no connection or the peer
//! refused it; in every other case without an answer the result is unknown.

mod waits;

use std::collections::HashMap;
use std::error::Error;
use std::io::ErrorKind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use punctual_core::command::{Answer, Command};
use punctual_core::ids::{RunId, Token, WorkerId};
use punctual_node::{Failure, Peers};
use punctual_wire::grpc::attempt;
use punctual_wire::grpc::peer::{self, MESSAGE_BYTES_MAX};
use punctual_wire::grpc::v1::peer_client::PeerClient;
use punctual_wire::grpc::v1::{DistrustWorker, DrainWorker, LookRequest, WakeRequest};
use punctual_wire::rest::{Node, Worker};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout, timeout_at};
use tonic::transport::{Channel, ClientTlsConfig, Endpoint};
use tonic::{Code, ConnectError, Request, Status};
use tracing::{debug, warn};

use super::trust::{Trust, Trusted};
use super::{Key, heard};
use waits::{Waits, is_waiting};

/// Connections to peers. At the limit, idle connections are closed to make room.
const PEERS_MAX: usize = 64;
/// Concurrent requests to one peer. Further ones wait.
const REQUESTS_MAX: usize = 1024;
/// The time limit to connect. Peers are near: a slower one counts as unreachable.
const CONNECT_TIME: Duration = Duration::from_secs(1);
/// The interval of keep-alive pings and the time limit for their answer, because a machine that vanished
/// closes nothing. The limit is long: a busy machine answers late, and whether a peer is alive is decided by
/// its session, not here.
const PING_EVERY: Duration = Duration::from_secs(2);
const PING_TIME: Duration = Duration::from_secs(15);

/// Peers that are dialled.
#[derive(Debug)]
pub struct Dialled {
    key: Key,
    /// `None` means without TLS.
    tls: Option<Trust>,
    lines: Mutex<HashMap<String, Arc<Line>>>,
}

#[derive(Debug)]
struct Line {
    client: PeerClient<Channel>,
    room: Semaphore,
    waits: Waits,
    /// The number of the trusted certificates that the connection was made with.
    trust: u64,
    /// The last connection error. `None` means that the peer was reached.
    trouble: Mutex<Option<String>>,
}

impl Dialled {
    pub fn new(key: Key) -> Self {
        Dialled { key, tls: None, lines: Mutex::default() }
    }

    /// Dials over TLS; trusts these certificates besides those of the system.
    pub fn over_tls(self, trusted: Trusted) -> Result<Self, String> {
        Ok(Dialled { tls: Some(Trust::new(trusted)?), ..self })
    }

    /// The state of a node and of its workers. `None` means that it did not answer in time.
    pub(crate) async fn look(&self, address: &str) -> Option<(Node, Vec<Worker>)> {
        let line = self.line(address).ok()?;
        let mut request = Request::new(LookRequest {});
        self.key.put_on(&mut request);
        let response = timeout(CONNECT_TIME, line.client.clone().look(request)).await;
        let response = response.ok()?;
        line.heard(address, response.as_ref().err());
        peer::heard(response.ok()?.get_ref()).inspect_err(|error| warn!(address, %error, "of a peer")).ok()
    }

    /// Has a node tell a worker of its own whether to take work. False means that it has no such worker, or did not
    /// answer in time.
    pub(crate) async fn drain(&self, address: &str, worker: &str, on: bool) -> bool {
        let Ok(line) = self.line(address) else { return false };
        let mut request = Request::new(DrainWorker { worker: worker.to_owned(), on });
        self.key.put_on(&mut request);
        let response = timeout(CONNECT_TIME, line.client.clone().drain(request)).await;
        let Ok(response) = response else { return false };
        line.heard(address, response.as_ref().err());
        response.is_ok_and(|response| response.get_ref().told)
    }

    fn line(&self, address: &str) -> Result<Arc<Line>, Failure> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let (tls, trust) = self.tls.as_ref().map(Trust::now).unzip();
        let trust = trust.unwrap_or_default();
        // Keep a working connection; make a failing one again with the certificates trusted now.
        if let Some(line) = lines.get(address).filter(|line| line.trust == trust || !line.is_in_trouble()) {
            return Ok(Arc::clone(line));
        }
        let known = lines.remove(address);
        if lines.len() >= PEERS_MAX {
            lines.retain(|_, line| Arc::strong_count(line) > 1);
        }
        if lines.len() >= PEERS_MAX {
            return Err(Failure::NotLed("this node has too many peers to talk to one more now".to_owned()));
        }
        let line = Line::to(address, tls, trust)?;
        // Keep the last error, so that it is not logged twice.
        let said = known.and_then(|known| known.trouble().clone());
        *line.trouble() = said;
        let line = Arc::new(line);
        lines.insert(address.to_owned(), Arc::clone(&line));
        Ok(line)
    }
}

impl Line {
    fn to(address: &str, tls: Option<ClientTlsConfig>, trust: u64) -> Result<Line, Failure> {
        let scheme = if tls.is_some() { "https" } else { "http" };
        let endpoint = Endpoint::from_shared(format!("{scheme}://{address}"));
        let endpoint = endpoint.and_then(|endpoint| match tls {
            Some(tls) => endpoint.tls_config(tls),
            None => Ok(endpoint),
        });
        let endpoint = endpoint.map_err(|error| {
            warn!(address, %error, "a peer announced an address that is none");
            unreached()
        })?;
        let channel = endpoint
            .connect_timeout(CONNECT_TIME)
            .http2_keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_TIME)
            .keep_alive_while_idle(true)
            .tcp_nodelay(true)
            .connect_lazy();
        let client = PeerClient::new(channel)
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        let (room, waits) = (Semaphore::new(REQUESTS_MAX), Waits::default());
        Ok(Line { client, room, waits, trust, trouble: Mutex::default() })
    }

    fn trouble(&self) -> MutexGuard<'_, Option<String>> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_in_trouble(&self) -> bool {
        self.trouble().is_some() || self.waits.is_unreached()
    }

    /// Records whether the peer was reached. Each connection error is logged once, until the peer answers again.
    fn heard(&self, address: &str, status: Option<&Status>) {
        let why = status.filter(|status| was_never_connected(status)).map(cause);
        let mut trouble = self.trouble();
        if let Some(why) = why.as_ref().filter(|why| trouble.as_ref() != Some(why)) {
            warn!(address, why, "a peer cannot be reached");
        }
        *trouble = why;
    }
}

#[tonic::async_trait]
impl Peers for Dialled {
    async fn ask(&self, address: &str, command: &Command, deadline: Duration) -> Result<Answer, Failure> {
        let until = Instant::now() + deadline;
        let line = self.line(address)?;
        if is_waiting(command) {
            return line.waits.ask(&line.client, &self.key, command, deadline).await;
        }
        let message = peer::request(command).map_err(|error| Failure::NotLed(error.to_string()))?;
        let Ok(Ok(_turn)) = timeout_at(until, line.room.acquire()).await else {
            let message = "as much as may be is being asked of the node that leads its shard; try again";
            return Err(Failure::NotLed(message.to_owned()));
        };
        let mut request = Request::new(message);
        self.key.put_on(&mut request);
        let mut client = line.client.clone();
        let answered = timeout_at(until, client.ask(request)).await;
        if let Ok(answered) = &answered {
            line.heard(address, answered.as_ref().err());
        }
        match answered {
            Ok(Ok(response)) => match peer::result(response.get_ref()) {
                Ok(result) => result.map_err(heard),
                Err(error) => Err(Failure::Unknown(error.to_string())),
            },
            Ok(Err(status)) => Err(without_answer(address, &status)),
            Err(_) => {
                Err(Failure::Unknown("the node that leads its shard did not answer in time".to_owned()))
            }
        }
    }

    async fn refuses(&self, address: &str) -> bool {
        let dialled = timeout(CONNECT_TIME, TcpStream::connect(address)).await;
        matches!(dialled, Ok(Err(error)) if error.kind() == ErrorKind::ConnectionRefused)
    }

    async fn wake(&self, address: &str) -> bool {
        let Ok(line) = self.line(address) else { return false };
        let mut request = Request::new(WakeRequest {});
        self.key.put_on(&mut request);
        let answered = timeout(CONNECT_TIME, line.client.clone().wake(request)).await;
        if let Ok(answered) = &answered {
            line.heard(address, answered.as_ref().err());
        }
        let is_awake = matches!(answered, Ok(Ok(_)));
        if !is_awake {
            debug!(address, "a peer was not woken; it looks by itself within a second");
        }
        is_awake
    }

    async fn distrust(&self, address: &str, worker: &WorkerId, attempts: &[(RunId, Token)]) {
        let Ok(line) = self.line(address) else { return };
        let attempts = attempts.iter().map(|(run, token)| attempt(*run, *token)).collect();
        let mut request = Request::new(DistrustWorker { worker: worker.to_string(), attempts });
        self.key.put_on(&mut request);
        match timeout(CONNECT_TIME, line.client.clone().distrust(request)).await {
            Ok(answered) => line.heard(address, answered.as_ref().err()),
            Err(_) => debug!(address, "a peer was not told of a worker; the next heartbeat tells it again"),
        }
    }
}

fn without_answer(address: &str, status: &Status) -> Failure {
    match status.code() {
        Code::Unauthenticated | Code::PermissionDenied | Code::Unimplemented | Code::InvalidArgument => {
            warn!(address, %status, "a peer turned a command away");
            unreached()
        }
        _ if was_never_connected(status) => unreached(),
        _ => {
            warn!(address, %status, "the answer of a peer was lost");
            Failure::Unknown("the answer of the node that leads its shard was lost".to_owned())
        }
    }
}

fn was_never_connected(status: &Status) -> bool {
    let mut cause = status.source();
    while let Some(error) = cause {
        if error.is::<ConnectError>() {
            return true;
        }
        cause = error.source();
    }
    false
}

/// The innermost cause: the outer errors only say that there is no connection.
fn cause(status: &Status) -> String {
    let mut innermost: &dyn Error = status;
    while let Some(error) = innermost.source() {
        innermost = error;
    }
    innermost.to_string()
}

/// The error for the client, who can only try again; address and cause are in the log.
fn unreached() -> Failure {
    Failure::NotLed("the node that leads its shard cannot be reached now; try again".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_idle_peer_makes_room_and_a_busy_one_does_not() {
        let peers = Dialled::new(Key::of(&[0; 32]));
        let mut busy: Vec<_> =
            (0..PEERS_MAX).map(|port| peers.line(&format!("127.0.0.1:{port}")).unwrap()).collect();
        assert!(matches!(peers.line("127.0.0.1:9999"), Err(Failure::NotLed(_))));
        let same = peers.line("127.0.0.1:0").unwrap();
        assert!(Arc::ptr_eq(&same, &busy[0]), "one connection to each");
        busy.pop();
        peers.line("127.0.0.1:9999").unwrap();
        assert_eq!(peers.lines.lock().unwrap().len(), PEERS_MAX);
    }

    #[tokio::test]
    async fn an_address_that_is_none_is_not_reached() {
        let peers = Dialled::new(Key::of(&[0; 32]));
        assert!(matches!(peers.line("no address"), Err(Failure::NotLed(_))));
    }
}
