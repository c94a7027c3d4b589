//! A calendar: its file, and the fields that the server adds.

use punctual_core::schedule::calendar::{self as rule, Record, Verdict, Weekday, day_text};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::calendar_file::CalendarFile;
use crate::schema;
use crate::text::{Instant, Text};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Calendar {
    #[serde(flatten)]
    pub file: CalendarFile,
    /// Grows with every edit; also the tag that `If-Match` takes back.
    pub version: u32,
    pub updated_at: Instant,
    /// Every job that names it follows this version.
    pub settled: bool,
}

impl From<&Record> for Calendar {
    fn from(record: &Record) -> Self {
        Calendar {
            file: CalendarFile::of(record),
            version: record.calendar.version,
            updated_at: Text(record.updated_at),
            settled: record.settled,
        }
    }
}

/// One day as a calendar judges it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Day {
    pub day: String,
    #[schema(value_type = schema::Weekday)]
    pub weekday: Text<Weekday>,
    #[serde(rename = "in")]
    pub is_in: bool,
    /// What decides: `include`, `exclude` or `weekly`.
    pub by: String,
}

impl Day {
    pub fn of(days: &rule::Days, day: i64) -> Day {
        let verdict = days.judge(day);
        let by = match verdict {
            Verdict::Included => "include",
            Verdict::Excluded => "exclude",
            Verdict::Weekly { .. } => "weekly",
        };
        let (is_in, by) = (verdict.is_in(), by.to_owned());
        Day { day: day_text(day), weekday: Text(Weekday::of(day)), is_in, by }
    }
}

/// A calendar in an exported job: the version that its due times come from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Carried {
    #[serde(flatten)]
    pub file: CalendarFile,
    pub version: u32,
}

impl Carried {
    /// Each calendar of a job, once.
    pub fn of(definition: &punctual_core::job::Definition) -> Vec<Carried> {
        let mut carried: Vec<Carried> = Vec::new();
        for calendar in definition.calendars().filter_map(|keeping| keeping.calendar.as_ref()) {
            if !carried.iter().any(|known| known.file.calendar.as_ref() == Some(&calendar.name)) {
                let (file, version) = (CalendarFile::of_days(calendar), calendar.version);
                carried.push(Carried { file, version });
            }
        }
        carried
    }
}
