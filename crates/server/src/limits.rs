//! Every maximum of the endpoints in one place, so that "too large" has one documented meaning.

use std::time::Duration;

/// A request body. A larger one is refused and its connection closed.
pub const BODY_BYTES_MAX: usize = 1024 * 1024;
/// A request body with messages: the largest message fits, also as base64.
pub const MESSAGES_BODY_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Message bodies in one answer, not counting the last one; more messages need several requests.
pub const TAKEN_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Messages taken from a queue in one step, so that an answer exceeds [`TAKEN_BYTES_MAX`] only a little.
pub const TAKEN_AT_ONCE: u32 = 16;
/// Progress reports that are taken from their queue at once. The next ones are taken when these are decided.
pub const PROGRESS_MESSAGES_AT_ONCE: u32 = 256;
/// The shortest time between two progress events of a follower.
pub const PROGRESS_EVENT_EVERY: Duration = Duration::from_secs(1);
/// Messages that one flush request deletes; its answer then says that more are left.
pub const FLUSHED_MAX: u64 = 100_000;
/// Messages deleted in one step of a flush.
pub const FLUSHED_AT_ONCE: u32 = 1000;
/// A file of the console that is read from a folder.
pub const CONSOLE_FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Path and query together.
pub const ADDRESS_BYTES_MAX: usize = 8 * 1024;
/// All headers of a request together, names and values.
pub const HEADERS_BYTES_MAX: usize = 32 * 1024;
pub const HEADERS_MAX: usize = 100;
/// Requests on one connection. Then it is closed, so that a load balancer can distribute clients again.
pub const REQUESTS_MAX: usize = 2_000;
/// Tokens in the store: each request is compared with all of them.
pub const TOKENS_MAX: usize = 1_000;
/// Wrong tokens from one address in [`FAILURES_WINDOW`]; after them the address has to wait.
pub const FAILURES_MAX: u32 = 10;
pub const FAILURES_WINDOW: Duration = Duration::from_secs(60);
/// Concurrent requests on one HTTP/2 connection.
pub const STREAMS_MAX: u32 = 100;
/// All headers of a request over HTTP/2, names and values.
pub const HEADERS_BYTES_H2_MAX: u32 = 16 * 1024;
/// Reset HTTP/2 streams that are not yet cleaned up; with more, the connection is closed.
pub const RESETS_MAX: usize = 20;
/// The HTTP/2 receive window of one connection: bytes a client may send before we have read them.
pub const STREAM_WINDOW_BYTES: u32 = 2 * 1024 * 1024;
