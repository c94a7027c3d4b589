//! Two nodes on one store, over a real connection: one leads, the other has the endpoints.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Method, StatusCode};
use futures_util::StreamExt;
use punctual_core::Timestamp;
use punctual_core::command::{Command, Key as Idempotency, Submit};
use punctual_core::job::Definition;
use punctual_core::name::Namespace;
use punctual_core::queue::{Add, Ask, Body as MessageBody, NewMessage, QueueKey, Said, Wait};
use punctual_core::task::Task;
use punctual_core::time::ManualClock;
use punctual_node::{Config, Forwarding, Leader, Leaders, Node, Peers};
use punctual_store::memory::Memory;
use punctual_store::{Reads, RunFilter, Store};
use punctual_wire::grpc::v1::peer_client::PeerClient;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, watch};
use tonic::Code;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Endpoint, Server};
use tower::ServiceExt;

use super::*;
use crate::limits::STREAMS_MAX;
use crate::{Endpoints, Settings, router};

const SHARDS: u16 = 4;
const LONG: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_millis(5);
const JOBS: &str = "/api/v1/namespaces/default/jobs";
const RUNS: &str = "/api/v1/namespaces/default/runs";

const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

/// A service on a free port, with a runtime of its own: when it is dropped its connections end where they are.
struct Served {
    address: SocketAddr,
    runtime: Option<Runtime>,
}

impl Served {
    async fn new<P: Peer>(service: InterceptedService<PeerServer<P>, Key>) -> Served {
        Served::at("127.0.0.1:0".parse().unwrap(), service).await
    }

    async fn at<P: Peer>(address: SocketAddr, service: InterceptedService<PeerServer<P>, Key>) -> Served {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.spawn(listen(address)).await.unwrap();
        let address = listener.local_addr().unwrap();
        // As many requests at once as our own listener lets through.
        let mut server = Server::builder().max_concurrent_streams(STREAMS_MAX);
        let serving = server.add_service(service).serve_with_incoming(TcpIncoming::from(listener));
        runtime.spawn(async move { drop(serving.await) });
        Served { address, runtime: Some(runtime) }
    }

    fn leads(&self) -> Leaders {
        Leaders::all(SHARDS, &Leader::At(self.address.to_string().into()))
    }
}

/// Retries, because the former listener may not have closed the port yet.
async fn listen(address: SocketAddr) -> TcpListener {
    loop {
        match TcpListener::bind(address).await {
            Ok(listener) => return listener,
            Err(error) if error.kind() == ErrorKind::AddrInUse => tokio::time::sleep(SHORT).await,
            Err(error) => panic!("{error}"),
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn config(store: &Arc<Memory>) -> Config {
    Config {
        store: Arc::clone(store) as Arc<dyn Store>,
        clock: Arc::new(ManualClock::at(NOW)),
        lanes: 1,
        attempt_lease: Duration::from_secs(15),
        records: true,
        shard_lease: Duration::from_secs(3),
        cluster: None,
        attempt_keys: None,
        channels: None,
    }
}

struct Scene {
    store: Arc<Memory>,
    key: Key,
    /// Leads every shard.
    leader: Node,
    /// Leads nothing.
    node: Node,
    lead: watch::Sender<Leaders>,
    /// The endpoints of `node`.
    router: Router,
}

impl Scene {
    async fn new(patience: Duration) -> Scene {
        let store = Arc::new(Memory::new(SHARDS));
        // Two nodes start: the first one's offer is everybody's key.
        let key = Key::agree(&*store, &[7; OFFER_BYTES]).await.unwrap();
        let same = Key::agree(&*store, &[8; OFFER_BYTES]).await.unwrap();
        assert!(key == same);
        let leader = Node::start(config(&store)).unwrap();
        assert!(leader.handle().wait_until(|status| status.ready).await);
        let (lead, leaders) = watch::channel(Leaders::all(SHARDS, &Leader::Nobody));
        let peers = Arc::new(Dialled::new(same));
        let forwarding = Forwarding { leaders, peers, patience, schedules: false };
        let node = Node::start_in(forwarding, config(&store)).unwrap();
        let endpoints =
            Endpoints::new(node.handle(), Arc::new(ManualClock::at(NOW)), "test", Settings::default());
        Scene { store, key, leader, node, lead, router: router(endpoints) }
    }

    fn service(&self) -> Service {
        let endpoints = Endpoints::new(
            self.leader.handle(),
            Arc::new(ManualClock::at(NOW)),
            "leader",
            Settings::default(),
        );
        service(endpoints, self.key.clone())
    }

    async fn send(&self, method: Method, path: &str, body: Value) -> (StatusCode, String, Value) {
        let request = axum::http::Request::builder().method(method).uri(path);
        let request = request.header("host", "localhost").header("content-type", "application/json");
        let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
        let response = self.router.clone().oneshot(request.body(body).unwrap()).await.unwrap();
        let (parts, body) = response.into_parts();
        let after = parts.headers.get("retry-after").map_or("", |value| value.to_str().unwrap()).to_owned();
        let bytes = to_bytes(body, usize::MAX).await.unwrap();
        (parts.status, after, serde_json::from_slice(&bytes).unwrap_or_default())
    }

    async fn runs(&self) -> usize {
        self.store.runs(&RunFilter::default(), None, 100).await.unwrap().len()
    }
}

fn submit(key: Option<&str>) -> Command {
    Command::Submit(Submit {
        namespace: Namespace::default(),
        definition: Arc::new(Definition::of(Task::Noop)),
        due: None,
        key: key.map(|text| Idempotency { text: text.into(), kept: Duration::from_secs(60) }),
        spread: 1,
    })
}

#[tokio::test]
async fn a_node_that_leads_nothing_serves_every_command() {
    let scene = Scene::new(LONG).await;
    let served = Served::new(scene.service()).await;
    scene.lead.send_replace(served.leads());
    let path = format!("{JOBS}/hello");
    let (status, _, job) = scene.send(Method::PUT, &path, json!({ "task": { "noop": {} } })).await;
    assert_eq!((status.as_u16(), &job["name"]), (201, &json!("hello")), "{job}");
    let (status, _, run) = scene.send(Method::POST, &format!("{path}/run"), json!({})).await;
    assert_eq!(status, 201, "{run}");
    let (status, _, read) =
        scene.send(Method::GET, &format!("{RUNS}/{}", run["id"].as_str().unwrap()), Value::Null).await;
    assert_eq!((status.as_u16(), &read["job"]), (200, &json!("hello")), "{read}");
    let (status, _, _) = scene.send(Method::POST, &format!("{path}/pause"), json!({})).await;
    assert_eq!(status, 200);
    // A refusal is the same wherever it is made.
    let (status, _, problem) = scene.send(Method::POST, &format!("{JOBS}/none/run"), json!({})).await;
    assert_eq!((status.as_u16(), &problem["code"]), (404, &json!("no_such_job")), "{problem}");
    let (status, _, _) = scene.send(Method::DELETE, &path, Value::Null).await;
    assert_eq!(status, 204);
}

#[tokio::test]
async fn who_has_not_the_key_of_the_cluster_is_not_answered() {
    let scene = Scene::new(Duration::from_millis(300)).await;
    let served = Served::new(scene.service()).await;
    let channel = Endpoint::from_shared(format!("http://{}", served.address)).unwrap().connect_lazy();
    let mut stranger = PeerClient::new(channel);
    let wrong = Key::of(&[9; OFFER_BYTES]);
    for key in [None, Some(&wrong)] {
        let mut request = Request::new(peer::request(&submit(None)).unwrap());
        if let Some(key) = key {
            key.put_on(&mut request);
        }
        assert_eq!(stranger.ask(request).await.unwrap_err().code(), Code::Unauthenticated);
    }
    // A node of another cluster at the address: nothing happens, and it is not unknown either.
    let address = served.address.to_string();
    let failure = Dialled::new(wrong).ask(&address, &submit(None), LONG).await.unwrap_err();
    assert!(matches!(failure, Failure::NotLed(_)), "{failure:?}");
    assert_eq!(scene.runs().await, 0);
    assert!(!format!("{:?}", scene.key).contains("07"), "a key is not printed");
}

#[tokio::test]
async fn without_a_leader_an_endpoint_waits_and_then_says_when_to_come_back() {
    let scene = Scene::new(Duration::from_millis(100)).await;
    let unreachable = Leader::At("127.0.0.1:1".into());
    for leader in [Leader::Nobody, unreachable] {
        scene.lead.send_replace(Leaders::all(SHARDS, &leader));
        let (status, retry_after, problem) =
            scene.send(Method::POST, RUNS, json!({ "task": { "noop": {} } })).await;
        assert_eq!((status.as_u16(), retry_after.as_str()), (503, "1"), "{problem}");
        assert_eq!(problem["code"], "unavailable");
    }
    // Reads need no leader.
    assert_eq!(scene.send(Method::GET, RUNS, Value::Null).await.0, 200);
    assert_eq!(scene.runs().await, 0);
}

#[tokio::test]
async fn a_leader_that_comes_back_at_its_address_is_found_again() {
    let scene = Scene::new(LONG).await;
    let served = Served::new(scene.service()).await;
    scene.lead.send_replace(served.leads());
    scene.node.handle().command(submit(None)).await.unwrap();
    let address = served.address;
    drop(served);
    let handle = scene.node.handle();
    let waiting = tokio::spawn(async move { handle.command(submit(Some("k"))).await });
    let _served = Served::at(address, scene.service()).await;
    waiting.await.unwrap().unwrap();
    assert_eq!(scene.runs().await, 2);
}

/// Takes commands and never answers.
struct Silent(mpsc::UnboundedSender<()>);

#[tonic::async_trait]
impl Peer for Silent {
    type WaitStream = waits::Answers;

    async fn wait(&self, _: Request<Streaming<WaitRequest>>) -> Result<Response<waits::Answers>, Status> {
        std::future::pending().await
    }

    async fn ask(&self, _: Request<AskRequest>) -> Result<Response<AskResponse>, Status> {
        self.0.send(()).unwrap();
        std::future::pending().await
    }

    async fn wake(&self, _: Request<WakeRequest>) -> Result<Response<WakeResponse>, Status> {
        std::future::pending().await
    }

    async fn drain(&self, _: Request<DrainWorker>) -> Result<Response<Drained>, Status> {
        std::future::pending().await
    }

    async fn distrust(&self, _: Request<DistrustWorker>) -> Result<Response<Distrusted>, Status> {
        std::future::pending().await
    }

    async fn look(&self, _: Request<LookRequest>) -> Result<Response<LookResponse>, Status> {
        std::future::pending().await
    }
}

#[tokio::test]
async fn a_leader_killed_before_its_answer_leaves_it_unknown() {
    let scene = Scene::new(LONG).await;
    let living = Served::new(scene.service()).await;
    for key in [None, Some("k")] {
        let (taken_in, mut taken) = mpsc::unbounded_channel();
        let silent = InterceptedService::new(PeerServer::new(Silent(taken_in)), scene.key.clone());
        let dying = Served::new(silent).await;
        scene.lead.send_replace(dying.leads());
        let handle = scene.node.handle();
        let asking = tokio::spawn(async move { handle.command(submit(key)).await });
        taken.recv().await.unwrap();
        drop(dying);
        scene.lead.send_replace(living.leads());
        let answer = asking.await.unwrap();
        match key {
            None => assert!(matches!(answer, Err(Failure::Unknown(_))), "{answer:?}"),
            Some(_) => assert!(answer.is_ok(), "{answer:?}"),
        }
    }
    assert_eq!(scene.runs().await, 1);
}

#[tokio::test]
async fn an_answer_that_is_too_late_is_unknown() {
    let scene = Scene::new(Duration::from_millis(200)).await;
    let (taken_in, mut taken) = mpsc::unbounded_channel();
    let silent = InterceptedService::new(PeerServer::new(Silent(taken_in)), scene.key.clone());
    let served = Served::new(silent).await;
    scene.lead.send_replace(served.leads());
    let (status, retry_after, problem) =
        scene.send(Method::POST, RUNS, json!({ "task": { "noop": {} } })).await;
    assert_eq!((status.as_u16(), retry_after.as_str()), (503, "1"), "{problem}");
    assert!(taken.recv().await.is_some() && taken.try_recv().is_err(), "it was sent, and sent once");
}

#[tokio::test]
async fn a_follower_at_another_node_sees_the_end_of_the_run() {
    let scene = Scene::new(LONG).await;
    let served = Served::new(scene.service()).await;
    scene.lead.send_replace(served.leads());
    let (_, _, run) = scene.send(Method::POST, RUNS, json!({ "task": { "noop": {} } })).await;
    let path = format!("{RUNS}/{}", run["id"].as_str().unwrap());
    let request = axum::http::Request::get(format!("{path}/events?follow=true")).header("host", "localhost");
    let request = request.body(Body::empty()).unwrap();
    let response = scene.router.clone().oneshot(request).await.unwrap();
    assert_eq!(response.status(), 200);
    let mut events = response.into_body().into_data_stream();
    let mut heard = String::new();
    while !heard.contains("event: change") {
        heard += &String::from_utf8_lossy(&events.next().await.unwrap().unwrap());
    }
    assert!(!heard.contains("event: end"), "{heard}");
    // No worker is there to take it: it ends when someone says so, on the node that leads it.
    let run = run["id"].as_str().unwrap().parse().unwrap();
    let cancel = Command::CancelRun {
        namespace: Namespace::default(),
        run,
        now: false,
        by: None,
        comment: Box::default(),
    };
    scene.leader.handle().command(cancel).await.unwrap();
    let rest = async {
        while let Some(frames) = events.next().await {
            heard += &String::from_utf8_lossy(&frames.unwrap());
        }
    };
    tokio::time::timeout(LONG, rest).await.expect("long before anyone gives up");
    assert!(heard.contains("event: end") && heard.contains("cancelled"), "{heard}");
}

fn queue(number: usize) -> QueueKey {
    QueueKey { namespace: Namespace::default(), name: format!("q-{number}").parse().unwrap() }
}

fn add(queue: QueueKey, bodies: Vec<MessageBody>) -> Ask {
    let new = |body| NewMessage {
        body,
        delay: Duration::ZERO,
        retry: Duration::from_secs(300),
        ttl: Duration::from_secs(3600),
        priority: 5,
        max_len: None,
        key: None,
    };
    Ask::Add(Add { queue, messages: bodies.into_iter().map(new).collect() })
}

/// Waits until so many consumers wait at each of these queues.
async fn wait_until_waited_for(leader: &Node, queues: usize, each: u64) {
    for number in 0..queues {
        loop {
            let said = leader.handle().queue(Ask::Stat { queue: queue(number) }).await.unwrap();
            if matches!(said, Said::Stat(stat) if stat.as_ref().map_or(0, |stat| stat.waiting) == each) {
                break;
            }
            tokio::time::sleep(SHORT).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_consumers_do_not_block_other_commands() {
    const QUEUES: usize = 10;
    const EACH: usize = 200;
    let scene = Scene::new(LONG).await;
    let served = Served::new(scene.service()).await;
    scene.lead.send_replace(served.leads());
    let mut waiting = tokio::task::JoinSet::new();
    for number in 0..QUEUES * EACH {
        let handle = scene.node.handle();
        waiting.spawn(async move { handle.take(&[queue(number % QUEUES)], 1, Wait::Forever).await.unwrap() });
    }
    wait_until_waited_for(&scene.leader, QUEUES, EACH as u64).await;
    let command = scene.node.handle();
    let through = tokio::time::timeout(LONG, command.command(submit(None))).await;
    through.expect("nobody has to wait for those who wait").unwrap();
    for number in 0..QUEUES {
        let bodies = (0..EACH).map(|body| MessageBody::from(body.to_string().into_bytes())).collect();
        scene.node.handle().queue(add(queue(number), bodies)).await.unwrap();
    }
    let taken = tokio::time::timeout(LONG, waiting.join_all()).await.expect("everyone is served");
    assert!(taken.iter().all(|taken| taken.len() == 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_that_leaves_at_once_leaves_no_waiter_behind() {
    const HASTY: u64 = 500;
    let scene = Scene::new(LONG).await;
    let served = Served::new(scene.service()).await;
    scene.lead.send_replace(served.leads());
    let mut hasty = tokio::task::JoinSet::new();
    for number in 0..HASTY {
        let (handle, patience) = (scene.node.handle(), Duration::from_micros(20 * number));
        hasty.spawn(async move { handle.take(&[queue(0)], 1, Wait::For(patience)).await.unwrap() });
    }
    assert!(hasty.join_all().await.iter().all(Vec::is_empty));
    // Long before anybody would be asked to leave.
    let nobody = tokio::time::timeout(LONG, wait_until_waited_for(&scene.leader, 1, 0));
    nobody.await.expect("nobody is left");
    let handle = scene.node.handle();
    handle.queue(add(queue(0), vec![MessageBody::from(&b"x"[..])])).await.unwrap();
    assert_eq!(handle.take(&[queue(0)], 1, Wait::No).await.unwrap().len(), 1, "nobody who is gone has it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_gone_before_its_wait_leaves_no_waiter_behind() {
    const HASTY: u64 = 500;
    let scene = Scene::new(LONG).await;
    let served = Served::new(scene.service()).await;
    scene.lead.send_replace(served.leads());
    for _ in 0..HASTY {
        let handle = scene.node.handle();
        let queues = [queue(0)];
        let mut taking = Box::pin(handle.take(&queues, 1, Wait::Forever));
        assert!(futures_util::poll!(taking.as_mut()).is_pending());
    }
    let handle = scene.node.handle();
    let stays = tokio::spawn(async move { handle.take(&[queue(0)], 1, Wait::Forever).await });
    let alone = tokio::time::timeout(LONG, wait_until_waited_for(&scene.leader, 1, 1));
    alone.await.expect("only the one that stays waits");
    scene.leader.handle().queue(add(queue(0), vec![MessageBody::from(&b"x"[..])])).await.unwrap();
    let taken = tokio::time::timeout(LONG, stays).await.expect("nobody who is gone has it");
    assert_eq!(taken.unwrap().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_waits_on_when_the_leader_is_back() {
    let scene = Scene::new(LONG).await;
    let served = Served::new(scene.service()).await;
    scene.lead.send_replace(served.leads());
    let handle = scene.node.handle();
    let waiting = tokio::spawn(async move { handle.take(&[queue(0)], 1, Wait::Forever).await });
    wait_until_waited_for(&scene.leader, 1, 1).await;
    let address = served.address;
    drop(served);
    // Its place is given up there, for nobody could be told.
    wait_until_waited_for(&scene.leader, 1, 0).await;
    let _served = Served::at(address, scene.service()).await;
    wait_until_waited_for(&scene.leader, 1, 1).await;
    scene.leader.handle().queue(add(queue(0), vec![MessageBody::from(&b"x"[..])])).await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap().len(), 1);
}

/// What one take brings fits into one answer, however large the messages are.
#[tokio::test(flavor = "multi_thread")]
async fn the_largest_messages_come_from_another_node_as_many_as_fit() {
    const COUNT: usize = 30;
    let scene = Scene::new(LONG).await;
    let served = Served::new(scene.service()).await;
    scene.lead.send_replace(served.leads());
    let (there, here) = (scene.leader.handle(), scene.node.handle());
    let body = MessageBody::from(vec![b'x'; punctual_core::limits::MESSAGE_BYTES_MAX]);
    there.queue(add(queue(0), vec![body; COUNT])).await.unwrap();
    let Said::Peeked(seen) =
        here.queue(Ask::Peek { queue: queue(0), count: 2, newest: false }).await.unwrap()
    else {
        panic!("a look is answered by what was seen")
    };
    assert!(seen.is_none_or(|seen| seen.len() == 2));
    let mut taken = 0;
    while taken < COUNT {
        let some = here.take(&[queue(0)], 100, Wait::For(LONG)).await.unwrap();
        assert!(!some.is_empty());
        taken += some.len();
    }
    assert_eq!(taken, COUNT);
}
