//! The Redis protocol: parses requests and writes replies. No I/O.
//!
//! `request` parses both forms of a request: an array of bulk strings, as libraries send it, and a typed
//! line, which `inline` splits; `reply` writes both versions of the protocol. Every maximum is a constant
//! here: larger input is refused before it is stored.

mod inline;
mod reply;
mod request;

pub use punctual_core::queue::{BadId, ID_BYTES, IdText as JobId, parse_id};
pub use reply::{Protocol, Replies};
pub use request::{Decoded, Decoder, Limits, Malformed, Request};

/// A typed request line.
pub const INLINE_BYTES_MAX: usize = 64 * 1024;
/// Arguments of one request.
pub const ITEMS_MAX: usize = 1024 * 1024;
/// The longest argument that is accepted: the body of a message may be this long.
pub const BULK_BYTES_MAX: usize = punctual_core::limits::MESSAGE_BYTES_MAX;
/// The longest argument that is skipped; a client that announces more does not speak this protocol.
pub const BULK_BYTES_READ: usize = 512 * 1024 * 1024;
/// The largest request. It has room for a body, and for all ids that a reasonable client acknowledges at once.
pub const REQUEST_BYTES_MAX: usize = 8 * 1024 * 1024;
/// The limits before authentication.
pub const STRANGER_ITEMS_MAX: usize = 10;
pub const STRANGER_BULK_BYTES_MAX: usize = 16 * 1024;
/// A line with a length: a sign, the digits of 64 bits, and the line end.
const COUNT_BYTES_MAX: usize = 32;

#[cfg(test)]
mod tests;
