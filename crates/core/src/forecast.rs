//! How often jobs will fire in coming spans of time, counted from their schedules.
//!
//! A job that fires very often is counted up to a number of steps; the rest of the span gets the rate seen so far.

use std::time::Duration;

use crate::Timestamp;
use crate::job::Job;

/// Equal spans of time from `from` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Buckets {
    pub from: Timestamp,
    pub length: Duration,
    pub count: usize,
}

impl Buckets {
    pub fn to(&self) -> Timestamp {
        self.from + self.length * u32::try_from(self.count).unwrap_or(u32::MAX)
    }

    /// The bucket of an instant. `None` means that it is in none.
    pub fn index(&self, instant: Timestamp) -> Option<usize> {
        let offset = instant.as_millis().checked_sub(self.from.as_millis())?;
        let index = u128::try_from(offset).ok()? / self.length.as_millis().max(1);
        usize::try_from(index).ok().filter(|index| *index < self.count)
    }

    pub fn at(&self, index: usize) -> Timestamp {
        self.from + self.length * u32::try_from(index).unwrap_or(u32::MAX)
    }
}

/// The coming fires of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forecast {
    /// Buckets with fires, in order of time.
    pub fires: Vec<(usize, u64)>,
    /// False means that the later buckets are estimates.
    pub exact: bool,
}

/// Counts the fires of a job from `since` on, assuming that each of them happens.
pub fn of(job: &Job, buckets: Buckets, since: Timestamp, steps_max: usize) -> Forecast {
    let mut job = job.clone();
    let mut counts = vec![0_u64; buckets.count];
    let (mut first, mut steps) = (None, 0);
    while let Some(due) = job.cursor.next_due.filter(|due| *due < buckets.to()) {
        if steps == steps_max {
            estimate(&mut counts, buckets, first.unwrap_or(due), due, steps);
            return Forecast { fires: filled(&counts), exact: false };
        }
        if due >= since
            && let Some(index) = buckets.index(due)
        {
            counts[index] += 1;
            first.get_or_insert(due);
            steps += 1;
        }
        job.count_fire(due);
        // Fires before the span are passed over in one step.
        let before = since.before(Duration::from_millis(1));
        job.plan_after(if due < before { before } else { due });
    }
    Forecast { fires: filled(&counts), exact: true }
}

/// Gives the rest of the span the rate of the fires from `first` to `reached`.
fn estimate(counts: &mut [u64], buckets: Buckets, first: Timestamp, reached: Timestamp, steps: usize) {
    let seen = reached.since(first).as_millis().max(1);
    let per_bucket = steps as u128 * buckets.length.as_millis() / seen;
    let current = buckets.index(reached).unwrap_or(counts.len());
    for (index, count) in counts.iter_mut().enumerate().skip(current) {
        let full = u64::try_from(per_bucket).unwrap_or(u64::MAX);
        *count = if index == current { (*count).max(full) } else { full };
    }
}

fn filled(counts: &[u64]) -> Vec<(usize, u64)> {
    counts.iter().copied().enumerate().filter(|(_, count)| *count > 0).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::ids::JobId;
    use crate::job::Definition;
    use crate::schedule::{Cron, Schedule, When};
    use crate::task::Task;

    const MIDNIGHT: Timestamp = Timestamp::from_millis(1_799_971_200_000);
    const HOUR: Duration = Duration::from_secs(3600);

    fn job(schedule: Schedule) -> Job {
        let definition = Arc::new(Definition { schedules: vec![schedule], ..Definition::of(Task::Noop) });
        Job::new(JobId(1), "default".parse().unwrap(), "a".parse().unwrap(), definition, MIDNIGHT)
    }

    fn cron(text: &str) -> Job {
        job(Schedule::new(When::Cron(Cron::parse(text, "UTC").unwrap())))
    }

    fn day() -> Buckets {
        Buckets { from: MIDNIGHT, length: HOUR, count: 24 }
    }

    #[test]
    fn fires_fall_into_their_hours() {
        let found = of(&cron("30 9,17 * * *"), day(), MIDNIGHT, 1000);
        assert_eq!(found, Forecast { fires: vec![(9, 1), (17, 1)], exact: true });
        let afternoon = of(&cron("30 9,17 * * *"), day(), MIDNIGHT + HOUR * 12, 1000);
        assert_eq!(afternoon.fires, [(17, 1)]);
        let tomorrow = Buckets { from: MIDNIGHT + HOUR * 24, ..day() };
        assert_eq!(of(&cron("30 9,17 * * *"), tomorrow, MIDNIGHT, 1000).fires, [(9, 1), (17, 1)]);
    }

    #[test]
    fn a_paused_or_finished_job_has_no_fires() {
        let mut paused = cron("* * * * *");
        paused.unplan();
        assert!(of(&paused, day(), MIDNIGHT, 1000).fires.is_empty());
        let twice = Schedule { max_runs: Some(2), ..cron("0 * * * *").definition.schedules[0].clone() };
        let found = of(&job(twice), day(), MIDNIGHT, 1000);
        assert_eq!(found.fires.iter().map(|(_, count)| count).sum::<u64>(), 2);
    }

    #[test]
    fn a_job_that_fires_too_often_is_estimated() {
        let found = of(&cron("* * * * * *"), day(), MIDNIGHT, 7200);
        assert!(!found.exact);
        assert_eq!(found.fires.len(), 24);
        for (hour, fires) in found.fires {
            assert!(fires.abs_diff(3600) < 5, "{fires} in hour {hour}");
        }
    }
}
