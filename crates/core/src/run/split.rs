//! The parts of a split run, and its result when they have ended.
//!
//! A split run is executed like a workflow of one step with `map` ([`Workflow::of_parts`](crate::workflow::Workflow::of_parts)):
//! each part is a child run, and has a row among the steps of the split run. So the row of the split run does not grow with
//! its parts.

use std::fmt::Write;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Reason, Run, Status, StepsEnd};
use crate::ids::RunId;
use crate::limits::PAGE_MAX;
use crate::workflow::StepRecord;

/// How many parts the error of a split run names; the others are only counted.
const NAMED_MAX: usize = 20;

/// The part of a split run that a run is, or the place of a child run in its backfill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartOf {
    /// The split run, or the backfill.
    pub parent: RunId,
    pub part: Part,
    /// The name of the only worker that may take it. `None` means any worker.
    pub worker: Option<Arc<str>>,
}

/// The part of a split run. A run that was not split is part 0 of 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Counted from 0.
    pub index: u32,
    pub total: u32,
}

impl Default for Part {
    fn default() -> Self {
        Part { index: 0, total: 1 }
    }
}

impl Run {
    /// The split run that it is a part of. A child run of a backfill is no part.
    pub fn split_parent(&self) -> Option<RunId> {
        Some(self.split_part()?.parent)
    }

    pub fn part(&self) -> Part {
        self.split_part().map(|of| of.part).unwrap_or_default()
    }

    /// Which part of a split run it is. A child run of a backfill is no part.
    pub fn split_part(&self) -> Option<&PartOf> {
        self.part_of.as_deref().filter(|_| !self.is_backfilled())
    }

    /// The name of the only worker that may take it. `None` means any worker.
    pub fn pinned_to(&self) -> Option<&Arc<str>> {
        self.part_of.as_ref()?.worker.as_ref()
    }
}

/// The end and the output of a split run: the parts that it has started have all ended. It was to have `total` parts, and
/// has fewer if it was stopped before all of them had started.
pub fn joined(parts: &[&StepRecord], total: u32, is_stopping: bool) -> (StepsEnd, Box<str>) {
    let has_failed = |part: &&&StepRecord| part.status() != Some(Status::Succeeded);
    let failed: Vec<&StepRecord> = parts.iter().filter(has_failed).copied().collect();
    let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let succeeded = number(parts.len() - failed.len());
    let output = summary(parts, &failed, total, succeeded).into();
    let end = match total - succeeded {
        0 => StepsEnd::Succeeded,
        _ if is_stopping => StepsEnd::Stopped,
        missing => {
            let first = failed.first().map_or(number(parts.len()), |part| index_of(part));
            let reason = Reason::Children { failed: missing, total, first };
            StepsEnd::Failed { reason, error: name_failed(&failed).into() }
        }
    };
    (end, output)
}

/// The result of a split run, as JSON. Of many parts, it lists only those that did not succeed.
fn summary(parts: &[&StepRecord], failed: &[&StepRecord], total: u32, succeeded: u32) -> String {
    let child = |part: &&StepRecord| {
        serde_json::json!({
            "index": index_of(part),
            "run": part.child.map(|run| run.to_string()),
            "state": part.status().map(Status::as_str),
            "worker": part.worker(),
        })
    };
    let listed = if parts.len() <= PAGE_MAX { parts } else { failed };
    let list: Vec<_> = listed.iter().take(PAGE_MAX).map(child).collect();
    serde_json::json!({ "total": total, "succeeded": succeeded, "children": list }).to_string()
}

fn name_failed(failed: &[&StepRecord]) -> String {
    let mut text = String::from("child runs that did not succeed:");
    for part in failed.iter().take(NAMED_MAX) {
        let state = part.status().map_or("", Status::as_str);
        let run = part.child.map_or_else(String::new, |run| format!(" (run {run})"));
        // Writing to a string cannot fail.
        let _ = write!(text, " {} {state}{run},", index_of(part));
    }
    if failed.len() > NAMED_MAX {
        let _ = write!(text, " and {} more", failed.len() - NAMED_MAX);
    }
    text.trim_end_matches(',').to_owned()
}

fn index_of(part: &StepRecord) -> u32 {
    part.key.item.unwrap_or_default()
}
