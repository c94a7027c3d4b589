//! Metrics of a node.
//!
//! They are plain atomics, so recording takes no lock. Changes are counted after their commit, in the task that carried
//! it: this costs the driver's thread nothing, and rolled-back changes are never counted. There are no metrics per job
//! or namespace, because their number is unbounded.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::attempt::{Assignment, Order};
use punctual_core::change::{Batch, Change, Row, RowKey};
use punctual_core::run::{Run, Status, What};

/// Bucket bounds for times in microseconds: from a fast commit to a minute.
const TIMES: &[u64] = &[
    500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000,
    5_000_000, 10_000_000, 60_000_000,
];
/// Bucket bounds for the number of changes in one commit.
const SIZES: &[u64] = &[1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000];

/// Counts values per bucket.
#[derive(Debug)]
pub struct Histogram {
    bounds: &'static [u64],
    /// One more than `bounds`: the last holds values above all bounds.
    buckets: Box<[AtomicU64]>,
    sum: AtomicU64,
}

/// A snapshot of a histogram.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// Each bound and the number of values between it and the bound before; the last bound is `u64::MAX`.
    pub buckets: Vec<(u64, u64)>,
    pub count: u64,
    pub sum: u64,
}

impl Histogram {
    fn new(bounds: &'static [u64]) -> Histogram {
        let buckets = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Histogram { bounds, buckets, sum: AtomicU64::new(0) }
    }

    /// A histogram of times, counted in microseconds.
    pub fn of_times() -> Histogram {
        Histogram::new(TIMES)
    }

    pub fn observe(&self, value: u64) {
        self.observe_often(value, 1);
    }

    pub fn observe_time(&self, time: Duration) {
        self.observe_times(time, 1);
    }

    /// Records the same time `count` times.
    pub fn observe_times(&self, time: Duration, count: u64) {
        self.observe_often(u64::try_from(time.as_micros()).unwrap_or(u64::MAX), count);
    }

    fn observe_often(&self, value: u64, count: u64) {
        let place = self.bounds.partition_point(|bound| *bound < value);
        self.buckets[place].fetch_add(count, Relaxed);
        self.sum.fetch_add(value.saturating_mul(count), Relaxed);
    }

    /// Resets all buckets to zero.
    pub fn reset(&self) {
        self.buckets.iter().chain([&self.sum]).for_each(|count| count.store(0, Relaxed));
    }

    pub fn snapshot(&self) -> Snapshot {
        let bounds = self.bounds.iter().copied().chain([u64::MAX]);
        let buckets: Vec<(u64, u64)> =
            bounds.zip(self.buckets.iter().map(|bucket| bucket.load(Relaxed))).collect();
        let count = buckets.iter().map(|(_, count)| count).sum();
        Snapshot { buckets, count, sum: self.sum.load(Relaxed) }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    Succeeded,
    Failed,
    TimedOut,
    Cancelled,
    /// Its worker was lost.
    Lost,
}

impl Ending {
    pub const ALL: [Ending; 5] =
        [Ending::Succeeded, Ending::Failed, Ending::TimedOut, Ending::Cancelled, Ending::Lost];

    pub fn as_str(self) -> &'static str {
        match self {
            Ending::Succeeded => "succeeded",
            Ending::Failed => "failed",
            Ending::TimedOut => "timed_out",
            Ending::Cancelled => "cancelled",
            Ending::Lost => "lost",
        }
    }
}

#[derive(Debug)]
pub struct Metrics {
    /// From the due time of a run, or its submission if that is later, to the moment its first attempt was sent to a
    /// worker.
    pub lateness: Histogram,
    pub commit_time: Histogram,
    pub commit_changes: Histogram,
    runs_created: AtomicU64,
    /// Indexed by `Status`; only terminal states are counted.
    runs_ended: [AtomicU64; Status::ALL.len()],
    /// Counted when the run of the attempt has ended.
    attempts: [AtomicU64; Ending::ALL.len()],
    log_bytes: AtomicU64,
    logs_cut: AtomicU64,
    logs_lost: AtomicU64,
}

impl Default for Metrics {
    fn default() -> Self {
        Metrics {
            lateness: Histogram::of_times(),
            commit_time: Histogram::of_times(),
            commit_changes: Histogram::new(SIZES),
            runs_created: AtomicU64::new(0),
            runs_ended: Default::default(),
            attempts: Default::default(),
            log_bytes: AtomicU64::new(0),
            logs_cut: AtomicU64::new(0),
            logs_lost: AtomicU64::new(0),
        }
    }
}

impl Metrics {
    /// An order is sent to its worker.
    pub(crate) fn ordered(&self, order: &Order, now: Timestamp) {
        if let Order::Assign(assignment) = order {
            self.began(assignment, now);
        }
    }

    /// An attempt is sent to its worker or queue.
    pub(crate) fn began(&self, assignment: &Assignment, now: Timestamp) {
        if assignment.attempt == 1 && !assignment.again {
            self.lateness.observe_time(now.since(assignment.late_from));
        }
    }

    /// Batches were committed.
    pub(crate) fn committed(&self, batches: &[Batch], time: Duration) {
        self.commit_time.observe_time(time);
        self.commit_changes.observe(batches.iter().map(|batch| batch.changes.len() as u64).sum());
        for (key, change) in batches.iter().flat_map(|batch| batch.changes.iter()) {
            match change {
                Change::Insert(Row::Run(_)) => {
                    self.runs_created.fetch_add(1, Relaxed);
                }
                Change::Insert(Row::History(run)) => {
                    self.runs_created.fetch_add(1, Relaxed);
                    self.ended(run);
                }
                // The run moves to history in the same batch, where it was just counted as new.
                Change::Delete if matches!(key, RowKey::Run(_)) => {
                    self.runs_created.fetch_sub(1, Relaxed);
                }
                _ => {}
            }
        }
    }

    fn ended(&self, run: &Run) {
        self.runs_ended[place_of(run.status())].fetch_add(1, Relaxed);
        if run.attempt == 0 {
            // It has child runs, and their attempts are counted with them, or it never started.
            return;
        }
        let mut before = None;
        for entry in &run.entries {
            let ran = before.replace(entry.to) == Some(Status::Running);
            let ending = match (entry.what, entry.to) {
                (What::Lost, _) => Some(Ending::Lost),
                (What::Failed, _) => Some(Ending::Failed),
                (What::Ended, Status::Succeeded) if ran => Some(Ending::Succeeded),
                (What::Ended, Status::TimedOut) if ran => Some(Ending::TimedOut),
                (What::Ended, Status::Cancelled) if ran => Some(Ending::Cancelled),
                (What::Ended, _) if ran => Some(Ending::Failed),
                _ => None,
            };
            if let Some(ending) = ending {
                self.attempts[ending as usize].fetch_add(1, Relaxed);
            }
        }
    }

    /// Output of an attempt was stored.
    pub fn logged(&self, bytes: usize) {
        self.log_bytes.fetch_add(bytes as u64, Relaxed);
    }

    pub fn log_cut(&self) {
        self.logs_cut.fetch_add(1, Relaxed);
    }

    /// Output could not be stored.
    pub fn log_lost(&self) {
        self.logs_lost.fetch_add(1, Relaxed);
    }

    pub fn runs_created(&self) -> u64 {
        self.runs_created.load(Relaxed)
    }

    pub fn runs_ended(&self) -> impl Iterator<Item = (Status, u64)> {
        let ended = Status::ALL.into_iter().zip(&self.runs_ended);
        ended.filter(|(status, _)| status.is_terminal()).map(|(status, count)| (status, count.load(Relaxed)))
    }

    pub fn attempts(&self) -> impl Iterator<Item = (Ending, u64)> {
        Ending::ALL.into_iter().zip(&self.attempts).map(|(ending, count)| (ending, count.load(Relaxed)))
    }

    /// Bytes of output stored, number of outputs cut, and number of chunks lost.
    pub fn logs(&self) -> (u64, u64, u64) {
        (self.log_bytes.load(Relaxed), self.logs_cut.load(Relaxed), self.logs_lost.load(Relaxed))
    }
}

fn place_of(status: Status) -> usize {
    Status::ALL.iter().position(|one| *one == status).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_falls_under_the_first_bound_that_holds_it() {
        let histogram = Histogram::new(&[10, 20]);
        for value in [0, 10, 11, 20, 21, 1_000] {
            histogram.observe(value);
        }
        let seen = histogram.snapshot();
        assert_eq!(seen.buckets, [(10, 2), (20, 2), (u64::MAX, 2)]);
        assert_eq!((seen.count, seen.sum), (6, 1_062));
    }

    #[test]
    fn every_state_and_ending_has_its_place() {
        for (place, status) in Status::ALL.into_iter().enumerate() {
            assert_eq!(place_of(status), place);
        }
        for (place, ending) in Ending::ALL.into_iter().enumerate() {
            assert_eq!(ending as usize, place);
        }
    }
}
