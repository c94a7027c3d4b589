//! The Redis protocol as bytes: what a client sends becomes words, what we say becomes bytes. No I/O.
//!
//! `request` takes requests out of whatever has arrived, in the form that libraries send (an array of bulk strings) and
//! in the form that people type (a line of words, which `inline` splits); `reply` writes both versions of the protocol.
//! Every maximum is a constant here: what is over one is refused before it is
//! kept.

mod inline;
mod reply;
mod request;

pub use punctual_core::queue::{BadId, ID_BYTES, IdText as JobId, parse_id};
pub use reply::{Protocol, Replies};
pub use request::{Decoded, Decoder, Limits, Malformed, Request};

/// A request typed as a line.
pub const INLINE_BYTES_MAX: usize = 64 * 1024;
/// Words of one request.
pub const ITEMS_MAX: usize = 1024 * 1024;
/// One word that is taken: the body of a message may be this long.
pub const BULK_BYTES_MAX: usize = punctual_core::limits::MESSAGE_BYTES_MAX;
/// One word that is even passed over: whoever announces more does not speak this protocol.
pub const BULK_BYTES_READ: usize = 512 * 1024 * 1024;
/// All of one request, as it came. It holds a body and every id that a sensible client acknowledges at once.
pub const REQUEST_BYTES_MAX: usize = 8 * 1024 * 1024;
/// What somebody may send who has not said who they are.
pub const STRANGER_ITEMS_MAX: usize = 10;
pub const STRANGER_BULK_BYTES_MAX: usize = 16 * 1024;
/// A line that tells a length: a sign, the digits of 64 bits, and the end of the line.
const COUNT_BYTES_MAX: usize = 32;

#[cfg(test)]
mod tests;
