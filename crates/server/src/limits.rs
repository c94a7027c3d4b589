//! Every maximum of the doors in one place, so that "too large" is a promise.

use std::time::Duration;

/// A body. A larger one is refused, and its connection closed.
pub const BODY_BYTES_MAX: usize = 1024 * 1024;
/// A body with messages: the largest message fits, as base64 too.
pub const MESSAGES_BODY_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Bodies of messages in one answer, before the last of them: what is larger comes in several.
pub const TAKEN_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Messages taken in one go, so that not much more than that is taken.
pub const TAKEN_AT_ONCE: u32 = 16;
/// Messages that one flush deletes; then it says that there are more.
pub const FLUSHED_MAX: u64 = 100_000;
/// Messages deleted in one go.
pub const FLUSHED_AT_ONCE: u32 = 1000;
/// Path and query together.
pub const ADDRESS_BYTES_MAX: usize = 8 * 1024;
/// All headers of a request together, names and values.
pub const HEADERS_BYTES_MAX: usize = 32 * 1024;
pub const HEADERS_MAX: usize = 100;
/// Requests on one connection. Then it is closed, so that a balancer in between can spread them anew.
pub const REQUESTS_MAX: usize = 2_000;
/// Tokens that there may be: each request is compared with all of them.
pub const TOKENS_MAX: usize = 1_000;
/// Wrong tokens from one address in [`FAILURES_WINDOW`]; further ones are told to wait.
pub const FAILURES_MAX: u32 = 10;
pub const FAILURES_WINDOW: Duration = Duration::from_secs(60);
/// Requests under way at once on one HTTP/2 connection.
pub const STREAMS_MAX: u32 = 100;
/// All headers of a request over HTTP/2, names and values.
pub const HEADERS_BYTES_H2_MAX: u32 = 16 * 1024;
/// Requests that a client began and took back, which we have not got rid of yet; with more the connection is closed.
pub const RESETS_MAX: usize = 20;
/// What a client may send over HTTP/2 before we have read it, on one connection.
pub const STREAM_WINDOW_BYTES: u32 = 2 * 1024 * 1024;
