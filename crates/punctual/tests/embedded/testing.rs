//! A node whose clock the test moves.

use punctual::testing::{ManualClock, TestNode, hours, minutes, seconds};
use punctual::{Builder, Context, Job, Node, NodeError, Status, Submit};
use serde_json::json;

fn clock() -> ManualClock {
    ManualClock::at("2027-01-01T00:00:00Z".parse().unwrap())
}

/// A function `done` that ends at once, and a function `slow` that takes an hour of the clock.
fn app(clock: &ManualClock) -> Builder {
    let clock = clock.clone();
    let builder = Node::builder().function("done", |_| async { Ok(().into()) });
    builder.function("slow", move |_: Context| {
        let clock = clock.clone();
        async move {
            clock.sleep(hours(1)).await;
            Ok(().into())
        }
    })
}

async fn statuses(node: &TestNode, job: &str) -> Vec<Status> {
    node.runs(job).await.unwrap().iter().map(|run| run.status()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_fires_when_the_clock_reaches_its_due_time() {
    let clock = clock();
    let job = Job::new("morning").function("done").cron("0 8 * * *");
    let node = TestNode::start(&clock, app(&clock).job(job)).await.unwrap();
    node.advance(hours(8) - seconds(1)).await.unwrap();
    assert_eq!(statuses(&node, "morning").await, []);
    node.advance(seconds(1)).await.unwrap();
    assert_eq!(statuses(&node, "morning").await, [Status::Succeeded]);
    node.advance(hours(48)).await.unwrap();
    assert_eq!(statuses(&node, "morning").await.len(), 3);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_takes_time_overlaps_with_the_next() {
    let clock = clock();
    let job = |name: &str, overlap: &str| {
        Job::new(name).function("slow").every(minutes(30)).set("overlap", json!(overlap))
    };
    let app = app(&clock).job(job("skips", "skip")).job(job("allows", "allow"));
    let node = TestNode::start(&clock, app).await.unwrap();
    node.advance(minutes(60)).await.unwrap();
    assert_eq!(statuses(&node, "skips").await, [Status::Running, Status::Skipped]);
    assert_eq!(statuses(&node, "allows").await, [Status::Running, Status::Running]);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_runs_at_once_have_all_ended() {
    let clock = clock();
    let folder = tempfile::tempdir().unwrap();
    let store = format!("sqlite:{}", folder.path().display());
    let node = TestNode::start(&clock, app(&clock).store(store)).await.unwrap();
    let mut runs = Vec::new();
    for number in 0..200 {
        let submit = Submit::function(if number % 2 == 0 { "done" } else { "slow" });
        runs.push(node.submit(submit.delay(minutes(number % 7))).await.unwrap());
    }
    node.advance(hours(2)).await.unwrap();
    for run in runs {
        assert_eq!(node.run(run).await.unwrap().unwrap().status(), Status::Succeeded);
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_function_ends_at_once() {
    let clock = clock();
    let node = TestNode::start(&clock, app(&clock)).await.unwrap();
    let run = node.submit(Submit::function("slow")).await.unwrap();
    node.settle().await.unwrap();
    node.cancel(run).await.unwrap();
    node.settle().await.unwrap();
    assert_eq!(node.run(run).await.unwrap().unwrap().status(), Status::Cancelled);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_test_node_shares_no_store() {
    let clock = clock();
    let started = TestNode::start(&clock, app(&clock).store("postgres://localhost/x")).await;
    assert!(matches!(started, Err(NodeError::Invalid(message)) if message.contains("SQLite")));
}
