//! Reports of progress with the key of an attempt, and in the plain shape.

use punctual_core::attempt::{Order, Report};
use punctual_core::ids::WorkerId;
use punctual_core::worker::Announcement;
use punctual_node::Link;
use punctual_store::token::Role;
use punctual_wire::rest::TaskProgressed;
use tokio::sync::mpsc;

use super::access::Guarded;
use super::*;

const PLAIN: &str = "/api/v1/task_progress";

/// A node behind a gate whose worker has got an attempt.
pub(super) struct Working {
    pub(super) guarded: Guarded,
    pub(super) run: String,
    pub(super) token: u64,
    pub(super) key: String,
    /// Keeps the worker connected.
    pub(super) worker: punctual_node::Reporter,
    _orders: mpsc::UnboundedReceiver<Vec<Order>>,
}

impl Working {
    pub(super) async fn new() -> Working {
        let guarded = Guarded::new().await;
        let (orders, mut given) = mpsc::unbounded_channel();
        let announced = Announcement::of(4);
        let link = Link { worker: WorkerId::new("w", 1), announced, holding: Vec::new(), orders };
        let reporter = guarded.scene.node.link(link).await;
        reporter.send(vec![Report::Lent { total: 4 }]).await;
        let admin = Some(guarded.token(Role::Admin));
        let body = json!({ "task": { "shell": "true" } });
        let run: Run = guarded.ask(&Method::POST, RUNS, admin, &body).await.read(201);
        let assignment = loop {
            let orders = given.recv().await.expect("the attempt is assigned");
            let assigned = orders.into_iter().find_map(|order| match order {
                Order::Assign(assignment) => Some(assignment),
                _ => None,
            });
            if let Some(assignment) = assigned {
                break assignment;
            }
        };
        Working {
            guarded,
            run: run.id.to_string(),
            token: assignment.token.0,
            key: assignment.attempt_key.expect("a shell passes it on").to_string(),
            worker: reporter,
            _orders: given,
        }
    }

    pub(super) async fn with_key(&self, key: &str, path: &str, body: &Value) -> Answer {
        let request = Request::post(path).header("Punctual-Attempt-Key", key);
        self.guarded.scene.send(with_json(request, body)).await
    }

    pub(super) fn progress(&self) -> String {
        format!("{RUNS}/{}/progress", self.run)
    }

    pub(super) async fn shown(&self) -> Run {
        let path = format!("{RUNS}/{}", self.run);
        let reader = Some(self.guarded.token(Role::Reader));
        self.guarded.ask(&Method::GET, &path, reader, &json!({})).await.read(200)
    }
}

#[tokio::test]
async fn an_attempt_reports_with_its_key_alone() {
    let working = Working::new().await;
    let body = json!({ "percent": 40, "durable": true });
    assert_eq!(working.with_key(&working.key, &working.progress(), &body).await.status, 204);
    assert_eq!(working.shown().await.progress, Some(40));
    let both = json!({ "token": working.token.to_string(), "percent": 50 });
    assert_eq!(working.with_key(&working.key, &working.progress(), &both).await.status, 204);
}

#[tokio::test]
async fn a_key_reports_for_its_attempt_and_opens_nothing_else() {
    let working = Working::new().await;
    let body = json!({ "percent": 40 });
    let wrong = working.key.replace("pck_", "pck_1");
    for (key, path) in [
        (wrong.as_str(), working.progress()),
        ("", working.progress()),
        (&working.key, format!("{RUNS}/7/progress")),
        (&working.key, format!("{RUNS}/{}/cancel", working.run)),
        (&working.key, RUNS.to_owned()),
    ] {
        let answer = working.with_key(key, &path, &body).await;
        assert_eq!(answer.read::<Problem>(401).code, Code::Unauthenticated, "{key} {path}");
    }
    let other = json!({ "token": "7", "percent": 40 });
    assert_eq!(working.with_key(&working.key, &working.progress(), &other).await.status, 401);
    let as_token = Some(working.key.as_str());
    let answer = working.guarded.ask(&Method::POST, &working.progress(), as_token, &body).await;
    assert_eq!(answer.status, 401, "it is no token of the server");
    assert_eq!(working.shown().await.progress, None);
}

#[tokio::test]
async fn the_plain_shape_needs_an_execution_id_alone() {
    let working = Working::new().await;
    let say = |id: &str, progress: u32| json!({ "execution_id": id, "progress": progress });
    let stored = json!({ "execution_id": working.run, "progress": 40, "durable": true });
    let answer = working.with_key(&working.key, PLAIN, &stored).await;
    assert_eq!(answer.read::<TaskProgressed>(200).execution_id.to_string(), working.run);
    assert_eq!(working.shown().await.progress, Some(40));

    let as_admin = async |body: &Value| {
        working.guarded.ask(&Method::POST, PLAIN, Some(working.guarded.token(Role::Admin)), body).await
    };
    assert_eq!(as_admin(&say(&working.run, 50)).await.status, 200, "it is about the newest attempt");
    assert_eq!(as_admin(&say("7", 50)).await.read::<Problem>(404).code, Code::NoSuchRun);
    for (body, field) in [
        (say(&working.run, 101), "progress"),
        (json!({ "execution_id": working.run }), "progress"),
        (json!({ "progress": 5 }), "execution_id"),
    ] {
        assert_eq!(as_admin(&body).await.read::<Problem>(422).field.as_deref(), Some(field), "{body}");
    }
    assert_eq!(working.with_key(&working.key, PLAIN, &say("7", 50)).await.status, 401);
    assert_eq!(working.guarded.ask(&Method::POST, PLAIN, None, &say(&working.run, 60)).await.status, 401);
}
