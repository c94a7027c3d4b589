//! Nothing, at once: for measuring and for placeholders in a workflow.

use punctual_core::Timestamp;
use punctual_core::attempt::Outcome;

pub(crate) fn execute(started_at: Timestamp) -> Outcome {
    Outcome::succeeded(started_at)
}
