//! What a worker over the network does when nothing goes wrong.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use punctual::core::name::Namespace;
use punctual::core::run::Status;
use punctual::wire::rest::Cancel;
use punctual_server::{Admission, Caller};
use punctual_worker::session::Ended;

use crate::scene::{Center, Setting, Wanted, Worker, noop, shell, within};

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_executed_over_the_network_with_its_output_and_exit_code() {
    let center = Center::start(Setting::default()).await;
    let mut worker = Worker::start(&[&center.address], Wanted::default());
    worker.works_for(1).await;
    let run = center.submit(shell("echo hello; echo $PUNCTUAL_RUN_ID; exit 3")).await;
    let ended = center.ended(run).await;
    assert_eq!((ended.state.0, ended.exit_code), (Status::Failed, Some(3)));
    assert!(ended.worker.is_some_and(|worker| worker.starts_with("w")));
    assert_eq!(
        center.printed(run).await,
        format!("hello\n{run}\n"),
        "output is kept before the outcome is told"
    );
    let fine = center.submit(shell("echo fine")).await;
    let ended = center.ended(fine).await;
    assert_eq!((ended.state.0, ended.output.as_deref()), (Status::Succeeded, Some("fine")));
    worker.stop().await.unwrap();
    center.workers(0).await;
    center.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_output_arrives_whole_and_in_order() {
    let center = Center::start(Setting::default()).await;
    let mut worker = Worker::start(&[&center.address], Wanted::default());
    worker.works_for(1).await;
    let run = center.submit(shell("seq 1 400000")).await;
    assert_eq!(center.ended(run).await.state.0, Status::Succeeded);
    let printed = center.printed(run).await;
    let expected: String = (1..=400_000).map(|number| format!("{number}\n")).collect();
    assert!(printed == expected, "{} of {} bytes", printed.len(), expected.len());
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_reaches_a_worker_over_the_network() {
    let center = Center::start(Setting::default()).await;
    let mut worker = Worker::start(&[&center.address], Wanted::default());
    worker.works_for(1).await;
    let run = center.submit(shell("sleep 1000")).await;
    center.running(run).await;
    center.client.cancel_run(&Namespace::default(), run, &Cancel::default()).await.unwrap();
    assert_eq!(center.ended(run).await.state.0, Status::Cancelled);
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_over_the_network_never_runs_more_than_its_slots() {
    let center = Center::start(Setting::default()).await;
    let mut worker = Worker::start(&[&center.address], Wanted { slots: 3, ..Wanted::default() });
    worker.works_for(1).await;
    let folder = tempfile::tempdir().unwrap();
    let book = folder.path().join("book").display().to_string();
    let go = folder.path().join("go");
    let wait = format!("until test -e {}; do sleep 0.01; done", go.display());
    let text = format!("echo + >> {book}; {wait}; echo - >> {book}");
    let mut runs = Vec::new();
    for _ in 0..20 {
        runs.push(center.submit(shell(&text)).await);
    }
    let begun = || std::fs::read_to_string(&book).is_ok_and(|book| book.lines().count() >= 3);
    within("every slot is in use", async {
        while !begun() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    std::fs::write(&go, "").unwrap();
    for run in runs {
        assert_eq!(center.ended(run).await.state.0, Status::Succeeded);
    }
    let (mut now, mut most) = (0, 0);
    for line in std::fs::read_to_string(&book).unwrap().lines() {
        now += if line == "+" { 1 } else { -1 };
        most = most.max(now);
    }
    assert_eq!((now, most), (0, 3), "as many as it has, and no more");
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn many_runs_go_through_a_few_slots() {
    let center = Center::start(Setting::default()).await;
    let mut worker = Worker::start(&[&center.address], Wanted { slots: 2, ..Wanted::default() });
    worker.works_for(1).await;
    let mut runs = Vec::new();
    for _ in 0..200 {
        runs.push(center.submit(noop()).await);
    }
    for run in runs {
        assert_eq!(center.ended(run).await.state.0, Status::Succeeded);
    }
    assert_eq!(center.node.handle().status().stale_reports, 0);
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_hears_of_the_other_nodes_and_works_for_all_of_them() {
    let ahead = Duration::from_secs(3600);
    let here = Center::start(Setting::default()).await;
    let there = Center::start(Setting { ahead, ..Setting::default() }).await;
    here.nodes.send_replace(vec![here.address.clone(), there.address.clone()]);
    there.nodes.send_replace(vec![here.address.clone(), there.address.clone()]);
    let mut worker = Worker::start(&[&here.address], Wanted { slots: 2, ..Wanted::default() });
    worker.works_for(2).await;
    // Both at once, more than there are slots: nobody starves.
    let mut runs = Vec::new();
    for _ in 0..10 {
        for center in [&here, &there] {
            runs.push((center, center.submit(shell("sleep 0.05")).await));
        }
    }
    for (center, run) in runs {
        assert_eq!(center.ended(run).await.state.0, Status::Succeeded);
    }
    // One of them dies: the work of the other goes on.
    here.shut_down().await;
    let run = there.submit(shell("echo still here")).await;
    assert_eq!(there.ended(run).await.output.as_deref(), Some("still here"));
    worker.stop().await.unwrap();
    there.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_stopped_finishes_what_it_has_within_its_time() {
    let center = Center::start(Setting::default()).await;
    let wanted = Wanted { drain: Duration::from_secs(30), ..Wanted::default() };
    let mut worker = Worker::start(&[&center.address], wanted);
    worker.works_for(1).await;
    // Longer than a start takes to be written down.
    let run = center.submit(shell("sleep 4; echo done")).await;
    center.running(run).await;
    let stopping = tokio::spawn(worker.stop());
    let ended = center.ended(run).await;
    assert_eq!((ended.state.0, ended.attempt), (Status::Succeeded, 1));
    within("the worker", stopping).await.unwrap().unwrap();
}

#[derive(Debug)]
pub(crate) struct Secret;

#[async_trait]
impl Admission for Secret {
    async fn admits(&self, caller: Caller<'_>) -> bool {
        caller.bearer == Some("open sesame")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_without_a_good_token_is_told_so_and_ends() {
    let center = Center::start(Setting { admission: Arc::new(Secret), ..Setting::default() }).await;
    for token in [None, Some("guess".to_owned())] {
        let mut worker = Worker::start(&[&center.address], Wanted { token, ..Wanted::default() });
        let Err(Ended::Refused(refused)) = worker.ended().await else { panic!("it was let in") };
        assert!(refused.0.contains("token"), "{refused}");
    }
    let token = Some("open sesame".to_owned());
    let mut worker = Worker::start(&[&center.address], Wanted { token, ..Wanted::default() });
    worker.works_for(1).await;
    worker.stop().await.unwrap();
}
