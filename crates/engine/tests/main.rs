//! The rules of the engine, seen through its public face: one file a rule.

mod support;

mod schedules;
mod misfire;
mod overlap;
mod retry;
mod timeout_and_cancel;
mod priority;
mod keys;
mod edits;
mod paging;
mod batch;
mod life;
