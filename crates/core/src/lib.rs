//! The terms and rules of Punctual, in reading order: names and ids, when a job is due, what it does, what
//! became of it, and the changes that the store must keep.
//!
//! **Invariant:** nothing here reads a clock, does I/O or awaits.

pub mod time;
pub mod topic;
pub mod hash;
pub mod ids;
pub mod limits;
pub mod lock;
pub mod cut;
pub mod name;
pub mod invalid;
pub mod schedule;
pub mod template;
pub mod queue;
pub mod params;
mod status_range;
pub mod task;
pub mod retry;
pub mod job;
pub mod alert;
pub mod workflow;
pub mod hold;
pub mod advice;
pub mod forecast;
pub mod worker;
pub mod outcome;
pub mod progress;
pub mod run;
pub mod backfill;
pub mod attempt;
pub mod cross_shard;
pub mod log;
pub mod command;
mod skip_reason;
pub mod change;
pub mod why;
pub mod statistics;
pub mod search;
pub mod planted;

pub use time::Timestamp;
