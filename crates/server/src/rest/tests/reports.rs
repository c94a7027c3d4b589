//! Reports of progress over gRPC and through the queue, and how all of them are counted.

use std::collections::BTreeMap;

use punctual_core::attempt::{End, Outcome, Report};
use punctual_core::ids::{RunId, Token};
use punctual_core::progress::Progress;
use punctual_core::retry::Failed;
use punctual_store::token::Role;
use punctual_wire::grpc::v1::ReportRequest;
use punctual_wire::grpc::v1::attempts_client::AttemptsClient;
use punctual_wire::rest::{Added, Queue, State};
use tokio::sync::watch;
use tonic::{Code as Grpc, Status};

use super::attempt_keys::Working;
use super::*;
use crate::ProgressQueue;
use crate::rest::request::Deadline;

const QUEUE: &str = "/api/v1/namespaces/default/queues/punctual.progress";

enum As<'a> {
    Nobody,
    Key(&'a str),
    Bearer(&'a str),
}

impl Working {
    fn run_id(&self) -> i64 {
        self.run.parse().unwrap()
    }

    /// Reports over gRPC; the answer is the id of the run.
    async fn call(&self, who: As<'_>, report: ReportRequest) -> Result<i64, Status> {
        let mut request = tonic::Request::new(report);
        let metadata = request.metadata_mut();
        match who {
            As::Nobody => {}
            As::Key(key) => drop(metadata.insert("punctual-attempt-key", key.parse().unwrap())),
            As::Bearer(token) => {
                metadata.insert("authorization", format!("Bearer {token}").parse().unwrap());
            }
        }
        let mut client = AttemptsClient::new(self.guarded.scene.router.clone());
        client.report(request).await.map(|answer| answer.into_inner().run)
    }

    async fn check_refused(&self, who: As<'_>, report: ReportRequest, code: Grpc, problem: Code) {
        let status = self.call(who, report).await.unwrap_err();
        let said = status.metadata().get("punctual-code").map(|code| code.to_str().unwrap());
        assert_eq!((status.code(), said), (code, Some(problem.as_str())), "{status:?}");
    }

    /// The run ends.
    async fn finish(&self) {
        let outcome = Outcome {
            end: End::Succeeded,
            started_at: NOW,
            exit_code: Some(0),
            output: "".into(),
            error: "".into(),
            failed: Failed::Error,
        };
        let (run, token) = (RunId(self.run_id()), Token(self.token));
        self.worker.send(vec![Report::Finished { run, token, outcome }]).await;
        while self.shown().await.state != State(punctual_core::run::Status::Succeeded) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    async fn metric(&self, way: &str, outcome: &str) -> u64 {
        let reader = Some(self.guarded.token(Role::Reader));
        let page = self.guarded.ask(&Method::GET, "/metrics", reader, &json!({})).await;
        let page = String::from_utf8(page.body).unwrap();
        let name = format!("punctual_progress_total{{way=\"{way}\",outcome=\"{outcome}\"}} ");
        let line = page.lines().find_map(|line| line.strip_prefix(&name));
        line.unwrap_or_else(|| panic!("no {name}in {page}")).parse().unwrap()
    }
}

fn percent(percent: u32) -> ReportRequest {
    ReportRequest { percent: Some(percent), ..ReportRequest::default() }
}

#[tokio::test]
async fn an_attempt_reports_over_grpc_with_its_key() {
    let working = Working::new().await;
    let report = ReportRequest {
        message: Some("row 400".to_owned()),
        checkpoint: Some("{\"row\": 400}".to_owned()),
        durable: true,
        ..percent(40)
    };
    assert_eq!(working.call(As::Key(&working.key), report).await.unwrap(), working.run_id());
    let run = working.shown().await;
    assert_eq!((run.progress, run.progress_message.as_deref()), (Some(40), Some("row 400")));
    assert_eq!(run.checkpoint.map(|kept| kept.value), Some(json!({ "row": 400 })));
    let named = ReportRequest { run: Some(working.run_id()), token: Some(working.token), ..percent(50) };
    assert_eq!(working.call(As::Key(&working.key), named).await.unwrap(), working.run_id());
    assert_eq!(working.metric("grpc", "accepted").await, 2);
}

#[tokio::test]
async fn the_message_of_the_guide_is_a_report() {
    let guide = include_str!("../../../../../docs/guides/long-work.md");
    let block =
        guide.lines().find(|line| line.starts_with("{ \"percent\"")).expect("the guide has a message");
    let message: BTreeMap<String, Value> = serde_json::from_str(block).unwrap();
    assert_eq!(message.keys().collect::<Vec<_>>(), ["checkpoint", "durable", "percent"]);
    let report = ReportRequest {
        percent: message["percent"].as_u64().and_then(|percent| u32::try_from(percent).ok()),
        checkpoint: message["checkpoint"].as_str().map(str::to_owned),
        durable: message["durable"].as_bool().unwrap(),
        ..ReportRequest::default()
    };
    let working = Working::new().await;
    working.call(As::Key(&working.key), report).await.unwrap();
    let run = working.shown().await;
    assert_eq!(run.progress.map(u64::from), message["percent"].as_u64());
    assert_eq!(run.checkpoint.map(|kept| kept.value), Some(json!({ "row": 400_000 })));
}

#[tokio::test]
async fn a_token_reports_over_grpc_for_the_newest_attempt() {
    let working = Working::new().await;
    let admin = working.guarded.token(Role::Admin);
    let report = ReportRequest { run: Some(working.run_id()), durable: true, ..percent(40) };
    assert_eq!(working.call(As::Bearer(admin), report).await.unwrap(), working.run_id());
    assert_eq!(working.shown().await.progress, Some(40));
}

#[tokio::test]
async fn refusals_over_grpc_have_the_code_and_the_field_of_rest() {
    let working = Working::new().await;
    let admin = || As::Bearer(working.guarded.token(Role::Admin));
    let of_run = |report: ReportRequest| ReportRequest { run: Some(working.run_id()), ..report };
    let (wrong, other) = (working.key.replace("pck_", "pck_1"), ReportRequest { run: Some(7), ..percent(5) });
    let reader = As::Bearer(working.guarded.token(Role::Reader));
    let outdated = ReportRequest { token: Some(working.token - 1), ..of_run(percent(5)) };
    for (who, report, code, problem) in [
        (As::Nobody, of_run(percent(5)), Grpc::Unauthenticated, Code::Unauthenticated),
        (As::Key(&wrong), percent(5), Grpc::Unauthenticated, Code::Unauthenticated),
        (As::Key(&working.key), other.clone(), Grpc::Unauthenticated, Code::Unauthenticated),
        (reader, of_run(percent(5)), Grpc::PermissionDenied, Code::Forbidden),
        (admin(), other, Grpc::NotFound, Code::NoSuchRun),
        (admin(), outdated, Grpc::FailedPrecondition, Code::OutdatedToken),
    ] {
        working.check_refused(who, report, code, problem).await;
    }
    let checkpoint = |text: &str| Some(text.to_owned());
    for (report, field) in [
        (of_run(percent(101)), "percent"),
        (of_run(percent(1000)), "percent"),
        (of_run(ReportRequest::default()), "percent"),
        (of_run(ReportRequest { checkpoint: checkpoint("{"), ..ReportRequest::default() }), "checkpoint"),
        (percent(5), "run"),
    ] {
        let status = working.call(admin(), report).await.unwrap_err();
        let said = status.metadata().get("punctual-field").map(|field| field.to_str().unwrap());
        assert_eq!((status.code(), said), (Grpc::InvalidArgument, Some(field)), "{status:?}");
    }
    working.finish().await;
    working
        .check_refused(As::Key(&working.key), percent(5), Grpc::FailedPrecondition, Code::WrongState)
        .await;
    assert_eq!(working.metric("grpc", "invalid").await, 5);
    assert_eq!(working.metric("grpc", "unauthorized").await, 4);
    assert_eq!(working.metric("grpc", "outdated_token").await, 1);
    assert_eq!(working.metric("grpc", "wrong_state").await, 1);
    assert_eq!(working.metric("grpc", "not_found").await, 1);
}

#[tokio::test]
async fn a_message_that_is_too_large_is_refused_over_grpc() {
    let working = Working::new().await;
    let large = ReportRequest { message: Some("x".repeat(2 * 1024 * 1024)), ..ReportRequest::default() };
    let status = working.call(As::Key(&working.key), large).await.unwrap_err();
    assert_eq!(status.code(), Grpc::OutOfRange, "{status:?}");
}

/// A report over gRPC whose message never arrives.
fn without_end(time: Duration) -> Request<Body> {
    let body =
        Body::from_stream(futures_util::stream::pending::<Result<axum::body::Bytes, std::io::Error>>());
    let mut request = Request::post("/punctual.v1.Attempts/Report").version(axum::http::Version::HTTP_2);
    let deadline = Deadline { until: tokio::time::Instant::now() + time, time };
    request.extensions_mut().unwrap().insert(deadline);
    request.header("content-type", "application/grpc").body(body).unwrap()
}

#[tokio::test]
async fn a_caller_is_refused_before_its_message_is_read() {
    let working = Working::new().await;
    let router = &working.guarded.scene.router;
    let refused = router.clone().oneshot(without_end(Duration::from_secs(3600))).await.unwrap();
    assert_eq!(refused.headers()["grpc-status"], (Grpc::Unauthenticated as i32).to_string());
    let mut foreign = without_end(Duration::from_secs(3600));
    foreign.headers_mut().insert("host", "elsewhere.example".parse().unwrap());
    assert_eq!(router.clone().oneshot(foreign).await.unwrap().status(), 403);
}

#[tokio::test]
async fn a_message_that_does_not_arrive_in_time_is_given_up() {
    let working = Working::new().await;
    let mut late = without_end(Duration::from_millis(10));
    late.headers_mut().insert("punctual-attempt-key", working.key.parse().unwrap());
    let answer = working.guarded.scene.router.clone().oneshot(late).await.unwrap();
    assert_eq!(answer.headers()["grpc-status"], (Grpc::DeadlineExceeded as i32).to_string());
}

#[tokio::test]
async fn every_report_is_counted_by_its_way_and_outcome() {
    let working = Working::new().await;
    let numbered = |seq: u64| json!({ "percent": 5, "seq": seq });
    for (key, body, status) in [
        (working.key.as_str(), numbered(2), 204),
        (working.key.as_str(), numbered(1), 204),
        (working.key.as_str(), json!({ "percent": 101 }), 422),
        (working.key.as_str(), json!({ "no_such_field": 1 }), 422),
        ("wrong", numbered(3), 401),
    ] {
        assert_eq!(working.with_key(key, &working.progress(), &body).await.status, status, "{body}");
    }
    let admin = Some(working.guarded.token(Role::Admin));
    let plain = json!({ "execution_id": "7", "progress": 5 });
    let answer = working.guarded.ask(&Method::POST, "/api/v1/task_progress", admin, &plain).await;
    assert_eq!(answer.status, 404);
    for (outcome, count) in [
        ("accepted", 1),
        ("late", 1),
        ("invalid", 2),
        ("unauthorized", 1),
        ("not_found", 1),
        ("outdated_token", 0),
    ] {
        assert_eq!(working.metric("rest", outcome).await, count, "{outcome}");
    }
    let (run, token) = (RunId(working.run_id()), Token(working.token));
    let progress = Progress { seq: Some(3), ..Progress::percent(7) };
    working.worker.send(vec![Report::Progress { run, token, progress }]).await;
    while working.metric("worker", "accepted").await == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// The consumer of the queue beside a node.
struct Consuming {
    working: Working,
    stop: watch::Sender<bool>,
    consumer: tokio::task::JoinHandle<()>,
}

impl Consuming {
    async fn new(needs_key: bool) -> Consuming {
        let working = Working::new().await;
        let (clock, handle) = (Arc::new(ManualClock::at(NOW)), working.guarded.scene.node.handle());
        let endpoints = Endpoints::new(handle, clock, "test", Settings::default());
        let (stop, stopped) = watch::channel(false);
        let queue = ProgressQueue::new(endpoints, "punctual.progress".parse().unwrap(), needs_key);
        Consuming { working, stop, consumer: tokio::spawn(queue.run(stopped)) }
    }

    async fn add(&self, body: &str) {
        let admin = Some(self.working.guarded.token(Role::Admin));
        let message = json!({ "body": body });
        let path = format!("{QUEUE}/messages");
        self.working.guarded.ask(&Method::POST, &path, admin, &message).await.read::<Added>(201);
    }

    async fn is_empty(&self) {
        loop {
            let reader = Some(self.working.guarded.token(Role::Reader));
            let queue = self.working.guarded.ask(&Method::GET, QUEUE, reader, &json!({})).await;
            if queue.read::<Queue>(200).messages == 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    async fn stop(self) {
        self.stop.send_replace(true);
        tokio::time::timeout(Duration::from_secs(60), self.consumer).await.expect("it stops").unwrap();
    }
}

#[tokio::test]
async fn refused_messages_do_not_block_a_report_behind_them() {
    let consuming = Consuming::new(true).await;
    let Working { run, key, .. } = &consuming.working;
    consuming.add("not json").await;
    consuming.add(&json!({ "execution_id": run, "progress": 10 }).to_string()).await;
    consuming.add(&json!({ "attempt_key": "pck_1_1_0", "progress": 20 }).to_string()).await;
    consuming.add(&json!({ "attempt_key": key, "execution_id": "7", "progress": 30 }).to_string()).await;
    let good = json!({ "attempt_key": key, "progress": 40, "seq": 1, "checkpoint": { "row": 400 } });
    consuming.add(&good.to_string()).await;
    consuming.is_empty().await;
    let run = consuming.working.shown().await;
    assert_eq!(run.progress, Some(40));
    assert_eq!(run.checkpoint.map(|kept| kept.value), Some(json!({ "row": 400 })), "it is stored");
    consuming.working.finish().await;
    consuming.add(&good.to_string()).await;
    consuming.is_empty().await;
    consuming.stop().await;
}

#[tokio::test]
async fn without_access_control_a_message_needs_an_execution_id_alone() {
    let consuming = Consuming::new(false).await;
    let run = consuming.working.run_id();
    consuming
        .add(&json!({ "execution_id": run, "progress": 50, "seq": 1, "checkpoint": 1 }).to_string())
        .await;
    consuming.is_empty().await;
    assert_eq!(consuming.working.shown().await.progress, Some(50));
    consuming.add(&json!({ "progress": 50 }).to_string()).await;
    consuming.add(&json!({ "execution_id": 7, "progress": 50 }).to_string()).await;
    consuming.is_empty().await;
    consuming.stop().await;
}
