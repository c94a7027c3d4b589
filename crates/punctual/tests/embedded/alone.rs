//! One process, no server: R24 and R63.

use std::time::Duration;

use punctual::core::run::{Lack, Reason};
use punctual::{Context, Job, Node, Run, RunId, Status, Submit};
use serde_json::json;
use tempfile::TempDir;

use crate::scene::{Book, ended, instance, succeeded, tick, until, within};

fn folder() -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().display());
    (folder, url)
}

/// Reads a run now and after each of its changes, until the condition is true.
async fn becomes(node: &Node, id: RunId, what: &str, is_so: impl Fn(&Run) -> bool) {
    let mut follower = node.handle().followers().follow(id).unwrap();
    within(what, async {
        while !is_so(&node.run(id).await.unwrap().unwrap()) {
            assert!(follower.news().await, "the node stopped");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registered_function_fires_on_its_schedule_without_a_server() {
    let (_folder, store) = folder();
    let book = Book::default();
    let node = instance(&store, "app", &book).job(tick()).start().await.unwrap();
    book.has(3).await;
    book.has_every_second().await;
    node.stop().await;
    book.assert_nothing_twice();
}

/// Its worker has not joined the node by then.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_can_be_stopped_as_soon_as_it_has_started() {
    for _ in 0..5 {
        let node = Node::builder().store("memory:").start().await.unwrap();
        within("the node stops", node.stop()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_asked_for_outlives_the_process_and_a_job_is_put_once() {
    let (_folder, store) = folder();
    let book = Book::default();
    let job = || Job::new("tick").function("note").cron("0 0 1 1 *");
    let node = instance(&store, "app", &book).job(job()).start().await.unwrap();
    let later = node.submit(Submit::function("note").delay(Duration::from_millis(1500))).await.unwrap();
    node.stop().await;
    assert_eq!(book.all().len(), 0);

    let node = instance(&store, "app", &book).job(job()).start().await.unwrap();
    succeeded(&node, later).await;
    let namespace = Default::default();
    let kept = node.handle().reads().job(&namespace, &"tick".parse().unwrap()).await.unwrap().unwrap();
    assert_eq!(kept.revision, 1, "the same job is no edit");
    let by_hand = node.run_job("tick").await.unwrap();
    assert_eq!(&*succeeded(&node, by_hand).await.output, "app");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_is_a_failed_attempt_and_the_process_lives() {
    let builder = Node::builder().store("memory:").function("flaky", |cx: Context| async move {
        assert!(cx.attempt() > 1, "not at the first try");
        Ok(format!("at try {}", cx.attempt()).into())
    });
    let node = builder.start().await.unwrap();
    let once = node.submit(Submit::function("flaky")).await.unwrap();
    let failed = ended(&node, once).await;
    let expected = "the function panicked: not at the first try";
    assert_eq!((failed.status(), &*failed.error), (Status::Failed, expected));
    let retried = Submit::function("flaky").set("retry", json!({ "attempts": 2, "delay": "10ms" }));
    let retried = node.submit(retried).await.unwrap();
    assert_eq!(&*succeeded(&node, retried).await.output, "at try 2");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_function_says_is_kept_with_its_run() {
    let builder = Node::builder().store("memory:").function("talk", |cx: Context| async move {
        cx.log("hello").await;
        cx.progress(70);
        cx.cancelled().await;
        Ok(().into())
    });
    let node = builder.start().await.unwrap();
    let id = node.submit(Submit::function("talk")).await.unwrap();
    becomes(&node, id, "the progress is stored", |run| run.percent() == Some(70)).await;
    node.cancel(id).await.unwrap();
    assert_eq!(ended(&node, id).await.status(), Status::Cancelled);
    let kept = node.handle().reads().read_logs(id, None, 100).await.unwrap();
    assert!(kept.iter().any(|chunk| chunk.bytes == b"hello\n"), "{kept:?}");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_function_continues_at_its_checkpoint() {
    let builder = Node::builder().store("memory:").function("settle", |cx: Context| async move {
        if let Some(row) = cx.resumed::<u64>()? {
            return Ok(format!("from row {row}").into());
        }
        cx.report(40, "row 400");
        cx.checkpoint(&400).await?;
        let too_large = "x".repeat(100_000);
        assert!(
            cx.checkpoint(&too_large).await.is_err_and(|error| error.to_string().contains("65536 bytes"))
        );
        Err("it broke".into())
    });
    let node = builder.start().await.unwrap();
    let retried = Submit::function("settle").set("retry", json!({ "attempts": 2, "delay": "10ms" }));
    let retried = node.submit(retried).await.unwrap();
    let run = succeeded(&node, retried).await;
    assert_eq!((&*run.output, run.attempt), ("from row 400", 2));
    node.stop().await;
}

/// Submits a run that the node cannot start. Once its worker has joined, the run says why it waits.
async fn waits_for(submit: Submit, lack: Lack) {
    let node = Node::builder().store("memory:").function("known", |_| async { Ok(().into()) });
    let node = node.start().await.unwrap();
    let id = node.submit(submit).await.unwrap();
    let expected = (Status::Ready, Some(Reason::NoWorkerFits(lack)));
    becomes(&node, id, "the run says why it waits", |run| (run.status(), run.reason.clone()) == expected)
        .await;
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_function_that_nobody_has_waits_and_says_why() {
    waits_for(Submit::function("missing"), Lack::Function("missing".parse().unwrap())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_is_not_for_an_embedded_node() {
    let shell = Submit::function("x").set("task", json!({ "shell": "true" }));
    waits_for(shell, Lack::Kind("shell".into())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_lets_what_runs_finish_and_a_drop_does_not_wait() {
    let (_folder, store) = folder();
    let book = Book::default();
    let slow = |book: Book| {
        move |cx: Context| {
            let book = book.clone();
            async move {
                book.note("begun", &cx);
                tokio::time::sleep(Duration::from_millis(700)).await;
                book.note("done", &cx);
                Ok(().into())
            }
        }
    };
    let node = Node::builder().store(&store).function("slow", slow(book.clone())).start().await.unwrap();
    let id = node.submit(Submit::function("slow")).await.unwrap();
    book.has(1).await;
    node.stop().await;
    assert_eq!(book.all().len(), 2, "it finished first");

    let again = Book::default();
    let node = Node::builder().store(&store).function("slow", slow(again.clone())).start().await.unwrap();
    assert_eq!(node.run(id).await.unwrap().unwrap().status(), Status::Succeeded);
    let second = node.submit(Submit::function("slow")).await.unwrap();
    again.has(1).await;
    drop(node);
    // The folder is free when the last of it is gone; the next start tries again what was dropped.
    let mut next = None;
    within("the folder is free", async {
        while next.is_none() {
            let builder = Node::builder().store(&store).attempt_lease(Duration::from_secs(1));
            next = builder.function("slow", slow(again.clone())).start().await.ok();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    let node = next.unwrap();
    succeeded(&node, second).await;
    assert_eq!(again.all().iter().filter(|(what, _)| what == "done").count(), 1);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_is_said_at_the_start() {
    let noted = |name: &str| Node::builder().store("memory:").function(name, |_| async { Ok(().into()) });
    for (builder, part) in [
        (Node::builder(), "needs a store"),
        (Node::builder().store("oracle://x"), "no store of the kind `oracle`"),
        (noted("a b"), "function `a b`"),
        (noted("f").function("f", |_| async { Ok(().into()) }), "registered twice"),
        (noted("f").slots(0), "slots: 1 to"),
        (noted("f").namespace("Not This"), "namespace"),
        (noted("f").name(""), "name"),
        (noted("f").shard_lease(Duration::ZERO), "leases"),
        (noted("f").job(Job::new("j")), "task"),
    ] {
        let error = builder.start().await.unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_makes_one_run_of_two_submits() {
    let book = Book::default();
    let node = instance("memory:", "app", &book).start().await.unwrap();
    let submit = || Submit::function("note").key("once");
    let first = node.submit(submit()).await.unwrap();
    assert_eq!(node.submit(submit()).await.unwrap(), first);
    succeeded(&node, first).await;
    until("it is noted", || book.all().len() == 1).await;
    node.stop().await;
}
