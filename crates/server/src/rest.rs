//! REST: translate, delegate, translate back.

pub(crate) mod guard;
pub(crate) mod problem;
pub(crate) mod progress;
pub(crate) mod request;
pub(crate) mod body;
pub(crate) mod ask;
pub(crate) mod jobs;
pub(crate) mod job_list;
pub(crate) mod revisions;
pub(crate) mod job_log;
pub(crate) mod skips;
pub(crate) mod statistics;
pub(crate) mod calendars;
pub(crate) mod descriptors;
pub(crate) mod runs;
pub(crate) mod run_actions;
pub(crate) mod why;
pub(crate) mod events;
pub(crate) mod live;
pub(crate) mod locks;
pub(crate) mod logs;
pub(crate) mod queues;
pub(crate) mod messages;
pub(crate) mod cron;
pub(crate) mod approvals;
pub(crate) mod dead_letters;
pub(crate) mod incidents;
pub(crate) mod namespaces;
pub(crate) mod whoami;
pub(crate) mod overview;
pub(crate) mod pings;
mod attention;
pub(crate) mod fires;
pub(crate) mod nodes;
pub(crate) mod steps;
pub(crate) mod tokens;
pub(crate) mod export;
pub(crate) mod health;
pub(crate) mod holds;

#[cfg(test)]
mod tests;
