//! The `Watch` streams of executors: one for each address and metadata, shared by the attempts whose work is there.
//!
//! An attempt asks for its execution on the stream, and the task of the stream passes on what the executor tells. A stream
//! and its connection end with the last attempt that uses them. The egress rules are checked when a connection is opened.
//!
//! ```text
//!  attempt ──ask──▶ Stream ──WatchRequest──▶ executor
//!     ▲                                         │
//!     └────── Told, by execution id ◀── read ◀──┘
//! ```

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use punctual_core::limits::{GRPC_ANSWER_BYTES_MAX, HTTP_POLL_TIMEOUT};
use punctual_core::schedule::format_duration;
use punctual_core::task::{Code, Grpc, GrpcTls};
use punctual_wire::execution::{Execution, Status as State};
use punctual_wire::grpc::v1::executor_client::ExecutorClient;
use punctual_wire::grpc::v1::{self, WatchRequest, WatchResponse};
use reqwest::header::HeaderMap;
use rustc_hash::FxHashMap;
use tokio::sync::{self, OnceCell, mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::MetadataMap;
use tonic::transport::Channel;
use tonic::{Request, Status, Streaming};

use super::connect::connect;
use super::unary::message;
use crate::executor::Host;
use crate::executor::accepted::{Poll, Shared};
use crate::executor::failure::unreachable;

/// Questions that may wait to be sent on a stream; further ones wait for their turn.
const QUESTIONS_MAX: usize = 64;

/// The connections and streams that attempts share.
#[derive(Debug, Default)]
pub(crate) struct Executors {
    connections: Shared<Place, OnceCell<Channel>>,
    streams: Shared<StreamKey, Stream>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Place {
    address: String,
    tls: Option<GrpcTls>,
}

/// An executor may tell about other executions to a caller with other metadata.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct StreamKey {
    place: Place,
    metadata: Vec<(String, Vec<u8>)>,
}

#[derive(Debug, Default)]
struct Stream {
    line: sync::Mutex<Line>,
    told: Arc<Told>,
}

#[derive(Debug, Default)]
enum Line {
    #[default]
    Closed,
    Open(Open),
    /// The attempt to open it failed then; in words.
    Failed(Instant, String),
}

#[derive(Debug)]
struct Open {
    asking: mpsc::Sender<WatchRequest>,
    reading: JoinHandle<()>,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.reading.abort();
    }
}

/// What was told last about each execution that is followed. `None`: nothing yet.
#[derive(Debug, Default)]
struct Told(Mutex<FxHashMap<String, watch::Sender<Option<Poll>>>>);

impl Told {
    fn all(&self) -> MutexGuard<'_, FxHashMap<String, watch::Sender<Option<Poll>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn follow(&self, id: &str) -> watch::Receiver<Option<Poll>> {
        self.all().entry(id.to_owned()).or_default().subscribe()
    }

    /// One follower less.
    fn leave(&self, id: &str) {
        let mut all = self.all();
        // The receiver of the follower that leaves is still there.
        if all.get(id).is_some_and(|told| told.receiver_count() <= 1) {
            all.remove(id);
        }
    }

    fn tell(&self, execution: v1::Execution) {
        let all = self.all();
        let Some(told) = all.get(&execution.execution_id) else { return };
        let poll = match Execution::from_grpc(execution) {
            Ok(Some(execution)) => Poll::Told(execution),
            Ok(None) => Poll::Unknown("the executor does not know this execution".to_owned()),
            Err(error) => Poll::Failed(format!("what the executor tells is not understood: {error}")),
        };
        told.send_replace(Some(poll));
    }

    fn broke(&self, why: &str) {
        for told in self.all().values() {
            told.send_if_modified(|last| {
                // The end of the work may not be read yet.
                let has_ended =
                    matches!(last, Some(Poll::Told(execution)) if execution.status != State::Running);
                if !has_ended {
                    *last = Some(Poll::Failed(why.to_owned()));
                }
                !has_ended
            });
        }
    }
}

/// Follows the execution of one attempt.
#[derive(Debug)]
pub(super) struct Follower<'a> {
    grpc: &'a Grpc,
    host: &'a Host,
    id: String,
    /// Of the stream.
    metadata: MetadataMap,
    connection: Arc<OnceCell<Channel>>,
    stream: Arc<Stream>,
    told: watch::Receiver<Option<Poll>>,
}

impl Drop for Follower<'_> {
    fn drop(&mut self) {
        self.stream.told.leave(&self.id);
    }
}

impl<'a> Follower<'a> {
    pub(super) fn new(grpc: &'a Grpc, id: String, metadata: HeaderMap, host: &'a Host) -> Follower<'a> {
        let place = Place { address: grpc.address.to_ascii_lowercase(), tls: grpc.tls.clone() };
        let sent = metadata.iter().map(|(name, value)| (name.to_string(), value.as_bytes().to_vec()));
        let key = StreamKey { place: place.clone(), metadata: sent.collect() };
        let stream = host.executors.streams.get(key);
        Follower {
            grpc,
            host,
            metadata: MetadataMap::from_headers(metadata),
            connection: host.executors.connections.get(place),
            told: stream.told.follow(&id),
            stream,
            id,
        }
    }

    /// The connection to the executor. It opens itself again when it is used after it was lost.
    pub(super) async fn channel(&self) -> Result<Channel, String> {
        self.connection.get_or_try_init(|| connect(self.grpc, self.host.clients.egress())).await.cloned()
    }

    /// Asks for the execution, and waits for what is told next about it.
    pub(super) async fn ask(&mut self) -> Poll {
        // What was told before the question does not answer it.
        self.told.mark_unchanged();
        let asking = async {
            match self.send().await {
                Ok(()) => self.told().await,
                Err(why) => Poll::Failed(why),
            }
        };
        timeout(HTTP_POLL_TIMEOUT, asking).await.unwrap_or_else(|_| {
            let limit = format_duration(HTTP_POLL_TIMEOUT);
            Poll::Failed(format!("{} did not answer within {limit}", self.grpc.address))
        })
    }

    /// What is told next about the execution.
    pub(super) async fn told(&mut self) -> Poll {
        // The sender lives as long as the execution is followed.
        let _ = self.told.changed().await;
        let told = self.told.borrow_and_update().clone();
        told.unwrap_or_else(|| Poll::Failed("nothing was told".to_owned()))
    }

    /// Sends the question. Opens the stream first, if it is not open.
    async fn send(&self) -> Result<(), String> {
        let begun = Instant::now();
        let question = WatchRequest { execution_ids: vec![self.id.clone()] };
        let mut line = self.stream.line.lock().await;
        if let Line::Open(open) = &*line
            && !open.reading.is_finished()
            && open.asking.send(question.clone()).await.is_ok()
        {
            return Ok(());
        }
        // Attempts that wait together learn together that it cannot be opened.
        if let Line::Failed(at, why) = &*line
            && *at >= begun
        {
            return Err(why.clone());
        }
        match self.open(question).await {
            Ok(open) => {
                *line = Line::Open(open);
                Ok(())
            }
            Err(why) => {
                *line = Line::Failed(Instant::now(), why.clone());
                Err(why)
            }
        }
    }

    /// Opens the stream with a first question: an executor may answer nothing before it has read one.
    async fn open(&self, question: WatchRequest) -> Result<Open, String> {
        let channel = self.channel().await?;
        let (asking, asked) = mpsc::channel(QUESTIONS_MAX);
        // The channel has room for it.
        let _ = asking.try_send(question);
        let request =
            Request::from_parts(self.metadata.clone(), Default::default(), ReceiverStream::new(asked));
        let answers = client(channel).watch(request).await.map_err(|status| in_words(&status, self.grpc))?;
        let reading = read(answers.into_inner(), Arc::clone(&self.stream.told), self.grpc.address.clone());
        Ok(Open { asking, reading: tokio::spawn(reading) })
    }
}

async fn read(mut answers: Streaming<WatchResponse>, told: Arc<Told>, address: String) {
    let why = loop {
        match answers.message().await {
            Ok(Some(said)) => said.executions.into_iter().for_each(|execution| told.tell(execution)),
            Ok(None) => break format!("{address} ended the Watch stream"),
            Err(status) => break format!("the Watch stream of {address} broke: {}", message(&status)),
        }
    };
    told.broke(&why);
}

pub(super) fn client(channel: Channel) -> ExecutorClient<Channel> {
    ExecutorClient::new(channel).max_decoding_message_size(GRPC_ANSWER_BYTES_MAX)
}

/// What a failed call of an executor says, for the job's author.
pub(super) fn in_words(status: &Status, grpc: &Grpc) -> String {
    if status.code() == tonic::Code::Unimplemented {
        return format!("{} does not speak punctual.v1.Executor", grpc.address);
    }
    unreachable(status, &grpc.address)
        .unwrap_or_else(|| format!("status {}: {}", Code::of(status.code() as i32), message(status)))
}
