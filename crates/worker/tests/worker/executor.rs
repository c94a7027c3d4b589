//! Work for an executor over gRPC, against an executor of our own that says what a test wants.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use punctual_core::attempt::{Assignment, End, Outcome, Report};
use punctual_core::ids::RunId;
use punctual_core::log::Stream as Output;
use punctual_core::progress::Progress;
use punctual_core::retry::Failed;
use punctual_core::run::Cause;
use punctual_core::task::{Grpc, Task};
use punctual_wire::grpc::v1::execution::Status as State;
use punctual_wire::grpc::v1::executor_server::{Executor, ExecutorServer};
use punctual_wire::grpc::v1::{
    CancelRequest, CancelResponse, Execution, StartRequest, StartResponse, WatchRequest, WatchResponse,
};
use punctual_worker::{Egress, Order, Rule};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::MetadataMap;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status, Streaming};

use crate::rig::{Rig, TOKEN, assignment, until};
use crate::shop::{Reflection, Shop};

/// The channel to a `Watch` stream.
type Telling = mpsc::Sender<Result<WatchResponse, Status>>;

/// What the executor was asked, and what it answers.
#[derive(Debug, Default)]
struct Seen {
    started: Vec<(StartRequest, MetadataMap)>,
    cancelled: Vec<(String, MetadataMap)>,
    asked: usize,
    /// Executions that were asked for.
    followed: BTreeSet<String>,
    /// Streams that were opened, each with its metadata, and the channel to it while it is open.
    streams: Vec<(MetadataMap, Option<Telling>)>,
    /// The connections that calls came over.
    connections: BTreeSet<Option<SocketAddr>>,
    /// What is told about each execution. Missing: it is not known.
    executions: BTreeMap<String, Execution>,
    /// The answer to Start.
    refusal: Option<Status>,
}

#[derive(Debug, Clone, Default)]
struct Scripted(Arc<Mutex<Seen>>);

struct Service {
    address: SocketAddr,
    script: Scripted,
    serving: JoinHandle<()>,
}

impl Drop for Service {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Service {
    async fn start() -> Service {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, script) = (listener.local_addr().unwrap(), Scripted::default());
        let router = Server::builder().add_service(ExecutorServer::new(script.clone()));
        let serving = router.serve_with_incoming(TcpIncoming::from(listener));
        Service { address, script, serving: tokio::spawn(async move { serving.await.unwrap() }) }
    }

    fn work(&self) -> Grpc {
        Grpc::work(self.address.to_string())
    }

    /// Tells the state of an execution, now and whenever it is asked for.
    async fn tells(&self, execution: Execution) {
        let tellers = {
            let mut seen = self.script.0.lock();
            seen.executions.insert(execution.execution_id.clone(), execution.clone());
            let is_followed = seen.followed.contains(&execution.execution_id);
            seen.streams
                .iter()
                .filter_map(|(_, tell)| tell.clone())
                .filter(|_| is_followed)
                .collect::<Vec<_>>()
        };
        for tell in tellers {
            // An error means that the worker has closed the stream.
            let _ = tell.send(Ok(WatchResponse { executions: vec![execution.clone()] })).await;
        }
    }

    /// Ends all streams.
    fn hangs_up(&self) {
        self.script.0.lock().streams.iter_mut().for_each(|(_, tell)| *tell = None);
    }

    async fn until(&self, what: &str, is_so: impl Fn(&Seen) -> bool) {
        until(what, || is_so(&self.script.0.lock())).await;
    }

    fn started(&self) -> Vec<String> {
        self.script.0.lock().started.iter().map(|(request, _)| request.execution_id.clone()).collect()
    }

    fn cancelled(&self) -> Vec<String> {
        self.script.0.lock().cancelled.iter().map(|(id, _)| id.clone()).collect()
    }
}

#[tonic::async_trait]
impl Executor for Scripted {
    type WatchStream = ReceiverStream<Result<WatchResponse, Status>>;

    async fn start(&self, request: Request<StartRequest>) -> Result<Response<StartResponse>, Status> {
        let mut seen = self.0.lock();
        seen.connections.insert(request.remote_addr());
        let (metadata, _, request) = request.into_parts();
        seen.started.push((request, metadata));
        seen.refusal.clone().map_or(Ok(Response::new(StartResponse {})), Err)
    }

    async fn watch(
        &self,
        request: Request<Streaming<WatchRequest>>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let (tell, answers) = mpsc::channel(1024);
        let script = self.clone();
        {
            let mut seen = self.0.lock();
            seen.connections.insert(request.remote_addr());
            seen.streams.push((request.metadata().clone(), Some(tell.clone())));
        }
        let (weak, mut asked) = (tell.downgrade(), request.into_inner());
        drop(tell);
        tokio::spawn(async move {
            while let Ok(Some(WatchRequest { execution_ids })) = asked.message().await {
                let executions = execution_ids.iter().map(|id| script.answer(id)).collect();
                let Some(tell) = weak.upgrade() else { return };
                let _ = tell.send(Ok(WatchResponse { executions })).await;
            }
        });
        Ok(Response::new(ReceiverStream::new(answers)))
    }

    async fn cancel(&self, request: Request<CancelRequest>) -> Result<Response<CancelResponse>, Status> {
        let (metadata, _, CancelRequest { execution_id }) = request.into_parts();
        self.0.lock().cancelled.push((execution_id, metadata));
        Ok(Response::new(CancelResponse {}))
    }
}

impl Scripted {
    fn answer(&self, id: &str) -> Execution {
        let mut seen = self.0.lock();
        seen.asked += 1;
        seen.followed.insert(id.to_owned());
        seen.executions.get(id).cloned().unwrap_or_else(|| told(id, State::Unknown))
    }
}

fn told(id: &str, status: State) -> Execution {
    Execution { execution_id: id.to_owned(), status: status.into(), ..Execution::default() }
}

fn running(id: &str, percent: u32) -> Execution {
    Execution { percent: Some(percent), ..told(id, State::Running) }
}

fn task(grpc: Grpc) -> Task {
    Task::Grpc(Box::new(grpc))
}

async fn rig() -> Rig {
    Rig::start_with(|config| {
        config.slots = 200;
        config.egress = Arc::new(Egress::new(vec![Rule::Loopback]));
    })
    .await
}

/// Assigns the first attempt of a run.
async fn assign_first(rig: &Rig, run: i64, grpc: Grpc) {
    rig.order(vec![Order::Assign(Assignment { attempt: 1, ..assignment(run, task(grpc)) })]).await;
}

async fn next_progress(rig: &mut Rig) -> Progress {
    match rig.report_where(|report| matches!(report, Report::Progress { .. })).await {
        Report::Progress { progress, .. } => progress,
        other => panic!("not progress: {other:?}"),
    }
}

#[tokio::test]
async fn work_is_followed_to_its_end_on_the_stream() {
    let service = Service::start().await;
    service
        .tells(Execution {
            message: Some("row 4".to_owned()),
            checkpoint: Some(r#"{"row":4}"#.to_owned()),
            ..running("1", 40)
        })
        .await;
    let grpc = Grpc {
        message: r#"{"day": "{{ params.day }}"}"#.to_owned(),
        metadata: [("authorization".to_owned(), "Bearer a".to_owned())].into(),
        ..service.work()
    };
    let mut rig = rig().await;
    let given = assignment(1, task(grpc));
    let params = punctual_core::task::Params(r#"{"day": "monday"}"#.into());
    let (attempt_key, checkpoint) = (Some(Arc::from("pck_1_2_3")), Some(Arc::from(r#"{"row":3}"#)));
    rig.order(vec![Order::Assign(Assignment { attempt: 1, params, attempt_key, checkpoint, ..given })]).await;
    let progress = next_progress(&mut rig).await;
    assert_eq!((progress.percent, progress.message.as_deref()), (Some(40), Some("row 4")));
    assert_eq!(progress.checkpoint.as_deref(), Some(r#"{"row":4}"#));
    let asked = service.script.0.lock().asked;
    service.tells(running("1", 60)).await;
    assert_eq!(next_progress(&mut rig).await, Progress::percent(60));
    service.tells(Execution { result: Some("10 rows".to_owned()), ..told("1", State::Succeeded) }).await;
    let outcome = rig.finished(1).await;
    assert_eq!((outcome.end, &*outcome.output, &*outcome.error), (End::Succeeded, "10 rows", ""));
    rig.shut_down().await;

    let seen = service.script.0.lock();
    assert_eq!(seen.asked, asked, "changes are told without a question");
    let (request, metadata) = &seen.started[0];
    assert_eq!((request.message.as_str(), request.attempt), (r#"{"day":"monday"}"#, 1));
    assert_eq!(
        (request.checkpoint.as_deref(), request.namespace.as_str()),
        (Some(r#"{"row":3}"#), "default")
    );
    let text = |name: &str, metadata: &MetadataMap| {
        metadata.get(name).map(|value| value.to_str().unwrap().to_owned())
    };
    for (name, value) in [
        ("authorization", "Bearer a"),
        ("punctual-run-id", "1"),
        ("punctual-attempt", "1"),
        ("punctual-attempt-key", "pck_1_2_3"),
    ] {
        assert_eq!(text(name, metadata).as_deref(), Some(value), "{name}");
    }
    let (of_stream, _) = &seen.streams[0];
    assert_eq!(text("authorization", of_stream).as_deref(), Some("Bearer a"));
    assert_eq!(text("punctual-attempt-key", of_stream), None, "it is about no attempt in particular");
}

#[tokio::test]
async fn a_hundred_executions_share_one_stream_and_one_connection() {
    let service = Service::start().await;
    let mut rig = rig().await;
    for run in 1..=100 {
        service.tells(running(&run.to_string(), run)).await;
        assign_first(&rig, run.into(), service.work()).await;
    }
    for _ in 0..100 {
        rig.report_where(|report| {
            matches!(report, Report::Progress { run, progress, .. }
            if i64::from(progress.percent.unwrap()) == run.0)
        })
        .await;
    }
    for run in 1..=100 {
        service.tells(told(&run.to_string(), State::Succeeded)).await;
    }
    for _ in 0..100 {
        rig.report_where(|report| matches!(report, Report::Finished { .. })).await;
    }
    rig.shut_down().await;
    let seen = service.script.0.lock();
    assert_eq!((seen.streams.len(), seen.connections.len(), seen.started.len()), (1, 1, 100));
}

#[tokio::test]
async fn jobs_with_other_metadata_have_another_stream_on_the_same_connection() {
    let service = Service::start().await;
    let rig = rig().await;
    for (run, key) in [(1, "a"), (2, "b"), (3, "a")] {
        service.tells(running(&run.to_string(), 1)).await;
        let metadata = [("authorization".to_owned(), key.to_owned())].into();
        assign_first(&rig, run, Grpc { metadata, ..service.work() }).await;
    }
    service.until("all are followed", |seen| seen.followed.len() == 3).await;
    rig.shut_down().await;
    let seen = service.script.0.lock();
    assert_eq!((seen.streams.len(), seen.connections.len()), (2, 1));
}

#[tokio::test]
async fn work_that_fails_fails_the_attempt_with_its_message() {
    let service = Service::start().await;
    let (message, result) = (Some("no space".to_owned()), Some("row 3".to_owned()));
    service.tells(Execution { message, result, ..told("1", State::Failed) }).await;
    let mut rig = rig().await;
    assign_first(&rig, 1, service.work()).await;
    let outcome = rig.finished(1).await;
    assert_eq!((outcome.end, &*outcome.output, &*outcome.error), (End::Failed, "row 3", "no space"));
    rig.shut_down().await;
}

#[tokio::test]
async fn a_cancel_and_the_timeout_of_the_job_cancel_the_work_once() {
    let service = Service::start().await;
    let mut rig = rig().await;
    for (run, cause, end, words) in [
        (1, Cause::User, End::Failed, "cancelled on request: the executor cancelled the work"),
        (2, Cause::Timeout, End::TimedOut, "stopped at its timeout: the executor cancelled the work"),
    ] {
        service.tells(running(&run.to_string(), 1)).await;
        assign_first(&rig, run, service.work()).await;
        next_progress(&mut rig).await;
        rig.order(vec![Order::Cancel { run: RunId(run), token: TOKEN, cause }]).await;
        let outcome = rig.finished(run).await;
        assert_eq!((outcome.end, &*outcome.error), (end, words));
    }
    rig.shut_down().await;
    assert_eq!(service.cancelled(), ["1", "2"]);
}

#[tokio::test]
async fn the_work_runs_on_when_its_worker_shuts_down() {
    let service = Service::start().await;
    service.tells(running("1", 1)).await;
    let mut rig = rig().await;
    assign_first(&rig, 1, service.work()).await;
    next_progress(&mut rig).await;
    rig.shut_down().await;
    assert_eq!(service.cancelled(), [""; 0]);
    let tell = service.script.0.lock().streams[0].1.clone().unwrap();
    until("the stream is closed", || tell.is_closed()).await;
}

#[tokio::test]
async fn a_later_attempt_follows_the_work_of_an_earlier_one() {
    let service = Service::start().await;
    service.tells(running("1", 40)).await;
    let mut rig = rig().await;
    rig.assign(1, task(service.work())).await;
    assert_eq!(next_progress(&mut rig).await, Progress::percent(40));
    service.tells(told("1", State::Succeeded)).await;
    assert_eq!(rig.finished(1).await.end, End::Succeeded);
    assert_eq!(service.started(), [""; 0], "it is not started twice");

    rig.assign(2, task(service.work())).await;
    service.until("work that is not known is started", |seen| seen.started.len() == 1).await;
    service.tells(told("2", State::Succeeded)).await;
    assert_eq!(rig.finished(2).await.end, End::Succeeded);

    service.tells(told("3", State::Failed)).await;
    rig.assign(3, task(service.work())).await;
    service.until("work that failed is started again", |seen| seen.started.len() == 2).await;
    service.tells(told("3", State::Succeeded)).await;
    rig.finished(3).await;
    assert_eq!(service.started(), ["2", "3"]);
    rig.shut_down().await;
}

#[tokio::test]
async fn a_stream_that_ends_is_opened_again() {
    let service = Service::start().await;
    service.tells(running("1", 10)).await;
    let mut rig = rig().await;
    assign_first(&rig, 1, service.work()).await;
    next_progress(&mut rig).await;
    service.hangs_up();
    service.tells(running("1", 20)).await;
    assert_eq!(next_progress(&mut rig).await, Progress::percent(20));
    let notes = rig.logs.text(1, Output::Note);
    assert!(notes.contains(&format!("a poll failed: {} ended the Watch stream", service.address)), "{notes}");
    // The end of the work is not lost, even if the stream ends right behind it.
    service.tells(Execution { result: Some("done".to_owned()), ..told("1", State::Succeeded) }).await;
    service.hangs_up();
    service.script.0.lock().executions.clear();
    assert_eq!(&*rig.finished(1).await.output, "done");
    assert_eq!((service.started(), service.script.0.lock().streams.len()), (vec!["1".to_owned()], 2));
    rig.shut_down().await;
}

#[tokio::test]
async fn five_failed_polls_in_a_row_fail_the_attempt() {
    let service = Service::start().await;
    service.tells(running("2", 101)).await;
    let mut rig = rig().await;
    for run in [1, 2] {
        assign_first(&rig, run, service.work()).await;
    }
    for (run, words) in [
        (1, "the executor does not know this execution"),
        (2, "what the executor tells is not understood: percent: must be 0 to 100"),
    ] {
        let outcome = rig.finished(run).await;
        assert_eq!(&*outcome.error, format!("5 polls in a row failed, the last one: {words}"));
        let notes = rig.logs.text(run, Output::Note);
        assert_eq!(notes.matches("a poll failed: ").count(), 4, "{notes}");
    }
    rig.shut_down().await;
    let seen = service.script.0.lock();
    assert_eq!((seen.asked, seen.streams.len()), (10, 1));
}

#[tokio::test]
async fn work_that_is_not_accepted_fails_the_attempt() {
    async fn refused(grpc: Grpc) -> Outcome {
        let mut rig = rig().await;
        assign_first(&rig, 1, grpc).await;
        let outcome = rig.finished(1).await;
        rig.shut_down().await;
        outcome
    }

    let service = Service::start().await;
    service.script.0.lock().refusal = Some(Status::resource_exhausted("ten at once"));
    let outcome = refused(service.work()).await;
    assert_eq!(&*outcome.error, "the work was not accepted: status RESOURCE_EXHAUSTED: ten at once");
    assert_eq!((outcome.failed, service.script.0.lock().streams.len()), (Failed::Status(429), 0));

    let shop = Shop::start(Reflection::None).await;
    let outcome = refused(Grpc::work(shop.address.to_string())).await;
    let words = format!("the work was not accepted: {} does not speak punctual.v1.Executor", shop.address);
    assert_eq!((&*outcome.error, outcome.failed), (&*words, Failed::Status(501)));

    let outcome = refused(Grpc::work("127.0.0.1:1")).await;
    assert_eq!(&*outcome.error, "the work was not accepted: 127.0.0.1:1 refused the connection");

    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let outcome = refused(Grpc { timeout: Duration::from_millis(200), ..Grpc::work(address) }).await;
    assert_eq!(
        (&*outcome.error, outcome.failed),
        ("the work was not accepted within 200ms", Failed::Timeout)
    );
}

#[tokio::test]
async fn the_egress_rules_hold_for_executors() {
    let service = Service::start().await;
    let mut rig = Rig::start().await;
    assign_first(&rig, 1, service.work()).await;
    let outcome = rig.finished(1).await;
    assert!(outcome.error.contains("which tasks may not call here"), "{}", outcome.error);
    assert_eq!(service.script.0.lock().connections.len(), 0);
    rig.shut_down().await;
}
