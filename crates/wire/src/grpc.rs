//! gRPC: the types made from `proto/`, and how they become `core` and back.
//!
//! What comes in was written by somebody else. Reading it gives a word of `core` or says which field is wrong; it
//! never guesses.

mod malformed;
mod attempt;
mod order;
mod report;
mod announce;
mod log;

pub mod peer;

#[expect(clippy::allow_attributes, reason = "made by a program")]
pub mod v1 {
    tonic::include_proto!("punctual.v1");
}

pub use announce::{announcement, read_announcement};
pub use attempt::{attempt, read_attempt, read_attempts};
pub use log::{chunk, read_chunk};
pub use malformed::Malformed;
pub use order::{OrderReader, OrderWriter};
pub use report::{read_report, report};

/// Which form of the messages between workers and nodes this version speaks.
pub const WORKER_PROTOCOL: u32 = 1;
/// Bytes of output that may wait for their acknowledgement on one stream.
pub const LOG_WINDOW_BYTES: usize = 1024 * 1024;
/// A message, on its way in or out.
pub const MESSAGE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// What is put into one message before the next is begun: the last thing put in may be as large as a job.
pub const MESSAGE_BYTES_FULL: usize = 1024 * 1024;

#[cfg(test)]
mod tests;
