//! Which days count: holidays, working Saturdays, ends of the week.
//!
//! A [`Calendar`] is a named thing of a namespace; a schedule that names one fires only on its days. It is a plain
//! rule about civil dates and knows no zone: whose midnight begins a day is the schedule's business, see `keeping`.
//!
//! **Precedence:** a day of `include` is in; else a day of `exclude` is out; else the weekday decides. So a holiday is
//! one line, and the Saturday that is worked for it is another, whichever was written first.

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

/// Days and spans in one calendar, `include` and `exclude` together: a century of holidays, and small enough that a
/// job can carry its calendar along.
pub const ENTRIES_MAX: usize = 4_000;

/// A calendar as a schedule keeps to it: a job carries the version that its due times come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calendar {
    pub name: Name,
    /// Grows with every edit of any calendar of a store, so that no two states ever share one.
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
    /// Every job that names it is known to follow this version. Until then some may still follow an older one.
    pub settled: bool,
}

#[cfg(test)]
mod tests;
