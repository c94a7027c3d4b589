//! A worker that is linked into a program: functions for a server, without a store (R63).

use std::sync::Arc;
use std::time::Duration;

use punctual::core::name::Namespace;
use punctual::core::run::Status;
use punctual::wire::job_file::Task;
use punctual::wire::rest::{Cancel, Submit};
use punctual::{Context, Error, Output, Worker, WorkerBuilder, WorkerError};

use crate::scene::{Center, Setting, attempts, within};
use crate::work::Secret;

fn call(name: &str) -> Submit {
    let task = Task { function: Some(name.parse().unwrap()), ..Task::default() };
    Submit { task: Some(task), ..Submit::default() }
}

/// Fails at its first attempt, after a checkpoint.
async fn settle(cx: Context) -> Result<Output, Error> {
    match cx.resumed::<u64>()? {
        Some(row) => Ok(format!("from row {row}").into()),
        None => {
            cx.checkpoint(&40).await?;
            Err("the power went out".into())
        }
    }
}

async fn wait(cx: Context) -> Result<Output, Error> {
    cx.cancelled().await;
    Err("stopped".into())
}

fn builder(center: &Center) -> WorkerBuilder {
    Worker::builder().server(format!("http://{}", center.address)).drain(Duration::ZERO)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_without_a_store_runs_functions_for_a_server() {
    let center = Center::start(Setting::default()).await;
    let worker = builder(&center).name("ledger").label("disk", "ssd").function("settle", settle);
    let worker = within("a node takes the worker", worker.start()).await.unwrap();
    assert_eq!(worker.nodes().len(), 1);
    let run = center.submit(attempts(call("settle"), 2)).await;
    let ended = center.ended(run).await;
    assert_eq!((ended.state.0, ended.output.as_deref()), (Status::Succeeded, Some("from row 40")));
    assert!(ended.worker.is_some_and(|worker| worker.starts_with("ledger")));
    worker.stop().await.unwrap();
    center.workers(0).await;
    center.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_function_of_a_program_is_cancelled_over_the_network() {
    let center = Center::start(Setting::default()).await;
    let worker = builder(&center).function("wait", wait).start();
    let worker = within("a node takes the worker", worker).await.unwrap();
    let run = center.submit(call("wait")).await;
    center.running(run).await;
    center.client.cancel_run(&Namespace::default(), run, &Cancel::default()).await.unwrap();
    assert_eq!(center.ended(run).await.state.0, Status::Cancelled);
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_needs_a_good_token() {
    let center = Center::start(Setting { admission: Arc::new(Secret), ..Setting::default() }).await;
    let worker = || builder(&center).function("wait", wait);
    let refused = within("an answer", worker().token("guess").start()).await;
    assert!(matches!(&refused, Err(WorkerError::Refused(why)) if why.contains("token")), "{refused:?}");
    let worker = within("an answer", worker().token("open sesame").start()).await.unwrap();
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_setting_is_named_before_anything_is_dialled() {
    let far = || Worker::builder().server("http://127.0.0.1:1").function("wait", wait);
    let wrong = [
        (Worker::builder().function("wait", wait), "a worker needs a server"),
        (Worker::builder().server("http://127.0.0.1:1"), "a worker needs a function"),
        (far().function("wait", wait), "function `wait` is registered twice"),
        (far().slots(0), "slots: 1 to"),
        (far().weight(0), "weight: 1 or more"),
        (far().name("no/name"), "name: "),
    ];
    for (builder, words) in wrong {
        let refused = within("an answer", builder.start()).await;
        assert!(
            matches!(&refused, Err(WorkerError::Invalid(message)) if message.starts_with(words)),
            "{words}: {refused:?}"
        );
    }
}
