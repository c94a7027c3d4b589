//! Counts of runs, and of rows.

use std::collections::BTreeMap;

use punctual_core::Timestamp;
use punctual_core::change::Row;
use punctual_core::statistics::Counts;

use super::super::tables::Tables;
use crate::{StatisticsFilter, Stats};

impl Tables {
    pub(in crate::memory) fn statistics(&self, filter: &StatisticsFilter) -> Vec<(Timestamp, Counts)> {
        let mut buckets: BTreeMap<Timestamp, Counts> = BTreeMap::new();
        for row in self.rows.values() {
            match row {
                Row::Statistics(row) if filter.takes(&row.key.bucket) => {
                    buckets.entry(row.key.bucket.at).or_default().add(&row.counts);
                }
                Row::RecentCounts(recent) => filter.add(recent, &mut buckets),
                _ => {}
            }
        }
        buckets.into_iter().collect()
    }

    pub(in crate::memory) fn stats(&self) -> Stats {
        let count = |counts: fn(&Row) -> bool| self.rows.values().filter(|row| counts(row)).count() as u64;
        Stats {
            jobs: count(|row| matches!(row, Row::Job(_))),
            live_runs: count(|row| matches!(row, Row::Run(_))),
            history_runs: count(|row| matches!(row, Row::History(_))),
            dead_letters: count(|row| matches!(row, Row::DeadLetter(_))),
            queues: count(|row| matches!(row, Row::Queue(_))),
            messages: self.all_queues().map(|queue| queue.messages).sum(),
        }
    }
}
