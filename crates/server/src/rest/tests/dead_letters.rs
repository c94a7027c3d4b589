//! Dead letters, with a worker that fails unless the parameters tell it otherwise.

use std::time::Duration;

use axum::http::Request;
use punctual_core::attempt::{Order, Outcome, Report};
use punctual_core::ids::WorkerId;
use punctual_core::worker::Announcement;
use punctual_node::Link;
use punctual_wire::rest::{DeadLetter, Decisions, Page, Problem, Run};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{JOBS, NOW, RUNS, Scene, with_json};

const LETTERS: &str = "/api/v1/namespaces/default/dead-letters";

impl Scene {
    async fn with_worker() -> Scene {
        let scene = Scene::new().await;
        let (orders, mut given) = mpsc::unbounded_channel();
        let link = Link {
            worker: WorkerId::new("w", 1),
            announced: Announcement::of(4),
            holding: Vec::new(),
            orders,
        };
        let reporter = scene.node.link(link).await;
        tokio::spawn(async move {
            let mut total = 4;
            reporter.send(vec![Report::Lent { total }]).await;
            while let Some(batch) = given.recv().await {
                let mut reports: Vec<Report> = batch.into_iter().filter_map(outcome).collect();
                total += reports.len() as u64;
                reports.push(Report::Lent { total });
                reporter.send(reports).await;
            }
        });
        scene
    }

    async fn letters(&self, query: &str) -> Vec<DeadLetter> {
        self.get(&format!("{LETTERS}?{query}")).await.read::<Page<DeadLetter>>(200).items
    }

    /// Waits until a job has so many.
    async fn wait_for_letters(&self, job: &str, count: usize) -> Vec<DeadLetter> {
        let looking = async {
            loop {
                let letters = self.letters(&format!("job={job}")).await;
                if letters.len() == count {
                    return letters;
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), looking).await.expect("they die soon")
    }

    /// Waits until a run has succeeded: its letter is gone when it begins.
    async fn wait_for_success(&self, run: &Run) {
        let looking = async {
            loop {
                let found: Run = self.get(&format!("{RUNS}/{}", run.id)).await.read(200);
                if found.state.to_string() == "succeeded" {
                    return;
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), looking).await.expect("it succeeds soon");
    }

    async fn fail(&self, job: &str, times: usize) -> Vec<DeadLetter> {
        let file = json!({ "task": { "noop": {} }, "params": { "region": "east" }, "overlap": "queue" });
        self.put(&format!("{JOBS}/{job}"), file).await;
        for _ in 0..times {
            self.post(&format!("{JOBS}/{job}/run"), json!({})).await.read::<Run>(201);
        }
        self.wait_for_letters(job, times).await
    }
}

fn outcome(order: Order) -> Option<Report> {
    let Order::Assign(assignment) = order else { return None };
    let now = NOW;
    let fine = assignment.params.0.contains("fine");
    let outcome = if fine { Outcome::succeeded(now) } else { Outcome::failed(now, "no region east") };
    Some(Report::Finished { run: assignment.run, token: assignment.token, outcome })
}

#[tokio::test]
async fn letters_are_listed_by_job_and_shown_with_their_params() {
    let scene = Scene::with_worker().await;
    let (a, _) = (scene.fail("a", 3).await, scene.fail("b", 1).await);
    assert_eq!(scene.letters("").await.len(), 4);
    assert_eq!(scene.letters("job=b").await.len(), 1);
    assert_eq!(scene.letters("job=nobody").await, []);
    assert_eq!(scene.letters("since=2027-01-15T08:00:00Z").await.len(), 4);
    assert_eq!(scene.letters("since=2027-01-15T08:00:01Z").await, []);
    let page: Page<DeadLetter> = scene.get(&format!("{LETTERS}?job=a&limit=2")).await.read(200);
    let next = page.next.expect("there is a third");
    assert_eq!(scene.letters(&format!("job=a&after={next}")).await, a[2..]);

    let shown: DeadLetter = scene.get(&format!("{LETTERS}/{}", a[0].id)).await.read(200);
    assert_eq!(shown, a[0]);
    assert_eq!(serde_json::to_value(&shown.params).unwrap(), json!({ "region": "east" }));
    let attempts: Run = scene.get(&format!("{RUNS}/{}", a[0].id)).await.read(200);
    assert_eq!(attempts.attempts.unwrap()[0].error.as_deref(), Some("no region east"));
    let missing: Value = scene.get(&format!("{LETTERS}/17")).await.read(404);
    assert_eq!(missing["code"], "no_such_dead_letter");
}

#[tokio::test]
async fn a_letter_is_replayed_with_other_params_and_only_once() {
    let scene = Scene::with_worker().await;
    let letter = scene.fail("a", 1).await.remove(0);
    let path = format!("{LETTERS}/{}/replay", letter.id);
    let run: Run = scene.post(&path, json!({ "params": { "region": "fine" } })).await.read(201);
    assert_eq!(run.retry_of, Some(letter.id));
    assert_eq!(Some(run.due_at), letter.run.as_ref().map(|dead| dead.due_at), "the due time stays");
    scene.wait_for_letters("a", 0).await;
    assert_eq!(scene.post(&path, json!({})).await.read::<Problem>(409).status, 409);
    scene.wait_for_success(&run).await;
    let due = json!({ "params": { "region": "fine" }, "due_at": "2026-12-24T08:00:00Z" });
    let other: Run = scene.post(&format!("{RUNS}/{}/retry", letter.id), due).await.read(201);
    assert_eq!(other.due_at.to_string(), "2026-12-24T08:00:00.000Z");
}

#[tokio::test]
async fn a_replay_with_a_key_is_answered_again_and_no_other_run_takes_it() {
    let scene = Scene::with_worker().await;
    let letter = scene.fail("a", 1).await.remove(0);
    let replay = async |run: &str, key: &str| {
        let request = Request::post(format!("{LETTERS}/{run}/replay")).header("idempotency-key", key);
        scene.send(with_json(request, &json!({ "params": { "x": "fine" } }))).await
    };
    let first: Run = replay(&letter.id.to_string(), "k").await.read(201);
    assert_eq!(replay(&letter.id.to_string(), "k").await.read::<Run>(200).id, first.id);
    let again: Value = replay(&letter.id.to_string(), "other").await.read(409);
    assert_eq!(again["code"], "not_a_dead_letter", "a key does not make a letter of it");
    scene.wait_for_letters("a", 0).await;
    scene.wait_for_success(&first).await;
    let fine: Value = replay(&first.id.to_string(), "k").await.read(409);
    assert_eq!(fine["code"], "not_a_dead_letter", "it never was one");
}

#[tokio::test]
async fn many_letters_are_decided_about_at_once_each_by_itself() {
    let scene = Scene::with_worker().await;
    let letters = scene.fail("a", 5).await;
    let ids: Vec<String> = letters.iter().map(|letter| letter.id.to_string()).collect();
    let some = json!({ "action": "discard", "ids": [ids[0], "17", ids[0]] });
    let decided: Decisions = scene.post(LETTERS, some.clone()).await.read(200);
    let seen: Vec<_> = decided.items.iter().map(|one| (one.id.to_string(), one.done)).collect();
    assert_eq!(seen, [("17".to_owned(), false), (ids[0].clone(), true)], "each once");
    let repeated: Decisions = scene.post(LETTERS, some).await.read(200);
    assert!(repeated.items.iter().all(|one| !one.done && one.problem.is_some()), "{repeated:?}");

    let replay = json!({ "action": "replay", "job": "a", "limit": 3, "params": { "x": "fine" } });
    let decided: Decisions = scene.post(LETTERS, replay.clone()).await.read(200);
    assert_eq!((decided.items.len(), decided.more), (3, true));
    assert!(decided.items.iter().all(|one| one.done && one.run.is_some()), "{decided:?}");
    let rest: Decisions = scene.post(LETTERS, replay).await.read(200);
    assert_eq!((rest.items.len(), rest.more), (1, false));
    scene.wait_for_letters("a", 0).await;
    let runs: Page<Run> = scene.get(&format!("{RUNS}?job=a&trigger=retry")).await.read(200);
    assert_eq!(runs.items.len(), 4);

    let rows = [
        (json!({}), "action"),
        (json!({ "action": "replay" }), "ids"),
        (json!({ "action": "replay", "job": "a", "limit": 1001 }), "limit"),
        (json!({ "action": "replay", "ids": vec!["1"; 1001] }), "ids"),
        (json!({ "action": "discard", "job": "a", "due_at": "2026-12-24T08:00:00Z" }), "due_at"),
        (json!({ "action": "replay", "job": "a", "due_at": "1969-12-24T08:00:00Z" }), "due_at"),
    ];
    for (body, field) in rows {
        assert_eq!(scene.post(LETTERS, body).await.read::<Problem>(422).field.as_deref(), Some(field));
    }
}
