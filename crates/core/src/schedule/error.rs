//! Why a schedule is refused. The texts are for its author, so they name the place and the fix.

use crate::time::Timestamp;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("{what} is {len} bytes long; at most {max} are allowed")]
    TooLong { what: &'static str, len: usize, max: usize },
    #[error("cron expression has {found} fields; write 5 (minute first), 6 (second first) or 7 (year last)")]
    FieldCount { found: usize },
    #[error("{field} field: `{text}` is out of range {low}-{high}")]
    OutOfRange { field: &'static str, text: String, low: u16, high: u16 },
    /// `hint` says what to write instead.
    #[error("{field} field: `{text}` is not understood; {hint}")]
    Malformed { field: &'static str, text: String, hint: &'static str },
    #[error("{field} field: `{text}` needs a key to spread by, such as the name of the job")]
    NoSpreadKey { field: &'static str, text: String },
    #[error("`{0}` is not a nickname; use @hourly, @daily, @weekly, @monthly, @yearly or `every`")]
    Nickname(String),
    #[error("`{0}` never occurs: none of its months has such a day")]
    Never(String),
    #[error("unknown time zone `{0}`; write an IANA name such as Asia/Shanghai or UTC")]
    UnknownZone(String),
    #[error("`{text}` is not a duration: {why}; write it like 1h30m, 90s or 500ms")]
    Duration { text: String, why: &'static str },
    #[error("a period must be at least 1ms")]
    PeriodTooShort,
    #[error("end {end} is before start {start}")]
    EndBeforeStart { start: Timestamp, end: Timestamp },
    #[error("an instant of the schedule lies outside the years 1970 to 9999")]
    InstantOutOfRange,
    #[error("a calendar is allowed only together with cron, every or at; remove `calendar`")]
    NoDaysToKeep,
    #[error(
        "{day} is no day of calendar `{calendar}`, so the schedule would never fire; choose another day or include it"
    )]
    DayOut { day: String, calendar: String },
    #[error("max_runs is 0, so the schedule would never fire; leave it out or make the schedule manual")]
    NoRuns,
    #[error("jitter is allowed only where a clock starts the job; remove `jitter`")]
    NoJitter,
    #[error("{0}")]
    EventCondition(String),
    #[error("{message}")]
    Gather { field: &'static str, message: String },
}
