//! The rules of the engine, seen through its public face: one file a rule.

mod support;

mod schedules;
mod clock_changes;
mod misfire;
mod overlap;
mod limits;
mod retry;
mod timeout_and_cancel;
mod progress;
mod moves;
mod priority;
mod routing;
mod family;
mod backfill;
mod workflows;
mod keys;
mod edits;
mod pauses;
mod holds;
mod alerts;
mod calendars;
mod paging;
mod queues;
mod deliveries;
mod locks;
mod pings;
mod topics;
mod batch;
mod statistics;
mod life;
