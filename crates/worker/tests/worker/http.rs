//! Requests over HTTP, against servers of our own.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, Method as Verb, StatusCode, Uri};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Redirect};
use axum::routing::{any, get};
use futures_util::stream;
use punctual_core::attempt::{Assignment, End, Outcome};
use punctual_core::ids::RunId;
use punctual_core::log::Stream;
use punctual_core::retry::Failed;
use punctual_core::run::Cause;
use punctual_core::task::{self, Http, Method, Params, StatusRange, Task};
use punctual_worker::{Egress, Order, Rule};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::endings::ends;
use crate::rig::{Rig, TOKEN, assignment, until};

/// A server on a free port; it goes with the test.
pub(crate) struct Server {
    pub(crate) port: u16,
    calls: Arc<AtomicUsize>,
    serving: JoinHandle<()>,
}

impl Server {
    pub(crate) async fn start(app: Router) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&calls);
        let app = app.layer(middleware::from_fn(move |request: Request, next: Next| {
            counted.fetch_add(1, Relaxed);
            next.run(request)
        }));
        let serving = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Server { port, calls, serving }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Relaxed)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

pub(crate) fn task(http: Http) -> Task {
    Task::Http(Box::new(http))
}

async fn rig(egress: Egress) -> Rig {
    Rig::start_with(|config| config.egress = Arc::new(egress)).await
}

pub(crate) async fn outcome_through(egress: Egress, task: Task) -> Outcome {
    let mut rig = rig(egress).await;
    let outcome = rig.outcome_of(task).await;
    rig.shut_down().await;
    outcome
}

/// With this machine open.
async fn outcome_of(http: Http) -> Outcome {
    outcome_through(Egress::new(vec![Rule::Loopback]), task(http)).await
}

/// Says what it was asked.
async fn echo(verb: Verb, uri: Uri, headers: HeaderMap, body: Bytes) -> String {
    let mut lines = vec![format!("{verb} {uri}")];
    lines.extend(headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())));
    lines.push(String::from_utf8_lossy(&body).into_owned());
    lines.join("\n")
}

fn echoing() -> Router {
    Router::new().fallback(any(echo))
}

#[tokio::test]
async fn a_response_that_is_expected_is_the_output_of_the_run() {
    let server = Server::start(Router::new().route("/", get(|| async { "all is well\n" }))).await;
    let mut rig = rig(Egress::new(vec![Rule::Loopback])).await;
    let outcome = rig.outcome_of(task(Http::get(server.url("/?token=secret")))).await;
    assert_eq!((outcome.end, outcome.exit_code), (End::Succeeded, None));
    assert_eq!((&*outcome.output, &*outcome.error), ("all is well", ""));
    assert_eq!(rig.logs.text(1, Stream::Out), "all is well\n");
    let note = rig.logs.text(1, Stream::Note);
    assert!(note.starts_with(&format!("GET {}: status 200 OK after ", server.url("/"))), "{note}");
    assert!(note.ends_with(" ms, 12 bytes") && !note.contains("secret"), "{note}");
    rig.shut_down().await;
}

#[tokio::test]
async fn a_failure_says_whether_it_was_a_status_a_timeout_or_something_else() {
    let app = Router::new()
        .route("/404", get(|| async { StatusCode::NOT_FOUND }))
        .route("/ok", get(|| async { "no" }))
        .route("/never", get(|| async { std::future::pending::<&str>().await }));
    let server = Server::start(app).await;
    let failed = async |http: Http| outcome_of(http).await.failed;
    assert_eq!(failed(Http::get(server.url("/404"))).await, Failed::Status(404));
    let mut picky = Http::get(server.url("/ok"));
    picky.expect.body = Some("yes".to_owned());
    assert_eq!(failed(picky).await, Failed::Error);
    let hasty = Http { timeout: Duration::from_millis(20), ..Http::get(server.url("/never")) };
    assert_eq!(failed(hasty).await, Failed::Timeout);
    assert_eq!(failed(Http::get("http://127.0.0.1:1/".to_owned())).await, Failed::Error);
}

#[tokio::test]
async fn method_headers_and_body_are_sent_with_their_run() {
    let server = Server::start(echoing()).await;
    let http = Http {
        method: Method::Post,
        headers: [("X-Day".to_owned(), "{{ due | date }}".to_owned())].into(),
        body: Some(task::Body::Json(
            r#"{"n":"{{ params.n }}","text":"n is {{ params.n }}","list":[1,"{{ params.list }}"]}"#
                .to_owned(),
        )),
        ..Http::get(server.url("/items/{{ params.id }}?q={{ params.q }}"))
    };
    let params = r#"{"n": 5, "id": "a/../b", "q": "x&y=z #", "list": [true]}"#;
    let mut rig = rig(Egress::new(vec![Rule::Loopback])).await;
    rig.order(vec![Order::Assign(Assignment { params: Params(params.into()), ..assignment(1, task(http)) })])
        .await;
    let outcome = rig.finished(1).await;
    rig.shut_down().await;
    assert_eq!(outcome.end, End::Succeeded, "{}", outcome.error);
    let mut lines: Vec<&str> = outcome.output.lines().collect();
    lines[1..].sort_unstable();
    let port = server.port;
    assert_eq!(
        lines,
        [
            "POST /items/a%2F..%2Fb?q=x%26y%3Dz%20%23",
            "accept-encoding: gzip",
            "accept: */*",
            "content-length: 41",
            "content-type: application/json",
            &format!("host: 127.0.0.1:{port}"),
            "punctual-attempt: 2",
            "punctual-due-at: 2027-01-15T08:00:00.000Z",
            "punctual-run-id: 1",
            concat!("user-agent: punctual/", env!("CARGO_PKG_VERSION")),
            "x-day: 2027-01-15",
            r#"{"list":[1,[true]],"n":5,"text":"n is 5"}"#,
        ]
    );
}

/// What a row changes of what is expected.
type Change = fn(&mut task::Expect);

#[tokio::test]
async fn a_response_that_is_not_expected_fails_and_says_why() {
    let app = Router::new()
        .route("/500", get(|| async { (StatusCode::INTERNAL_SERVER_ERROR, "\n the disk is full \nmore") }))
        .route("/404", get(|| async { StatusCode::NOT_FOUND }))
        .route("/json", get(|| async { r#"{"ok": false, "left": 3}"# }));
    let server = Server::start(app).await;
    let expect = |path: &str, change: Change| {
        let mut http = Http::get(server.url(path));
        change(&mut http.expect);
        outcome_of(http)
    };
    let not_found = StatusRange { first: 404, last: 404 };
    let rows: [(&str, Change, &str); 9] = [
        ("/500", |_| {}, "status 500 Internal Server Error, expected 2xx: the disk is full"),
        ("/404", |_| {}, "status 404 Not Found, expected 2xx"),
        (
            "/json",
            |expect| {
                expect.status =
                    vec![StatusRange { first: 201, last: 204 }, StatusRange { first: 301, last: 301 }];
            },
            r#"status 200 OK, expected 201-204, 301: {"ok": false, "left": 3}"#,
        ),
        (
            "/json",
            |expect| expect.body = Some("done".to_owned()),
            r#"the response does not contain `done`: {"ok": false, "left": 3}"#,
        ),
        (
            "/json",
            |expect| expect.condition = Some("json.ok".to_owned()),
            r#"the condition `json.ok` does not hold: {"ok": false, "left": 3}"#,
        ),
        (
            "/json",
            |expect| expect.condition = Some("json.missing > 1".to_owned()),
            "the condition `json.missing > 1` cannot be told: there is no `json.missing`",
        ),
        (
            "/json",
            |expect| {
                expect.condition = Some("json.left == 3 and status == 200 and headers['content-type'] is startingwith('text/plain')".to_owned());
            },
            "",
        ),
        ("/json", |expect| expect.body = Some("left".to_owned()), ""),
        (
            "/json",
            |expect| expect.condition = Some("json.left".to_owned()),
            "the condition `json.left` cannot be told: gives a number, not true or false",
        ),
    ];
    for (path, change, expected) in rows {
        let outcome = expect(path, change).await;
        assert_eq!(&*outcome.error, expected);
        assert_eq!(outcome.end, if expected.is_empty() { End::Succeeded } else { End::Failed });
    }
    let mut http = Http::get(server.url("/404"));
    http.expect.status = vec![not_found];
    assert_eq!(outcome_of(http).await.end, End::Succeeded);
}

#[tokio::test]
async fn what_cannot_be_reached_is_said_in_words() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let outcome = outcome_of(Http::get(format!("http://127.0.0.1:{port}/"))).await;
    assert_eq!(&*outcome.error, format!("127.0.0.1:{port} refused the connection"));

    // It takes the connection and speaks something else.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let babbling = tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            let _ = socket.read(&mut [0; 1024]).await;
            let _ = socket.write_all(b"SSH-2.0-OpenSSH_9.9\r\n\r\n").await;
        }
    });
    let outcome = outcome_of(Http::get(format!("https://127.0.0.1:{port}/"))).await;
    assert!(outcome.error.starts_with(&format!("no TLS with 127.0.0.1:{port}: ")), "{}", outcome.error);
    let outcome = outcome_of(Http::get(format!("http://127.0.0.1:{port}/"))).await;
    assert!(
        outcome.error.starts_with(&format!("the call of 127.0.0.1:{port} failed: ")),
        "{}",
        outcome.error
    );
    babbling.abort();

    let missing = Http { ca: Some("/nowhere/ca.pem".to_owned()), ..Http::get("https://127.0.0.1/") };
    assert!(outcome_of(missing).await.error.starts_with("cannot read task.http.tls.ca: "));
}

/// Sends a little and then nothing more.
fn stalling() -> Router {
    Router::new().route(
        "/",
        get(|| async {
            let first = stream::iter([Ok::<_, std::io::Error>(Bytes::from_static(b"so far\n"))]);
            Body::from_stream(futures_util::StreamExt::chain(first, stream::pending()))
        }),
    )
}

#[tokio::test]
async fn a_slow_response_is_given_up_at_the_timeout_and_what_came_is_kept() {
    let server = Server::start(stalling()).await;
    let http = Http { timeout: Duration::from_millis(300), ..Http::get(server.url("/")) };
    let outcome = outcome_of(http).await;
    assert_eq!((outcome.end, &*outcome.output), (End::Failed, "so far"));
    assert_eq!(&*outcome.error, "no complete response within 300ms");
}

#[tokio::test]
async fn a_cancel_and_the_timeout_of_the_job_end_the_call() {
    let server = Server::start(stalling()).await;
    for (run, cause, end, expected) in [
        (1, Cause::User, End::Failed, "cancelled on request"),
        (2, Cause::Timeout, End::TimedOut, "stopped at its timeout"),
    ] {
        let mut rig = rig(Egress::new(vec![Rule::Loopback])).await;
        rig.assign(run, task(Http::get(server.url("/")))).await;
        rig.logs.lines(run, 1).await;
        rig.order(vec![Order::Cancel { run: RunId(run), token: TOKEN, cause }]).await;
        let outcome = rig.finished(run).await;
        assert_eq!((outcome.end, &*outcome.error, &*outcome.output), (end, expected, "so far"));
        rig.shut_down().await;
    }
}

#[tokio::test]
async fn a_shutdown_does_not_say_that_a_call_failed() {
    let server = Server::start(stalling()).await;
    let rig = rig(Egress::new(vec![Rule::Loopback])).await;
    rig.assign(1, task(Http::get(server.url("/")))).await;
    until("the call is under way", || server.calls() == 1).await;
    let last = rig.shut_down().await;
    assert_eq!(ends(&last), [End::Yielded], "{last:?}");
}

#[tokio::test]
async fn a_huge_response_is_read_to_the_limit_and_no_further() {
    let app = Router::new().route(
        "/",
        get(|| async {
            let chunk = Bytes::from(vec![b'x'; 100_000]);
            Body::from_stream(stream::repeat_with(move || Ok::<_, std::io::Error>(chunk.clone())))
        }),
    );
    let server = Server::start(app).await;
    let mut rig = rig(Egress::new(vec![Rule::Loopback])).await;
    let mut http = Http::get(server.url("/"));
    let outcome = rig.outcome_of(task(http.clone())).await;
    assert_eq!(outcome.end, End::Succeeded, "{}", outcome.error);
    assert_eq!(outcome.output.len(), 1024 * 1024);
    assert!(rig.logs.text(1, Stream::Out) == "x".repeat(16 * 1024) + " […]");
    assert!(rig.logs.chunks().iter().all(|chunk| chunk.bytes.len() <= 64 * 1024));
    assert!(rig.logs.text(1, Stream::Note).starts_with("response cut here: no more than 1 MiB is read"));
    http.expect.body = Some("y".to_owned());
    rig.assign(2, task(http)).await;
    let error = rig.finished(2).await.error;
    assert!(
        error.starts_with("the response does not contain `y` in the first 1 MiB, and no more of it is read"),
        "{error}"
    );
    rig.shut_down().await;
}

fn redirecting(status: StatusCode, target: String) -> Router {
    let answer = move || {
        let target = target.clone();
        async move { (status, [("location", target)]) }
    };
    Router::new().route("/", any(answer)).fallback(any(echo))
}

fn posting(url: String) -> Http {
    Http {
        method: Method::Post,
        headers: [
            ("Authorization", "Bearer canary"),
            ("Cookie", "canary"),
            ("X-Api-Key", "canary"),
            ("Accept", "text/plain"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into(),
        body: Some(task::Body::Text("hello".to_owned())),
        ..Http::get(url)
    }
}

#[tokio::test]
async fn a_redirect_is_followed_as_its_status_says() {
    for (status, expected) in [(301, "GET"), (302, "GET"), (303, "GET"), (307, "POST"), (308, "POST")] {
        let server =
            Server::start(redirecting(StatusCode::from_u16(status).unwrap(), "/there".to_owned())).await;
        let output = outcome_of(posting(server.url("/"))).await.output;
        assert!(output.starts_with(&format!("{expected} /there\n")), "{status}: {output}");
        assert_eq!(output.ends_with("\nhello"), expected == "POST", "{status}: {output}");
        assert!(output.contains("authorization: Bearer canary"), "the origin is the same");
    }
}

#[tokio::test]
async fn what_a_job_says_to_one_origin_is_not_carried_to_another() {
    let other = Server::start(echoing()).await;
    let server = Server::start(redirecting(StatusCode::PERMANENT_REDIRECT, other.url("/there"))).await;
    let output = outcome_of(posting(server.url("/"))).await.output;
    assert!(output.starts_with("POST /there\n") && output.contains("accept: text/plain"), "{output}");
    assert!(!output.contains("canary"), "{output}");
}

#[tokio::test]
async fn redirects_have_an_end() {
    let app = Router::new().route("/", get(|| async { Redirect::temporary("/") }));
    let server = Server::start(app).await;
    let outcome = outcome_of(Http::get(server.url("/"))).await;
    assert_eq!((&*outcome.error, server.calls()), ("sent on more than 5 times, last to /", 6));
    let http = Http {
        redirects: 0,
        expect: task::Expect {
            status: vec![StatusRange { first: 307, last: 307 }],
            ..task::Expect::default()
        },
        ..Http::get(server.url("/"))
    };
    assert_eq!((outcome_of(http).await.end, server.calls()), (End::Succeeded, 7));
}

#[tokio::test]
async fn a_param_that_is_missing_calls_nobody() {
    let server = Server::start(echoing()).await;
    for (url, expected) in [
        ("/{{ params.id }}", "task.http.url: there is no `params.id` (column "),
        ("/a/{{ '..' }}", "task.http.url: gives a path with `.` or `..` in it"),
    ] {
        let outcome = outcome_of(Http::get(server.url(url))).await;
        assert!(outcome.error.starts_with(expected), "{}", outcome.error);
    }
    let http =
        Http { headers: [("X".to_owned(), "{{ 'a\\nb' }}".to_owned())].into(), ..Http::get(server.url("/")) };
    assert_eq!(
        &*outcome_of(http).await.error,
        "task.http.headers.X: a header is one line without control characters"
    );
    assert_eq!(server.calls(), 0);
}

#[tokio::test]
async fn an_empty_response_is_a_response() {
    let server =
        Server::start(Router::new().route("/", any(|| async { StatusCode::NO_CONTENT.into_response() })))
            .await;
    let outcome = outcome_of(Http { method: Method::Delete, ..Http::get(server.url("/")) }).await;
    assert_eq!((outcome.end, &*outcome.output), (End::Succeeded, ""));
}
