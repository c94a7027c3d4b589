//! Why due times of a job have no runs.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SkipReason {
    /// They were missed, and the misfire policy does not make up for them.
    Misfire,
    /// The job was paused.
    Paused,
    /// Its namespace, or everything, was on hold.
    Held,
    /// A calendar excludes their days. Due times in the range on other days are not skipped.
    Calendar,
    /// The due time was planned, and an edit replaced the schedule before it.
    Edited,
}

impl SkipReason {
    pub const ALL: [SkipReason; 5] =
        [SkipReason::Misfire, SkipReason::Paused, SkipReason::Held, SkipReason::Calendar, SkipReason::Edited];

    pub fn as_str(self) -> &'static str {
        match self {
            SkipReason::Misfire => "misfire",
            SkipReason::Paused => "paused",
            SkipReason::Held => "held",
            SkipReason::Calendar => "calendar",
            SkipReason::Edited => "edited",
        }
    }

    pub fn parse(text: &str) -> Option<SkipReason> {
        SkipReason::ALL.into_iter().find(|reason| reason.as_str() == text)
    }
}
