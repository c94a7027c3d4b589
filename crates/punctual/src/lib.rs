//! Punctual, the library: what embeds a node or talks to one from Rust.
//!
//! Today that is the client; the binary of the same name has the rest.

pub use punctual_client as client;
pub use punctual_core as core;
pub use punctual_wire as wire;
