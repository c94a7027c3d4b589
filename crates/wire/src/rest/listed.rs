//! What listings add: the last runs of a job, counts of runs by state, and actions on many runs.

use punctual_core::ids::RunId;
use punctual_core::name::Name;
use punctual_core::run;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{DECIDED_MAX, Decision, Run, State};
use crate::error::Error;
use crate::schema;
use crate::text::{Instant, Text};

/// A run as the strip of a job shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LastRun {
    #[schema(value_type = schema::Id)]
    pub id: Text<RunId>,
    pub state: State,
    pub due_at: Instant,
    /// From the first start to the end. `null` means that the run has not started or not ended.
    pub took_ms: Option<u64>,
    /// From the due time to the first start. `null` means that the run has not started.
    pub late_ms: Option<u64>,
}

impl From<&run::Run> for LastRun {
    fn from(run: &run::Run) -> Self {
        let start = run.first_start();
        let millis = |span: std::time::Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        LastRun {
            id: Text(run.id),
            state: State(run.status()),
            due_at: Text(run.due),
            took_ms: start.zip(run.finished_at).map(|(start, end)| millis(end.since(start))),
            late_ms: start.map(|start| millis(start.since(run.late_from()))),
        }
    }
}

/// A page of runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunPage {
    pub items: Vec<Run>,
    /// The value of `after` for the next page. `null` means this is the last page.
    pub next: Option<String>,
    /// The runs of each state for the same filter without `state`. Left out unless the request has `count=true`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counts: Option<StateCounts>,
}

/// How many runs have each state.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StateCounts {
    pub waiting: u64,
    pub ready: u64,
    pub running: u64,
    pub succeeded: u64,
    pub failed: u64,
    pub timed_out: u64,
    pub cancelled: u64,
    pub skipped: u64,
    /// Some counts ended early, at 10,000 or at the rows that one request reads: there may be more.
    pub capped: bool,
}

impl StateCounts {
    /// The count of a state.
    pub fn of(&mut self, status: run::Status) -> &mut u64 {
        match status {
            run::Status::Waiting => &mut self.waiting,
            run::Status::Ready => &mut self.ready,
            run::Status::Running => &mut self.running,
            run::Status::Succeeded => &mut self.succeeded,
            run::Status::Failed => &mut self.failed,
            run::Status::TimedOut => &mut self.timed_out,
            run::Status::Cancelled => &mut self.cancelled,
            run::Status::Skipped => &mut self.skipped,
        }
    }
}

/// Cancels or retries many runs: those named, or those that match a filter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a map like { action: cancel, ids: [\"17\"] }")]
pub struct ActOnRuns {
    pub action: RunAction,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<schema::Id>>)]
    pub ids: Option<Vec<Text<RunId>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<RunsMatching>,
    /// Only count the runs.
    #[serde(default)]
    pub dry_run: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunAction {
    Cancel,
    Retry,
}

/// Which runs an action is for.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a map like { job: [nightly], state: [failed] }")]
pub struct RunsMatching {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<schema::Name>>)]
    pub job: Option<Vec<Name>>,
    /// By default those that the action can change: live runs for `cancel`, failed and timed-out runs for `retry`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<Vec<String>>,
    /// Only runs created from this instant on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Instant>,
    /// Only runs created before this instant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Instant>,
    /// Only runs that `GET …/runs?search=` finds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub search: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ActedOnRuns {
    /// How many runs match, at most 1,000.
    pub matched: usize,
    /// Whether more than these match: ask again for them.
    pub more: bool,
    /// The result for each run. Empty for a dry run.
    pub results: Vec<Decision>,
}

/// The runs that a request names.
#[derive(Debug, Clone, PartialEq)]
pub enum ChosenRuns {
    These(Vec<RunId>),
    Matching(RunsMatching),
}

impl ActOnRuns {
    /// The chosen runs. A request must name ids or a filter, so that a mistake never touches a whole namespace.
    pub fn chosen(&self) -> Result<ChosenRuns, Error> {
        match (&self.ids, &self.filter) {
            (Some(_), Some(_)) => Err(Error::invalid("ids", "give either `ids` or `filter`, not both")),
            (None, None) => Err(Error::invalid("ids", "is required: the ids of runs; or give `filter`")),
            (Some(ids), None) if ids.is_empty() || ids.len() > DECIDED_MAX => {
                Err(Error::invalid("ids", format!("must have 1 to {DECIDED_MAX} ids")))
            }
            (Some(ids), None) => {
                let mut ids: Vec<RunId> = ids.iter().map(|id| id.0).collect();
                ids.sort_unstable();
                ids.dedup();
                Ok(ChosenRuns::These(ids))
            }
            (None, Some(filter)) if *filter == RunsMatching::default() => Err(Error::invalid(
                "filter",
                "needs at least one of `job`, `state`, `since`, `until` and `search`",
            )),
            (None, Some(filter)) => Ok(ChosenRuns::Matching(filter.clone())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree;

    #[test]
    fn a_choice_of_runs_that_cannot_be_names_the_field() {
        let many = format!(r#"{{"action":"cancel","ids":[{}]}}"#, vec!["\"1\""; 1001].join(","));
        for (body, field) in [
            (r#"{"ids":["1"]}"#, "action"),
            (r#"{"action":"stop","ids":["1"]}"#, "action"),
            (r#"{"action":"cancel"}"#, "ids"),
            (r#"{"action":"cancel","ids":[]}"#, "ids"),
            (r#"{"action":"cancel","ids":["1"],"filter":{"state":["ready"]}}"#, "ids"),
            (r#"{"action":"cancel","filter":{}}"#, "filter"),
            (r#"{"action":"cancel","filter":{"jobs":["a"]}}"#, "filter.jobs"),
            (r#"{"action":"cancel","ids":["one"]}"#, "ids[0]"),
            (many.as_str(), "ids"),
        ] {
            let read = tree::from_json::<ActOnRuns>(body.as_bytes());
            assert_eq!(read.and_then(|act| act.chosen()).unwrap_err().field, field, "{body:.80}");
        }
        let ids = tree::from_json::<ActOnRuns>(br#"{"action":"retry","ids":["9","7","9"]}"#).unwrap();
        assert_eq!(ids.chosen(), Ok(ChosenRuns::These(vec![RunId(7), RunId(9)])));
    }
}
