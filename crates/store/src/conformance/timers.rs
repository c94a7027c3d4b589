//! The next timers of a shard, page by page.

use punctual_core::Timestamp;
use punctual_core::change::{RowKey, TimerPage, TimerPosition};
use punctual_core::job::{Cursor, Job};

use super::given::*;
use crate::{Result, Store};

fn woken_at(job: Job, wake_at: Option<Timestamp>) -> Job {
    let cursor = Cursor { wake_at, next_due: wake_at, ..job.cursor.clone() };
    Job { cursor, ..job }
}

/// The places of a page, jobs and runs together.
fn places(page: &TimerPage) -> Vec<TimerPosition> {
    let jobs =
        page.jobs.iter().filter_map(|job| Some(TimerPosition { at: job.cursor.wake_at?, id: job.id.0 }));
    let runs = page.runs.iter().filter_map(|record| Some((record.run.wake_at()?, record.run.id.0)));
    let mut places: Vec<_> = jobs.chain(runs.map(|(at, id)| TimerPosition { at, id })).collect();
    places.sort_unstable();
    places
}

/// All timers of a shard, read in pages.
async fn paged(store: &dyn Store, limit: usize) -> Result<Vec<TimerPosition>> {
    let (mut after, mut all) = (TimerPosition::START, Vec::new());
    loop {
        let page = store.due(SHARD, after, limit).await?;
        let places = places(&page);
        assert!(places.len() <= limit);
        assert_eq!(page.end, places.last().copied(), "a page ends with its last timer");
        match page.end {
            Some(end) => after = end,
            None => return Ok(all),
        }
        all.extend(places);
    }
}

pub async fn timers_of_jobs_and_runs_come_in_one_order(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let mut expected = Vec::new();
    for n in 0..10 {
        let job = leader.job(&format!("job-{n}"));
        let job = woken_at(job, Some(at(1000 - n * 100)));
        let run = leader.ad_hoc(at(1050 - n * 100));
        expected.push(TimerPosition { at: at(1000 - n * 100), id: job.id.0 });
        expected.push(TimerPosition { at: at(1050 - n * 100), id: run.id.0 });
        leader.insert(store, [job_row(&job), run_row(&run)]).await?;
    }
    expected.sort_unstable();
    assert_eq!(paged(store, 1).await?, expected);
    assert_eq!(paged(store, 7).await?, expected);
    assert_eq!(paged(store, 100).await?, expected);
    Ok(())
}

/// Many timers at one instant: no page may lose or repeat one of them.
pub async fn pages_of_timers_are_complete_under_ties(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let mut expected = Vec::new();
    for n in 0..20 {
        let job = leader.job(&format!("job-{n}"));
        let job = woken_at(job, Some(at(0)));
        let run = leader.ad_hoc(at(0));
        expected.extend([job.id.0, run.id.0].map(|id| TimerPosition { at: at(0), id }));
        leader.insert(store, [job_row(&job), run_row(&run)]).await?;
    }
    for limit in [1, 3, 7, 39, 40, 41] {
        assert_eq!(paged(store, limit).await?, expected, "pages of {limit}");
    }
    Ok(())
}

/// A page may begin after any place, even if no row has it.
pub async fn a_page_begins_after_any_place(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let runs = [leader.ad_hoc(at(0)), leader.ad_hoc(at(10)), leader.ad_hoc(at(10)), leader.ad_hoc(at(20))];
    leader.insert(store, runs.iter().map(run_row)).await?;
    let place = |millis, id| TimerPosition { at: at(millis), id };
    for (after, left) in [
        (TimerPosition::START, 4),
        (place(-1, i64::MAX), 4),
        (place(0, i64::MAX), 3),
        (place(5, 0), 3),
        (place(10, -1), 3),
        (place(10, runs[1].id.0), 2),
        (place(10, runs[1].id.0 + (1 << 30)), 1),
        (place(10, i64::MAX), 1),
        (place(20, runs[3].id.0), 0),
    ] {
        assert_eq!(store.due(SHARD, after, 100).await?.runs.len(), left, "{after:?}");
    }
    Ok(())
}

pub async fn a_moved_timer_is_listed_once(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let job = leader.job("moves");
    leader.insert(store, [job_row(&job)]).await?;
    for millis in [5000, 100, 7000] {
        leader.update(store, [job_row(&woken_at(job.clone(), Some(at(millis))))]).await?;
        assert_eq!(paged(store, 10).await?, [TimerPosition { at: at(millis), id: job.id.0 }]);
    }
    Ok(())
}

/// Paused, started, deleted or cancelled: what does not wait for an instant has no timer.
pub async fn what_waits_for_no_instant_has_no_timer(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let (paused, deleted) = (leader.job("paused"), leader.job("deleted"));
    let (started, cancelled, backing) = (leader.ad_hoc(at(0)), leader.ad_hoc(at(0)), leader.ad_hoc(at(0)));
    leader.insert(store, [job_row(&paused), job_row(&deleted)]).await?;
    leader.insert(store, [&started, &cancelled, &backing].map(run_row)).await?;
    assert_eq!(paged(store, 10).await?.len(), 5);
    let mut changes = updates([job_row(&woken_at(paused, None))]);
    changes.update(run_row(&running(&started)));
    changes.update(run_row(&backing_off(&backing)));
    changes.delete(RowKey::Job(deleted.id));
    changes.delete(RowKey::Run(cancelled.id));
    leader.commit(store, changes).await?;
    assert_eq!(paged(store, 10).await?, []);
    Ok(())
}

pub async fn timers_of_other_shards_are_not_listed(store: &dyn Store) -> Result<()> {
    let mut other = Leader::of(store, OTHER).await?;
    let (job, run) = (other.job("theirs"), other.ad_hoc(at(0)));
    other.insert(store, [job_row(&job), run_row(&run)]).await?;
    assert_eq!(paged(store, 10).await?, []);
    Ok(())
}

/// An idle shard has to know when to wake, however far off.
pub async fn a_timer_is_listed_however_far_off(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let (past, far) = (leader.ad_hoc(Timestamp::MIN), leader.ad_hoc(Timestamp::MAX));
    leader.insert(store, [&past, &far].map(run_row)).await?;
    let timers =
        [(Timestamp::MIN, past.id.0), (Timestamp::MAX, far.id.0)].map(|(at, id)| TimerPosition { at, id });
    assert_eq!(paged(store, 10).await?, timers);
    Ok(())
}

/// A timer comes with all that is needed to act on it.
pub async fn a_waiting_run_comes_with_its_job_and_definition(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let job = woken_at(leader.job("its-job"), None);
    let (run, ad_hoc) = (leader.run_of(&job, at(1)), leader.ad_hoc(at(2)));
    leader.insert(store, [job_row(&job), run_row(&run), run_row(&ad_hoc)]).await?;
    let page = store.due(SHARD, TimerPosition::START, 10).await?;
    assert_eq!((page.runs[0].job.as_deref(), &page.runs[0].definition), (Some(&job), &job.definition));
    assert_eq!((page.runs[0].run.as_ref(), page.runs[1].run.as_ref()), (&run, &ad_hoc));
    assert_eq!(page.runs[1].job, None);
    Ok(())
}
