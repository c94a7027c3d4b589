//! Workers over the network: a real node, its endpoint on loopback, workers that connect to it, and a worker that sends false
//! reports.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

mod scene;
mod work;
mod library;
mod slots;
mod faults;
mod liar;
mod reconnect;
