//! Calendars against a real node on the memory store: what goes in, what comes out, and which jobs move.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use punctual_core::command::Expect;
use punctual_core::schedule::calendar::{Days, Entry, Weekly};
use punctual_core::time::{Clock, ManualClock};
use punctual_node::{Config, Node};
use punctual_store::memory::Memory;
use punctual_store::{Calendars, PutCalendar, Swap};
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::{Endpoints, Settings, router};

const JOBS: &str = "/api/v1/namespaces/default/jobs";
const CALENDARS: &str = "/api/v1/namespaces/default/calendars";
const WORK: &str = "/api/v1/namespaces/default/calendars/work";

/// A clock that stands still, on Wednesday 2026-09-30 at 07:00 in Shanghai.
fn clock() -> ManualClock {
    ManualClock::at("2026-09-29T23:00:00Z".parse().unwrap())
}

struct Scene {
    node: Node,
    router: Router,
}

struct Answer {
    status: u16,
    tag: String,
    made: String,
    body: Value,
}

impl Scene {
    async fn new() -> Scene {
        Scene::on(Arc::new(Memory::new(4))).await
    }

    async fn on(store: Arc<Memory>) -> Scene {
        let clock = Arc::new(clock());
        let node = Node::start(Config {
            store,
            clock: clock.clone(),
            lanes: 1,
            attempt_lease: Duration::from_secs(15),
            records: true,
            shard_lease: Duration::from_secs(3),
            cluster: None,
            attempt_keys: None,
            channels: None,
        })
        .unwrap();
        let handle = node.handle();
        assert!(handle.wait_until(|status| status.ready).await);
        Scene { router: router(Endpoints::new(handle, clock, "test", Settings::default())), node }
    }

    async fn send(
        &self,
        method: &str,
        path: &str,
        header: Option<(&str, &str)>,
        body: Option<String>,
    ) -> Answer {
        self.send_with(method, path, header.as_slice(), body).await
    }

    async fn send_with(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<String>,
    ) -> Answer {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "localhost")
            .header("content-type", "application/json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(body.map_or_else(Body::empty, Body::from)).unwrap();
        let (parts, body) = self.router.clone().oneshot(request).await.unwrap().into_parts();
        let text = |name| parts.headers.get(name).map_or("", |value| value.to_str().unwrap()).to_owned();
        let bytes = to_bytes(body, usize::MAX).await.unwrap();
        let body = if bytes.is_empty() { Value::Null } else { serde_json::from_slice(&bytes).unwrap() };
        Answer { status: parts.status.as_u16(), tag: text("etag"), made: text("punctual-made"), body }
    }

    async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, None, None).await
    }

    async fn put(&self, path: &str, body: &Value) -> Answer {
        self.send("PUT", path, None, Some(body.to_string())).await
    }

    /// When a job is due next.
    async fn due(&self, job: &str) -> Value {
        self.get(&format!("{JOBS}/{job}")).await.body["next_due_at"].clone()
    }

    async fn put_daily(&self, job: &str) {
        let schedule = json!({ "cron": "0 8 * * *", "timezone": "Asia/Shanghai", "calendar": "work" });
        let file = json!({ "schedule": schedule, "task": { "noop": {} } });
        let answer = self.put(&format!("{JOBS}/{job}"), &file).await;
        assert_eq!(answer.status, 201, "{}", answer.body);
    }
}

fn workdays(include: &[&str], exclude: &[&str]) -> Value {
    json!({ "weekly": ["mon", "tue", "wed", "thu", "fri"], "include": include, "exclude": exclude })
}

#[tokio::test]
async fn a_calendar_is_put_read_listed_and_deleted() {
    let scene = Scene::new().await;
    let file = workdays(&["2026-10-10"], &["2026-10-01..2026-10-07", "12-25"]);
    let made = scene.put(WORK, &file).await;
    assert_eq!((made.status, made.tag.as_str(), made.made.as_str()), (201, "\"1\"", "created"));
    assert_eq!((&made.body["calendar"], &made.body["settled"]), (&json!("work"), &json!(true)));
    let again = scene.put(WORK, &file).await;
    assert_eq!((again.status, again.tag.as_str(), again.made.as_str()), (200, "\"1\"", "unchanged"));
    let shown = scene.get(WORK).await;
    assert_eq!(shown.body["exclude"], json!(["2026-10-01..2026-10-07", "12-25"]));
    let changed = scene.put(WORK, &shown.body).await;
    assert_eq!(changed.made, "unchanged", "what we said may be sent back");
    scene.put(&format!("{CALENDARS}/rest"), &json!({ "weekly": ["sun"] })).await;
    let listed = scene.get(&format!("{CALENDARS}?limit=1")).await;
    assert_eq!(
        (&listed.body["items"][0]["calendar"], &listed.body["next"]),
        (&json!("rest"), &json!("rest"))
    );
    let second = scene.get(&format!("{CALENDARS}?limit=1&after=rest")).await;
    assert_eq!((&second.body["items"][0]["calendar"], &second.body["next"]), (&json!("work"), &Value::Null));
    let elsewhere = scene.get("/api/v1/namespaces/other/calendars/work").await;
    assert_eq!((elsewhere.status, &elsewhere.body["code"]), (404, &json!("no_such_calendar")));
    assert_eq!(scene.send("DELETE", WORK, None, None).await.status, StatusCode::NO_CONTENT);
    assert_eq!(scene.get(WORK).await.status, 404);
    scene.node.shut_down().await;
}

#[tokio::test]
async fn an_edit_goes_through_only_on_the_version_it_was_made_on() {
    let scene = Scene::new().await;
    scene.put(WORK, &workdays(&[], &[])).await;
    for (method, header, status, code) in [
        ("PUT", ("if-none-match", "*"), 409, "calendar_exists"),
        ("PUT", ("if-match", "\"7\""), 412, "wrong_version"),
        ("DELETE", ("if-match", "\"7\""), 412, "wrong_version"),
        ("DELETE", ("if-none-match", "*"), 409, "calendar_exists"),
    ] {
        let body = (method == "PUT").then(|| workdays(&["2026-10-10"], &[]).to_string());
        let answer = scene.send(method, WORK, Some(header), body).await;
        assert_eq!((answer.status, &answer.body["code"]), (status, &json!(code)), "{}", answer.body);
    }
    let both = [("if-match", "\"1\""), ("if-none-match", "*")];
    let answer = scene.send_with("PUT", WORK, &both, Some(workdays(&[], &[]).to_string())).await;
    assert_eq!((answer.status, &answer.body["code"]), (412, &json!("wrong_version")), "{}", answer.body);
    let nobody = format!("{CALENDARS}/nobody");
    let file = Some(workdays(&[], &[]).to_string());
    let answer = scene.send("PUT", &nobody, Some(("if-match", "\"1\"")), file.clone()).await;
    assert_eq!((answer.status, &answer.body["code"]), (404, &json!("no_such_calendar")));
    assert_eq!(scene.get(WORK).await.tag, "\"1\"");
    let file = Some(workdays(&["2026-10-10"], &[]).to_string());
    let answer = scene.send("PUT", WORK, Some(("if-match", "\"1\"")), file).await;
    assert_eq!((answer.status, answer.tag.as_str()), (200, "\"2\""));
    scene.node.shut_down().await;
}

#[tokio::test]
async fn an_edited_calendar_moves_the_next_fire_of_its_jobs() {
    let scene = Scene::new().await;
    scene.put(WORK, &workdays(&[], &[])).await;
    let jobs: Vec<String> = (0..40).map(|n| format!("daily-{n}")).collect();
    for job in &jobs {
        scene.put_daily(job).await;
        assert_eq!(scene.due(job).await, json!("2026-09-30T00:00:00.000Z"));
    }
    for (exclude, include, due) in [
        (vec!["2026-09-30", "2026-10-01..2026-10-07"], vec![], "2026-10-08T00:00:00.000Z"),
        (vec!["2026-09-30", "2026-10-01..2026-10-09"], vec!["2026-10-10"], "2026-10-10T00:00:00.000Z"),
        (vec!["2026-09-30"], vec![], "2026-10-01T00:00:00.000Z"),
    ] {
        let put = scene.put(WORK, &workdays(&include, &exclude)).await;
        assert_eq!((put.status, &put.body["settled"]), (200, &json!(true)), "{}", put.body);
        for job in &jobs {
            assert_eq!(scene.due(job).await, json!(due), "{job}");
        }
    }
    let next = scene.get(&format!("{JOBS}/daily-0/next?count=3")).await.body;
    let dues: Vec<&str> =
        next["items"].as_array().unwrap().iter().map(|fire| fire["due_at"].as_str().unwrap()).collect();
    assert_eq!(dues, ["2026-10-01T00:00:00.000Z", "2026-10-02T00:00:00.000Z", "2026-10-05T00:00:00.000Z"]);
    scene.node.shut_down().await;
}

#[tokio::test]
async fn a_calendar_that_a_job_keeps_to_is_not_deleted() {
    let scene = Scene::new().await;
    scene.put(WORK, &workdays(&[], &[])).await;
    scene.put_daily("daily").await;
    let refused = scene.send("DELETE", WORK, None, None).await;
    assert_eq!((refused.status, &refused.body["code"]), (409, &json!("calendar_in_use")));
    assert!(refused.body["message"].as_str().unwrap().contains("`daily`"), "{}", refused.body);
    assert_eq!(scene.send("DELETE", &format!("{JOBS}/daily"), None, None).await.status, 204);
    assert_eq!(scene.send("DELETE", WORK, None, None).await.status, 204);
    scene.node.shut_down().await;
}

/// A crash between "stored" and "followed by every job": the next start carries on.
#[tokio::test]
async fn a_start_brings_jobs_to_follow_what_an_earlier_process_stored() {
    let store = Arc::new(Memory::new(4));
    let scene = Scene::on(Arc::clone(&store)).await;
    scene.put(WORK, &workdays(&[], &[])).await;
    scene.put_daily("daily").await;
    scene.node.shut_down().await;
    let (namespace, name) = ("default".parse().unwrap(), "work".parse().unwrap());
    let out: Entry = "2026-09-01..2026-10-11".parse().unwrap();
    let days = Days::new(Weekly::EVERY_DAY, [], [out]);
    let put = PutCalendar {
        namespace,
        name,
        days,
        description: String::new(),
        at: clock().now(),
        expect: Expect::Anything,
    };
    assert!(matches!(store.put_calendar(put).await.unwrap(), Swap::Done(_)));

    let scene = Scene::on(store).await;
    // The same days again: nothing changes, and the answer still waits until every job uses them.
    let same = scene.put(WORK, &json!({ "exclude": ["2026-09-01..2026-10-11"] })).await;
    assert_eq!((same.made.as_str(), &same.body["settled"]), ("unchanged", &json!(true)));
    assert_eq!(scene.due("daily").await, json!("2026-10-12T00:00:00.000Z"));
    assert_eq!(scene.get(WORK).await.body["settled"], json!(true));
    scene.node.shut_down().await;
}

#[tokio::test]
async fn the_days_of_a_calendar_are_shown_with_the_reason() {
    let scene = Scene::new().await;
    scene.put(WORK, &workdays(&["2026-10-10"], &["2026-10-08..2026-10-09"])).await;
    let days = scene.get(&format!("{WORK}/days?from=2026-10-09&to=2026-10-12")).await.body["items"].clone();
    assert_eq!(
        days,
        json!([
            { "day": "2026-10-09", "weekday": "fri", "in": false, "by": "exclude" },
            { "day": "2026-10-10", "weekday": "sat", "in": true, "by": "include" },
            { "day": "2026-10-11", "weekday": "sun", "in": false, "by": "weekly" },
            { "day": "2026-10-12", "weekday": "mon", "in": true, "by": "weekly" },
        ])
    );
    let month = scene.get(&format!("{WORK}/days")).await.body["items"].clone();
    assert_eq!((month.as_array().unwrap().len(), &month[0]["day"]), (31, &json!("2026-09-29")));
    scene.node.shut_down().await;
}

/// Daily at one, on the first of the month, and at eight sharp: what businesses ask for.
#[tokio::test]
async fn business_schedules_preview_the_right_instants() {
    let scene = Scene::new().await;
    scene.put(WORK, &workdays(&["2026-10-10"], &["2026-10-01..2026-10-07"])).await;
    for (cron, calendar, expected) in [
        ("0 1 * * *", None, ["2026-09-30T17:00:00.000Z", "2026-10-01T17:00:00.000Z"]),
        ("0 0 1 * *", None, ["2026-09-30T16:00:00.000Z", "2026-10-31T16:00:00.000Z"]),
        ("0 0 8 * * *", None, ["2026-09-30T00:00:00.000Z", "2026-10-01T00:00:00.000Z"]),
        ("0 0 8 * * *", Some("work"), ["2026-09-30T00:00:00.000Z", "2026-10-08T00:00:00.000Z"]),
        ("0 0 1 * *", Some("work"), ["2026-11-30T16:00:00.000Z", "2026-12-31T16:00:00.000Z"]),
    ] {
        let mut schedule = json!({ "cron": cron, "timezone": "Asia/Shanghai" });
        if let Some(calendar) = calendar {
            schedule["calendar"] = json!(calendar);
        }
        let put =
            scene.put(&format!("{JOBS}/it"), &json!({ "schedule": schedule, "task": { "noop": {} } })).await;
        assert!(put.status < 300, "{}", put.body);
        let next = scene.get(&format!("{JOBS}/it/next?count=2")).await.body;
        let dues: Vec<_> =
            next["items"].as_array().unwrap().iter().map(|fire| fire["due_at"].clone()).collect();
        assert_eq!(dues, expected, "{schedule}");
    }
    scene.node.shut_down().await;
}

#[tokio::test]
async fn what_cannot_be_is_refused_with_code_and_field_and_nothing_happens() {
    let scene = Scene::new().await;
    scene.put(WORK, &workdays(&[], &[])).await;
    let many = vec!["12-25"; 4_001];
    let bodies = [
        (json!({ "weekly": ["someday"] }), 422, "invalid", "weekly[0]"),
        (json!({ "weekly": ["mon", 2] }), 422, "invalid", "weekly[1]"),
        (json!({ "weekly": "mon" }), 422, "invalid", "weekly"),
        (json!({ "weekly": [] }), 422, "invalid", "weekly"),
        (json!({ "weekly": [], "exclude": ["12-25"] }), 422, "invalid", "weekly"),
        (json!({ "include": "2026-10-10" }), 422, "invalid", "include"),
        (json!({ "include": ["2026-02-29"] }), 422, "invalid", "include[0]"),
        (json!({ "include": ["2026-10-10", "02-30"] }), 422, "invalid", "include[1]"),
        (json!({ "include": [20261010] }), 422, "invalid", "include[0]"),
        (json!({ "include": [null] }), 422, "invalid", "include[0]"),
        (json!({ "include": ["1969-12-31"] }), 422, "invalid", "include[0]"),
        (json!({ "include": ["x".repeat(1000)] }), 422, "invalid", "include[0]"),
        (json!({ "exclude": ["2026-10-07..2026-10-01"] }), 422, "invalid", "exclude[0]"),
        (json!({ "exclude": ["2026-10-01.."] }), 422, "invalid", "exclude[0]"),
        (json!({ "exclude": ["10-01..10-07"] }), 422, "invalid", "exclude[0]"),
        (json!({ "exclude": [["2026-10-01"]] }), 422, "invalid", "exclude[0]"),
        (json!({ "exclude": many }), 422, "invalid", "exclude"),
        (json!({ "exclude": ["\u{ff12}\u{ff10}26-10-01"] }), 422, "invalid", "exclude[0]"),
        (json!({ "description": "x".repeat(20_000) }), 422, "invalid", "description"),
        (json!({ "description": 7 }), 422, "invalid", "description"),
        (json!({ "timezone": "UTC" }), 422, "invalid", "timezone"),
        (json!({ "calendar": "another" }), 422, "invalid", "calendar"),
        (json!({ "calendar": "a b" }), 422, "invalid", "calendar"),
        (json!({ "namespace": "other" }), 422, "invalid", "namespace"),
        (json!({ "days": ["mon"] }), 422, "invalid", "days"),
    ];
    for (body, status, code, field) in bodies {
        let answer = scene.put(WORK, &body).await;
        let said = (answer.status, answer.body["code"].as_str(), answer.body["field"].as_str());
        assert_eq!(said, (status, Some(code), Some(field)), "{body}: {}", answer.body);
    }
    let jobs = [
        (json!({ "every": "1h", "calendar": "missing" }), "schedule.calendar"),
        (json!({ "every": "1h", "calendar": 7 }), "schedule.calendar"),
        (json!({ "every": "1h", "calendar": "a/b" }), "schedule.calendar"),
        (json!({ "after_finish": "1h", "calendar": "work" }), "schedule.calendar"),
        (json!({ "manual": true, "calendar": "work" }), "schedule.calendar"),
        (json!({ "at": "2026-10-03T08:00:00Z", "calendar": "work" }), "schedule.at"),
        (json!({ "every": "1h", "calendar": "work", "timezone": "Mars/Olympus" }), "schedule.timezone"),
        (json!({ "every": "1h", "timezone": "UTC" }), "schedule.timezone"),
    ];
    for (schedule, field) in jobs {
        let body = json!({ "schedule": schedule, "task": { "noop": {} } });
        let answer = scene.put(&format!("{JOBS}/bad"), &body).await;
        assert_eq!(
            (answer.status, answer.body["field"].as_str()),
            (422, Some(field)),
            "{schedule}: {}",
            answer.body
        );
    }
    let reads = [
        ("days?from=today", "from"),
        ("days?from=12-25", "from"),
        ("days?from=2026-10-01..2026-10-02", "from"),
        ("days?from=2026-10-02&to=2026-10-01", "to"),
        ("days?from=2026-01-01&to=2029-01-01", "to"),
        ("days?until=2029-01-01", "until"),
    ];
    for (path, field) in reads {
        let answer = scene.get(&format!("{WORK}/{path}")).await;
        let said = (answer.status, answer.body["code"].as_str(), answer.body["field"].as_str());
        assert_eq!(said, (400, Some("bad_parameter"), Some(field)), "{path}: {}", answer.body);
    }
    for path in
        [format!("{CALENDARS}?limit=0"), format!("{CALENDARS}?after=a%20b"), format!("{CALENDARS}/a%20b")]
    {
        assert_eq!(scene.get(&path).await.status, 400, "{path}");
    }
    assert_eq!(scene.send("PUT", WORK, None, None).await.body["code"], json!("malformed"));
    assert_eq!(scene.send("PUT", WORK, None, Some("{".to_owned())).await.body["code"], json!("malformed"));
    assert_eq!(scene.get(WORK).await.tag, "\"1\"", "nothing happened");
    assert_eq!(scene.get(&format!("{JOBS}/bad")).await.status, 404);
    scene.node.shut_down().await;
}
