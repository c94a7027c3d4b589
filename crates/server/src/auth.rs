//! Who may come in: every door asks the [`Gate`] before it does anything.
//!
//! `secret` is the text that someone bears, `known` what the store says of it, `failures` counts the wrong ones, and
//! `gate` decides. `first_start` makes the tokens that a new server begins with; `door` stands before REST.

mod secret;
mod known;
pub(crate) mod failures;
mod gate;
mod first_start;
pub(crate) mod door;

pub use first_start::{Bootstrap, begin};
pub use gate::{Caller, Gate, Peer, Refused};
pub use secret::{SECRET_BYTES_MAX, SECRET_BYTES_MIN, Secret, Weak};
