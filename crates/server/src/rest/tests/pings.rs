//! Pings over REST: with their own key, which opens nothing else.

use punctual_store::token::Role;
use punctual_wire::rest::{PingKey, Pinged};

use super::access::Guarded;
use super::*;

const PING: &str = "/api/v1/namespaces/default/pings/backup";

impl Guarded {
    async fn as_admin(&self, method: Method, path: &str, body: &Value) -> Answer {
        self.ask(&method, path, Some(self.token(Role::Admin)), body).await
    }

    async fn put_ping(&self, ping: Value) {
        let body = json!({ "task": { "ping": ping } });
        let put = self.as_admin(Method::PUT, &format!("{JOBS}/backup"), &body).await;
        assert!(put.status.is_success(), "{put:?}");
    }

    async fn ping_key(&self) -> String {
        let shown = self.as_admin(Method::GET, &format!("{PING}/key"), &json!({})).await;
        let PingKey { key, path } = shown.read(200);
        assert_eq!(path, PING);
        key
    }

    async fn get_with(&self, key: &str, path: &str) -> Answer {
        let sign = if path.contains('?') { '&' } else { '?' };
        self.scene.get(&format!("{path}{sign}key={key}")).await
    }

    async fn run_of(&self, pinged: &Pinged) -> Value {
        let path = format!("{RUNS}/{}", pinged.run);
        self.as_admin(Method::GET, &path, &json!({})).await.read(200)
    }
}

async fn with_ping() -> (Guarded, String) {
    let guarded = Guarded::new().await;
    guarded.put_ping(json!({ "period": "24h" })).await;
    let key = guarded.ping_key().await;
    (guarded, key)
}

#[tokio::test]
async fn a_program_reports_with_the_key_alone() {
    let (guarded, key) = with_ping().await;
    let begun: Pinged = guarded.get_with(&key, &format!("{PING}/start")).await.read(200);
    assert_eq!(guarded.run_of(&begun).await["state"], "running");
    let request = Request::post(PING).header("punctual-ping-key", &key);
    let request = request.header("content-type", "application/x-www-form-urlencoded");
    let ended: Pinged =
        guarded.scene.send(request.body(Body::from("copied 7 files\n")).unwrap()).await.read(200);
    assert_eq!(ended.run, begun.run);
    let run = guarded.run_of(&ended).await;
    let told = [&run["state"], &run["trigger"], &run["output"], &run["worker"]];
    assert_eq!(told, ["succeeded", "ping", "copied 7 files", "ping backup"]);

    let path = format!("{PING}/fail?exit_code=3&key={key}");
    let request = Request::post(path).body(Body::from("disk full")).unwrap();
    let failed: Pinged = guarded.scene.send(request).await.read(200);
    let run = guarded.run_of(&failed).await;
    assert_eq!(
        (&run["state"], &run["error"], &run["exit_code"]),
        (&json!("failed"), &json!("disk full"), &json!(3))
    );
}

#[tokio::test]
async fn the_key_of_a_ping_opens_nothing_else() {
    let (guarded, key) = with_ping().await;
    let other = json!({ "task": { "ping": { "period": "1h" } } });
    guarded.as_admin(Method::PUT, &format!("{JOBS}/other"), &other).await;
    let wrong = key.replace("pcp_", "pcp_1");
    for (key, path) in [
        (wrong.as_str(), PING.to_owned()),
        ("", PING.to_owned()),
        (&key, PING.replace("backup", "other")),
        (&key, PING.replace("backup", "missing")),
        (&key, format!("{JOBS}/backup")),
        (&key, format!("{PING}/key")),
    ] {
        let answer = guarded.get_with(key, &path).await;
        assert!(matches!(answer.status.as_u16(), 400 | 401), "{key} {path}: {answer:?}");
        let request = Request::get(&path).header("authorization", format!("Bearer {key}"));
        let answer = guarded.scene.send(request.body(Body::empty()).unwrap()).await;
        assert_eq!(answer.read::<Problem>(401).code, Code::Unauthenticated, "{key} {path}");
    }
    let token = guarded.token(Role::Admin);
    assert_eq!(guarded.ask(&Method::GET, PING, Some(token), &json!({})).await.status, 401);
    let reader = Some(guarded.token(Role::Reader));
    let shown = guarded.ask(&Method::GET, &format!("{PING}/key"), reader, &json!({})).await;
    assert_eq!(shown.status, 403, "a reader does not see the key");
}

#[tokio::test]
async fn another_number_is_another_key() {
    let (guarded, first) = with_ping().await;
    guarded.put_ping(json!({ "period": "24h", "key": 2 })).await;
    let second = guarded.ping_key().await;
    assert_ne!(first, second);
    assert_eq!(guarded.get_with(&first, PING).await.status, 401);
    assert_eq!(guarded.get_with(&second, PING).await.status, 200);
    let delete = guarded.as_admin(Method::DELETE, &format!("{JOBS}/backup"), &json!({})).await;
    assert_eq!(delete.status, 204);
    guarded.put_ping(json!({ "period": "24h", "key": 2 })).await;
    assert_eq!(guarded.get_with(&second, PING).await.status, 401, "a new job of this name has new keys");
}

#[tokio::test]
async fn bad_input_is_refused_with_its_field() {
    let (guarded, key) = with_ping().await;
    for (path, status, field) in [
        (format!("{PING}?run=7"), 404, None),
        (format!("{PING}?run=seven"), 400, Some("run")),
        (format!("{PING}/fail?exit_code=many"), 400, Some("exit_code")),
        (format!("{PING}?exitcode=1"), 400, Some("exitcode")),
    ] {
        let problem: Problem = guarded.get_with(&key, &path).await.read(status);
        assert_eq!(problem.field.as_deref(), field, "{path}");
    }
    for (job, field) in [
        (json!({ "task": { "ping": {} } }), "task.ping.period"),
        (json!({ "task": { "ping": { "period": "0s" } } }), "task.ping.period"),
        (json!({ "task": { "ping": { "period": "1h" } }, "schedule": { "every": "1h" } }), "schedule"),
        (json!({ "task": { "ping": { "period": "1h" } }, "retry": { "attempts": 2 } }), "retry"),
    ] {
        let refused = guarded.as_admin(Method::PUT, &format!("{JOBS}/bad"), &job).await;
        assert_eq!(refused.read::<Problem>(422).field.as_deref(), Some(field), "{job}");
    }
    let started = guarded.as_admin(Method::POST, &format!("{JOBS}/backup/run"), &json!({})).await;
    assert_eq!(started.read::<Problem>(422).field.as_deref(), Some("name"));
}

/// The default alerts follow from the period, so they are not written out.
#[tokio::test]
async fn a_patch_of_the_period_moves_its_alert() {
    let (guarded, _) = with_ping().await;
    let path = format!("{JOBS}/backup");
    let patch = json!({ "task": { "ping": { "period": "1h" } } });
    guarded.as_admin(Method::PATCH, &path, &patch).await.read::<Job>(200);
    let job: Value = guarded.as_admin(Method::GET, &path, &json!({})).await.read(200);
    assert_eq!((&job["task"]["ping"]["period"], &job["alerts"]), (&json!("1h"), &Value::Null));
    let handle = guarded.scene.node.handle();
    let (namespace, name) = ("default".parse().unwrap(), "backup".parse().unwrap());
    let stored = handle.reads().job(&namespace, &name).await.unwrap().unwrap();
    let within: Vec<String> = stored.definition.alerts.iter().map(|alert| alert.on.to_string()).collect();
    assert_eq!(within, ["no run succeeded for 1h6m", "a run failed"]);
}

#[tokio::test]
async fn a_namespace_has_so_many_pings() {
    let scene = Scene::new().await;
    let ping = json!({ "task": { "ping": { "period": "24h" } } });
    for number in 0..punctual_core::limits::PINGS_MAX {
        assert_eq!(scene.put(&format!("{JOBS}/ping-{number}"), ping.clone()).await.status, 201);
    }
    let refused = scene.put(&format!("{JOBS}/one-more"), ping.clone()).await;
    assert_eq!(refused.read::<Problem>(422).field.as_deref(), Some("task.ping"));
    assert_eq!(scene.put(&format!("{JOBS}/ping-0"), ping.clone()).await.status, 200, "it is one of them");
    let elsewhere = JOBS.replace("default", "other");
    assert_eq!(scene.put(&format!("{elsewhere}/one-more"), ping).await.status, 201);
}
