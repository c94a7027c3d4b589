//! The line of ready runs: priority first, then who was ready first, then the older id.

use std::collections::BTreeSet;

use punctual_core::Timestamp;
use punctual_core::ids::{RunId, ShardId};
use punctual_core::limits::PRIORITY_MAX;

#[derive(Debug, Default)]
pub struct Line {
    runs: BTreeSet<(u8, Timestamp, RunId)>,
}

fn place(priority: u8, since: Timestamp, run: RunId) -> (u8, Timestamp, RunId) {
    (PRIORITY_MAX.saturating_sub(priority), since, run)
}

impl Line {
    pub fn join(&mut self, priority: u8, since: Timestamp, run: RunId) {
        self.runs.insert(place(priority, since, run));
    }

    pub fn leave(&mut self, priority: u8, since: Timestamp, run: RunId) {
        self.runs.remove(&place(priority, since, run));
    }

    pub fn first(&self) -> Option<RunId> {
        self.runs.first().map(|(_, _, run)| *run)
    }

    /// The highest priority in the line.
    pub(super) fn priority(&self) -> Option<u8> {
        self.runs.first().map(|(place, _, _)| PRIORITY_MAX - place)
    }

    pub(super) fn pop_first(&mut self) {
        self.runs.pop_first();
    }

    pub fn forget(&mut self, shard: ShardId) {
        self.runs.retain(|(_, _, run)| run.shard() != shard);
    }

    pub fn len(&self) -> usize {
        self.runs.len()
    }

    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priority_goes_first_then_the_longest_wait() {
        let mut line = Line::default();
        for (priority, since, run) in [(5, 10, 1), (9, 30, 2), (5, 5, 3), (0, 1, 4)] {
            line.join(priority, Timestamp::from_millis(since), RunId(run));
        }
        let mut order = Vec::new();
        while let Some(run) = line.first() {
            line.pop_first();
            order.push(run.0);
        }
        assert_eq!(order, [2, 3, 1, 4]);
    }
}
