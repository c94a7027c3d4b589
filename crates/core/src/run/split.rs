//! Parent and child runs: a run that is split into child runs, and its result when they have ended.
//!
//! A parent has no attempts: it is `running` until its last child has ended. Its row lists every child and how it
//! ended, so that a reload restores all of it and a listing of the children needs no search.

use std::fmt::Write;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Cause, Reason, Run, State, Status, What};
use crate::Timestamp;
use crate::ids::RunId;
use crate::progress::Reported;

/// How many children the error of a parent names; the others are only counted. All of them are in its output.
const NAMED_MAX: usize = 20;

/// The relation of a run to its parent or children.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum SplitRole {
    /// Its children, in the order of their indices.
    Parent(Vec<Child>),
    Child {
        parent: RunId,
        part: Part,
        /// The name of the only worker that may take it. `None` means any worker.
        worker: Option<Arc<str>>,
    },
}

/// What a parent records of a child.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Child {
    pub run: RunId,
    /// The name of the worker that it is pinned to or, after its end, of its last worker.
    pub worker: Option<Arc<str>>,
    /// How it ended. `None` means that it has not ended.
    pub ended: Option<Status>,
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
    /// The split run that it is a part of.
    pub fn split_parent(&self) -> Option<RunId> {
        match self.split_role.as_deref() {
            Some(SplitRole::Child { parent, .. }) => Some(*parent),
            _ => None,
        }
    }

    pub fn part(&self) -> Part {
        match self.split_role.as_deref() {
            Some(SplitRole::Child { part, .. }) => *part,
            _ => Part::default(),
        }
    }

    /// The name of the only worker that may take it. `None` means any worker.
    pub fn pinned_to(&self) -> Option<&Arc<str>> {
        match self.split_role.as_deref() {
            Some(SplitRole::Child { worker, .. }) => worker.as_ref(),
            _ => None,
        }
    }

    /// Its child runs, in the order of their indices.
    pub fn children(&self) -> &[Child] {
        match self.split_role.as_deref() {
            Some(SplitRole::Parent(children)) => children,
            _ => &[],
        }
    }

    pub fn has_children_under_way(&self) -> bool {
        self.children().iter().any(|child| child.ended.is_none())
    }

    /// Records the end of a child, once.
    pub fn child_ended(&mut self, child: &Run) {
        let Some(SplitRole::Parent(children)) = self.split_role.as_deref_mut() else { return };
        let index = usize::try_from(child.part().index).unwrap_or(usize::MAX);
        if let Some(known) =
            children.get_mut(index).filter(|known| known.run == child.id && known.ended.is_none())
        {
            known.ended = Some(child.status());
            if let Some(assignee) = &child.assignee {
                known.worker = Some(assignee.name());
            }
        }
        let ended = children.iter().filter(|child| child.ended.is_some()).count();
        let percent = u8::try_from(ended * 100 / children.len().max(1)).ok();
        if let Some(reported) = self.progress.as_deref_mut() {
            reported.percent = percent;
            reported.at = child.finished_at.unwrap_or(reported.at);
        }
    }

    pub(super) fn split(&mut self, children: Vec<Child>, now: Timestamp) -> (State, What) {
        self.split_role = Some(Box::new(SplitRole::Parent(children)));
        self.started_at = Some(now);
        self.progress = Some(Box::new(Reported { percent: Some(0), ..Reported::new(now) }));
        (State::Split { since: now, cancelling: None }, What::Split)
    }

    /// Combines the results of the children, all of which have ended.
    pub(super) fn join(&mut self, cancelling: Option<Cause>) -> (State, What) {
        let children = self.children();
        let bad = |(_, child): &(usize, &Child)| child.ended != Some(Status::Succeeded);
        let failed: Vec<(usize, &Child)> = children.iter().enumerate().filter(bad).collect();
        let output = summary(children, children.len() - failed.len());
        let first = failed.first().map(|(index, _)| *index);
        let error = name_failed(&failed);
        let counts = (failed.len(), children.len());
        self.output = output.into();
        let Some(first) = first else { return (State::Succeeded, What::Ended) };
        if let Some(cause) = cancelling {
            self.reason = Some(Reason::Cancelled(cause));
            return (State::Cancelled, What::Ended);
        }
        self.error = error.into();
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        self.reason = Some(Reason::Children {
            failed: number(counts.0),
            total: number(counts.1),
            first: number(first),
        });
        (State::Failed, What::Ended)
    }
}

/// The result of a parent, as JSON.
fn summary(children: &[Child], succeeded: usize) -> String {
    let child = |(index, child): (usize, &Child)| {
        serde_json::json!({
            "index": index,
            "run": child.run.to_string(),
            "state": child.ended.map(Status::as_str),
            "worker": child.worker.as_deref(),
        })
    };
    let list: Vec<_> = children.iter().enumerate().map(child).collect();
    serde_json::json!({ "total": children.len(), "succeeded": succeeded, "children": list }).to_string()
}

fn name_failed(failed: &[(usize, &Child)]) -> String {
    let mut text = String::from("child runs that did not succeed:");
    for (index, child) in failed.iter().take(NAMED_MAX) {
        let state = child.ended.map_or("", Status::as_str);
        // Writing to a string cannot fail.
        let _ = write!(text, " {index} {state} (run {}),", child.run);
    }
    if failed.len() > NAMED_MAX {
        let _ = write!(text, " and {} more", failed.len() - NAMED_MAX);
    }
    text.trim_end_matches(',').to_owned()
}
