//! An HTTP task: renders its expressions, sends the request, and checks the response.
//!
//! There is no exit code: the task succeeds if the response is as expected. The response is written to the log, and its
//! beginning is the run's output. If the receiver works on after its response, `accept` follows the work to its end.

mod answer;
mod call;
mod accept;
mod poll;
mod client;
mod caller;

use std::sync::Arc;

use punctual_core::attempt::Assignment;
use punctual_core::retry::Failed;
use punctual_core::schedule::format_duration;
use punctual_core::task::{Http, Request};
use punctual_core::template::Values;
use tokio::time::{Instant, timeout};

use super::ended::Ended;
use super::{Attempt, Ending, Host, failure, stop_asked};
use crate::log::Transcript;
use answer::Answer;
pub(super) use answer::{Condition, first_line, header_values};
pub(super) use call::{attempt_key, headers, of_run};
pub use caller::{Caller, Reply};
pub(crate) use client::Clients;
pub(super) use client::{CONNECT_MAX, read_ca};

pub(super) async fn execute(http: &Http, attempt: Attempt, host: &Host) -> Ending {
    if let Some(accept) = &http.accept {
        return accept::execute(http, accept, attempt, host).await;
    }
    let Attempt { assignment, started_at, mut stop, .. } = attempt;
    let transcript =
        Transcript::new(assignment.run, assignment.token, Arc::clone(&host.clock), Arc::clone(&host.logs));
    let values = assignment.values(started_at);
    let mut answer = Answer::default();
    let work = async {
        let request = http.render(&values).map_err(|invalid| invalid.to_string())?;
        exchange(http, request, &assignment, values, &mut answer, &host.clients, &transcript).await
    };
    let (judged, stopped) = tokio::select! {
        biased;
        stop = stop_asked(&mut stop) => (Ok(Err(stop.to_string())), Some(stop)),
        judged = timeout(http.timeout, work) => (judged, None),
    };
    let failed = match &judged {
        Ok(_) => answer.unexpected_status(http).map_or(Failed::Error, Failed::Status),
        Err(_) => Failed::Timeout,
    };
    let late = || format!("no complete response within {}", format_duration(http.timeout));
    let error = judged.unwrap_or_else(|_| Err(late())).err();
    Ended { output: answer.into_output(), error, failed }.close(&transcript, started_at, stopped).await
}

/// Sends a request, reads its response and checks it.
async fn exchange(
    http: &Http,
    request: Request,
    assignment: &Assignment,
    values: Values,
    answer: &mut Answer,
    clients: &Clients,
    transcript: &Transcript,
) -> Result<(), String> {
    let begun = Instant::now();
    let response = call::call(http, request, assignment, clients, transcript).await?;
    answer.status = Some(response.status());
    answer.headers = response.headers().clone();
    let (place, is_secure) = (call::shown(response.url()), response.url().scheme() == "https");
    let read = answer.read(response, transcript).await;
    transcript.note(&format!("{} {place}: {}", http.method.word(), answer.in_words(begun.elapsed()))).await;
    read.map_err(|error| failure::explain(&error, &place, is_secure))?;
    answer.check(http, values)
}
