//! Access control: every endpoint asks the [`Gate`] before it does anything.
//!
//! `secret` is the text of a token, `known` caches the tokens of the store, `failures` counts wrong tokens,
//! and `gate` decides. `first_start` makes the first tokens of a new server; `access_check` checks REST requests.

mod secret;
mod known;
pub(crate) mod failures;
mod gate;
mod first_start;
pub(crate) mod access_check;

pub use first_start::{Bootstrap, begin};
pub(crate) use gate::{AttemptOf, PingOf, has_right};
pub use gate::{Caller, Gate, Peer, Refused};
pub use secret::{SECRET_BYTES_MAX, SECRET_BYTES_MIN, Secret, Weak};
