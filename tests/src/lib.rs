//! The harness of the black-box tests: a scene with a real process in it.
//!
//! A test opens a [`Scene`] (a temporary folder, and its turn on this machine), starts a [`Node`] in it, talks
//! to it through its endpoints only ([`Api`] for REST, [`Node::cli`] for the command line), breaks something
//! ([`fault`]), and ends in `punctual verify` on the exported history.
//!
//! Nothing here sleeps for luck: what a test needs is waited for, with a deadline ([`wait`]). No test is skipped: a tool
//! that is missing fails the test, and the message names the fix.

pub mod wait;
pub mod machine;
pub mod chance;
pub mod binary;
pub mod scene;
pub mod node;
pub mod worker;
pub mod cluster;
pub mod api;
pub mod raw;
pub mod messages;
pub mod checkpoints;
pub mod history;
pub mod fault;
pub mod authority;
pub mod shop;
pub mod guide;

pub use api::{Answer, Api};
pub use cluster::Cluster;
pub use history::Export;
pub use machine::Machine;
pub use node::{Cli, Node};
pub use raw::Raw;
pub use scene::Scene;
pub use worker::Worker;
