//! Live logs over a real connection: nothing lost, nothing doubled, whatever happens to the connection.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use punctual::client::{Client, Error, LogEvent, LogQuery, Logs};
use punctual::core::Timestamp;
use punctual::core::ids::{RunId, Token};
use punctual::core::log::{Chunk, Stream};
use punctual::core::name::Namespace;
use punctual::core::run::Status;
use punctual::testing::ManualClock;
use punctual::wire::job_file::{Noop, Task};
use punctual::wire::rest::{Cancel, Code, LogStream, Submit};
use punctual::wire::text::Span;
use punctual_node::followers::FOLLOWERS_MAX;
use punctual_node::{Config, Node};
use punctual_server::{Endpoints, Settings, serve};
use punctual_store::memory::Memory;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

const FOLLOW: LogQuery = LogQuery { follow: true, attempt: None };
/// Nothing here takes long; what takes this long has failed.
const DEADLINE: Duration = Duration::from_secs(30);

const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

/// A node without workers, a client of it, and one run that waits for a due time far off.
struct Scene {
    node: Node,
    address: String,
    client: Client,
    run: RunId,
    stop: Option<oneshot::Sender<()>>,
    served: tokio::task::JoinHandle<std::io::Result<()>>,
}

impl Scene {
    async fn new() -> Scene {
        let clock = Arc::new(ManualClock::at(NOW));
        let node = Node::start(Config {
            store: Arc::new(Memory::new(4)),
            clock: clock.clone(),
            lanes: 1,
            attempt_lease: Duration::from_secs(15),
            records: true,
            shard_lease: Duration::from_secs(3),
            cluster: None,
            attempt_keys: None,
            channels: None,
        })
        .expect("a node can be started");
        assert!(node.handle().wait_until(|status| status.ready).await);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = listener.local_addr().expect("it is bound").to_string();
        let endpoints = Endpoints::new(node.handle(), clock, "test", Settings::default());
        let (stop, stopped) = oneshot::channel::<()>();
        let served = tokio::spawn(serve(listener, endpoints, async { drop(stopped.await) }));
        let client = Client::new(&address, None).expect("a client can be made");
        let task = Task { noop: Some(Noop {}), ..Task::default() };
        let delay = Some(Span(Duration::from_secs(3600)));
        let submit = Submit { task: Some(task), delay, ..Submit::default() };
        let run = client.submit(&Namespace::default(), &submit).await.unwrap().id.0;
        Scene { node, address, client, run, stop: Some(stop), served }
    }

    async fn print(&self, token: u64, number: u32, stream: Stream, bytes: &[u8]) {
        let at = Timestamp::from_millis(0);
        let chunk = Chunk { run: self.run, token: Token(token), number, at, stream, bytes: bytes.to_vec() };
        self.node.handle().keep_output(vec![chunk]).await;
    }

    async fn follow(&self, client: &Client) -> Logs {
        client.logs(&Namespace::default(), self.run, FOLLOW).await.unwrap()
    }

    async fn end(&self) {
        self.client.cancel_run(&Namespace::default(), self.run, &Cancel::default()).await.unwrap();
    }
}

async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, future).await.unwrap_or_else(|_| panic!("waited in vain for: {what}"))
}

/// The next output, with the stream it was printed on.
async fn output(logs: &mut Logs) -> (LogStream, Vec<u8>) {
    match within("output", logs.next()).await.unwrap() {
        LogEvent::Output(chunk) => (chunk.stream, chunk.into_bytes().unwrap()),
        end => panic!("{end:?}"),
    }
}

/// What is left of the output, and the state at its end.
async fn rest(logs: &mut Logs) -> (Vec<String>, Status) {
    let mut all = Vec::new();
    loop {
        match within("the end", logs.next()).await.unwrap() {
            LogEvent::Output(chunk) => {
                let place = chunk.place;
                all.push(format!("{place}={}", String::from_utf8_lossy(&chunk.into_bytes().unwrap())));
            }
            LogEvent::End(end) => return (all, end.state.0),
        }
    }
}

#[tokio::test]
async fn a_follower_gets_what_was_printed_what_is_printed_and_the_end() {
    let scene = Scene::new().await;
    scene.print(1, 0, Stream::Out, b"early").await;
    let mut logs = scene.follow(&scene.client).await;
    assert_eq!(output(&mut logs).await, (LogStream::Stdout, b"early".to_vec()));
    scene.print(1, 1, Stream::Err, b"\xff\x00").await;
    assert_eq!(output(&mut logs).await, (LogStream::Stderr, b"\xff\x00".to_vec()));
    scene.print(2, 0, Stream::Note, b"cut here").await;
    assert_eq!(output(&mut logs).await, (LogStream::Note, b"cut here".to_vec()));
    scene.end().await;
    assert_eq!(rest(&mut logs).await, (vec![], Status::Cancelled));
}

#[tokio::test]
async fn a_follower_of_a_finished_run_ends_at_once() {
    let scene = Scene::new().await;
    scene.print(1, 0, Stream::Out, b"all").await;
    scene.end().await;
    let mut logs = scene.follow(&scene.client).await;
    assert_eq!(rest(&mut logs).await, (vec!["1-0=all".to_owned()], Status::Cancelled));
}

#[tokio::test]
async fn without_follow_the_log_ends_where_it_is_now() {
    let scene = Scene::new().await;
    scene.print(1, 0, Stream::Out, b"so far").await;
    let mut logs = scene.client.logs(&Namespace::default(), scene.run, LogQuery::default()).await.unwrap();
    assert_eq!(rest(&mut logs).await, (vec!["1-0=so far".to_owned()], Status::Waiting));
}

/// Passes on only so many bytes of each answer, then cuts both sides off.
async fn cutting_proxy(to: String, bytes: usize, cuts: Arc<AtomicUsize>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let (to, cuts) = (to.clone(), Arc::clone(&cuts));
            tokio::spawn(async move {
                let server = TcpStream::connect(to).await.unwrap();
                let (mut from_client, mut to_client) = client.into_split();
                let (from_server, mut to_server) = server.into_split();
                let asking =
                    tokio::spawn(async move { tokio::io::copy(&mut from_client, &mut to_server).await });
                let mut answer = from_server.take(bytes as u64);
                let _ = tokio::io::copy(&mut answer, &mut to_client).await;
                if answer.limit() == 0 {
                    cuts.fetch_add(1, Ordering::Relaxed);
                }
                asking.abort();
                let _ = to_client.shutdown().await;
            });
        }
    });
    address
}

#[tokio::test]
async fn a_follower_that_reconnects_loses_and_doubles_nothing() {
    let scene = Scene::new().await;
    let cuts = Arc::new(AtomicUsize::new(0));
    // Enough for the head of an answer and a few events; never for all of them.
    let address = cutting_proxy(scene.address.clone(), 1500, Arc::clone(&cuts)).await;
    let client = Client::new(&address, None).unwrap();
    for number in 0..20 {
        scene.print(1, number, Stream::Out, b"x").await;
    }
    let mut logs = scene.follow(&client).await;
    let following = tokio::spawn(async move { rest(&mut logs).await });
    for number in 0..20 {
        scene.print(2, number, Stream::Out, b"x").await;
        tokio::task::yield_now().await;
    }
    scene.end().await;
    let (all, state) = within("the follower", following).await.unwrap();
    let expected = (1..=2).flat_map(|token| (0..20).map(move |number| format!("{token}-{number}=x")));
    assert_eq!((all, state), (expected.collect(), Status::Cancelled));
    assert!(cuts.load(Ordering::Relaxed) >= 2, "it was hardly cut off: the scene proves little");
}

#[tokio::test]
async fn a_node_that_stops_does_not_wait_for_its_followers() {
    let mut scene = Scene::new().await;
    let mut logs = scene.follow(&scene.client).await;
    scene.print(1, 0, Stream::Out, b"up").await;
    output(&mut logs).await;
    drop(scene.stop.take());
    within("the server", &mut scene.served).await.unwrap().unwrap();
}

#[tokio::test]
async fn one_follower_too_many_is_told_so() {
    let scene = Scene::new().await;
    let followers = scene.node.handle();
    let all: Vec<_> = (0..FOLLOWERS_MAX).map(|_| followers.followers().follow(RunId(1)).unwrap()).collect();
    let refused = scene.client.logs(&Namespace::default(), scene.run, FOLLOW).await.unwrap_err();
    let problem = refused.problem().expect("the server says why");
    assert_eq!((problem.code, problem.status), (Code::TooManyFollowers, 429));
    drop(all);
    scene.follow(&scene.client).await;
}

#[tokio::test]
async fn what_cannot_be_followed_is_refused_by_its_name() {
    let scene = Scene::new().await;
    let refused = async |run: RunId, query: LogQuery| match scene
        .client
        .logs(&Namespace::default(), run, query)
        .await
    {
        Err(Error::Problem(problem)) => (problem.code, problem.field.unwrap_or_default()),
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(RunId(1), FOLLOW).await, (Code::NoSuchRun, String::new()));
    let attempt = LogQuery { attempt: Some(1), ..FOLLOW };
    assert_eq!(refused(scene.run, attempt).await, (Code::BadParameter, "attempt".to_owned()));
}
