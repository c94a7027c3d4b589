//! The scheduler inside a program: alone, beside its like, and beside a server on the same store.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

mod scene;
mod alone;
mod cluster;
mod mixed;
mod examples;
mod testing;
