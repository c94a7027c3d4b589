//! Functions of the program itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use punctual_core::attempt::{Assignment, End, Order, Outcome, Report};
use punctual_core::ids::RunId;
use punctual_core::log::Stream;
use punctual_core::run::Cause;
use punctual_core::task::{Params, Task};
use punctual_worker::function::{Context, Error, Functions, Output};

use crate::rig::{NOW, Rig, TOKEN, assignment};

fn function(name: &str) -> Task {
    Task::Function(name.parse().unwrap())
}

async fn rig_with<F, Fut>(called: F) -> Rig
where
    F: Fn(Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Output, Error>> + Send + 'static,
{
    let mut functions = Functions::default();
    assert!(functions.add("f".parse().unwrap(), called));
    Rig::start_with(|config| config.functions = functions).await
}

async fn outcome_of<F, Fut>(called: F) -> Outcome
where
    F: Fn(Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Output, Error>> + Send + 'static,
{
    let mut rig = rig_with(called).await;
    let outcome = rig.outcome_of(function("f")).await;
    rig.shut_down().await;
    outcome
}

#[tokio::test]
async fn a_function_knows_what_it_was_asked_for_and_leaves_a_result() {
    let mut rig = rig_with(|cx: Context| async move {
        let params: serde_json::Value = cx.params()?;
        assert_eq!((cx.run(), cx.attempt(), cx.token(), cx.due()), (RunId(1), 2, TOKEN, NOW));
        assert!(cx.job().is_some_and(|name| name.as_str() == "nightly"));
        cx.log("one\ntwo").await;
        Ok(Output::from(params["region"].clone()))
    })
    .await;
    let params = Params(r#"{"region":"east"}"#.into());
    rig.order(vec![Order::Assign(Assignment { params, ..assignment(1, function("f")) })]).await;
    let outcome = rig.finished(1).await;
    assert_eq!((outcome.end, &*outcome.output, &*outcome.error), (End::Succeeded, "\"east\"", ""));
    assert_eq!(rig.logs.text(1, Stream::Out), "one\ntwo\n");
    rig.shut_down().await;
}

#[tokio::test]
async fn an_error_is_kept_with_its_causes() {
    let outcome = outcome_of(|cx| async move { Err(cx.params::<Vec<u8>>().unwrap_err()) }).await;
    let expected = "the parameters are not what this function takes: ";
    assert!(outcome.end == End::Failed && outcome.error.starts_with(expected), "{outcome:?}");
    let outcome = outcome_of(|_| async { Err("no more coffee".into()) }).await;
    assert_eq!(&*outcome.error, "no more coffee");
}

#[tokio::test]
async fn a_panic_is_a_failed_attempt_and_the_worker_goes_on() {
    let mut rig = rig_with(|cx: Context| async move {
        assert!(cx.run() != RunId(1), "not this one");
        Ok(().into())
    })
    .await;
    let outcome = rig.outcome_of(function("f")).await;
    assert_eq!((outcome.end, &*outcome.error), (End::Failed, "the function panicked: not this one"));
    rig.assign(2, function("f")).await;
    assert_eq!(rig.finished(2).await.end, End::Succeeded);
    rig.shut_down().await;
}

#[tokio::test]
async fn a_panic_before_the_first_await_is_no_different() {
    fn early(_: Context) -> std::future::Ready<Result<Output, Error>> {
        panic!("too early")
    }
    assert_eq!(&*outcome_of(early).await.error, "the function panicked: too early");
}

#[tokio::test]
async fn progress_is_told_while_it_works() {
    let mut rig = rig_with(|cx: Context| async move {
        cx.progress(40);
        cx.cancelled().await;
        Ok(().into())
    })
    .await;
    rig.assign(1, function("f")).await;
    rig.report_where(
        |report| matches!(report, Report::Progress { progress, .. } if progress.percent == Some(40)),
    )
    .await;
    rig.shut_down().await;
}

#[tokio::test]
async fn a_function_that_hears_of_its_cancellation_tidies_up() {
    let mut rig = rig_with(|cx: Context| async move {
        cx.progress(1);
        cx.cancelled().await;
        assert!(cx.is_cancelled());
        cx.log("tidied").await;
        Ok("whatever".into())
    })
    .await;
    rig.assign(1, function("f")).await;
    rig.report_where(|report| matches!(report, Report::Progress { .. })).await;
    rig.order(vec![Order::Cancel { run: RunId(1), token: TOKEN, cause: Cause::Timeout }]).await;
    let outcome = rig.finished(1).await;
    assert_eq!((outcome.end, &*outcome.error), (End::TimedOut, "stopped at its timeout: it ended"));
    assert_eq!(rig.logs.text(1, Stream::Out), "tidied\n");
    rig.shut_down().await;
}

#[tokio::test]
async fn a_function_that_does_not_listen_is_dropped_after_its_grace() {
    struct Dropped(Arc<AtomicBool>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.store(true, SeqCst);
        }
    }
    let gone = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&gone);
    let mut functions = Functions::default();
    functions.add("f".parse().unwrap(), move |cx: Context| {
        let dropped = Dropped(Arc::clone(&seen));
        async move {
            cx.progress(1);
            std::future::pending::<()>().await;
            drop(dropped);
            Ok(().into())
        }
    });
    let mut rig = Rig::start_with(|config| {
        config.functions = functions;
        config.grace = Duration::from_millis(50);
    })
    .await;
    rig.assign(1, function("f")).await;
    rig.report_where(|report| matches!(report, Report::Progress { .. })).await;
    rig.order(vec![Order::Cancel { run: RunId(1), token: TOKEN, cause: Cause::User }]).await;
    let outcome = rig.finished(1).await;
    assert!(outcome.error.contains("was dropped") && gone.load(SeqCst), "{outcome:?}");
    rig.shut_down().await;
}

#[tokio::test]
async fn a_function_that_nobody_registered_fails_and_says_so() {
    let mut rig = Rig::start().await;
    let outcome = rig.outcome_of(function("settle")).await;
    assert!(outcome.error.starts_with("no function `settle` is registered here"), "{outcome:?}");
    rig.shut_down().await;
}

#[test]
fn a_name_is_given_once() {
    let mut functions = Functions::default();
    assert!(functions.add("f".parse().unwrap(), |_| async { Ok(().into()) }));
    assert!(!functions.add("f".parse().unwrap(), |_| async { Ok(().into()) }));
    assert_eq!(functions.names().len(), 1);
}
