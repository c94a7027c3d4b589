//! Checks whether a history shows that Punctual kept its promises.
//!
//! A [`History`] comes from a node's export (`GET /api/v1/export/history`, one JSON object per line) or from the
//! simulator's memory; the checks are the same. `punctual verify` runs them on a user's own production history, so a
//! finding says what broke for the user, not which field differed.
//!
//! ```text
//! lines of an export ─▶ History ─▶ checks ─▶ Report
//! core's Run, Job, … ─▶
//! ```
//!
//! An empty history is a finding too, because checks without data prove nothing.
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
