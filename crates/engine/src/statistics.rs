//! Counts ended runs, skips and fires, in rows that are written with the batch.
//!
//! Each batch writes what it counted to a page of recent counts. A page is written again until it is full, so a batch
//! costs one row, whether one job ended runs or hundreds did. About once a minute all recent counts are added to the rows
//! of their buckets, and their pages are deleted, in one batch. A new leader loads the recent counts with the shard.
//!
//! A row of a bucket is inserted by the first batch that adds to it and updated by later ones. It is in memory while its
//! bucket lasts. A row that has left memory is not continued: the next count of its bucket begins another row, under the
//! number of its own commit. So nothing is ever read to count.
//!
//! settle ──ended run──▶ seal ──▶ recent counts ──once a minute──▶ rows of buckets

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::change::{Changes, Row, RowKey, Skip};
use punctual_core::ids::ShardId;
use punctual_core::job::Job;
use punctual_core::run::Run;
use punctual_core::statistics::{
    Bucket, Counted, Counts, RecentCounts, Statistics, StatisticsKey, is_counted,
};
use rustc_hash::FxHashMap;

/// Rows that a shard keeps in memory. If more jobs than that end runs in one hour, some jobs get several rows for it.
const ROWS_MAX: usize = 8192;
/// With more recent counts than this, they are moved to their rows at once.
const RECENT_MAX: usize = 8192;
/// A page with this many counts is full: about 1.5 KiB.
const PAGE_COUNTS: usize = 32;
/// How long counts stay in the pages.
const RECENT_FOR: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct Tallies {
    shard: ShardId,
    /// The rows that may still be continued.
    rows: FxHashMap<Bucket, Arc<Statistics>>,
    /// The counts of the full pages.
    recent: FxHashMap<Counted, Counts>,
    /// The page that the next batch writes, and its counts.
    page: u32,
    counts: BTreeMap<Counted, Counts>,
    /// Whether the page counted something since the last batch.
    is_dirty: bool,
    /// How many pages are stored.
    stored: u32,
    /// When the recent counts are moved to their rows. `None` if nothing was written since the last time.
    move_at: Option<Timestamp>,
}

impl Tallies {
    /// Continues with the recent counts that a former leader wrote.
    pub(crate) fn new(shard: ShardId, pages: Vec<RecentCounts>) -> Tallies {
        let stored = u32::try_from(pages.len()).unwrap_or(u32::MAX);
        let mut recent = FxHashMap::default();
        pages.into_iter().for_each(|page| add_all(&mut recent, page.counts));
        let (rows, counts) = (FxHashMap::default(), BTreeMap::new());
        Tallies { shard, rows, recent, page: stored, counts, is_dirty: false, stored, move_at: None }
    }

    pub(crate) fn ended(&mut self, run: &Run) {
        self.count(Counted::end(run), |counts| counts.count_end(run));
    }

    pub(crate) fn fired(&mut self, run: &Run) {
        self.count(Counted::fire(run), |counts| counts.fires += 1);
    }

    pub(crate) fn skipped(&mut self, job: &Job, skip: &Skip) {
        let counted = || Counted::skip(job.namespace.clone(), job.name.clone(), skip.at);
        self.count(is_counted(skip.reason).then(counted), |counts| counts.skipped += 1);
    }

    fn count(&mut self, counted: Option<Counted>, count: impl FnOnce(&mut Counts)) {
        if let Some(counted) = counted {
            count(self.counts.entry(counted).or_default());
            self.is_dirty = true;
        }
    }

    /// Adds what was counted since the last batch to the batch. `commit` is its number.
    pub(crate) fn seal(&mut self, commit: u64, changes: &mut Changes, now: Timestamp) {
        if !std::mem::take(&mut self.is_dirty) {
            return;
        }
        // Shards differ by some seconds, so that they do not all do it in one commit.
        let phase = Duration::from_secs(u64::from(self.shard.0 % 60));
        let move_at = *self.move_at.get_or_insert(now + RECENT_FOR + phase);
        if now >= move_at || self.recent.len() + self.counts.len() > RECENT_MAX {
            self.move_to_rows(commit, changes, now);
        } else {
            self.write_page(changes);
        }
    }

    fn write_page(&mut self, changes: &mut Changes) {
        let row = Row::RecentCounts(RecentCounts { page: self.page, counts: self.counts.clone() });
        if self.page < self.stored {
            changes.update(row);
        } else {
            changes.insert(row);
            self.stored = self.page + 1;
        }
        if self.counts.len() >= PAGE_COUNTS {
            add_all(&mut self.recent, std::mem::take(&mut self.counts));
            self.page += 1;
        }
    }

    fn move_to_rows(&mut self, commit: u64, changes: &mut Changes, now: Timestamp) {
        let mut sums: FxHashMap<Bucket, Counts> = FxHashMap::default();
        let counts = std::mem::take(&mut self.counts).into_iter().chain(self.recent.drain());
        for (counted, counts) in counts {
            for bucket in counted.buckets() {
                sums.entry(bucket).or_default().add(&counts);
            }
        }
        for (bucket, counts) in sums {
            if let Some(row) = self.rows.get_mut(&bucket) {
                Arc::make_mut(row).counts.add(&counts);
                changes.update(Row::Statistics(Arc::clone(row)));
            } else {
                let key = Arc::new(StatisticsKey { bucket: bucket.clone(), shard: self.shard, commit });
                let row = Arc::new(Statistics { key, counts });
                changes.insert(Row::Statistics(Arc::clone(&row)));
                self.rows.insert(bucket, row);
            }
        }
        (0..self.stored).for_each(|page| changes.delete(RowKey::RecentCounts(page)));
        (self.page, self.stored, self.move_at) = (0, 0, None);
        self.rows.retain(|bucket, _| bucket.at + bucket.period.length() > now);
        if self.rows.len() > ROWS_MAX {
            self.rows.clear();
        }
    }
}

fn add_all(sums: &mut FxHashMap<Counted, Counts>, counts: BTreeMap<Counted, Counts>) {
    for (counted, counts) in counts {
        sums.entry(counted).or_default().add(&counts);
    }
}

#[cfg(test)]
mod tests {
    use punctual_core::change::Change;
    use punctual_core::ids::{JobId, RunId};
    use punctual_core::name::Namespace;
    use punctual_core::run::{Origin, State, Trigger};

    use super::*;

    const NOON: Timestamp = Timestamp::from_millis(1_800_014_400_000);
    const LATER: Timestamp = Timestamp::from_millis(NOON.as_millis() + 70_000);

    fn ended(job: &str, at: Timestamp) -> Run {
        let origin = Origin::Job { id: JobId(1), name: job.parse().unwrap(), revision: 1 };
        let run = Run::new(RunId(7), Namespace::default(), origin, Trigger::Manual, at, at);
        Run { state: State::Skipped, finished_at: Some(at), ..run }
    }

    /// What the next batch writes, in words.
    fn sealed(tallies: &mut Tallies, commit: u64, now: Timestamp) -> Vec<String> {
        let mut changes = Changes::default();
        tallies.seal(commit, &mut changes, now);
        let words = changes.iter().map(|(key, change)| match (key, change) {
            (_, Change::Insert(row)) => format!("insert {}", named(row)),
            (_, Change::Update(row)) => format!("update {}", named(row)),
            (RowKey::RecentCounts(page), Change::Delete) => format!("delete page {page}"),
            (key, Change::Delete) => panic!("{key:?}"),
        });
        words.collect()
    }

    fn named(row: &Row) -> String {
        match row {
            Row::RecentCounts(recent) => {
                let runs: u64 = recent.counts.values().map(Counts::runs).sum();
                format!("page {} with {runs}", recent.page)
            }
            Row::Statistics(row) => format!("row of commit {} with {}", row.key.commit, row.counts.runs()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_batch_writes_one_page_for_all_jobs() {
        let mut tallies = Tallies::new(ShardId(3), Vec::new());
        (0..100).for_each(|n| tallies.ended(&ended(&format!("job-{}", n % 10), NOON)));
        assert_eq!(sealed(&mut tallies, 40, NOON), ["insert page 0 with 100"]);
        assert!(sealed(&mut tallies, 41, NOON).is_empty(), "nothing was counted");
        tallies.ended(&ended("job-1", NOON));
        assert_eq!(sealed(&mut tallies, 42, NOON), ["update page 0 with 101"]);
    }

    #[test]
    fn a_full_page_is_not_written_again() {
        let mut tallies = Tallies::new(ShardId(3), Vec::new());
        (0..PAGE_COUNTS).for_each(|n| tallies.ended(&ended(&format!("job-{n}"), NOON)));
        assert_eq!(sealed(&mut tallies, 40, NOON), ["insert page 0 with 32"]);
        tallies.ended(&ended("job-1", NOON));
        assert_eq!(sealed(&mut tallies, 41, NOON), ["insert page 1 with 1"]);
        tallies.ended(&ended("job-1", LATER));
        let rows = sealed(&mut tallies, 42, LATER);
        assert_eq!(rows.len(), 32 + 3 + 2, "{rows:?}");
        assert_eq!(rows[rows.len() - 2..], ["delete page 0", "delete page 1"]);
        assert!(rows.contains(&"insert row of commit 42 with 3".to_owned()), "job-1: {rows:?}");
    }

    #[test]
    fn a_row_is_continued_while_its_bucket_lasts() {
        let mut tallies = Tallies::new(ShardId(3), Vec::new());
        tallies.ended(&ended("job", NOON));
        sealed(&mut tallies, 40, NOON);
        tallies.ended(&ended("job", LATER));
        let row = |count: u64| format!("insert row of commit 41 with {count}");
        assert_eq!(sealed(&mut tallies, 41, LATER), [row(1), row(1), row(2), row(2), "delete page 0".into()]);
        assert_eq!(tallies.rows.len(), 3, "the first minute has left memory");
        let end = NOON + Duration::from_secs(200);
        tallies.ended(&ended("job", end));
        assert_eq!(sealed(&mut tallies, 42, end), ["insert page 0 with 1"]);
        tallies.ended(&ended("job", end));
        let rows = sealed(&mut tallies, 43, end + RECENT_FOR * 2);
        let expected = ["insert row of commit 43 with 2", "update row of commit 41 with 4"];
        assert_eq!(rows, [expected[0], expected[1], expected[1], "delete page 0"]);
    }

    #[test]
    fn a_new_leader_continues_the_pages() {
        let mut tallies = Tallies::new(ShardId(3), Vec::new());
        tallies.ended(&ended("job", NOON));
        let mut changes = Changes::default();
        tallies.seal(40, &mut changes, NOON);
        let pages = changes.iter().filter_map(|(_, change)| match change {
            Change::Insert(Row::RecentCounts(page)) => Some(page.clone()),
            _ => None,
        });
        let mut next = Tallies::new(ShardId(3), pages.collect());
        next.ended(&ended("job", NOON));
        assert_eq!(sealed(&mut next, 41, NOON), ["insert page 1 with 1"]);
        next.ended(&ended("job", NOON));
        let row = "insert row of commit 42 with 3";
        assert_eq!(sealed(&mut next, 42, LATER), [row, row, row, "delete page 0", "delete page 1"]);
    }

    #[test]
    fn memory_is_bounded() {
        let mut tallies = Tallies::new(ShardId(3), Vec::new());
        (0..=RECENT_MAX).for_each(|n| tallies.ended(&ended(&format!("job-{n}"), NOON)));
        assert_eq!(sealed(&mut tallies, 40, NOON).len(), RECENT_MAX + 1 + 2);
        assert!(tallies.rows.is_empty() && tallies.recent.is_empty() && tallies.counts.is_empty());
    }
}
