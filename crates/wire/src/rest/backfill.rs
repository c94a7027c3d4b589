//! A backfill: what it is asked for, and what it does.

use std::sync::Arc;

use punctual_core::command;
use punctual_core::ids::RunId;
use punctual_core::name::{Name, Namespace};
use punctual_core::workflow::StepRecord;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Run;
use super::submit::{instant, own_params};
use crate::error::Error;
use crate::job_file::JsonObject;
use crate::schema;
use crate::text::{Instant, Text};

/// Makes up for the due times of a job in a span of time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(
    deny_unknown_fields,
    expecting = "a map like { from: \"2026-01-01T00:00:00Z\", to: \"2026-02-01T00:00:00Z\" }"
)]
pub struct BackfillJob {
    /// The beginning of the span, which belongs to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Instant>,
    /// The end of the span, which does not belong to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Instant>,
    /// Parameters of the child runs instead of the job's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub params: Option<JsonObject>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<BackfillLimits>,
    /// Start with the newest due time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub newest_first: bool,
    /// Only say what it would do.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a map like { running: 4 }")]
pub struct BackfillLimits {
    /// How many child runs are active at once; never more than `limits.running` of the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<u32>,
}

/// What a backfill does, or would do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Backfill {
    /// The backfill, whose child runs are those of the due times. `null` means that none was made: nothing was left to do, or
    /// `dry_run` was given.
    pub run: Option<Run>,
    /// How many child runs it has.
    pub total: u32,
    /// The first due time of a child run. `null` means that there is none.
    pub first_due_at: Option<Instant>,
    pub last_due_at: Option<Instant>,
    /// The due times that are left out, because they have a run.
    pub left_out: Vec<LeftOut>,
}

/// A due time that a backfill leaves out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LeftOut {
    pub due_at: Instant,
    /// The run that it has, or the backfill that makes up for it. `null` means that the schedule is about to start it.
    #[schema(value_type = Option<schema::Id>)]
    pub run: Option<Text<RunId>>,
}

/// What a backfill makes up for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BackfillSpan {
    /// The beginning of the span of time, which belongs to it.
    pub from: Instant,
    /// The end of the span of time, which does not belong to it.
    pub to: Instant,
    /// How many due times in it get a child run.
    pub total: u32,
}

impl BackfillJob {
    pub fn into_core(
        self,
        (namespace, name): (Namespace, Name),
        by: Option<Box<str>>,
    ) -> Result<command::BackfillJob, Error> {
        let end = |field: &'static str, at: Option<Instant>| {
            let at =
                at.ok_or_else(|| Error::invalid(field, "is missing; give both ends of the span of time"))?;
            instant(field, at)
        };
        Ok(command::BackfillJob {
            namespace,
            name,
            from: end("from", self.from)?,
            to: end("to", self.to)?,
            params: own_params(self.params)?,
            running: self.limits.and_then(|limits| limits.running),
            newest_first: self.newest_first,
            dry_run: self.dry_run,
            by,
        })
    }
}

impl From<command::Backfilled> for Backfill {
    fn from(told: command::Backfilled) -> Backfill {
        let left_out = told.left_out.into_iter();
        Backfill {
            run: told.run.map(|run| Run::from(&*run)),
            total: told.total,
            first_due_at: told.first.map(Text),
            last_due_at: told.last.map(Text),
            left_out: left_out
                .map(|left| LeftOut { due_at: Text(left.due), run: left.run.map(Text) })
                .collect(),
        }
    }
}

impl BackfillSpan {
    /// What a backfill makes up for, from its rows. `None` means that it is none.
    pub fn of(rows: &[Arc<StepRecord>]) -> Option<BackfillSpan> {
        let backfill = rows.iter().find_map(|row| row.backfill.as_deref())?;
        let total = u32::try_from(backfill.dues.len()).unwrap_or(u32::MAX);
        Some(BackfillSpan { from: Text(backfill.from), to: Text(backfill.to), total })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree;

    #[track_caller]
    fn check_refused(body: &str, field: &str) {
        let read = tree::from_json::<BackfillJob>(body.as_bytes());
        let at = (Namespace::default(), "report".parse().unwrap());
        let error = read.and_then(|body| body.into_core(at, None)).unwrap_err();
        assert_eq!(error.field, field, "{body}: {error:?}");
    }

    #[test]
    fn a_backfill_without_both_ends_is_refused() {
        check_refused("{}", "from");
        check_refused(r#"{"from":"2026-01-01T00:00:00Z"}"#, "to");
        check_refused(r#"{"from":"yesterday","to":"2026-01-01T00:00:00Z"}"#, "from");
        check_refused(r#"{"from":"2026-01-01T00:00:00Z","till":"2026-01-01T00:00:00Z"}"#, "till");
        check_refused(
            r#"{"from":"2026-01-01T00:00:00Z","to":"2026-01-02T00:00:00Z","limits":{"running":-1}}"#,
            "limits.running",
        );
    }
}
