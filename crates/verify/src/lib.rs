//! The checks over a history: did Punctual keep its promises?
//!
//! A [`History`] is what a node exports (`GET /api/v1/export/history`, one JSON object a line) or what the
//! simulator holds in memory; the checks are the same. `punctual verify` runs them for a user on their own
//! production history, so a finding says what broke for them, not which field differed.
//!
//! ```text
//! lines of an export ─▶ History ─▶ checks ─▶ Report
//! core's Run, Job, … ─▶
//! ```
//!
//! The one surprise: an empty history is a finding. Checks that had nothing to look at prove nothing.
//!
//! **Invariant:** nothing here reads a clock, does I/O or awaits.

pub mod history;
pub mod options;
mod checks;
mod report;

#[cfg(test)]
mod fixture;

pub use checks::Check;
pub use history::History;
pub use options::Options;
pub use report::{About, Checked, Counted, Finding, Report};
