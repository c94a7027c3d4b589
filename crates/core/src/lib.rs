//! The terms and rules of Punctual, in reading order: names and ids, when a job is due, what it does, what
//! became of it, and the changes that the store must keep.
//!
//! **Invariant:** nothing here reads a clock, does I/O or awaits.

pub mod time;
pub mod hash;
pub mod ids;
pub mod limits;
pub mod cut;
pub mod name;
pub mod schedule;
pub mod retry;
pub mod task;
pub mod template;
pub mod job;
pub mod advice;
pub mod worker;
pub mod attempt;
pub mod log;
pub mod run;
pub mod queue;
pub mod command;
pub mod change;
pub mod planted;

pub use time::Timestamp;
