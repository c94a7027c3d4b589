//! The worker from outside: real programs, orders in, reports and output out.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

/// Programs are started without a guardian; `guarded` runs the same tests with one.
const GUARDIAN: Option<&str> = None;

mod rig;
mod orders;
mod processes;
mod output;
mod endings;
mod templates;
mod http;
mod accept;
mod grpc;
mod executor;
#[path = "../../../../tests/src/shop.rs"]
pub mod shop;
mod functions;
mod egress;
mod alone;
