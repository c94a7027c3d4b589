//! Executes tasks: one file per kind.
//!
//! `http` calls a URL, `grpc` a method of a server; both follow the work of a service that accepts it and works on
//! (`accepted`). `function` calls a registered function of this program. `shell` and `process` start a program
//! (`launch`), under a guardian or at least in its own process group (`program`, `group`), read its output (`output`),
//! and end it when asked. Every failure here, including a panic, becomes an outcome.

mod shell;
mod process;
mod http;
mod grpc;
mod accepted;
mod function;
mod ended;
mod failure;
mod launch;
mod program;
mod reports;
mod output;
mod line;
mod group;

use std::any::Any;
use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use punctual_core::Timestamp;
use punctual_core::attempt::{Assignment, End, Outcome, Report};
use punctual_core::run::Cause;
use punctual_core::task::Task;
use punctual_core::time::Clock;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use tracing::error;

use crate::driver::Stop;
use crate::function::Functions;
use crate::log::{LogSink, Transcript};
pub(crate) use group::Groups;
pub(crate) use grpc::Executors;
pub(crate) use http::Clients;
pub use http::{Caller, Reply};
pub(crate) use line::Lines;

/// What all attempts of a worker share.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) logs: Arc<dyn LogSink>,
    pub(crate) grace: Duration,
    /// The binary that becomes a guardian. `None` means programs are started without one.
    pub(crate) guardian: Option<PathBuf>,
    pub(crate) groups: Groups,
    /// Holds a folder for each attempt of a program.
    pub(crate) attempts: PathBuf,
    pub(crate) clients: Clients,
    pub(crate) executors: Executors,
    pub(crate) functions: Functions,
    /// Reports of running attempts, such as progress.
    pub(crate) reports: mpsc::Sender<Report>,
}

#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) assignment: Assignment,
    pub(crate) started_at: Timestamp,
    /// Says when and why to stop. `None` means keep running.
    pub(crate) stop: watch::Receiver<Option<Stop>>,
    /// The number of the newest report whose checkpoint is stored.
    pub(crate) saved: watch::Receiver<u64>,
}

/// How an attempt ended, and why if it was stopped.
#[derive(Debug)]
pub(crate) struct Ending {
    pub(crate) outcome: Outcome,
    pub(crate) stopped: Option<Stop>,
}

/// Executes an attempt until it ends, its timeout passes, or the worker stops it.
pub(crate) async fn execute(mut attempt: Attempt, host: &Host) -> Ending {
    let (run, started_at) = (attempt.assignment.run, attempt.started_at);
    let limit = attempt.assignment.definition.timeout;
    let (stopper, stop) = watch::channel(*attempt.stop.borrow());
    let asked = std::mem::replace(&mut attempt.stop, stop);
    let mut ending = tokio::select! {
        ended = AssertUnwindSafe(dispatch(attempt, host)).catch_unwind() => ended.unwrap_or_else(|panic| {
            let message = message_of(&*panic);
            error!(%run, message, "an executor panicked");
            let error = format!("the executor panicked, which is a bug in Punctual: {message}");
            Ending { outcome: Outcome::failed(started_at, error), stopped: None }
        }),
        never = pass_on_stop(asked, limit, stopper) => match never {},
    };
    if ending.stopped == Some(Stop::Cancelled(Cause::Timeout)) {
        ending.outcome.end = End::TimedOut;
    }
    ending
}

/// Stops an attempt when the worker asks for it or its timeout passes. The node checks the timeout too, but cannot
/// cancel while it is cut off from the store.
async fn pass_on_stop(
    mut asked: watch::Receiver<Option<Stop>>,
    limit: Option<Duration>,
    stopper: watch::Sender<Option<Stop>>,
) -> Infallible {
    let first = stop_asked(&mut asked);
    let stop = match limit {
        Some(limit) => timeout(limit, first).await.unwrap_or(Stop::Cancelled(Cause::Timeout)),
        None => first.await,
    };
    stopper.send_replace(Some(stop));
    // A later request counts only if it leaves no grace period.
    if let Ok(stop) = asked.wait_for(is_at_once).await {
        stopper.send_replace(*stop);
    }
    std::future::pending().await
}

fn is_at_once(stop: &Option<Stop>) -> bool {
    stop.is_some_and(|stop| stop.grace(Duration::MAX).is_zero())
}

/// Waits until the grace period is over, or until the attempt is asked to stop without one.
async fn grace_is_over(stop: &mut watch::Receiver<Option<Stop>>, why: Stop, usual: Duration) {
    tokio::select! {
        () = tokio::time::sleep(why.grace(usual)) => {}
        Ok(_) = stop.wait_for(is_at_once) => {}
    }
}

async fn dispatch(attempt: Attempt, host: &Host) -> Ending {
    let definition = Arc::clone(&attempt.assignment.definition);
    match &definition.task {
        Task::Noop => Ending { outcome: Outcome::succeeded(attempt.started_at), stopped: None },
        Task::Shell(text) => shell::execute(text, attempt, host).await,
        Task::Process(process) => {
            let values = attempt.assignment.values(attempt.started_at);
            match process.render(&values) {
                Ok(process) => process::execute(&process, attempt, host).await,
                Err(invalid) => fail(&attempt, invalid.to_string(), host).await,
            }
        }
        Task::Http(http) => http::execute(http, attempt, host).await,
        Task::Grpc(grpc) => grpc::execute(grpc, attempt, host).await,
        Task::Function(name) => function::execute(name, attempt, host).await,
        Task::Queue(_) | Task::Workflow(_) | Task::Ping(_) | Task::Job(_) => {
            let kind = attempt.assignment.definition.task.kind().as_str();
            let message =
                format!("a `{kind}` task goes to no worker: the node that gave it to this one is to blame");
            fail(&attempt, message, host).await
        }
    }
}

/// Ends an attempt that could not start.
async fn fail(attempt: &Attempt, message: String, host: &Host) -> Ending {
    let Assignment { run, token, .. } = attempt.assignment;
    Transcript::new(run, token, Arc::clone(&host.clock), Arc::clone(&host.logs)).note(&message).await;
    Ending { outcome: Outcome::failed(attempt.started_at, message), stopped: None }
}

async fn stop_asked(stop: &mut watch::Receiver<Option<Stop>>) -> Stop {
    // If the worker is gone, its reason is unknown.
    stop.wait_for(Option::is_some).await.ok().and_then(|stop| *stop).unwrap_or(Stop::Shutdown)
}

fn message_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
