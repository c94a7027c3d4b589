//! Counts runs by status, up to a limit, with the walk that lists them.
//!
//! Each status that has an index of its own is counted apart, so that a limit reached by one does not hide another. The
//! live statuses are counted together, because one walk over the live runs meets them all.

use punctual_core::run::Status;

use super::connection::Connection;
use super::walk::Walk;
use crate::reads::StatusCount;
use crate::{Result, RunFilter, codec};

/// Rows read for one group: about a second.
const ROWS_MAX: usize = 200_000;

/// The statuses that are counted together.
pub(super) fn groups(filter: &RunFilter) -> Vec<Vec<Status>> {
    let (ended, live): (Vec<_>, Vec<_>) =
        filter.wanted_statuses().into_iter().partition(|status| status.is_terminal());
    let live = std::iter::once(live).filter(|live| !live.is_empty());
    live.chain(ended.into_iter().map(|status| vec![status])).collect()
}

#[derive(Debug)]
pub(super) struct Counting {
    walk: Walk,
    group: Vec<Status>,
    limit: u64,
}

impl Counting {
    pub(super) fn new(filter: &RunFilter, group: Vec<Status>, limit: usize, shards: u16) -> Counting {
        let filter = RunFilter { statuses: group.clone(), oldest_first: false, ..filter.clone() };
        // The walk ends at the end of its range, or here.
        let walk = Walk::new(&filter, None, usize::MAX, shards);
        Counting { walk, group, limit: limit as u64 }
    }

    pub(super) fn goes_on(&self) -> bool {
        let is_open = |status: &Status| self.count(*status) <= self.limit;
        self.walk.goes_on() && self.walk.rows < ROWS_MAX && self.group.iter().any(is_open)
    }

    pub(super) async fn step(self, c: &mut dyn Connection) -> Result<Counting> {
        Ok(Counting { walk: self.walk.count(c).await?, ..self })
    }

    pub(super) fn result(&self) -> impl Iterator<Item = StatusCount> {
        let is_done = !self.walk.goes_on();
        self.group.iter().map(move |status| {
            let runs = self.count(*status);
            let complete = is_done && runs <= self.limit;
            StatusCount { status: *status, runs: runs.min(self.limit), complete }
        })
    }

    fn count(&self, status: Status) -> u64 {
        self.walk.counts.get(&codec::status_number(status)).copied().unwrap_or(0)
    }
}
