//! Work that a service accepts and goes on with: starts it, follows it to its end, and cancels it.
//!
//! `watch` decides, a `Service` asks: `http::accept` by polls, `grpc::accept` on a stream. Only a cancelled run cancels
//! the work. If the run is moved, or the worker shuts down or loses its node, the work runs on, and the next attempt of
//! the run follows it.

mod watch;
mod shared;

use std::sync::Arc;
use std::time::Duration;

use punctual_core::attempt::{Assignment, Report};
use punctual_core::progress::Progress;
use punctual_core::retry::Failed;
use punctual_core::schedule::format_duration;
use tokio::time::timeout;

use super::ended::Ended;
use super::{Attempt, Ending, Host, stop_asked};
use crate::driver::Stop;
use crate::log::Transcript;
pub(super) use shared::Shared;
pub(super) use watch::Poll;
use watch::{Next, Step, Watch};

/// Speaks to a service about the execution of one attempt.
pub(super) trait Service: Send + Sync {
    /// The request that cancels the work, as people call it.
    const CANCEL: &'static str;

    /// How long the service may take to accept the work.
    fn timeout(&self) -> Duration;

    /// Asks the service to start the work. The error says why the work was not accepted.
    fn start(&mut self, log: &Transcript) -> impl Future<Output = Result<(), (String, Failed)>> + Send;

    /// Asks for the execution now.
    fn ask(&mut self) -> impl Future<Output = Poll> + Send;

    /// What the service says next: by itself, or to the next poll.
    fn next(&mut self) -> impl Future<Output = Poll> + Send;

    /// Asks the service to cancel the work. Returns what came of it.
    fn cancel(&self, log: &Transcript) -> impl Future<Output = String> + Send;
}

pub(super) async fn execute<S: Service>(service: &mut S, attempt: &Attempt, host: &Host) -> Ending {
    let (assignment, mut stop) = (&attempt.assignment, attempt.stop.clone());
    let log =
        Transcript::new(assignment.run, assignment.token, Arc::clone(&host.clock), Arc::clone(&host.logs));
    let work = Work { assignment, host, log: &log };
    let (end, stopped) = tokio::select! {
        biased;
        stop = stop_asked(&mut stop) => (work.stop(service, stop).await, Some(stop)),
        end = work.follow(service) => (end, None),
    };
    end.close(&log, attempt.started_at, stopped).await
}

struct Work<'a> {
    assignment: &'a Assignment,
    host: &'a Host,
    log: &'a Transcript,
}

impl Work<'_> {
    async fn follow<S: Service>(&self, service: &mut S) -> Ended {
        let mut watch = Watch::new(self.assignment.attempt);
        let mut step =
            if watch.is_asking() { watch.take(service.ask().await) } else { Step::to(Next::Start) };
        loop {
            let Step { report, note, next } = step;
            self.tell(report, note).await;
            match next {
                Next::Start => {
                    if let Err(refused) = self.start(service).await {
                        return refused;
                    }
                    watch.started();
                }
                Next::Wait => {}
                Next::Succeeded { output } => return Ended { output, error: None, failed: Failed::Error },
                Next::Failed { error, output } => {
                    return Ended { output, error: Some(error), failed: Failed::Error };
                }
            }
            step = watch.take(service.next().await);
        }
    }

    async fn tell(&self, report: Option<Progress>, note: Option<String>) {
        if let Some(progress) = report {
            let Assignment { run, token, .. } = *self.assignment;
            // An error means that the worker is gone, and this attempt with it.
            let _ = self.host.reports.send(Report::Progress { run, token, progress }).await;
        }
        if let Some(note) = note {
            self.log.note(&note).await;
        }
    }

    /// The error says why the work was not accepted.
    async fn start<S: Service>(&self, service: &mut S) -> Result<(), Ended> {
        let limit = service.timeout();
        match timeout(limit, service.start(self.log)).await {
            Ok(started) => started.map_err(|(error, failed)| {
                Ended::failed(format!("the work was not accepted: {error}"), failed)
            }),
            Err(_) => {
                let error = format!("the work was not accepted within {}", format_duration(limit));
                Err(Ended::failed(error, Failed::Timeout))
            }
        }
    }

    async fn stop<S: Service>(&self, service: &S, stop: Stop) -> Ended {
        let grace = self.assignment.grace.unwrap_or(self.host.grace);
        let how = match stop {
            Stop::Cancelled(cause) if cause.cancels_accepted_work() => {
                timeout(grace, service.cancel(self.log)).await.unwrap_or_else(|_| {
                    let grace = format_duration(grace);
                    format!("{} had no answer within {grace}, so the work may run on", S::CANCEL)
                })
            }
            _ => "the work runs on, and the next attempt follows it".to_owned(),
        };
        Ended::failed(format!("{stop}: {how}"), Failed::Error)
    }
}
