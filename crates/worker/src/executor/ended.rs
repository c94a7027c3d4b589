//! How the work of a called service ended, and what becomes of its attempt.

use punctual_core::Timestamp;
use punctual_core::attempt::{End, Outcome};
use punctual_core::limits::{ERROR_BYTES_MAX, OUTPUT_BYTES_MAX};
use punctual_core::retry::Failed;

use super::Ending;
use super::output::cut_end;
use crate::driver::Stop;
use crate::log::Transcript;

pub(super) struct Ended {
    pub(super) output: String,
    /// `None` means that it succeeded.
    pub(super) error: Option<String>,
    pub(super) failed: Failed,
}

impl Ended {
    pub(super) fn failed(error: String, failed: Failed) -> Ended {
        Ended { output: String::new(), error: Some(error), failed }
    }

    /// Ends the log of the attempt, with the error if there is one.
    pub(super) async fn close(
        self,
        transcript: &Transcript,
        started_at: Timestamp,
        stopped: Option<Stop>,
    ) -> Ending {
        if let Some(error) = &self.error {
            transcript.note(error).await;
        }
        transcript.close().await;
        let outcome = Outcome {
            end: if self.error.is_none() { End::Succeeded } else { End::Failed },
            started_at,
            exit_code: None,
            output: cut_end(self.output, OUTPUT_BYTES_MAX).into(),
            error: cut_end(self.error.unwrap_or_default(), ERROR_BYTES_MAX).into(),
            failed: self.failed,
        };
        Ending { outcome, stopped }
    }
}
