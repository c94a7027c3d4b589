//! Callers of this node that wait for messages or locks at a peer: all of them on one stream.
//!
//! A request for each consumer would use up the few concurrent requests of a connection, which commands need.
//! The stream is opened when a consumer first waits, and again after it broke; the consumers that waited on
//! it then ask again.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use punctual_core::command::{Answer, Command};
use punctual_core::lock;
use punctual_core::queue::Ask;
use punctual_node::Failure;
use punctual_wire::grpc::peer::{self, WAITS_MAX};
use punctual_wire::grpc::v1::peer_client::PeerClient;
use punctual_wire::grpc::v1::{Answered, AskResponse, WaitRequest};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};
use tracing::{debug, warn};

use super::super::{Key, heard};
use super::was_never_connected;

/// Requests waiting to be written to the stream. Further ones wait.
const ASKS_MAX: usize = 256;

/// Whether a command waits for a message or a lock (it may take any time) or ends such a wait.
pub(super) fn is_waiting(command: &Command) -> bool {
    matches!(command, Command::Queue(Ask::Take(take)) if take.waiter.is_some())
        || matches!(command, Command::Lock(lock::Ask::Acquire(_)))
        || is_farewell(command)
}

fn is_farewell(command: &Command) -> bool {
    matches!(command, Command::Queue(Ask::Unwait { .. }) | Command::Lock(lock::Ask::Withdraw { .. }))
}

#[derive(Debug, Default)]
pub(super) struct Waits {
    open: Mutex<Option<Open>>,
    last: AtomicI64,
    /// Whether it was already logged that the peer refuses such a stream.
    is_refused: Arc<AtomicBool>,
    /// Whether the last stream failed for lack of a connection.
    is_unreached: Arc<AtomicBool>,
}

/// An open stream; its task ends with it.
#[derive(Debug)]
struct Open {
    asks: mpsc::Sender<WaitRequest>,
    waiting: Arc<Places>,
    _task: JoinSet<()>,
}

impl Waits {
    pub(super) async fn ask(
        &self,
        client: &PeerClient<Channel>,
        key: &Key,
        command: &Command,
        deadline: Duration,
    ) -> Result<Answer, Failure> {
        let until = Instant::now() + deadline;
        let ask = peer::request(command).map_err(|error| Failure::NotLed(error.to_string()))?;
        let number = self.last.fetch_add(1, Relaxed);
        let (asks, waiting) = self.open(client, key);
        let (reply, answer) = oneshot::channel();
        // Ending a wait needs a place too, and there are at most as many of them as waits.
        let most = if is_farewell(command) { 2 * WAITS_MAX } else { WAITS_MAX };
        let _place = waiting.take(number, reply, most)?;
        match timeout_at(until, asks.send(WaitRequest { number, ask: Some(ask) })).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) | Err(_) => return Err(broken()),
        }
        match timeout_at(until, answer).await {
            Ok(Ok(response)) => match peer::result(&response) {
                Ok(result) => result.map_err(heard),
                Err(error) => Err(Failure::Unknown(error.to_string())),
            },
            Ok(Err(_)) => {
                Err(Failure::Unknown("the answer of the node that leads its shard was lost".to_owned()))
            }
            Err(_) => {
                Err(Failure::Unknown("the node that leads its shard did not answer in time".to_owned()))
            }
        }
    }

    pub(super) fn is_unreached(&self) -> bool {
        self.is_unreached.load(Relaxed)
    }

    /// The open stream, or a new one if it broke.
    fn open(&self, client: &PeerClient<Channel>, key: &Key) -> (mpsc::Sender<WaitRequest>, Arc<Places>) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = open.as_ref().filter(|open| !open.waiting.is_closed()) {
            return (open.asks.clone(), Arc::clone(&open.waiting));
        }
        let (asks, to_send) = mpsc::channel(ASKS_MAX);
        let waiting = Arc::new(Places::default());
        let mut request = Request::new(ReceiverStream::new(to_send));
        key.put_on(&mut request);
        let mut task = JoinSet::new();
        let signs = (Arc::clone(&self.is_refused), Arc::clone(&self.is_unreached));
        task.spawn(carry(client.clone(), request, Arc::clone(&waiting), signs));
        *open = Some(Open { asks: asks.clone(), waiting: Arc::clone(&waiting), _task: task });
        (asks, waiting)
    }
}

/// Passes each answer to its waiting consumer, until the stream ends.
async fn carry(
    mut client: PeerClient<Channel>,
    request: Request<ReceiverStream<WaitRequest>>,
    waiting: Arc<Places>,
    (is_refused, is_unreached): (Arc<AtomicBool>, Arc<AtomicBool>),
) {
    let carried = async {
        let mut answers = client.wait(request).await?.into_inner();
        is_refused.store(false, Relaxed);
        is_unreached.store(false, Relaxed);
        while let Some(Answered { number, response }) = answers.message().await? {
            if let Some(response) = response {
                waiting.answer(number, response);
            }
        }
        Ok::<(), Status>(())
    };
    if let Err(status) = carried.await {
        is_unreached.store(was_never_connected(&status), Relaxed);
        let is_no =
            matches!(status.code(), Code::Unimplemented | Code::Unauthenticated | Code::PermissionDenied);
        if is_no && !is_refused.swap(true, Relaxed) {
            warn!(%status, "a peer takes no consumers of ours that wait: is it of an older version?");
        } else {
            debug!(%status, "the stream of those who wait at a peer broke");
        }
    }
    waiting.close();
}

/// The waiting consumers of a stream, by number. `None` means that the stream has ended.
#[derive(Debug)]
struct Places(Mutex<Option<HashMap<i64, oneshot::Sender<AskResponse>>>>);

impl Default for Places {
    fn default() -> Self {
        Places(Mutex::new(Some(HashMap::new())))
    }
}

impl Places {
    fn take(
        self: &Arc<Self>,
        number: i64,
        reply: oneshot::Sender<AskResponse>,
        most: usize,
    ) -> Result<WaitGuard, Failure> {
        let mut places = self.lock();
        let places = places.as_mut().ok_or_else(broken)?;
        if places.len() >= most {
            let message = "as many consumers as may wait at the node that leads its shard; try again";
            return Err(Failure::NotLed(message.to_owned()));
        }
        places.insert(number, reply);
        Ok(WaitGuard { all: Arc::clone(self), number })
    }

    fn answer(&self, number: i64, response: AskResponse) {
        let reply = self.lock().as_mut().and_then(|places| places.remove(&number));
        // The consumer may have reached its deadline just now.
        if reply.is_none_or(|reply| reply.send(response).is_err()) {
            debug!("dropped an answer for a request that is no longer waiting");
        }
    }

    fn is_closed(&self) -> bool {
        self.lock().is_none()
    }

    /// Ends the wait of every consumer.
    fn close(&self) {
        drop(self.lock().take());
    }

    fn lock(&self) -> MutexGuard<'_, Option<HashMap<i64, oneshot::Sender<AskResponse>>>> {
        // No code panics while it holds this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A waiting consumer. Removed on drop, because the caller may give up first.
struct WaitGuard {
    all: Arc<Places>,
    number: i64,
}

impl Drop for WaitGuard {
    fn drop(&mut self) {
        if let Some(places) = self.all.lock().as_mut() {
            places.remove(&self.number);
        }
    }
}

fn broken() -> Failure {
    Failure::NotLed("the way to the node that leads its shard broke; try again".to_owned())
}
