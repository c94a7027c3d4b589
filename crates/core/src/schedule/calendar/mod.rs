//! Calendars: holidays, working Saturdays, weekends.
//!
//! A [`Calendar`] has a name in a namespace; a schedule that uses it fires only on its days. It is a rule about dates
//! without a zone: the schedule decides in which zone a day begins, see `keeping`.
//!
//! **Precedence:** a day of `include` is included; else a day of `exclude` is excluded; else the weekday decides. So a
//! holiday is one line and the Saturday worked for it another, in any order.

mod days;
mod entry;
mod weekly;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Timestamp;
use crate::name::{Name, Namespace};

pub use days::{Days, Verdict};
pub use entry::{Entry, NotADay, day_number, day_text};
pub use weekly::{NotAWeekday, Weekday, Weekly};

/// Days and ranges in one calendar, `include` and `exclude` together: enough for a century of holidays, and small
/// enough for a job to carry a copy.
pub const ENTRIES_MAX: usize = 4_000;

/// A calendar as a schedule uses it: a job carries the version that its due times come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calendar {
    pub name: Name,
    /// Grows with every edit of any calendar in the store, so that no two states have the same version.
    pub version: u32,
    pub days: Days,
}

/// A calendar as the store keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    pub namespace: Namespace,
    pub calendar: Arc<Calendar>,
    pub description: String,
    pub updated_at: Timestamp,
    /// Whether every job that uses it follows this version. Until then some may follow an older one.
    pub settled: bool,
}

#[cfg(test)]
mod tests;
