//! How a run is linked to the runs of other jobs: to the one that started it, and to the one that it has started.

use serde::{Deserialize, Serialize};

use super::{Entry, Run, State, What};
use crate::Timestamp;
use crate::ids::RunId;
use crate::queue::Sender;
use crate::topic::Gathered;

/// Each link is absent in most runs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Link {
    /// The attempt that waits for the end of this run. It belongs to a step that starts a job.
    pub caller: Option<Sender>,
    /// The run whose end started this one.
    pub upstream: Option<RunId>,
    /// How many runs led to this one, each started by the one before.
    pub depth: u32,
    /// The run of another job that this one has started and waits for.
    pub called: Option<RunId>,
    /// The events that it has gathered so far. `None` means that it gathers none, or that it has started.
    pub gathers: Option<Box<Gathered>>,
}

/// The attempt that starts the run of another job, and waits for its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caller {
    pub sender: Sender,
    /// The depth of its own run.
    pub depth: u32,
}

impl Run {
    /// The attempt that waits for the end of this run.
    pub fn caller(&self) -> Option<Sender> {
        self.link.as_ref()?.caller
    }

    /// The run that started this one.
    pub fn started_by(&self) -> Option<RunId> {
        let link = self.link.as_ref()?;
        link.caller.map(|caller| caller.run).or(link.upstream)
    }

    /// The run of another job that this one has started and waits for.
    pub fn called(&self) -> Option<RunId> {
        self.link.as_ref()?.called
    }

    /// How many runs led to this one, each started by the one before.
    pub fn depth(&self) -> u32 {
        self.link.as_ref().map_or(0, |link| link.depth)
    }

    /// The events that it has gathered so far, if it gathers any.
    pub fn gathers(&self) -> Option<&Gathered> {
        self.link.as_ref()?.gathers.as_deref()
    }

    /// Notes the run that the attempt has started. Returns false if that was already noted.
    pub fn calls(&mut self, called: RunId, at: Timestamp, now: Timestamp) -> bool {
        let State::Running { since, token, .. } = self.state else { return false };
        if self.called() == Some(called) {
            return false;
        }
        self.started_at = Some(at.clamp(since.min(now), now));
        self.link.get_or_insert_default().called = Some(called);
        let to = self.status();
        self.entries.push(Entry { at: now, to, what: What::Delivered, token });
        true
    }
}
