//! Counts ended runs, skips and fires, in rows that are written with the batch.
//!
//! A row is inserted by the first batch that counts in its bucket, and updated by later ones, at most once a batch. It
//! is in memory while its bucket lasts. A row that has left memory is not continued: the next count of its bucket
//! begins another row, under the number of its own commit. So nothing is ever read to count.
//!
//! settle ──ended run──▶ seal ──▶ statistics ──row──▶ batch

use std::sync::Arc;

use punctual_core::Timestamp;
use punctual_core::change::{Changes, Row, Skip};
use punctual_core::ids::ShardId;
use punctual_core::job::Job;
use punctual_core::run::Run;
use punctual_core::statistics::{
    Bucket, Counts, Period, Statistics, StatisticsKey, buckets_of_end, buckets_of_fire, buckets_of_skip,
    is_counted,
};
use rustc_hash::FxHashMap;

/// Rows that a shard keeps in memory. If more jobs than that end runs in one hour, some jobs get several rows for it.
const ROWS_MAX: usize = 8192;

/// The rows that may still be continued.
#[derive(Debug)]
pub(crate) struct Tallies {
    shard: ShardId,
    /// The number of the commit that will carry the next batch.
    commit: u64,
    rows: FxHashMap<Bucket, Tally>,
    /// The buckets that counted something since the last batch.
    dirty: Vec<Bucket>,
    /// The minute in which rows of earlier buckets were last removed.
    swept: Timestamp,
}

#[derive(Debug)]
struct Tally {
    row: Arc<Statistics>,
    stored: bool,
    is_dirty: bool,
}

impl Tallies {
    pub(crate) fn new(shard: ShardId, commit: u64) -> Tallies {
        Tallies { shard, commit, rows: FxHashMap::default(), dirty: Vec::new(), swept: Timestamp::MIN }
    }

    pub(crate) fn ended(&mut self, run: &Run) {
        for bucket in buckets_of_end(run) {
            self.count(bucket, |counts| counts.count_end(run));
        }
    }

    pub(crate) fn fired(&mut self, run: &Run) {
        for bucket in buckets_of_fire(run) {
            self.count(bucket, |counts| counts.fires += 1);
        }
    }

    pub(crate) fn skipped(&mut self, job: &Job, skip: &Skip) {
        if is_counted(skip.reason) {
            for bucket in buckets_of_skip(&job.namespace, &job.name, skip.at) {
                self.count(bucket, |counts| counts.skipped += 1);
            }
        }
    }

    fn count(&mut self, bucket: Bucket, count: impl FnOnce(&mut Counts)) {
        let (shard, commit) = (self.shard, self.commit);
        let tally = self.rows.entry(bucket).or_insert_with_key(|bucket| {
            let key = Arc::new(StatisticsKey { bucket: bucket.clone(), shard, commit });
            let row = Arc::new(Statistics { key, counts: Counts::default() });
            Tally { row, stored: false, is_dirty: false }
        });
        count(&mut Arc::make_mut(&mut tally.row).counts);
        if !std::mem::replace(&mut tally.is_dirty, true) {
            self.dirty.push(tally.row.key.bucket.clone());
        }
    }

    /// Adds every row that changed to the batch.
    pub(crate) fn seal(&mut self, changes: &mut Changes) {
        for bucket in self.dirty.drain(..) {
            let Some(tally) = self.rows.get_mut(&bucket) else { continue };
            tally.is_dirty = false;
            let row = Row::Statistics(Arc::clone(&tally.row));
            if std::mem::replace(&mut tally.stored, true) {
                changes.update(row);
            } else {
                changes.insert(row);
            }
        }
    }

    /// The batch is complete: removes the rows whose bucket is over, and all of them if they are too many.
    pub(crate) fn sealed(&mut self, next_commit: u64, now: Timestamp) {
        self.commit = next_commit;
        let minute = Period::Minute.bucket_of(now);
        let is_over = |bucket: &Bucket| bucket.at + bucket.period.length() <= now;
        if self.rows.len() > ROWS_MAX {
            self.rows.retain(|_, tally| tally.is_dirty);
        } else if std::mem::replace(&mut self.swept, minute) != minute {
            self.rows.retain(|bucket, tally| tally.is_dirty || !is_over(bucket));
        }
    }
}

#[cfg(test)]
mod tests {
    use punctual_core::ids::{JobId, RunId};
    use punctual_core::name::Namespace;
    use punctual_core::run::{Origin, State, Trigger};

    use super::*;

    const NOON: Timestamp = Timestamp::from_millis(1_800_014_400_000);

    fn ended(job: &str, at: Timestamp) -> Run {
        let origin = Origin::Job { id: JobId(1), name: job.parse().unwrap(), revision: 1 };
        let run = Run::new(RunId(7), Namespace::default(), origin, Trigger::Manual, at, at);
        Run { state: State::Skipped, finished_at: Some(at), ..run }
    }

    /// The rows of the next batch: inserted or not, key's commit and number of runs.
    fn sealed(tallies: &mut Tallies, commit: u64, now: Timestamp) -> Vec<(bool, u64, u64)> {
        use punctual_core::change::Change;
        let mut changes = Changes::default();
        tallies.seal(&mut changes);
        tallies.sealed(commit + 1, now);
        let rows = changes.iter().map(|(_, change)| match change {
            Change::Insert(Row::Statistics(row)) => (true, row.key.commit, row.counts.runs()),
            Change::Update(Row::Statistics(row)) => (false, row.key.commit, row.counts.runs()),
            other => panic!("{other:?}"),
        });
        rows.collect()
    }

    #[test]
    fn a_batch_has_each_row_once() {
        let mut tallies = Tallies::new(ShardId(3), 40);
        (0..100).for_each(|_| tallies.ended(&ended("job", NOON)));
        assert_eq!(sealed(&mut tallies, 40, NOON), [(true, 40, 100); 3]);
        assert_eq!(sealed(&mut tallies, 41, NOON), []);
        tallies.ended(&ended("job", NOON));
        assert_eq!(sealed(&mut tallies, 42, NOON), [(false, 40, 101); 3]);
    }

    #[test]
    fn a_row_ends_with_its_bucket() {
        let mut tallies = Tallies::new(ShardId(3), 40);
        tallies.ended(&ended("job", NOON));
        sealed(&mut tallies, 40, NOON);
        let later = NOON + Period::Minute.length();
        tallies.ended(&ended("job", later));
        let rows = sealed(&mut tallies, 41, later);
        assert_eq!(rows, [(true, 41, 1), (false, 40, 2), (false, 40, 2)]);
        assert_eq!(tallies.rows.len(), 3, "the first minute has left memory");
    }

    #[test]
    fn rows_in_memory_are_bounded() {
        let mut tallies = Tallies::new(ShardId(3), 40);
        (0..=ROWS_MAX).for_each(|n| tallies.ended(&ended(&format!("job-{n}"), NOON)));
        sealed(&mut tallies, 40, NOON);
        assert!(tallies.rows.is_empty());
        tallies.ended(&ended("job-1", NOON));
        assert_eq!(sealed(&mut tallies, 41, NOON), [(true, 41, 1); 3]);
    }
}
