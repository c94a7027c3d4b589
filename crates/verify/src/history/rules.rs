//! The rules of a job: the part of its definition that the checks use.

use std::sync::Arc;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::job::{Definition, Keep, Overlap};
use punctual_core::name::Name;
use punctual_core::schedule::calendar::{Calendar, Days};
use punctual_core::schedule::{self, Ends, Schedule, ScheduleCalendar, Weekdays, When, parse_duration};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

#[derive(Debug, Clone, PartialEq)]
pub struct Rules {
    pub schedules: Vec<Schedule>,
    pub overlap: Overlap,
    pub running_max: Option<u32>,
    /// Its runs are split into child runs, which `running_max` counts.
    pub splits: bool,
    pub at_most_once: bool,
    /// An attempt after a failed one continues at the checkpoint.
    pub resume: bool,
    pub keep: Keep,
    /// The jobs whose ends start it.
    pub follows: Vec<Follows>,
}

/// A schedule `after`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Follows {
    pub job: Name,
    pub on: Ends,
    /// It has a `start` or an `end`, or a maximum of runs.
    pub is_limited: bool,
}

impl Rules {
    /// How many attempts of the job may run at once. `None` means any number.
    pub fn at_once_max(&self) -> Option<u32> {
        match self.overlap {
            Overlap::Allow if self.splits => None,
            Overlap::Allow => self.running_max,
            Overlap::Skip | Overlap::Queue | Overlap::QueueOne | Overlap::Replace => Some(1),
        }
    }

    /// Whether the schedules are the same, ignoring the versions of their calendars.
    pub fn has_schedules_of(&self, other: &Rules) -> bool {
        schedule::are_alike(&self.schedules, &other.schedules)
    }

    /// Whether a due time can depend on the end of a run: then any instant may be a due time.
    pub fn follows_runs(&self) -> bool {
        self.schedules.iter().any(|schedule| matches!(schedule.when, When::AfterFinish(_)))
    }

    /// Reads JSON in the shape of a job file. `spread_key` is the key that `H` in a cron expression hashes.
    pub(super) fn from_json(definition: Value, spread_key: &str) -> Result<Rules, String> {
        let written = Written::deserialize(definition).map_err(|error| error.to_string())?;
        let schedules = match written.schedule {
            None => Vec::new(),
            Some(OneOrMany::One(schedule)) => vec![*schedule],
            Some(OneOrMany::Many(schedules)) => schedules,
        };
        let follows = schedules.iter().filter_map(|schedule| schedule.follows().transpose());
        let follows = follows.collect::<Result<_, _>>()?;
        let schedules = schedules.into_iter().map(|schedule| schedule.read(spread_key, &written.calendars));
        Ok(Rules {
            follows,
            schedules: schedules.collect::<Result<_, _>>()?,
            overlap: written.overlap.map_or(Ok(Overlap::Skip), |text| read_overlap(&text))?,
            running_max: written.limits.and_then(WrittenLimits::running_max),
            splits: written.route.is_some_and(|route| route.splits())
                || written.task.is_some_and(|task| task.workflow.is_some()),
            at_most_once: written.at_most_once.unwrap_or(false),
            resume: written.retry.and_then(|retry| retry.resume).unwrap_or(true),
            keep: written.keep.map_or_else(Keep::default, WrittenKeep::read),
        })
    }
}

impl From<&Definition> for Rules {
    fn from(definition: &Definition) -> Rules {
        Rules {
            schedules: definition.schedules.clone(),
            overlap: definition.overlap,
            running_max: definition.running_max(),
            splits: definition.has_children(),
            at_most_once: definition.at_most_once,
            resume: definition.retry.resume,
            keep: definition.keep.clone(),
            follows: definition.schedules.iter().filter_map(followed).collect(),
        }
    }
}

fn followed(schedule: &Schedule) -> Option<Follows> {
    let When::After(after) = &schedule.when else { return None };
    let is_limited = schedule.start.is_some() || schedule.end.is_some() || schedule.max_runs.is_some();
    Some(Follows { job: after.job.clone(), on: after.on, is_limited })
}

/// The relevant fields of a job file.
#[derive(Deserialize)]
struct Written {
    schedule: Option<OneOrMany>,
    overlap: Option<String>,
    limits: Option<WrittenLimits>,
    route: Option<WrittenRoute>,
    task: Option<WrittenTask>,
    at_most_once: Option<bool>,
    retry: Option<WrittenRetry>,
    keep: Option<WrittenKeep>,
    /// The calendars of the job: an export contains the days that its due times are based on.
    #[serde(default)]
    calendars: Vec<WrittenCalendar>,
}

/// Of a task only its kind matters.
#[derive(Deserialize)]
struct WrittenTask {
    workflow: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct WrittenCalendar {
    calendar: Name,
    version: u32,
    #[serde(flatten)]
    days: Days,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(Box<WrittenSchedule>),
    Many(Vec<WrittenSchedule>),
}

/// Unknown fields are refused: one of them might change due times, and then "lost" would be wrong.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenSchedule {
    cron: Option<String>,
    timezone: Option<String>,
    #[serde(default)]
    weekdays: Weekdays,
    every: Option<String>,
    after_finish: Option<String>,
    at: Option<String>,
    manual: Option<bool>,
    after: Option<WrittenAfter>,
    event: Option<IgnoredAny>,
    jitter: Option<String>,
    start: Option<String>,
    end: Option<String>,
    max_runs: Option<u32>,
    calendar: Option<Name>,
}

#[derive(Deserialize)]
struct WrittenAfter {
    job: Name,
    on: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum WrittenLimits {
    Many(Vec<WrittenLimit>),
    One(WrittenLimit),
}

#[derive(Deserialize)]
struct WrittenLimit {
    running: Option<u32>,
    per: Option<String>,
}

impl WrittenLimits {
    /// How many runs may be at work, whatever their keys.
    fn running_max(self) -> Option<u32> {
        let limits = match self {
            WrittenLimits::Many(limits) => limits,
            WrittenLimits::One(limit) => vec![limit],
        };
        limits.into_iter().filter(|limit| limit.per.is_none()).filter_map(|limit| limit.running).min()
    }
}

#[derive(Deserialize)]
struct WrittenRetry {
    resume: Option<bool>,
}

#[derive(Deserialize)]
struct WrittenRoute {
    strategy: Option<String>,
    shards: Option<u32>,
}

impl WrittenRoute {
    fn splits(&self) -> bool {
        self.shards.is_some() || self.strategy.as_deref() == Some("broadcast")
    }
}

#[derive(Deserialize)]
struct WrittenKeep {
    runs: Option<u32>,
    days: Option<u32>,
}

impl WrittenKeep {
    fn read(self) -> Keep {
        let Keep { runs, days } = Keep::default();
        Keep { runs: self.runs.unwrap_or(runs), days: self.days.unwrap_or(days) }
    }
}

impl WrittenSchedule {
    fn follows(&self) -> Result<Option<Follows>, String> {
        let Some(after) = &self.after else { return Ok(None) };
        let known = |text: &String| Ends::ALL.into_iter().find(|ends| ends.as_str() == *text);
        let on =
            after.on.as_ref().map(|text| known(text).ok_or_else(|| format!("`{text}` is no end of a run")));
        let is_limited = self.start.is_some() || self.end.is_some() || self.max_runs.is_some();
        Ok(Some(Follows { job: after.job.clone(), on: on.transpose()?.unwrap_or_default(), is_limited }))
    }

    fn read(self, spread_key: &str, calendars: &[WrittenCalendar]) -> Result<Schedule, String> {
        let zone = self.timezone.as_deref().unwrap_or("UTC");
        let when = match (&self.cron, &self.every, &self.after_finish, &self.at) {
            (Some(cron), None, None, None) => {
                When::parse_cron(cron, zone, self.weekdays, Some(spread_key)).map_err(|e| e.to_string())?
            }
            (None, Some(period), None, None) => When::Every(read_duration(period)?),
            (None, None, Some(pause), None) => When::AfterFinish(read_duration(pause)?),
            (None, None, None, Some(at)) => When::At(read_instant(at)?),
            (None, None, None, None)
                if self.manual == Some(true) || self.after.is_some() || self.event.is_some() =>
            {
                // What starts the job is not a clock, so nothing is due.
                When::Manual
            }
            _ => return Err("a schedule has one of cron, every, after_finish, at and manual".to_owned()),
        };
        Ok(Schedule {
            when,
            start: self.start.as_deref().map(read_instant).transpose()?,
            end: self.end.as_deref().map(read_instant).transpose()?,
            jitter: self.jitter.as_deref().map_or(Ok(Duration::ZERO), read_duration)?,
            max_runs: self.max_runs,
            calendar: self.calendar.map(|name| keeping(name, zone, calendars)).transpose()?,
        })
    }
}

/// Without the calendar's days the due times of a schedule are unknown.
fn keeping(name: Name, zone: &str, calendars: &[WrittenCalendar]) -> Result<ScheduleCalendar, String> {
    let of = calendars.iter().find(|calendar| calendar.calendar == name);
    let WrittenCalendar { version, days, .. } =
        of.ok_or_else(|| format!("the days of calendar `{name}` are not in the export"))?;
    let calendar = Calendar { name, version: *version, days: days.clone() };
    ScheduleCalendar::of(Arc::new(calendar), zone).map_err(|error| error.to_string())
}

fn read_duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).map_err(|error| error.to_string())
}

fn read_instant(text: &str) -> Result<Timestamp, String> {
    text.parse().map_err(|error: punctual_core::time::NotAnInstant| error.to_string())
}

fn read_overlap(text: &str) -> Result<Overlap, String> {
    match text {
        "skip" => Ok(Overlap::Skip),
        "queue" => Ok(Overlap::Queue),
        "queue_one" => Ok(Overlap::QueueOne),
        "replace" => Ok(Overlap::Replace),
        "allow" => Ok(Overlap::Allow),
        _ => Err(format!("`{text}` is no overlap policy")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(definition: Value) -> Result<Rules, String> {
        Rules::from_json(definition, "default/nightly")
    }

    #[test]
    fn a_job_file_is_read_for_what_it_promises() {
        let rules = read(json!({
            "schedule": [
                { "cron": "0 1 * * *", "timezone": "Asia/Shanghai", "jitter": "30s", "max_runs": 3 },
                { "every": "90s", "start": "2026-01-01T00:00:00Z" },
            ],
            "task": { "shell": "true" },
            "overlap": "allow",
            "limits": [{ "running": 4, "rate": "100/m" }, { "running": 1, "per": "{{ params.customer }}" }],
            "at_most_once": true,
            "retry": { "attempts": 3, "resume": false },
        }))
        .unwrap();
        assert_eq!(rules.schedules.len(), 2);
        assert_eq!(rules.schedules[0].jitter, Duration::from_secs(30));
        assert_eq!(rules.schedules[1].when, When::Every(Duration::from_secs(90)));
        assert_eq!((rules.at_once_max(), rules.at_most_once, rules.resume), (Some(4), true, false));
    }

    #[test]
    fn a_schedule_keeps_to_the_days_that_the_job_carries() {
        let rules = read(json!({
            "schedule": { "cron": "0 8 * * *", "timezone": "Asia/Shanghai", "calendar": "work" },
            "calendars": [{
                "calendar": "work", "version": 3, "weekly": ["mon"], "include": ["2026-10-10"], "exclude": ["2026-10-12"],
            }],
        }))
        .unwrap();
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let next = |after| rules.schedules[0].next(at(after), Timestamp::MIN);
        assert_eq!(next("2026-10-06T00:00:00Z"), Some(at("2026-10-10T00:00:00Z")));
        assert_eq!(next("2026-10-10T00:00:00Z"), Some(at("2026-10-19T00:00:00Z")));
    }

    #[test]
    fn a_job_without_words_about_overlap_never_overlaps() {
        let rules = read(json!({ "schedule": { "every": "1s" }, "task": { "noop": {} } })).unwrap();
        assert_eq!((rules.at_once_max(), rules.resume, rules.keep), (Some(1), true, Keep::default()));
    }

    #[test]
    fn an_unknown_schedule_is_refused() {
        for schedule in [
            json!({ "cron": "0 1 * * *", "moon": "full" }),
            json!({ "cron": "0 1 * * *", "calendar": "not-in-the-export" }),
            json!({ "cron": "0 1 * * *", "every": "1s" }),
            json!({ "every": "soon" }),
            json!({}),
        ] {
            assert!(read(json!({ "schedule": schedule })).is_err(), "{schedule} was taken");
        }
    }
}
