//! What is recorded of the steps of a run: a row for each step that was decided, and one for each item of a `map`.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Skip, State};
use crate::Timestamp;
use crate::backfill::Backfill;
use crate::ids::RunId;
use crate::run::Status;

/// The primary key of a step's row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StepKey {
    /// The run of the workflow, or the split run.
    pub run: RunId,
    /// The index of the step in its workflow. A split run has one step.
    pub step: u32,
    /// The index of the item, in a step with `map`, or of the part. `None` means the row of the step itself.
    pub item: Option<u32>,
}

impl StepKey {
    /// The number that stores write for the item: 0 is the step itself, and the items count from 1.
    pub fn item_column(&self) -> u32 {
        self.item.map_or(0, |item| item.saturating_add(1))
    }

    pub fn of_columns(run: RunId, step: u32, item: u32) -> StepKey {
        StepKey { run, step, item: item.checked_sub(1) }
    }
}

/// A step of a run, or one item of it. It is written when the step is decided, and again when it ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepRecord {
    pub key: StepKey,
    pub state: State,
    /// The run that executes it. `None` means that the step waits, was skipped, or could not start.
    pub child: Option<RunId>,
    pub decided_at: Timestamp,
    /// When the first attempt of its run started, as soon as the run has ended. `None` means that it has not ended, that it
    /// has no run, or that its run never started. A step that is reused started in an earlier run, and has `None`.
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    /// When a wait ends, or an approval counts as rejected. `None` means never.
    pub until: Option<Timestamp>,
    /// The number under which it listens to an event. `None` means that it does not wait for one yet.
    pub listener: Option<i64>,
    /// `None` means that the step has no `map`, or that this is an item of it. The parts of a split run are items.
    pub items: Option<Items>,
    pub reason: Option<StepReason>,
    /// In the row of a part of a split run: the name of the worker that it is meant for or, once it has ended, that had it
    /// last. In the row of a broadcast itself: the workers of all parts, in their order.
    pub workers: Box<[Arc<str>]>,
    /// The output, if it is not too long for expressions.
    pub output: Option<Arc<str>>,
    pub error: Box<str>,
    /// `None` means that no person decided on it.
    pub by_hand: Option<Box<ByHand>>,
    /// In the row of a backfill itself: its due times. `None` in all other rows.
    pub backfill: Option<Box<Backfill>>,
}

/// Who decided by hand, when and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByHand {
    /// The name of the caller's token. `None` means that the server asks for no token.
    pub by: Option<Box<str>>,
    pub at: Timestamp,
    pub comment: Box<str>,
}

/// How many items a step with `map` has, and how many of them have ended when the step has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Items {
    pub total: u32,
    pub succeeded: u32,
    pub failed: u32,
}

/// Why a step ended as it did, where its state alone does not say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum StepReason {
    Skipped(Skip),
    /// How its run ended, if it did not succeed.
    Ended(Status),
    /// An expression of the step cannot be evaluated.
    Expression,
    Approved,
    Rejected,
    /// It was not approved in time.
    NotApproved,
    /// Its namespace has as many waiting approvals as it may have.
    TooManyApprovals,
    /// The event that it waited for did not come in time.
    NoEvent,
    /// The event that it wants to wait for has as many listeners as it may have.
    TooManyListeners,
    /// The workflow was cancelled, or its timeout was reached, while it waited.
    Stopped,
    /// It succeeded, and its output is too long to be used in expressions.
    OutputTooLong,
    /// It ended in an earlier run, of which this run is a retry.
    Reused {
        output_too_long: bool,
    },
}

impl ByHand {
    /// The decision in words: `rejected by ops: the bank is closed`.
    pub fn told(&self, decision: &str) -> String {
        told(decision, self.by.as_deref(), &self.comment)
    }
}

/// A decision in words, with the name of a token and the reason as far as they are known.
pub fn told(decision: &str, by: Option<&str>, why: &str) -> String {
    let by = by.map_or(String::new(), |by| format!(" by {by}"));
    let why = if why.is_empty() { String::new() } else { format!(": {why}") };
    format!("{decision}{by}{why}")
}

impl StepReason {
    pub fn as_str(self) -> &'static str {
        match self {
            StepReason::Skipped(Skip::Rule) => "skipped: rule",
            StepReason::Skipped(Skip::When) => "skipped: when",
            StepReason::Skipped(Skip::Stopped) => "skipped: stopped",
            StepReason::Skipped(Skip::ByHand) => "skipped: by hand",
            StepReason::Ended(status) => status.as_str(),
            StepReason::Expression => "expression",
            StepReason::Approved => "approved",
            StepReason::Rejected => "rejected",
            StepReason::NotApproved => "not approved in time",
            StepReason::TooManyApprovals => "too_many_approvals",
            StepReason::NoEvent => "no event in time",
            StepReason::TooManyListeners => "too_many_listeners",
            StepReason::Stopped => "stopped",
            StepReason::OutputTooLong => "output_too_long",
            StepReason::Reused { output_too_long: false } => "reused",
            StepReason::Reused { output_too_long: true } => "reused: output_too_long",
        }
    }

    pub fn is_output_too_long(self) -> bool {
        matches!(self, StepReason::OutputTooLong | StepReason::Reused { output_too_long: true })
    }
}

impl fmt::Display for StepReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl StepRecord {
    /// A step that starts now.
    pub fn active(key: StepKey, now: Timestamp) -> StepRecord {
        StepRecord {
            key,
            state: State::Active,
            child: None,
            decided_at: now,
            started_at: None,
            ended_at: None,
            until: None,
            listener: None,
            items: None,
            reason: None,
            workers: Box::default(),
            output: None,
            error: Box::default(),
            by_hand: None,
            backfill: None,
        }
    }

    /// A step that is skipped now.
    pub fn skipped(key: StepKey, skip: Skip, now: Timestamp) -> StepRecord {
        let reason = Some(StepReason::Skipped(skip));
        StepRecord { state: State::Skipped, ended_at: Some(now), reason, ..StepRecord::active(key, now) }
    }

    /// A step that cannot start, because an expression of it cannot be evaluated.
    pub fn broken(key: StepKey, error: &str, now: Timestamp) -> StepRecord {
        let mut record = StepRecord::active(key, now);
        record.end(State::Failed, Some(StepReason::Expression), now);
        record.error = error.into();
        record
    }

    /// The row of a split run itself, when it begins: the parts are items of it.
    pub fn of_parts(run: RunId, total: u32, workers: Box<[Arc<str>]>, now: Timestamp) -> StepRecord {
        let key = StepKey { run, step: 0, item: None };
        StepRecord {
            items: Some(Items { total, ..Items::default() }),
            workers,
            ..StepRecord::active(key, now)
        }
    }

    /// The row of a backfill itself, when it begins: the child runs are items of it.
    pub fn of_backfill(run: RunId, backfill: Backfill, now: Timestamp) -> StepRecord {
        let total = u32::try_from(backfill.dues.len()).unwrap_or(u32::MAX);
        let backfill = Some(Box::new(backfill));
        StepRecord { backfill, ..StepRecord::of_parts(run, total, Box::default(), now) }
    }

    /// How its run ended. `None` means that it has not ended, or that it has no run.
    pub fn status(&self) -> Option<Status> {
        match (self.state, self.reason) {
            (State::Succeeded, _) => Some(Status::Succeeded),
            (_, Some(StepReason::Ended(status))) => Some(status),
            _ => None,
        }
    }

    /// The worker of a part of a split run. `None` means that it may go to any and has not ended, or that this is no part.
    pub fn worker(&self) -> Option<&str> {
        self.workers.first().map(|worker| &**worker)
    }

    pub fn end(&mut self, state: State, reason: Option<StepReason>, now: Timestamp) {
        (self.state, self.reason, self.ended_at) = (state, reason, Some(now));
    }
}
