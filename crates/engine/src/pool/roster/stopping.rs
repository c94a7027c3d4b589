//! Workers that do not stop an attempt, and the worker that a user chooses for a run.
//!
//! Such a worker may still execute the attempt, so it gets no more work until a report or a heartbeat shows that the
//! attempt has ended. The other nodes are told of the attempt: they hear the same heartbeats, so each of them sees the
//! end by itself.

use std::sync::Arc;

use punctual_core::ids::{RunId, Token, WorkerId};

use super::Roster;
use crate::pool::class::Class;
use crate::pool::present::Present;

impl Roster {
    /// The name of a worker that may take runs of a class, or why it may not.
    pub(in crate::pool) fn target(&self, name: &str, class: &Class) -> Result<Arc<str>, String> {
        let named = |worker: &Present<'_>| worker.id.name() == name || *worker.id.0 == *name;
        let worker = self.each_present().find(named);
        let Some(Present { id, announced, is_open, .. }) = worker else {
            return Err(format!("no worker `{name}` is connected; `punctual node workers` lists them"));
        };
        if let Some(unmet) = class.unmet(id, announced) {
            return Err(format!("it does not fit: {}", class.lack(Some((unmet, id, announced)))));
        }
        is_open.then(|| Arc::from(id.name())).ok_or_else(|| format!("`{name}` takes no more work now"))
    }

    pub(in crate::pool) fn distrust(&mut self, worker: &WorkerId, run: RunId, token: Token) {
        if let Some(known) = self.workers.get_mut(worker) {
            known.unstopped.insert((run, token));
            self.changes += 1;
        }
    }

    /// The attempts that a worker was told to stop in vain.
    pub fn unstopped(&self, worker: &WorkerId) -> Vec<(RunId, Token)> {
        super::sorted(self.workers.get(worker).into_iter().flat_map(|known| known.unstopped.iter().copied()))
    }

    pub(in crate::pool) fn attempt_ended(&mut self, worker: &WorkerId, run: RunId, token: Token) {
        if let Some(known) = self.workers.get_mut(worker) {
            self.changes += u64::from(known.unstopped.remove(&(run, token)));
        }
    }
}
