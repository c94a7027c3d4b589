//! An HTTP task whose receiver accepts the request and works on: starts the work, polls it to its end, and cancels it.
//!
//! `watch` decides, `poll` asks. Only a cancelled run cancels the work. If the run is moved, or the worker shuts down or
//! loses its node, the work runs on, and the next attempt of the run follows it.

use std::sync::Arc;

use punctual_core::attempt::{Assignment, Report};
use punctual_core::progress::Progress;
use punctual_core::retry::Failed;
use punctual_core::run::Cause;
use punctual_core::schedule::format_duration;
use punctual_core::task::{Accept, Http, Method, Request};
use punctual_core::template::Values;
use tokio::time::timeout;

use super::super::ended::Ended;
use super::super::{Attempt, Ending, Host, fail, stop_asked};
use super::answer::Answer;
use super::poll::Poller;
use super::watch::{Next, Step, Watch};
use super::{call, exchange};
use crate::driver::Stop;
use crate::log::Transcript;

pub(super) async fn execute(http: &Http, accept: &Accept, attempt: Attempt, host: &Host) -> Ending {
    let values = attempt.assignment.values(attempt.started_at);
    let ready = http.render(&values).map_err(|invalid| invalid.to_string()).and_then(|request| {
        let poller = Poller::new(http, accept, &request, &attempt.assignment, &host.clients)?;
        Ok((request, poller))
    });
    let (request, poller) = match ready {
        Ok(ready) => ready,
        Err(message) => return fail(&attempt, message, host).await,
    };
    let Attempt { assignment, started_at, mut stop, .. } = attempt;
    let transcript =
        Transcript::new(assignment.run, assignment.token, Arc::clone(&host.clock), Arc::clone(&host.logs));
    let work = Work { http, request, assignment: &assignment, host, transcript: &transcript };
    let (end, stopped) = tokio::select! {
        biased;
        stop = stop_asked(&mut stop) => (work.stop(stop).await, Some(stop)),
        end = work.follow(poller, values) => (end, None),
    };
    end.close(&transcript, started_at, stopped).await
}

struct Work<'a> {
    http: &'a Http,
    request: Request,
    assignment: &'a Assignment,
    host: &'a Host,
    transcript: &'a Transcript,
}

impl Work<'_> {
    async fn follow(&self, mut poller: Poller<'_>, values: Values) -> Ended {
        let mut watch = Watch::new(self.assignment.attempt);
        let mut step = if watch.is_asking() { watch.take(poller.ask().await) } else { Step::to(Next::Start) };
        loop {
            let Step { report, note, next } = step;
            self.tell(report, note).await;
            match next {
                Next::Start => {
                    if let Err(refused) = self.start(values.clone()).await {
                        return refused;
                    }
                    watch.started();
                    poller.wait();
                }
                Next::Wait => {}
                Next::Succeeded { output } => return Ended { output, error: None, failed: Failed::Error },
                Next::Failed { error, output } => {
                    return Ended { output, error: Some(error), failed: Failed::Error };
                }
            }
            step = watch.take(poller.next().await);
        }
    }

    async fn tell(&self, report: Option<Progress>, note: Option<String>) {
        if let Some(progress) = report {
            let Assignment { run, token, .. } = *self.assignment;
            // An error means that the worker is gone, and this attempt with it.
            let _ = self.host.reports.send(Report::Progress { run, token, progress }).await;
        }
        if let Some(note) = note {
            self.transcript.note(&note).await;
        }
    }

    /// Sends the request that starts the work. The error says why the work was not accepted.
    async fn start(&self, values: Values) -> Result<(), Ended> {
        let Work { http, request, assignment, host, transcript } = self;
        let mut answer = Answer::default();
        let asking =
            exchange(http, request.clone(), assignment, values, &mut answer, &host.clients, transcript);
        match timeout(http.timeout, asking).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => {
                let failed = answer.unexpected_status(http).map_or(Failed::Error, Failed::Status);
                Err(Ended::failed(format!("the work was not accepted: {error}"), failed))
            }
            Err(_) => {
                let error = format!("the work was not accepted within {}", format_duration(http.timeout));
                Err(Ended::failed(error, Failed::Timeout))
            }
        }
    }

    async fn stop(&self, stop: Stop) -> Ended {
        let grace = self.assignment.grace.unwrap_or(self.host.grace);
        let how = match stop {
            Stop::Cancelled(
                Cause::User | Cause::UserNow | Cause::Timeout | Cause::Replaced | Cause::JobDeleted,
            ) => timeout(grace, self.cancel()).await.unwrap_or_else(|_| {
                let grace = format_duration(grace);
                format!("DELETE had no answer within {grace}, so the work may run on")
            }),
            _ => "the work runs on, and the next attempt follows it".to_owned(),
        };
        Ended::failed(format!("{stop}: {how}"), Failed::Error)
    }

    /// Asks the receiver to cancel the work. Returns what came of it.
    async fn cancel(&self) -> String {
        let http = Http { method: Method::Delete, redirects: 0, ..self.http.clone() };
        let request = Request { body: None, ..self.request.clone() };
        match call::call(&http, request, self.assignment, &self.host.clients, self.transcript).await {
            Ok(response) if response.status().is_success() => "the receiver cancelled the work".to_owned(),
            Ok(response) if matches!(response.status().as_u16(), 404 | 410) => {
                "the receiver does not know the work any longer".to_owned()
            }
            Ok(response) => format!("DELETE had status {}, so the work may run on", response.status()),
            Err(error) => format!("DELETE failed, so the work may run on: {error}"),
        }
    }
}
