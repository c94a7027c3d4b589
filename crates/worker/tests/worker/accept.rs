//! HTTP tasks whose receiver accepts the request and works on, against a receiver of our own.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, Method as Verb, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use parking_lot::Mutex;
use punctual_core::attempt::{Assignment, End, Report};
use punctual_core::ids::RunId;
use punctual_core::log::Stream;
use punctual_core::progress::Progress;
use punctual_core::run::Cause;
use punctual_core::task::{Accept, Http, Method};
use punctual_worker::{Egress, Order, Rule};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::http::task;
use crate::rig::{Rig, TOKEN, assignment, until};

const POLL: Duration = Duration::from_millis(100);

/// What the receiver was asked, and what it answers.
#[derive(Debug, Default)]
struct Seen {
    started: Vec<String>,
    cancelled: Vec<String>,
    /// Requests about one execution.
    asked: usize,
    /// Requests about all executions.
    asked_all: usize,
    /// The keys of attempts that requests about one execution showed.
    keys: BTreeSet<Option<String>>,
    /// The connections that polls came over.
    connections: BTreeSet<SocketAddr>,
    /// The status and the body of the answer to a poll. `None` means that the execution is not known.
    answer: Option<(u16, String)>,
}

struct Receiver {
    url: String,
    seen: Arc<Mutex<Seen>>,
    serving: JoinHandle<()>,
}

impl Receiver {
    async fn start() -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::<Mutex<Seen>>::default();
        let app = Router::new().fallback(any(receive)).with_state(Arc::clone(&seen));
        let app = app.into_make_service_with_connect_info::<SocketAddr>();
        let serving = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Receiver { url, seen, serving }
    }

    fn answers(&self, answer: &Value) {
        self.answers_with(200, &answer.to_string());
    }

    fn answers_with(&self, status: u16, body: &str) {
        self.seen.lock().answer = Some((status, body.to_owned()));
    }

    fn task(&self, all: Option<&str>) -> Http {
        let all = all.map(|path| format!("{}{path}", self.url));
        Http {
            method: Method::Post,
            accept: Some(Accept { poll: POLL, all }),
            ..Http::get(format!("{}/work", self.url))
        }
    }

    async fn until(&self, what: &str, is_so: impl Fn(&Seen) -> bool) {
        until(what, || is_so(&self.seen.lock())).await;
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn receive(
    State(seen): State<Arc<Mutex<Seen>>>,
    ConnectInfo(from): ConnectInfo<SocketAddr>,
    verb: Verb,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    let mut seen = seen.lock();
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap().to_owned());
    let id = text("execution_id");
    assert_eq!(id, text("punctual-run-id"), "both headers say the same");
    let id = id.unwrap_or_default();
    let key = text("punctual-attempt-key");
    match uri.path() {
        "/all" => assert_eq!(key, None, "it is about no attempt in particular"),
        _ => drop(seen.keys.insert(key)),
    }
    match verb {
        Verb::POST => seen.started.push(id),
        Verb::DELETE => seen.cancelled.push(id),
        _ if uri.path() == "/all" => {
            assert_eq!(id, "", "it is about no execution in particular");
            seen.asked_all += 1;
            seen.connections.insert(from);
        }
        _ => {
            seen.asked += 1;
            seen.connections.insert(from);
        }
    }
    match (&verb, &seen.answer) {
        (&Verb::GET, Some((status, body))) => {
            (StatusCode::from_u16(*status).unwrap(), body.clone()).into_response()
        }
        (&Verb::GET, None) => StatusCode::NOT_FOUND.into_response(),
        _ => StatusCode::ACCEPTED.into_response(),
    }
}

async fn rig() -> Rig {
    Rig::start_with(|config| {
        config.slots = 200;
        config.egress = Arc::new(Egress::new(vec![Rule::Loopback]));
    })
    .await
}

/// Assigns the first attempt of a run.
async fn assign_first(rig: &Rig, run: i64, http: Http) {
    rig.order(vec![Order::Assign(Assignment { attempt: 1, ..assignment(run, task(http)) })]).await;
}

#[tokio::test]
async fn the_receiver_gets_the_key_of_the_attempt() {
    let receiver = Receiver::start().await;
    receiver.answers(&json!({ "status": "running", "progress": 1 }));
    let mut rig = rig().await;
    let attempt_key = Some(Arc::from("pck_1_2_3"));
    let given = assignment(1, task(receiver.task(None)));
    rig.order(vec![Order::Assign(Assignment { attempt: 1, attempt_key, ..given })]).await;
    next_progress(&mut rig).await;
    rig.order(vec![Order::Cancel { run: RunId(1), token: TOKEN, cause: Cause::User }]).await;
    rig.finished(1).await;
    rig.shut_down().await;
    let seen = receiver.seen.lock();
    assert_eq!((seen.started.len(), seen.cancelled.len()), (1, 1));
    assert_eq!(seen.keys, [Some("pck_1_2_3".to_owned())].into());
}

async fn next_progress(rig: &mut Rig) -> Progress {
    match rig.report_where(|report| matches!(report, Report::Progress { .. })).await {
        Report::Progress { progress, .. } => progress,
        other => panic!("not progress: {other:?}"),
    }
}

#[tokio::test]
async fn accepted_work_is_polled_to_its_end() {
    let receiver = Receiver::start().await;
    receiver.answers(
        &json!({ "status": "running", "progress": 40, "message": "row 4", "checkpoint": { "row": 4 } }),
    );
    let mut rig = rig().await;
    assign_first(&rig, 1, receiver.task(None)).await;
    let progress = next_progress(&mut rig).await;
    assert_eq!((progress.percent, progress.message.as_deref()), (Some(40), Some("row 4")));
    assert_eq!(progress.checkpoint.as_deref(), Some(r#"{"row":4}"#));
    receiver.answers(&json!({ "status": "succeeded", "progress": 100, "result": { "rows": 10 } }));
    assert_eq!(next_progress(&mut rig).await, Progress::percent(100));
    let outcome = rig.finished(1).await;
    assert_eq!((outcome.end, &*outcome.output, &*outcome.error), (End::Succeeded, r#"{"rows":10}"#, ""));
    assert_eq!(receiver.seen.lock().started, ["1"]);
    rig.shut_down().await;
}

#[tokio::test]
async fn work_that_fails_fails_the_attempt_with_its_message() {
    let receiver = Receiver::start().await;
    receiver.answers(&json!({ "status": "failed", "message": "no space", "result": "row 3" }));
    let mut rig = rig().await;
    assign_first(&rig, 1, receiver.task(None)).await;
    let outcome = rig.finished(1).await;
    assert_eq!((outcome.end, &*outcome.output, &*outcome.error), (End::Failed, "row 3", "no space"));
    rig.shut_down().await;
}

#[tokio::test]
async fn five_answers_that_are_not_understood_fail_the_attempt() {
    let receiver = Receiver::start().await;
    for (run, status, body, words) in [
        (1, 200, "<html>", "the answer is not understood: is not JSON"),
        (2, 200, r#"{"status": "done"}"#, "unknown variant `done`"),
        (3, 503, "", "status 503 Service Unavailable"),
        (4, 404, "", "does not know this execution"),
        (5, 302, "", "status 302 Found"),
    ] {
        receiver.answers_with(status, body);
        let before = receiver.seen.lock().asked;
        let mut rig = rig().await;
        assign_first(&rig, run, receiver.task(None)).await;
        let outcome = rig.finished(run).await;
        assert!(outcome.error.starts_with("5 polls in a row failed, the last one: "), "{}", outcome.error);
        assert!(outcome.error.contains(words), "{}", outcome.error);
        assert_eq!(receiver.seen.lock().asked - before, 5);
        let notes = rig.logs.text(run, Stream::Note);
        assert_eq!(notes.matches("a poll failed: ").count(), 4, "{notes}");
        rig.shut_down().await;
    }
}

#[tokio::test]
async fn a_hundred_executions_of_one_origin_share_one_connection() {
    let receiver = Receiver::start().await;
    receiver.answers(&json!({ "status": "running" }));
    let mut rig = rig().await;
    for run in 1..=100 {
        assign_first(&rig, run, receiver.task(None)).await;
    }
    receiver.until("each is asked twice", |seen| seen.started.len() == 100 && seen.asked >= 200).await;
    receiver.answers(&json!({ "status": "succeeded" }));
    for _ in 0..100 {
        rig.report_where(|report| matches!(report, Report::Finished { .. })).await;
    }
    assert_eq!(receiver.seen.lock().connections.len(), 1);
    rig.shut_down().await;
}

#[tokio::test]
async fn one_request_asks_about_all_executions_of_an_origin() {
    let receiver = Receiver::start().await;
    let all = |status: &str| {
        let entries = (1..=100).map(|run| (run.to_string(), json!({ "status": status, "progress": run })));
        Value::Object(entries.collect())
    };
    receiver.answers(&all("running"));
    let mut rig = rig().await;
    for run in 1..=100 {
        assign_first(&rig, run, receiver.task(Some("/all"))).await;
    }
    for _ in 0..100 {
        rig.report_where(|report| {
            matches!(report, Report::Progress { run, progress, .. }
            if i64::from(progress.percent.unwrap()) == run.0)
        })
        .await;
    }
    receiver.until("all were asked about some times", |seen| seen.asked_all >= 10).await;
    let began = tokio::time::Instant::now();
    let before = receiver.seen.lock().asked_all;
    receiver.until("and again", |seen| seen.asked_all >= before + 10).await;
    assert!(began.elapsed() > 8 * POLL, "one request in each interval, not one for each execution");
    receiver.answers(&all("succeeded"));
    for _ in 0..100 {
        rig.report_where(|report| matches!(report, Report::Finished { .. })).await;
    }
    rig.shut_down().await;
    let seen = receiver.seen.lock();
    assert_eq!((seen.asked, seen.connections.len()), (0, 1));
}

#[tokio::test]
async fn an_execution_that_is_not_listed_is_asked_for_by_itself() {
    let receiver = Receiver::start().await;
    // The same answer for both questions: a list of all that does not name run 1, and an execution.
    receiver.answers(&json!({ "status": "succeeded", "result": "done" }));
    let mut rig = rig().await;
    assign_first(&rig, 1, receiver.task(Some("/all"))).await;
    assert_eq!(&*rig.finished(1).await.output, "done");
    rig.shut_down().await;
    let seen = receiver.seen.lock();
    assert_eq!((seen.asked_all, seen.asked), (1, 1));
}

#[tokio::test]
async fn a_cancel_and_the_timeout_of_the_job_cancel_the_work() {
    let receiver = Receiver::start().await;
    receiver.answers(&json!({ "status": "running", "progress": 1 }));
    let mut rig = rig().await;
    for (run, cause, end, words) in [
        (1, Cause::User, End::Failed, "cancelled on request: the receiver cancelled the work"),
        (2, Cause::Timeout, End::TimedOut, "stopped at its timeout: the receiver cancelled the work"),
    ] {
        assign_first(&rig, run, receiver.task(None)).await;
        next_progress(&mut rig).await;
        rig.order(vec![Order::Cancel { run: RunId(run), token: TOKEN, cause }]).await;
        let outcome = rig.finished(run).await;
        assert_eq!((outcome.end, &*outcome.error), (end, words));
    }
    assert_eq!(receiver.seen.lock().cancelled, ["1", "2"]);
    rig.shut_down().await;
}

#[tokio::test]
async fn the_work_runs_on_when_its_worker_shuts_down() {
    let receiver = Receiver::start().await;
    receiver.answers(&json!({ "status": "running", "progress": 1 }));
    let mut rig = rig().await;
    assign_first(&rig, 1, receiver.task(None)).await;
    next_progress(&mut rig).await;
    rig.shut_down().await;
    assert_eq!(receiver.seen.lock().cancelled, [""; 0]);
}

#[tokio::test]
async fn a_later_attempt_follows_the_work_of_an_earlier_one() {
    let receiver = Receiver::start().await;
    receiver.answers(&json!({ "status": "running", "progress": 40 }));
    let mut rig = rig().await;
    rig.assign(1, task(receiver.task(None))).await;
    assert_eq!(next_progress(&mut rig).await, Progress::percent(40));
    receiver.answers(&json!({ "status": "succeeded" }));
    assert_eq!(rig.finished(1).await.end, End::Succeeded);
    assert_eq!(receiver.seen.lock().started, [""; 0], "it is not started twice");

    receiver.seen.lock().answer = None;
    rig.assign(2, task(receiver.task(None))).await;
    receiver.until("work that is not known is started", |seen| seen.started == ["2"]).await;
    receiver.answers(&json!({ "status": "succeeded" }));
    assert_eq!(rig.finished(2).await.end, End::Succeeded);
    rig.shut_down().await;
}

#[tokio::test]
async fn work_that_is_not_accepted_in_time_fails_the_attempt() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/work", silent.local_addr().unwrap());
    let accept = Some(Accept { poll: POLL, all: None });
    let http = Http { method: Method::Post, accept, timeout: Duration::from_millis(200), ..Http::get(url) };
    let mut rig = rig().await;
    assign_first(&rig, 1, http).await;
    assert_eq!(&*rig.finished(1).await.error, "the work was not accepted within 200ms");
    rig.shut_down().await;
}
