//! A range of HTTP status codes: what a task expects, and what is tried again.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusRange {
    pub first: u16,
    pub last: u16,
}

impl StatusRange {
    pub const SUCCESS: StatusRange = StatusRange { first: 200, last: 299 };

    pub(crate) fn is_valid(&self) -> bool {
        100 <= self.first && self.first <= self.last && self.last <= 599
    }

    pub fn contains(&self, status: u16) -> bool {
        (self.first..=self.last).contains(&status)
    }
}

impl fmt::Display for StatusRange {
    /// As users write it: `204`, `2xx`, `200-204`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let StatusRange { first, last } = self;
        if first == last {
            write!(f, "{first}")
        } else if first % 100 == 0 && *last == first + 99 {
            write!(f, "{}xx", first / 100)
        } else {
            write!(f, "{first}-{last}")
        }
    }
}
