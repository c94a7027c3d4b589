//! Every row of the table of routes, asked by everyone who may come.

use punctual_core::name::Name;
use punctual_core::time::Clock;
use punctual_store::Tokens;
use punctual_store::token::{Record, Role};
use punctual_wire::rest::{AddToken, Code, NewToken, Role as Said, Token};
use punctual_wire::text::Span;

use super::*;
use crate::{Console, Gate, Right, Secret};

/// A node behind a gate, and a token of each role.
pub(super) struct Guarded {
    pub(super) scene: Scene,
    tokens: Vec<(Role, Secret)>,
}

impl Guarded {
    pub(super) async fn new() -> Guarded {
        let (store, clock) = (Arc::new(Memory::new(4)), Arc::new(ManualClock::at(NOW)));
        let mut tokens = Vec::new();
        for role in Role::ALL {
            let secret = Secret::new().unwrap();
            let (name, hash) = (role.as_str().to_owned(), secret.hash());
            let record = Record { name, hash, role, created_at: clock.now(), expires_at: None };
            assert!(store.add_token(&record).await.unwrap());
            tokens.push((role, secret));
        }
        let gate = Gate::guarded(store.clone(), clock.clone(), false);
        let console = Console::Embedded(&[("favicon.svg", b"<svg/>", None), ("assets/x.js", b"1", None)]);
        let scene = Scene::on(store, |endpoints| endpoints.behind(gate).with_console(console)).await;
        Guarded { scene, tokens }
    }

    pub(super) fn token(&self, role: Role) -> &str {
        self.tokens.iter().find(|(of, _)| *of == role).unwrap().1.as_str()
    }

    pub(super) async fn ask(&self, method: &Method, path: &str, token: Option<&str>, body: &Value) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        self.scene.send(with_json(request, body)).await
    }
}

/// An address with something in every place that has a name.
fn filled(path: &str) -> String {
    path.replace("{namespace}", "default")
        .replace("{name}", "x")
        .replace("{id}", "1")
        .replace("{revision}", "1")
        .replace("{file}", "x.js")
}

fn may(role: Role, right: Right) -> bool {
    match role {
        Role::Admin => right != Right::Worker,
        Role::Reader => matches!(right, Right::Anyone | Right::Token | Right::Read),
        Role::Worker => matches!(right, Right::Anyone | Right::Token | Right::Worker),
    }
}

#[tokio::test]
async fn every_route_is_for_those_whose_role_it_names_and_for_nobody_else() {
    let guarded = Guarded::new().await;
    let mut open = BTreeSet::new();
    for route in table() {
        let path = filled(route.path);
        let what = format!("{} {path}", route.method);
        // An invalid body, so that a request with the right role is refused later and changes nothing.
        let body = json!({ "no_such_field": 1 });
        for bearer in [None, Some("pct_wrong")] {
            let answer = guarded.ask(&route.method, &path, bearer, &body).await;
            if route.right == Right::Anyone {
                open.insert(path.clone());
                assert!(answer.status.is_success(), "{what}");
                continue;
            }
            if answer.status != 429 || bearer.is_none() {
                assert_eq!(answer.read::<Problem>(401).code, Code::Unauthenticated, "{what}");
                assert!(answer.header("www-authenticate").starts_with("Bearer "), "{what}");
                assert_eq!(answer.header("content-type"), "application/problem+json");
            }
        }
        if route.right == Right::Ping {
            continue; // A token of any role does not replace its key.
        }
        for (role, secret) in &guarded.tokens {
            let answer = guarded.ask(&route.method, &path, Some(secret.as_str()), &body).await;
            let refused = matches!(answer.status.as_u16(), 401 | 403);
            assert_eq!(refused, !may(*role, route.right), "{what} as {role:?}: {}", answer.status);
            if refused {
                assert_eq!(answer.read::<Problem>(403).code, Code::Forbidden, "{what}");
            }
        }
    }
    let expected = ["/healthz", "/readyz", "/", "/favicon.svg", "/assets/x.js"].map(str::to_owned);
    assert_eq!(
        open,
        BTreeSet::from(expected),
        "strangers get files without data, and whether the node is up"
    );
}

#[tokio::test]
async fn a_stranger_does_not_learn_what_there_is() {
    let guarded = Guarded::new().await;
    let job = "/api/v1/namespaces/default/jobs/validate";
    for (method, path) in [
        (Method::GET, "/nothing"),
        (Method::POST, "/"),
        (Method::GET, "/index.html"),
        (Method::DELETE, "/metrics"),
        (Method::OPTIONS, job),
        (Method::HEAD, "/metrics"),
        (Method::GET, job),
        (Method::DELETE, job),
        (Method::POST, "/punctual.v1.Worker/Session"),
    ] {
        let answer = guarded.ask(&method, path, None, &json!({})).await;
        assert_eq!(answer.status, 401, "{method} {path}");
    }
    let reader = Some(guarded.token(Role::Reader));
    assert_eq!(guarded.ask(&Method::GET, "/nothing", reader, &json!({})).await.status, 404);
    assert_eq!(guarded.ask(&Method::DELETE, "/metrics", reader, &json!({})).await.status, 405);
    assert_eq!(guarded.ask(&Method::HEAD, "/metrics", reader, &json!({})).await.status, 200);
    assert_eq!(guarded.ask(&Method::DELETE, job, reader, &json!({})).await.status, 403);
}

#[tokio::test]
async fn the_eleventh_wrong_token_is_told_to_wait() {
    let guarded = Guarded::new().await;
    for _ in 0..crate::limits::FAILURES_MAX {
        assert_eq!(guarded.ask(&Method::GET, JOBS, Some("pct_x"), &json!({})).await.status, 401);
    }
    let answer = guarded.ask(&Method::GET, JOBS, Some("pct_x"), &json!({})).await;
    assert_eq!(answer.read::<Problem>(429).code, Code::TooManyFailures);
    let wait: u64 = answer.header("retry-after").parse().unwrap();
    assert!((1..=60).contains(&wait), "{wait}");
}

#[tokio::test]
async fn a_token_is_made_told_once_listed_without_its_text_and_removed() {
    const TOKENS: &str = "/api/v1/tokens";
    let guarded = Guarded::new().await;
    let admin = Some(guarded.token(Role::Admin));
    let name: Name = "ci".parse().unwrap();
    let expires_in = Some(Span(Duration::from_secs(3600)));
    let add = serde_json::to_value(AddToken { name, role: Said::Reader, expires_in }).unwrap();
    let made: NewToken = guarded.ask(&Method::POST, TOKENS, admin, &add).await.read(201);
    assert!(made.token.starts_with("pct_"), "{made:?}");
    assert_eq!(made.expires_at.unwrap().to_string(), "2027-01-15T09:00:00.000Z");
    assert!(!format!("{made:?}").contains(&made.token));
    assert_eq!(guarded.ask(&Method::GET, JOBS, Some(&made.token), &json!({})).await.status, 200);
    let again = guarded.ask(&Method::POST, TOKENS, admin, &add).await;
    assert_eq!(again.read::<Problem>(409).code, Code::TokenExists);

    let listed = guarded.ask(&Method::GET, &format!("{TOKENS}?limit=2&after=admin"), admin, &json!({})).await;
    assert!(!String::from_utf8_lossy(&listed.body).contains(&made.token));
    let page: Page<Token> = listed.read(200);
    let names: Vec<&str> = page.items.iter().map(|token| token.name.as_str()).collect();
    assert_eq!((names, page.next.as_deref()), (vec!["ci", "reader"], Some("reader")));
    assert!(page.items[0].last_used_at.is_some() && page.items[1].last_used_at.is_none());

    let path = format!("{TOKENS}/ci");
    assert_eq!(guarded.ask(&Method::DELETE, &path, admin, &json!({})).await.status, 204);
    assert_eq!(guarded.ask(&Method::GET, JOBS, Some(&made.token), &json!({})).await.status, 401);
    let gone = guarded.ask(&Method::DELETE, &path, admin, &json!({})).await;
    assert_eq!(gone.read::<Problem>(404).code, Code::NoSuchToken);
}

#[tokio::test]
async fn a_stream_ends_with_the_token_that_opened_it() {
    let guarded = Guarded::new().await;
    let admin = Some(guarded.token(Role::Admin));
    let submit = json!({ "task": { "noop": {} }, "delay": "1h" });
    let run: Run = guarded.ask(&Method::POST, RUNS, admin, &submit).await.read(201);
    let path = format!("{RUNS}/{}/logs?follow=true", run.id);
    let request = Request::get(&path).header("host", "localhost").header("accept", "text/event-stream");
    let request = request.header("authorization", format!("Bearer {}", guarded.token(Role::Reader)));
    let response = guarded.scene.router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(
        (response.status().as_u16(), response.headers()["content-type"].to_str().unwrap()),
        (200, "text/event-stream")
    );

    let mut reading = tokio::spawn(to_bytes(response.into_body(), usize::MAX));
    let still = tokio::time::timeout(Duration::from_millis(2_500), &mut reading).await;
    assert!(still.is_err(), "it goes on while its token is good: {still:?}");
    guarded.ask(&Method::DELETE, "/api/v1/tokens/reader", admin, &json!({})).await;
    let ended = tokio::time::timeout(Duration::from_secs(30), reading).await;
    assert!(ended.is_ok(), "it outlives its token");
}

#[tokio::test]
async fn a_cancelled_run_tells_who_cancelled_it_and_why() {
    let guarded = Guarded::new().await;
    let admin = Some(guarded.token(Role::Admin));
    let post = async |path: &str, body: Value| {
        guarded.ask(&Method::POST, &format!("{RUNS}{path}"), admin, &body).await
    };
    let submit =
        async || -> Run { post("", json!({ "task": { "noop": {} }, "delay": "1h" })).await.read(201) };
    let check = async |run: &Run, expected: &str| {
        let path = format!("{RUNS}/{}", run.id);
        let shown: Run = guarded.ask(&Method::GET, &path, admin, &json!({})).await.read(200);
        let by_hand = shown.by_hand.unwrap_or_default();
        let told: Vec<_> = by_hand.iter().map(|event| event.by_hand.as_ref().unwrap().told()).collect();
        assert_eq!((told, by_hand[0].what.as_str()), (vec![expected.to_owned()], "cancel_asked"));
    };
    let run = submit().await;
    let path = format!("/{}/cancel", run.id);
    let problem: Problem = post(&path, json!({ "comment": "x".repeat(1025) })).await.read(422);
    assert_eq!(problem.field.as_deref(), Some("comment"));
    post(&path, json!({ "comment": "wrong day" })).await.read::<Run>(200);
    check(&run, "by admin: wrong day").await;
    let run = submit().await;
    post("/actions", json!({ "action": "cancel", "ids": [run.id] })).await.read::<Value>(200);
    check(&run, "by admin").await;
}

#[tokio::test]
async fn a_caller_learns_its_own_role_and_rights() {
    let guarded = Guarded::new().await;
    for (role, rights) in [
        (Role::Admin, json!(["read", "run", "edit", "admin"])),
        (Role::Reader, json!(["read"])),
        (Role::Worker, json!(["worker"])),
    ] {
        let token = Some(guarded.token(role));
        let who: Value = guarded.ask(&Method::GET, "/api/v1/whoami", token, &json!({})).await.read(200);
        let name = role.as_str();
        assert_eq!(
            (&who["token"], &who["role"], &who["auth"]),
            (&json!(name), &json!(name), &json!("token"))
        );
        assert_eq!((&who["rights"], &who["node"]), (&rights, &json!("test")));
    }
    let open: Value = Scene::new().await.get("/api/v1/whoami").await.read(200);
    assert_eq!(
        (&open["token"], &open["role"], &open["auth"]),
        (&Value::Null, &json!("admin"), &json!("none"))
    );
}
