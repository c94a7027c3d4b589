//! What a task may call is judged by the address that is connected to, at every hop.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use async_trait::async_trait;
use axum::Router;
use axum::response::Redirect;
use axum::routing::get;
use parking_lot::Mutex;
use punctual_core::attempt::End;
use punctual_core::task::{Http, Task};
use punctual_worker::{Egress, Resolver, Rule};

use crate::http::{Server, outcome_through, task};

/// Answers from a list, one answer a question, and counts.
#[derive(Debug)]
pub(crate) struct Scripted {
    answers: Mutex<Vec<&'static str>>,
    asked: AtomicUsize,
}

#[async_trait]
impl Resolver for Scripted {
    async fn resolve(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        self.asked.fetch_add(1, Relaxed);
        match self.answers.lock().pop() {
            Some(answers) => Ok(answers.split(' ').map(|answer| answer.parse().unwrap()).collect()),
            None => Err(io::Error::other("no such host")),
        }
    }
}

pub(crate) fn scripted(answers: &[&'static str]) -> Arc<Scripted> {
    let answers = answers.iter().rev().copied().collect();
    Arc::new(Scripted { answers: Mutex::new(answers), asked: AtomicUsize::new(0) })
}

fn loopback() -> Egress {
    Egress::new(vec![Rule::Loopback])
}

#[tokio::test]
async fn by_default_a_task_calls_neither_this_machine_nor_what_is_near_it() {
    let server = Server::start(Router::new().route("/", get(|| async { "secret" }))).await;
    let port = server.port;
    for (url, expected) in [
        (
            format!("http://127.0.0.1:{port}/"),
            "127.0.0.1 is this machine itself, which tasks may not call here; `allow` under [egress] in the settings can open it",
        ),
        (format!("http://localhost:{port}/"), "this machine itself"),
        (format!("http://[::1]:{port}/"), "this machine itself"),
        (format!("http://[::ffff:127.0.0.1]:{port}/"), "this machine itself"),
        (format!("http://2130706433:{port}/"), "this machine itself"),
        (format!("http://0x7f.1:{port}/"), "this machine itself"),
        ("http://10.0.0.1/".to_owned(), "10.0.0.1 is a private address"),
        (
            "http://169.254.169.254/latest/meta-data".to_owned(),
            "169.254.169.254 is the cloud's metadata, which no task may call",
        ),
        ("http://0.0.0.0/".to_owned(), "0.0.0.0 is no address at all, which no task may call"),
    ] {
        let outcome = outcome_through(Egress::default(), task(Http::get(&url))).await;
        assert_eq!((outcome.end, outcome.exit_code), (End::Failed, None));
        assert!(outcome.error.contains(expected), "{url}: {}", outcome.error);
    }
    assert_eq!(server.calls(), 0);
}

#[tokio::test]
async fn the_port_that_we_listen_on_is_refused_though_the_machine_is_open() {
    let server = Server::start(Router::new().route("/", get(|| async { "api" }))).await;
    for host in ["127.0.0.1", "localhost", "127.0.0.2"] {
        let egress = loopback();
        egress.listens_on(([127, 0, 0, 1], server.port).into());
        let outcome =
            outcome_through(egress, task(Http::get(format!("http://{host}:{}/", server.port)))).await;
        assert!(outcome.error.contains("where Punctual itself listens"), "{host}: {}", outcome.error);
    }
    assert_eq!(server.calls(), 0);
}

#[tokio::test]
async fn a_redirect_to_a_refused_address_is_refused() {
    for target in [
        "http://169.254.169.254/latest",
        "http://10.0.0.1/",
        "http://[fe80::1]/",
        "ftp://127.0.0.1/",
        "http://me:secret@127.0.0.1/",
        "file:///etc/passwd",
    ] {
        let app = Router::new().route("/", get(move || async move { Redirect::temporary(target) }));
        let server = Server::start(app).await;
        let outcome = outcome_through(loopback(), task(Http::get(server.url("/")))).await;
        assert_eq!(outcome.end, End::Failed, "{target}");
        let reasons = [
            "which no task may call",
            "which tasks may not call here",
            "by http or https only",
            "a user or a password",
        ];
        assert!(reasons.iter().any(|reason| outcome.error.contains(reason)), "{target}: {}", outcome.error);
        assert!(!outcome.error.contains("secret"), "{}", outcome.error);
        assert_eq!(server.calls(), 1);
    }
}

#[tokio::test]
async fn a_name_that_leads_elsewhere_the_second_time_is_judged_again() {
    let server =
        Server::start(Router::new().route("/", get(|| async { Redirect::temporary("/again") }))).await;
    let resolver = scripted(&["127.0.0.1", "169.254.169.254"]);
    let egress = loopback().with_resolver(resolver.clone());
    let outcome =
        outcome_through(egress, task(Http::get(format!("http://rebind.test:{}/", server.port)))).await;
    assert_eq!(&*outcome.error, "169.254.169.254 is the cloud's metadata, which no task may call");
    assert_eq!((server.calls(), resolver.asked.load(Relaxed)), (1, 2));
}

#[tokio::test]
async fn a_name_is_asked_for_once_and_the_answer_that_was_judged_is_called() {
    let server = Server::start(Router::new().route("/", get(|| async { "here" }))).await;
    // A second question would lead to nobody.
    let resolver = scripted(&["127.0.0.1", "127.0.0.99"]);
    let egress = loopback().with_resolver(resolver.clone());
    let outcome =
        outcome_through(egress, task(Http::get(format!("http://once.test:{}/", server.port)))).await;
    assert_eq!((&*outcome.output, &*outcome.error), ("here", ""));
    assert_eq!(resolver.asked.load(Relaxed), 1);
}

#[tokio::test]
async fn of_several_addresses_only_those_that_may_be_called_are() {
    let server = Server::start(Router::new().route("/", get(|| async { "here" }))).await;
    let egress = loopback().with_resolver(scripted(&["169.254.169.254 10.0.0.1 127.0.0.1"]));
    let outcome =
        outcome_through(egress, task(Http::get(format!("http://mixed.test:{}/", server.port)))).await;
    assert_eq!((&*outcome.output, &*outcome.error), ("here", ""));
}

#[tokio::test]
async fn a_rule_by_name_opens_that_name_on_that_port_alone() {
    let server = Server::start(Router::new().route("/", get(|| async { "here" }))).await;
    let rule: Rule = format!("wiki.test:{}", server.port).parse().unwrap();
    let through = |host: &str| {
        let egress = Egress::new(vec![rule.clone()]).with_resolver(scripted(&["127.0.0.1"]));
        outcome_through(egress, task(Http::get(format!("http://{host}:{}/", server.port))))
    };
    assert_eq!(&*through("wiki.test").await.output, "here");
    assert!(through("other.test").await.error.contains("this machine itself"));
    assert!(through(&Ipv4Addr::LOCALHOST.to_string()).await.error.contains("this machine itself"));
}

#[tokio::test]
async fn a_host_that_nobody_knows_is_named() {
    let egress = Egress::default().with_resolver(scripted(&[]));
    let outcome = outcome_through(egress, Task::Http(Box::new(Http::get("http://nowhere.test/")))).await;
    assert_eq!(&*outcome.error, "cannot find the host `nowhere.test`: no such host");
}
