//! The worker from outside: real programs, orders in, reports and output out.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

mod rig;
mod orders;
mod processes;
mod output;
mod endings;
