//! gRPC: the types generated from `proto/`, and their conversion to and from `core`.
//!
//! Incoming messages are untrusted. Reading one gives a value of `core` or says which field is wrong; it
//! never guesses.

mod malformed;
mod attempt;
mod order;
mod report;
mod announce;
mod log;
mod progress;

pub mod peer;

#[expect(clippy::allow_attributes, clippy::large_enum_variant, reason = "made by a program")]
pub mod v1 {
    tonic::include_proto!("punctual.v1");
}

pub use announce::{announcement, read_announcement};
pub use attempt::{attempt, read_attempt, read_attempts};
pub use log::{chunk, read_chunk};
pub use malformed::Malformed;
pub use order::{OrderReader, OrderWriter};
pub use progress::read_progress;
pub use report::{read_report, report};

/// The version of the protocol between workers and nodes.
pub const WORKER_PROTOCOL: u32 = 1;
/// Bytes of output on one stream that may be unacknowledged.
pub const LOG_WINDOW_BYTES: usize = 1024 * 1024;
/// The largest message, incoming or outgoing.
pub const MESSAGE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// The size at which a message is sent; its last part may still be as large as a job.
pub const MESSAGE_BYTES_FULL: usize = 1024 * 1024;

#[cfg(test)]
mod tests;
