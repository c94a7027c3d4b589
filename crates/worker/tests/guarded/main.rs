//! The worker from outside, its programs below guardians: what holds without them holds with them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

const GUARDIAN: Option<&str> = Some(env!("CARGO_BIN_EXE_punctual-guardian"));

#[path = "../worker/rig.rs"]
mod rig;
#[path = "../worker/orders.rs"]
mod orders;
#[path = "../worker/processes.rs"]
mod processes;
#[path = "../worker/output.rs"]
mod output;
#[path = "../worker/endings.rs"]
mod endings;
mod guardian;
