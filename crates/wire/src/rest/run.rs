//! A run and its events.

use std::fmt;
use std::sync::Arc;

use punctual_core::cut::keep_end;
use punctual_core::ids::{RunId, Token};
use punctual_core::job::Definition;
use punctual_core::limits::LISTED_OUTPUT_BYTES_MAX;
use punctual_core::name::{Name, Namespace};
use punctual_core::progress;
use punctual_core::run::{self as rule, Status};
use punctual_core::workflow::StepRecord;
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;
use utoipa::ToSchema;

use super::ByHand;
use super::attempt::{self, Attempt};
use super::backfill::BackfillSpan;
use crate::job_file::Route;
use crate::schema;
use crate::text::{Instant, Text};

/// Scripts rely on these fields: none of the first ones is ever left out; an absent value is `null`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Run {
    #[schema(value_type = schema::Id)]
    pub id: Text<RunId>,
    #[schema(value_type = schema::Namespace)]
    pub namespace: Namespace,
    #[schema(value_type = Option<schema::Name>)]
    pub job: Option<Name>,
    pub revision: Option<u32>,
    pub trigger: Trigger,
    pub state: State,
    pub due_at: Instant,
    pub created_at: Instant,
    pub started_at: Option<Instant>,
    pub finished_at: Option<Instant>,
    pub attempt: u32,
    pub worker: Option<String>,
    pub exit_code: Option<i32>,
    pub output: Option<String>,
    pub error: Option<String>,
    /// Why it ended as it did or, while it runs, why it is being stopped or who paused it.
    pub reason: Option<String>,
    /// From 0 to 100, as the attempt reported it.
    pub progress: Option<u8>,
    pub key: Option<String>,
    #[schema(value_type = Option<schema::Id>)]
    pub parent: Option<Text<RunId>>,
    /// Which child of its parent it is: the index of a part, or the name of a step, as in `settle/book` or `load[3]`.
    pub step: Option<String>,
    #[schema(value_type = Option<schema::Id>)]
    pub retry_of: Option<Text<RunId>>,
    /// The run that started it: the run of a step that waits for it, or the run whose end it follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Id>)]
    pub started_by: Option<Text<RunId>>,
    /// The run of another job that it has started and waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Id>)]
    pub started: Option<Text<RunId>>,
    /// How long after its due time the first attempt started. `null` means that none has started.
    #[serde(default)]
    pub lateness_ms: Option<u64>,
    /// What the attempt says about its work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress_message: Option<String>,
    /// When it last reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress_at: Option<Instant>,
    /// Where the next attempt continues; only where a run is shown by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Checkpoint>,
    /// Which part of a split run it is; only in child runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<Shard>,
    /// How its worker is chosen; only where a run is shown by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route: Option<Route>,
    /// Whether its task is a workflow, so that it has a graph; only where a run is shown by itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub workflow: bool,
    /// What it makes up for; only in a backfill, and where a run is shown by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backfill: Option<BackfillSpan>,
    /// The child runs that it was split into, or those of a backfill; only where a run is shown by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub children: Option<Vec<Child>>,
    /// Only where they were asked for, and where a run is shown by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<Vec<Attempt>>,
    /// Only where they were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<Vec<Event>>,
    /// The events that a person caused: who asked for a retry or a cancel, paused the workflow or resumed it. Only where
    /// a run is shown by itself, and absent if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_hand: Option<Vec<Event>>,
}

/// Where the next attempt continues.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Checkpoint {
    /// Any JSON but null.
    #[schema(value_type = Object)]
    pub value: Value,
    pub at: Instant,
    /// The number of the attempt that reported it. 0 means that it comes from the run that this one retries.
    pub attempt: u32,
}

/// What made a run, by name.
pub type Trigger = Text<rule::Trigger>;

schema::by_hand!(Trigger as "Trigger": schema::words(rule::Trigger::ALL.map(rule::Trigger::word)));

/// One of the equal parts that a run was split into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Shard {
    /// From 0.
    pub index: u32,
    pub total: u32,
}

/// What a run knows of one that it was split into.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Child {
    pub index: u32,
    #[schema(value_type = schema::Id)]
    pub run: Text<RunId>,
    /// The name of the worker that it is meant for or, once it has ended, that had it last.
    pub worker: Option<String>,
    /// How it ended. `null` means it has not ended.
    pub state: Option<State>,
    /// Its due time; only in a child run of a backfill.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_at: Option<Instant>,
}

/// One change of a run. `seq` counts from 1 without gaps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    #[schema(value_type = schema::Id)]
    pub run: Text<RunId>,
    pub seq: u64,
    pub from: Option<State>,
    pub to: State,
    pub what: String,
    pub at: Instant,
    /// The name of the node that wrote it. `null` means a single node.
    pub node: Option<String>,
    /// The token of the newest attempt at that time. `null` means there was no attempt yet.
    #[schema(value_type = Option<schema::Id>)]
    pub token: Option<Text<u64>>,
    /// Who caused it. Absent if no person did, or it is not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_hand: Option<ByHand>,
}

/// The state of a run, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct State(pub Status);

schema::by_hand!(State as "State": schema::words(Status::ALL.map(Status::as_str)));

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for State {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.as_str())
    }
}

impl<'de> Deserialize<'de> for State {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct StateVisitor;

        impl Visitor<'_> for StateVisitor {
            type Value = State;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a state")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<State, E> {
                Status::parse(text)
                    .map(State)
                    .ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_str(StateVisitor)
    }
}

/// The states that a filter word selects: one state, or one of the classic four, each of which stands for several.
pub fn statuses(word: &str) -> Option<Vec<Status>> {
    let classic = match word {
        "PENDING" => |status: Status| matches!(status, Status::Waiting | Status::Ready),
        "RUNNING" => |status| status == Status::Running,
        "COMPLETED" => |status| status == Status::Succeeded,
        // Every end but success.
        "FAILED" => |status: Status| status.is_terminal() && status != Status::Succeeded,
        _ => return Status::parse(word).map(|status| vec![status]),
    };
    Some(Status::ALL.into_iter().filter(|status| classic(*status)).collect())
}

impl From<&rule::Run> for Run {
    fn from(run: &rule::Run) -> Self {
        let reported = run.progress.as_deref();
        let stopping = run.cancelling().map(|cause| match cause {
            rule::Cause::Moved => "moving to another worker".to_owned(),
            cause => format!("cancelling: {}", rule::Reason::Cancelled(cause)),
        });
        let paused = run.paused_by().map(|by_hand| by_hand.told("paused"));
        Run {
            id: Text(run.id),
            namespace: run.namespace.clone(),
            job: run.job_name().cloned(),
            revision: run.revision(),
            trigger: Text(run.trigger),
            state: State(run.status()),
            due_at: Text(run.due),
            created_at: Text(run.created_at),
            started_at: run.started_at.map(Text),
            finished_at: run.finished_at.map(Text),
            attempt: run.attempt,
            worker: run.assignee.as_ref().map(ToString::to_string),
            exit_code: run.exit_code,
            output: said(&run.output),
            error: said(&run.error),
            reason: stopping.or(paused).or_else(|| run.reason.as_ref().map(ToString::to_string)),
            progress: run.percent(),
            progress_message: reported.and_then(|reported| reported.message.as_deref()).map(str::to_owned),
            progress_at: reported.map(|reported| Text(reported.at)),
            checkpoint: None,
            key: run.key.as_deref().map(str::to_owned),
            parent: run.parent().map(Text),
            step: run.place_in_parent(),
            retry_of: run.retry_of.map(Text),
            started_by: run.started_by().map(Text),
            started: run.called().map(Text),
            lateness_ms: attempt::lateness_ms(run),
            shard: Shard::of(run),
            route: None,
            workflow: false,
            backfill: None,
            children: None,
            attempts: None,
            events: None,
            by_hand: None,
        }
    }
}

fn said(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

impl Run {
    /// The run with its events and attempts.
    pub fn with_events(run: &rule::Run, definition: &Definition) -> Run {
        Run { events: Some(Event::all(run)), ..Run::with_attempts(run, definition) }
    }

    pub fn with_attempts(run: &rule::Run, definition: &Definition) -> Run {
        let route = Some(Route::of(&definition.route));
        let checkpoint = run.checkpoint().map(Checkpoint::of);
        let workflow = definition.workflow().is_some() && !run.is_backfill();
        let mut by_hand = if run.by_hand.is_empty() { Vec::new() } else { Event::all(run) };
        by_hand.retain(|event| event.by_hand.is_some());
        let by_hand = (!by_hand.is_empty()).then_some(by_hand);
        let attempts = Some(Attempt::all(run));
        Run { attempts, route, workflow, checkpoint, by_hand, ..Run::from(run) }
    }

    /// The run as listed: of a long output only the end is kept.
    pub fn listed(run: &rule::Run) -> Run {
        let mut listed = Run::from(run);
        listed.output = listed.output.map(|output| keep_end(&output, LISTED_OUTPUT_BYTES_MAX).into_owned());
        listed
    }
}

impl Checkpoint {
    pub(super) fn of(checkpoint: &progress::Checkpoint) -> Checkpoint {
        let progress::Checkpoint { value, at, version } = checkpoint;
        let value = serde_json::from_str(value).unwrap_or(Value::Null);
        Checkpoint { value, at: Text(*at), attempt: version.attempt }
    }
}

impl Shard {
    fn of(run: &rule::Run) -> Option<Shard> {
        let rule::Part { index, total } = run.split_part()?.part;
        Some(Shard { index, total })
    }
}

impl Child {
    /// The child runs of a split run or a backfill, from its rows.
    pub fn all(rows: &[Arc<StepRecord>]) -> Vec<Child> {
        let backfill = rows.iter().find_map(|row| row.backfill.as_deref());
        let due = |child: &Child| backfill?.dues.get(usize::try_from(child.index).ok()?).copied().map(Text);
        let children = rows.iter().filter_map(|row| Child::of(row));
        children.map(|child| Child { due_at: due(&child), ..child }).collect()
    }

    /// A part of a split run, from its row. `None` means that it is the row of the split run itself.
    fn of(row: &StepRecord) -> Option<Child> {
        Some(Child {
            index: row.key.item?,
            run: Text(row.child?),
            worker: row.worker().map(str::to_owned),
            state: row.status().map(State),
            due_at: None,
        })
    }
}

impl Event {
    /// Every change of a run, in order; the event number is the position of its entry.
    pub fn all(run: &rule::Run) -> Vec<Event> {
        let mut from = None;
        let mut seq = 0;
        let event = |(index, entry): (usize, &rule::Entry)| {
            seq += 1;
            let by_hand = run.by_hand_at(index);
            let node = run.signed.iter().rev().find(|(from, _)| u64::from(*from) < seq);
            Event {
                run: Text(run.id),
                seq,
                from: from.replace(State(entry.to)),
                to: State(entry.to),
                what: entry.what.as_str().to_owned(),
                at: Text(entry.at),
                node: node.map(|(_, name)| name.to_string()),
                token: (entry.token != Token::default()).then_some(Text(entry.token.0)),
                by_hand: by_hand.map(Into::into),
            }
        };
        run.entries.iter().enumerate().map(event).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use punctual_core::Timestamp;
    use punctual_core::ids::{Epoch, JobId, WorkerId};
    use punctual_core::job::Definition;
    use punctual_core::task::Task;
    use punctual_core::workflow::{State as StepState, StepKey, StepReason};

    use super::*;

    fn running() -> rule::Run {
        let at = Timestamp::from_millis;
        let origin = rule::Origin::Job { id: JobId(7), name: "hello".parse().unwrap(), revision: 3 };
        let mut run = rule::Run::new(
            RunId(9_007_199_254_740_993),
            Namespace::default(),
            origin,
            rule::Trigger::Schedule,
            at(1_800_000_000_000),
            at(1_800_000_000_001),
        );
        let definition = Definition::of(Task::Noop);
        run.apply(rule::Event::Due, &definition, at(1_800_000_000_001)).unwrap();
        let event =
            rule::Event::Assigned { worker: WorkerId(Arc::from("w1")), token: run.token.next(Epoch(1)) };
        run.apply(event, &definition, at(1_800_000_000_002)).unwrap();
        run
    }

    #[test]
    fn an_event_names_the_node_that_wrote_it() {
        let mut run = running();
        let nodes = |run: &rule::Run| -> Vec<Option<String>> {
            Event::all(run).into_iter().map(|event| event.node).collect()
        };
        assert!(nodes(&run).iter().all(Option::is_none), "a node that is alone signs nothing");
        let count = run.entries.len();
        let (a, b): (Arc<str>, Arc<str>) = ("a".into(), "b".into());
        run.signed = vec![(0, a), (u32::try_from(count).unwrap() - 1, b)];
        let told = nodes(&run);
        assert!(count > 1 && told[..count - 1].iter().all(|node| node.as_deref() == Some("a")), "{told:?}");
        assert_eq!(told[count - 1].as_deref(), Some("b"));
    }

    #[test]
    fn an_event_names_the_person_who_caused_it() {
        let mut run = running();
        let definition = Definition::of(Task::Noop);
        assert!(Run::with_attempts(&run, &definition).by_hand.is_none());
        let (at, comment) = (run.created_at, "the bank is open again".into());
        run.asked_by(punctual_core::workflow::ByHand { by: Some("ops".into()), at, comment });
        let by_hand = Run::with_attempts(&run, &definition).by_hand.unwrap();
        let [asked] = by_hand.as_slice() else { panic!("{by_hand:?}") };
        assert_eq!((asked.seq, asked.what.as_str()), (1, "created"));
        assert_eq!(asked.by_hand.as_ref().unwrap().told(), "by ops: the bank is open again");
        assert!(Event::all(&run)[1..].iter().all(|event| event.by_hand.is_none()));
    }

    #[test]
    fn a_run_has_the_promised_fields_and_reads_back_the_same() {
        let run = Run::with_events(&running(), &Definition::of(Task::Noop));
        let json = serde_json::to_value(&run).unwrap();
        let mut fields: Vec<&str> = json.as_object().unwrap().keys().map(String::as_str).collect();
        // Beyond the promise, or only where they were asked for.
        fields.retain(|field| {
            !["lateness_ms", "attempts", "events", "children", "shard", "route"].contains(field)
        });
        fields.sort_unstable();
        let mut promised = "id, namespace, job, revision, trigger, state, due_at, created_at, started_at, \
            finished_at, attempt, worker, exit_code, output, error, reason, progress, key, parent, step, retry_of"
            .split(", ")
            .collect::<Vec<_>>();
        promised.sort_unstable();
        assert_eq!(fields, promised);
        assert_eq!(json["id"], "9007199254740993");
        assert_eq!(json["due_at"], "2027-01-15T08:00:00.000Z");
        assert_eq!(serde_json::from_value::<Run>(json).unwrap(), run);
    }

    #[test]
    fn a_child_names_its_parent_and_a_parent_its_children() {
        let part = rule::Part { index: 2, total: 4 };
        let of = rule::PartOf { parent: RunId(7), part, worker: None };
        let child = Run::from(&rule::Run { part_of: Some(Box::new(of)), ..running() });
        assert_eq!((child.parent, child.step.as_deref()), (Some(Text(RunId(7))), Some("2")));
        assert_eq!(child.shard, Some(Shard { index: 2, total: 4 }));

        let whole = StepRecord::of_parts(RunId(7), 1, Box::default(), Timestamp::MIN);
        assert_eq!(Child::of(&whole), None);
        let key = StepKey { item: Some(0), ..whole.key };
        let mut row = StepRecord { key, child: Some(RunId(8)), workers: [Arc::from("w1")].into(), ..whole };
        row.end(StepState::Failed, Some(StepReason::Ended(Status::Failed)), Timestamp::MIN);
        let json = serde_json::json!({ "index": 0, "run": "8", "worker": "w1", "state": "failed" });
        assert_eq!(serde_json::to_value(Child::of(&row)).unwrap(), json);
        assert_eq!((Run::from(&running()).parent, Run::from(&running()).shard), (None, None));
    }

    #[test]
    fn events_are_numbered_without_gaps_and_each_begins_where_the_last_ended() {
        let events = Event::all(&running());
        let seen: Vec<_> = events
            .iter()
            .map(|event| (event.seq, event.from.map(|from| from.to_string()), event.to.to_string()))
            .collect();
        assert_eq!(
            seen,
            [
                (1, None, "waiting".to_owned()),
                (2, Some("waiting".to_owned()), "ready".to_owned()),
                (3, Some("ready".to_owned()), "running".to_owned()),
            ]
        );
    }

    #[test]
    fn a_long_output_is_cut_in_a_listing_only() {
        let run = rule::Run { output: "x".repeat(60_000).into(), ..running() };
        let listed = Run::listed(&run).output.unwrap();
        assert!(listed.starts_with("[…] x") && listed.len() <= LISTED_OUTPUT_BYTES_MAX);
        assert_eq!(Run::from(&run).output.unwrap().len(), 60_000);
    }

    #[test]
    fn every_state_is_one_of_the_classic_four() {
        let classic = ["PENDING", "RUNNING", "COMPLETED", "FAILED"];
        for status in Status::ALL {
            let bearing = classic.iter().filter(|word| statuses(word).unwrap().contains(&status));
            assert_eq!(bearing.count(), 1, "{status}");
            assert_eq!(statuses(status.as_str()), Some(vec![status]));
        }
        assert_eq!(statuses("pending"), None);
    }
}
