//! Calls a function of the program itself, in this process.
//!
//! A panic is a failed attempt. A function cannot be killed: it is asked to stop, and if it has not ended after the
//! grace period its future is dropped, which ends it at its next `await`. Until then it keeps its slot.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use punctual_core::attempt::{End, Outcome};
use punctual_core::limits::{ERROR_BYTES_MAX, OUTPUT_BYTES_MAX};
use punctual_core::name::Name;
use punctual_core::retry::Failed;

use super::output::cut_end;
use super::{Attempt, Ending, Host, fail, grace_is_over, message_of, stop_asked};
use crate::causes::in_full;
use crate::function::{self, Context, Output};
use crate::log::Transcript;

pub(super) async fn execute(name: &Name, attempt: Attempt, host: &Host) -> Ending {
    let Some(function) = host.functions.get(name) else {
        let message = format!("no function `{name}` is registered here; register it before the node starts");
        return fail(&attempt, message, host).await;
    };
    let Attempt { assignment, started_at, mut stop, saved } = attempt;
    let transcript =
        Transcript::new(assignment.run, assignment.token, Arc::clone(&host.clock), Arc::clone(&host.logs));
    let (transcript, usual) = (Arc::new(transcript), assignment.grace.unwrap_or(host.grace));
    let context = Context {
        assignment: Arc::new(assignment),
        transcript: Arc::clone(&transcript),
        stop: stop.clone(),
        reports: host.reports.clone(),
        saved,
        seq: Arc::default(),
    };
    let calling = AssertUnwindSafe(function(context)).catch_unwind();
    let (judged, stopped) = {
        tokio::pin!(calling);
        tokio::select! {
            // Check the stop first: a function that ends because of it was still stopped.
            biased;
            why = stop_asked(&mut stop) => {
                // A slow log must not delay the end.
                let asked = format!("asked to end: {why}");
                let ending = async {
                    tokio::select! {
                        biased;
                        ended = &mut calling => Some(ended),
                        () = grace_is_over(&mut stop, why, usual) => None,
                    }
                };
                let (ended, ()) = tokio::join!(ending, transcript.note(&asked));
                let judged = match ended {
                    Some(ended) => judge(ended).and_then(|_| Err("it ended".to_owned())),
                    None => Err("it had not ended when its grace was over, and was dropped".to_owned()),
                };
                (judged.map_err(|how| format!("{why}: {how}")), Some(why))
            }
            ended = &mut calling => (judge(ended), None),
        }
    };
    if let Err(message) = &judged {
        transcript.note(message).await;
    }
    transcript.close().await;
    let (end, output, error) = match judged {
        Ok(output) => (End::Succeeded, output.into_text(), String::new()),
        Err(error) => (End::Failed, String::new(), error),
    };
    let outcome = Outcome {
        end,
        started_at,
        exit_code: None,
        output: cut_end(output, OUTPUT_BYTES_MAX).into(),
        error: cut_end(error, ERROR_BYTES_MAX).into(),
        failed: Failed::Error,
    };
    Ending { outcome, stopped }
}

fn judge(ended: std::thread::Result<Result<Output, function::Error>>) -> Result<Output, String> {
    match ended {
        Ok(Ok(output)) => Ok(output),
        Ok(Err(error)) => Err(in_full(&*error)),
        Err(panic) => Err(format!("the function panicked: {}", message_of(&*panic))),
    }
}
