//! Reads one line of an export.
//!
//! Only this file knows the field names of the export. Fields and line types that no check needs are ignored. A needed
//! line that cannot be read is refused, because checks over half a history would find losses that never happened, or
//! miss real ones.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use punctual_core::Timestamp;
use punctual_core::change::SkipReason;
use punctual_core::ids::{JobId, RunId, Token};
use punctual_core::job::{Cursor, State};
use punctual_core::name::{Name, Namespace};
use punctual_core::progress::{Resume, Version};
use punctual_core::run::{Assignee, Status, Trigger};
use serde::Deserialize;
use serde::de::{self, Deserializer};
use serde_json::{Map, Value};

use super::History;
use super::record::{EventRecord, JobRecord, JobRef, RevisionRecord, RunRecord, SkipRecord, StatsRecord};
use super::rules::Rules;
use super::workflow::{StepLine, WorkflowLine};

/// A line that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {number}: {what}")]
pub struct BadLine {
    /// Counted from 1.
    pub number: u64,
    pub what: String,
}

pub(super) fn add(history: &mut History, text: &str) -> Result<(), String> {
    match serde_json::from_str(text).map_err(|error| error.to_string())? {
        Line::Run(line) => history.add_run_record(line.into()),
        Line::Event(line) => history.add_event(line.into()),
        Line::Resume(ResumeLine { run, token, kept, given }) => {
            history.add_resume(run, Resume { token: Token(token), kept, given });
        }
        Line::Skip(line) => history.add_skip_record(line.into()),
        Line::Job(line) => history.add_job_record(line.read()?),
        Line::Revision(line) => history.add_revision_record(line.read()?),
        Line::Workflow(line) => {
            history.workflows.insert(line.run, line.read()?);
        }
        Line::Step(line) => {
            let (place, row) = line.read()?;
            history.steps.insert(place, row);
        }
        Line::Stats(line) => history.stats = line.read(),
        Line::Other => {}
    }
    Ok(())
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Line {
    Run(RunLine),
    Event(EventLine),
    Resume(ResumeLine),
    Skip(SkipLine),
    Job(JobLine),
    Revision(RevisionLine),
    Workflow(WorkflowLine),
    Step(StepLine),
    Stats(StatsLine),
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct RunLine {
    #[serde(deserialize_with = "written")]
    id: RunId,
    namespace: Namespace,
    job: Option<Name>,
    /// Not guaranteed by the export; it distinguishes a job from an earlier one of the same name.
    #[serde(default, deserialize_with = "maybe_written")]
    job_id: Option<JobId>,
    #[serde(default, deserialize_with = "maybe_written")]
    read_at: Option<Timestamp>,
    revision: Option<u32>,
    #[serde(deserialize_with = "written")]
    trigger: Trigger,
    #[serde(deserialize_with = "status")]
    state: Status,
    #[serde(deserialize_with = "written")]
    due_at: Timestamp,
    #[serde(deserialize_with = "written")]
    created_at: Timestamp,
    #[serde(default, deserialize_with = "maybe_written")]
    started_at: Option<Timestamp>,
    #[serde(default, deserialize_with = "maybe_written")]
    finished_at: Option<Timestamp>,
    attempt: u32,
    #[serde(default, deserialize_with = "maybe_written")]
    parent: Option<RunId>,
    #[serde(default)]
    step: Option<Box<str>>,
    shard: Option<PartLine>,
    #[serde(default, deserialize_with = "maybe_written")]
    started_by: Option<RunId>,
    #[serde(default, deserialize_with = "maybe_written")]
    started: Option<RunId>,
    /// What its newest attempt was assigned to.
    #[serde(default, deserialize_with = "maybe_assigned")]
    worker: Option<Assignee>,
}

#[derive(Deserialize)]
struct PartLine {
    index: u32,
}

#[derive(Deserialize)]
struct EventLine {
    #[serde(deserialize_with = "written")]
    run: RunId,
    seq: u64,
    #[serde(default, deserialize_with = "maybe_status")]
    from: Option<Status>,
    #[serde(deserialize_with = "status")]
    to: Status,
    #[serde(deserialize_with = "written")]
    at: Timestamp,
    /// `None` means no attempt was assigned yet.
    #[serde(default, deserialize_with = "maybe_written")]
    token: Option<u64>,
    what: Option<Box<str>>,
}

#[derive(Deserialize)]
struct ResumeLine {
    #[serde(deserialize_with = "written")]
    run: RunId,
    #[serde(deserialize_with = "written")]
    token: u64,
    kept: Version,
    given: Option<Version>,
}

#[derive(Deserialize)]
struct SkipLine {
    #[serde(deserialize_with = "written")]
    job_id: JobId,
    revision: u32,
    #[serde(deserialize_with = "written")]
    from: Timestamp,
    #[serde(deserialize_with = "written")]
    to: Timestamp,
    #[serde(deserialize_with = "reason")]
    reason: SkipReason,
}

#[derive(Deserialize)]
struct JobLine {
    #[serde(deserialize_with = "written")]
    id: JobId,
    namespace: Namespace,
    name: Name,
    revision: u32,
    state: JobState,
    #[serde(deserialize_with = "written")]
    created_at: Timestamp,
    #[serde(deserialize_with = "written")]
    updated_at: Timestamp,
    #[serde(default, deserialize_with = "maybe_written")]
    deleted_at: Option<Timestamp>,
    cursor: CursorLine,
    #[serde(flatten)]
    definition: Map<String, Value>,
}

#[derive(Deserialize)]
struct RevisionLine {
    #[serde(deserialize_with = "written")]
    job_id: JobId,
    namespace: Namespace,
    name: Name,
    revision: u32,
    #[serde(deserialize_with = "written")]
    at: Timestamp,
    state: JobState,
    #[serde(flatten)]
    definition: Map<String, Value>,
}

#[derive(Deserialize, Clone, Copy, PartialEq)]
#[serde(rename_all = "snake_case")]
enum JobState {
    Active,
    Paused,
    Deleted,
    Finished,
}

impl From<JobState> for State {
    fn from(state: JobState) -> State {
        match state {
            // A job whose schedules are used up has no more due times.
            JobState::Active | JobState::Finished => State::Active,
            JobState::Paused => State::Paused,
            JobState::Deleted => State::Deleted,
        }
    }
}

#[derive(Deserialize)]
struct CursorLine {
    #[serde(deserialize_with = "written")]
    fired_through: Timestamp,
    #[serde(default, deserialize_with = "maybe_written")]
    next_due_at: Option<Timestamp>,
    #[serde(default, deserialize_with = "maybe_written")]
    wake_at: Option<Timestamp>,
    #[serde(default)]
    fires: Vec<u32>,
}

#[derive(Deserialize)]
struct StatsLine {
    jobs: Option<u64>,
    live_runs: Option<u64>,
    history_runs: Option<u64>,
}

impl From<RunLine> for RunRecord {
    fn from(line: RunLine) -> RunRecord {
        // The child runs of a backfill are parts of it, and no part of a split run.
        let is_backfill = line.trigger == Trigger::Backfill;
        let backfilled = line.step.as_ref().filter(|_| is_backfill).and_then(|index| index.parse().ok());
        RunRecord {
            id: line.id,
            namespace: line.namespace,
            job: line.job.map(|name| JobRef { name, id: line.job_id }),
            revision: line.revision.unwrap_or(0),
            trigger: line.trigger,
            lane: line.trigger.into(),
            status: line.state,
            due: line.due_at,
            created_at: line.created_at,
            started_at: line.started_at,
            finished_at: line.finished_at,
            attempt: line.attempt,
            parent: line.parent,
            step: line.step,
            part: line.shard.map(|part| part.index).or(backfilled),
            started_by: line.started_by,
            started: line.started,
            starts: line.worker.and_then(|assignee| assignee.job().cloned()),
            at_most_once: None,
            read_at: line.read_at,
        }
    }
}

impl From<EventLine> for EventRecord {
    fn from(line: EventLine) -> EventRecord {
        let EventLine { run, seq, from, to, at, token, what } = line;
        EventRecord { run, seq, from, to, at, token: token.map(Token).unwrap_or_default(), what }
    }
}

impl From<SkipLine> for SkipRecord {
    fn from(line: SkipLine) -> SkipRecord {
        let SkipLine { job_id, revision, from, to, reason } = line;
        SkipRecord { job: job_id, revision, from, to, reason }
    }
}

impl JobLine {
    fn read(self) -> Result<JobRecord, String> {
        let rules = read_rules(self.definition, &self.namespace, &self.name)?;
        let CursorLine { fired_through, next_due_at, wake_at, fires } = self.cursor;
        Ok(JobRecord {
            id: self.id,
            namespace: self.namespace,
            name: self.name,
            revision: self.revision,
            state: self.deleted_at.map_or(self.state.into(), |_| State::Deleted),
            created_at: self.created_at,
            updated_at: self.updated_at,
            cursor: Cursor {
                fired_through,
                next_due: next_due_at,
                wake_at,
                fires: fires.into(),
                ..Cursor::default()
            },
            rules,
        })
    }
}

impl RevisionLine {
    fn read(self) -> Result<RevisionRecord, String> {
        let rules = read_rules(self.definition, &self.namespace, &self.name)?;
        let (job, revision, at, state) = (self.job_id, self.revision, self.at, self.state.into());
        Ok(RevisionRecord { job, revision, at, state, rules })
    }
}

fn read_rules(definition: Map<String, Value>, namespace: &Namespace, name: &Name) -> Result<Rules, String> {
    Rules::from_json(Value::Object(definition), &format!("{namespace}/{name}"))
        .map_err(|what| format!("the definition of job {name}: {what}"))
}

impl StatsLine {
    fn read(self) -> Option<StatsRecord> {
        Some(StatsRecord { jobs: self.jobs?, live_runs: self.live_runs?, history_runs: self.history_runs? })
    }
}

/// Reads a value that an export writes as text: ids, tokens and instants.
pub(super) fn written<'de, D, T>(input: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: fmt::Display>,
{
    String::deserialize(input)?.parse().map_err(de::Error::custom)
}

pub(super) fn maybe_written<'de, D, T>(input: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: fmt::Display>,
{
    let text = Option::<String>::deserialize(input)?;
    text.map(|text| text.parse()).transpose().map_err(de::Error::custom)
}

fn maybe_assigned<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Assignee>, D::Error> {
    let text = Option::<Arc<str>>::deserialize(input)?;
    text.map(Assignee::try_from).transpose().map_err(de::Error::custom)
}

fn status<'de, D: Deserializer<'de>>(input: D) -> Result<Status, D::Error> {
    read_status(&String::deserialize(input)?)
}

fn maybe_status<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Status>, D::Error> {
    Option::<String>::deserialize(input)?.map(|text| read_status(&text)).transpose()
}

fn reason<'de, D: Deserializer<'de>>(input: D) -> Result<SkipReason, D::Error> {
    let text = String::deserialize(input)?;
    SkipReason::parse(&text).ok_or_else(|| de::Error::custom(format!("`{text}` is no reason of a skip")))
}

fn read_status<E: de::Error>(text: &str) -> Result<Status, E> {
    Status::parse(text).ok_or_else(|| E::custom(format!("`{text}` is no state of a run")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::checks::Check;
    use crate::options::Options;

    /// What an export says of a job that fired once at 00:00:10.
    fn export() -> Vec<Value> {
        let at = |second: u32| format!("2026-01-01T00:00:{second:02}.000Z");
        let event = |seq: u32, from: Value, to: &str, what: &str, second: u32, token: Value| {
            json!({ "type": "event", "run": "77", "seq": seq, "from": from, "to": to, "what": what,
                "at": at(second), "node": "dev", "token": token })
        };
        vec![
            json!({ "type": "job", "id": "5", "namespace": "default", "name": "beat", "revision": 1,
                "state": "active", "created_at": at(0), "updated_at": at(0),
                "schedule": { "every": "10s" }, "task": { "shell": "true" }, "overlap": "skip",
                "cursor": { "fired_through": at(10), "next_due_at": at(20), "wake_at": at(20), "fires": [1] } }),
            json!({ "type": "run", "id": "77", "namespace": "default", "job": "beat", "revision": 1,
                "trigger": "schedule", "state": "succeeded", "due_at": at(10), "created_at": at(10),
                "started_at": at(10), "finished_at": at(11), "attempt": 1, "worker": "dev", "exit_code": 0,
                "output": "", "error": null, "reason": null, "progress": null, "key": null, "parent": null,
                "step": null, "retry_of": null }),
            event(0, Value::Null, "waiting", "created", 10, Value::Null),
            event(1, json!("waiting"), "ready", "due", 10, Value::Null),
            event(2, json!("ready"), "running", "assigned", 10, json!("1")),
            event(3, json!("running"), "succeeded", "ended", 11, json!("1")),
            json!({ "type": "stats", "jobs": 1, "live_runs": 0, "history_runs": 1, "dead_letters": 0 }),
            json!({ "type": "audit", "who": "someone" }),
        ]
    }

    fn read(lines: &[Value]) -> Result<History, BadLine> {
        let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
        History::read(lines.iter().map(String::as_str))
    }

    #[test]
    fn an_export_is_read_and_holds() {
        let history = read(&export()).unwrap();
        let report = history.check(&Options { still: true, ..Options::default() });
        assert!(report.is_ok(), "{report}");
        assert!(report.checked.iter().all(|checked| {
            use Check::{AtMostOnce, Checkpoint, Ended, Family, Links, Workflow};
            let rare = [AtMostOnce, Checkpoint, Ended, Family, Links, Workflow];
            checked.looked_at > 0 || rare.contains(&checked.check)
        }));
    }

    #[test]
    fn a_skip_record_is_read() {
        let mut lines = export();
        lines.push(json!({ "type": "skip", "job": "beat", "job_id": "5", "revision": 1, "from": "2026-01-01T00:00:20Z",
            "to": "2026-01-01T00:01:00Z", "reason": "misfire", "count": 5 }));
        lines[0]["cursor"]["fired_through"] = json!("2026-01-01T00:01:00Z");
        lines[0]["cursor"]["next_due_at"] = json!("2026-01-01T00:01:10Z");
        let report = read(&lines).unwrap().check(&Options::default());
        assert!(report.is_ok(), "{report}");
        lines.pop();
        let report = read(&lines).unwrap().check(&Options::default());
        assert_eq!(report.of(Check::NeverLost).count(), 1, "{report}");
    }

    #[test]
    fn the_checkpoint_of_an_attempt_is_read() {
        let mut lines = export();
        let (kept, older) = (
            json!({ "attempt": 0, "seq": null, "count": 2 }),
            json!({ "attempt": 0, "seq": null, "count": 1 }),
        );
        lines.push(json!({ "type": "resume", "run": "77", "token": "1", "kept": kept, "given": kept }));
        let report = read(&lines).unwrap().check(&Options::default());
        assert!(report.is_ok(), "{report}");
        lines.push(json!({ "type": "resume", "run": "77", "token": "1", "kept": kept, "given": older }));
        let report = read(&lines).unwrap().check(&Options::default());
        assert_eq!(report.of(Check::Checkpoint).count(), 1, "{report}");
    }

    #[test]
    fn the_steps_of_a_workflow_are_read() {
        let at = |second: u32| format!("2026-01-01T00:00:{second:02}.000Z");
        let step = |name: &str, decided: u32, ended: u32| {
            json!({ "type": "step", "run": "77", "step": name, "item": null, "state": "succeeded", "child": null,
                "decided_at": at(decided), "ended_at": at(ended), "reason": null })
        };
        let mut lines = export();
        lines.push(json!({ "type": "workflow", "run": "77", "steps": [
            { "name": "a", "needs": [], "rule": "all_succeeded" },
            { "name": "b", "needs": ["a"], "rule": "all_succeeded" },
        ] }));
        lines.extend([step("a", 10, 11), step("b", 11, 11)]);
        let report = read(&lines).unwrap().check(&Options::default());
        assert!(report.is_ok(), "{report}");
        let last = lines.len() - 1;
        lines[last] = step("b", 10, 11);
        let report = read(&lines).unwrap().check(&Options::default());
        assert_eq!(report.of(Check::Workflow).count(), 1, "{report}");
        lines[last]["state"] = json!("asleep");
        assert!(read(&lines).unwrap_err().what.contains("`asleep` is no state of a step"));
    }

    #[test]
    fn the_links_of_a_run_are_read() {
        let mut lines = export();
        lines[1]["worker"] = json!("job settle");
        let found =
            |lines: &[Value]| read(lines).unwrap().check(&Options::default()).of(Check::Links).count();
        assert_eq!(found(&lines), 1, "it names no run that it started");
        lines[1]["started"] = json!("78");
        assert_eq!(found(&lines), 0);
        lines[1]["trigger"] = json!("after");
        assert_eq!(found(&lines), 1, "it names no run that started it");
        lines[1]["started_by"] = json!("76");
        assert_eq!(found(&lines), 0);
    }

    #[test]
    fn a_run_that_was_read_twice_while_it_moved_is_one_run() {
        let mut lines = export();
        let mut earlier = lines[1].clone();
        earlier["state"] = json!("running");
        earlier["finished_at"] = Value::Null;
        lines.extend([earlier, lines[2].clone(), lines[3].clone()]);
        let report = read(&lines).unwrap().check(&Options { still: true, ..Options::default() });
        assert!(report.is_ok(), "{report}");
    }

    #[test]
    fn a_line_that_cannot_be_read_is_named() {
        let refused = |lines: &[&str]| History::read(lines.iter().copied()).unwrap_err();
        assert_eq!(refused(&["", r#"{"type":"event""#]).number, 2);
        assert_eq!(refused(&["{}"]).to_string(), "line 1: missing field `type` at line 1 column 2");
        let mut lines = export();
        lines[1]["state"] = json!("asleep");
        assert!(read(&lines).unwrap_err().what.contains("`asleep` is no state of a run"));
        let mut lines = export();
        lines[0]["schedule"]["cron"] = json!("* * * * *");
        let what = read(&lines).unwrap_err().what;
        assert!(what.contains("the definition of job beat: a schedule has one of"), "{what}");
    }
}
