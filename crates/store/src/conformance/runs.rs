//! Listings of runs: stable pages in id order, over all shards.

use std::sync::Arc;

use punctual_core::ids::{JobId, ShardId, first_id_at};
use punctual_core::name::Namespace;
use punctual_core::run::{Run, Status, Trigger};

use super::given::*;
use crate::{Result, RunFilter, Store};

fn run_ids<'a>(runs: impl IntoIterator<Item = &'a Arc<Run>>) -> Vec<i64> {
    runs.into_iter().map(|run| run.id.0).collect()
}

/// All runs that match, read in pages.
async fn paged(store: &dyn Store, filter: &RunFilter, limit: usize) -> Result<Vec<i64>> {
    let (mut after, mut all) = (None, Vec::new());
    loop {
        let page = store.runs(filter, after, limit).await?;
        assert!(page.len() <= limit);
        match page.last() {
            Some(last) => after = Some(last.id),
            None => return Ok(all),
        }
        all.extend(run_ids(&page));
    }
}

/// Ten runs in each of three shards, every third of them finished, created a millisecond apart.
async fn thirty_runs(store: &dyn Store) -> Result<Vec<i64>> {
    let mut ids = Vec::new();
    for shard in [ShardId(0), SHARD, OTHER] {
        let mut leader = Leader::of(store, shard).await?;
        for n in 0..10 {
            let run = leader.ad_hoc_made_at(at(n), at(n));
            let row = if n % 3 == 0 { history_row(&succeeded(&run, at(n))) } else { run_row(&run) };
            leader.insert(store, [row]).await?;
            ids.push(run.id.0);
        }
    }
    ids.sort_unstable();
    Ok(ids)
}

/// Live runs and history are one list, newest first.
pub async fn runs_are_listed_newest_first(store: &dyn Store) -> Result<()> {
    let mut expected = thirty_runs(store).await?;
    expected.reverse();
    for limit in [1, 4, 29, 30, 31, 1000] {
        assert_eq!(paged(store, &RunFilter::default(), limit).await?, expected, "pages of {limit}");
    }
    Ok(())
}

pub async fn runs_are_listed_oldest_first_on_request(store: &dyn Store) -> Result<()> {
    let expected = thirty_runs(store).await?;
    let filter = RunFilter { oldest_first: true, ..RunFilter::default() };
    for limit in [1, 4, 30, 1000] {
        assert_eq!(paged(store, &filter, limit).await?, expected, "pages of {limit}");
    }
    assert!(store.runs(&filter, None, 0).await?.is_empty());
    Ok(())
}

/// Runs are created and end between two pages: no run is listed twice, and no earlier run is missed.
pub async fn pages_of_runs_are_stable_while_runs_come_and_end(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let runs: Vec<Run> = (0..9).map(|n| leader.ad_hoc_made_at(at(n), at(n))).collect();
    leader.insert(store, runs.iter().map(run_row)).await?;
    let (mut after, mut seen) = (None, Vec::new());
    for step in 0..3 {
        let page = store.runs(&RunFilter::default(), after, 3).await?;
        seen.extend(run_ids(&page));
        after = page.last().map(|run| run.id);
        let newcomer = leader.ad_hoc_made_at(at(100 + step), at(100 + step));
        leader.insert(store, [run_row(&newcomer)]).await?;
        for run in [&runs[usize::try_from(step).unwrap_or(0)], &runs[8 - usize::try_from(step).unwrap_or(0)]]
        {
            leader.settle(store, &succeeded(run, at(200))).await?;
        }
    }
    let mut expected = run_ids(runs.into_iter().map(Arc::new).collect::<Vec<_>>().iter());
    expected.reverse();
    assert_eq!(seen, expected);
    Ok(())
}

/// A time range is an id range: its first millisecond is included, its last is not.
pub async fn runs_are_listed_by_time(store: &dyn Store) -> Result<()> {
    let all = thirty_runs(store).await?;
    let made_in =
        |from: i64, to: i64| RunFilter { since: Some(at(from)), until: Some(at(to)), ..RunFilter::default() };
    for (from, to) in [(0, 10), (3, 5), (9, 10), (5, 5), (7, 3), (-100, 0), (10, 100)] {
        let mut expected = all.clone();
        expected.retain(|id| (from..to).contains(&made_at(*id)));
        expected.reverse();
        assert_eq!(paged(store, &made_in(from, to), 4).await?, expected, "[{from}, {to})");
    }
    let since = RunFilter { since: Some(at(8)), oldest_first: true, ..RunFilter::default() };
    assert_eq!(paged(store, &since, 2).await?.len(), 6);
    Ok(())
}

/// Milliseconds after `NOW`, from an id of `thirty_runs`.
fn made_at(id: i64) -> i64 {
    (id - first_id_at(NOW)) >> 22
}

/// The runs of one job, live and finished.
pub async fn runs_are_listed_by_job(store: &dyn Store) -> Result<()> {
    thirty_runs(store).await?;
    let mut leader = Leader::of(store, SHARD).await?;
    let (job, other) = (leader.job("wanted"), leader.job("other"));
    leader.insert(store, [job_row(&job), job_row(&other)]).await?;
    let mut expected = Vec::new();
    for n in 0..6 {
        let (run, noise) = (leader.run_of(&job, at(n)), leader.run_of(&other, at(n)));
        let ended = n % 2 == 0;
        let row = |run: &Run| if ended { history_row(&failed(run, at(n))) } else { run_row(run) };
        leader.insert(store, [row(&run), row(&noise)]).await?;
        expected.insert(0, run.id.0);
    }
    let filter = RunFilter { jobs: vec![job.id], ..RunFilter::default() };
    assert_eq!(paged(store, &filter, 2).await?, expected);
    let failed = RunFilter { statuses: vec![Status::Failed], ..filter.clone() };
    assert_eq!(paged(store, &failed, 2).await?.len(), 3);
    let nobody = RunFilter { jobs: vec![JobId(job.id.0 + 100)], ..filter };
    assert!(paged(store, &nobody, 2).await?.is_empty());
    Ok(())
}

/// The runs of several jobs, of one shard and of two, are one list.
pub async fn runs_are_listed_by_several_jobs(store: &dyn Store) -> Result<()> {
    let (mut here, mut there) = (Leader::of(store, SHARD).await?, Leader::of(store, OTHER).await?);
    let jobs = [here.job("a"), here.job("b"), there.job("c")];
    let mut expected = Vec::new();
    for (index, job) in jobs.iter().enumerate() {
        let leader = if index == 2 { &mut there } else { &mut here };
        leader.insert(store, [job_row(job)]).await?;
        for n in 0..4 {
            let run = leader.run_of(job, at(n));
            let row = if n % 2 == 0 { history_row(&succeeded(&run, at(n))) } else { run_row(&run) };
            leader.insert(store, [row]).await?;
            expected.push((index, run.id.0));
        }
    }
    for wanted in [&[0, 1][..], &[0, 2], &[0, 1, 2]] {
        let mut ids: Vec<i64> =
            expected.iter().filter(|(job, _)| wanted.contains(job)).map(|(_, id)| *id).collect();
        ids.sort_unstable_by_key(|id| std::cmp::Reverse(*id));
        let filter =
            RunFilter { jobs: wanted.iter().map(|job| jobs[*job].id).collect(), ..RunFilter::default() };
        for limit in [1, 5, 100] {
            assert_eq!(paged(store, &filter, limit).await?, ids, "{wanted:?}, pages of {limit}");
        }
    }
    Ok(())
}

/// The newest runs of each job, live and ended together; runs of other jobs do not count.
pub async fn the_last_runs_of_many_jobs_are_read_at_once(store: &dyn Store) -> Result<()> {
    let (mut here, mut there) = (Leader::of(store, SHARD).await?, Leader::of(store, OTHER).await?);
    let jobs = [here.job("a"), here.job("b"), there.job("c")];
    let mut made: Vec<(JobId, i64)> = Vec::new();
    for (index, job) in jobs.iter().enumerate() {
        let leader = if index == 2 { &mut there } else { &mut here };
        leader.insert(store, [job_row(job)]).await?;
        for n in 0..5 {
            let run = leader.run_of(job, at(n));
            let row = if n < 3 { history_row(&succeeded(&run, at(n))) } else { run_row(&run) };
            leader.insert(store, [row]).await?;
            made.push((job.id, run.id.0));
        }
    }
    for limit in [1, 3, 4, 10] {
        for wanted in [&jobs[..], &jobs[1..2]] {
            let mut ids: Vec<JobId> = wanted.iter().map(|job| job.id).collect();
            let runs = store.last_runs(&ids, limit).await?;
            ids.sort_unstable();
            let expected: Vec<i64> = ids
                .iter()
                .flat_map(|id| made.iter().rev().filter(move |(job, _)| job == id).take(limit))
                .map(|(_, run)| *run)
                .collect();
            assert_eq!(run_ids(&runs), expected, "{limit} of each");
        }
    }
    assert!(store.last_runs(&[], 3).await?.is_empty());
    assert!(store.last_runs(&[JobId(1)], 3).await?.is_empty());
    Ok(())
}

/// Runs are counted by status, for the same filter as a listing, up to a limit.
pub async fn runs_are_counted_by_status(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    for n in 0..3 {
        let live = [leader.ad_hoc(at(n)), ready(&leader.ad_hoc(at(n)))];
        let ended = [failed(&leader.ad_hoc(at(n)), at(n)), succeeded(&leader.ad_hoc(at(n)), at(n))];
        let elsewhere = Run { namespace: namespace("elsewhere"), ..ready(&leader.ad_hoc(at(n))) };
        let live = live.iter().chain([&elsewhere]).map(run_row).collect::<Vec<_>>();
        leader.insert(store, live.into_iter().chain(ended.iter().map(history_row))).await?;
    }
    let counted = async |filter: &RunFilter, limit| -> Result<Vec<(Status, u64, bool)>> {
        let counts = store.count_runs(filter, limit).await?;
        assert_eq!(counts.iter().map(|count| count.status).collect::<Vec<_>>(), Status::ALL);
        let seen = counts.into_iter().filter(|count| count.runs > 0 || !count.complete);
        Ok(seen.map(|count| (count.status, count.runs, count.complete)).collect())
    };
    let all = RunFilter::default();
    let (waiting, ready, succeeded, failed) =
        (Status::Waiting, Status::Ready, Status::Succeeded, Status::Failed);
    assert_eq!(
        counted(&all, 100).await?,
        [(waiting, 3, true), (ready, 6, true), (succeeded, 3, true), (failed, 3, true)]
    );
    assert_eq!(
        counted(&all, 3).await?,
        [(waiting, 3, true), (ready, 3, false), (succeeded, 3, true), (failed, 3, true)]
    );
    let here = RunFilter { namespace: Some(namespace("elsewhere")), ..RunFilter::default() };
    assert_eq!(counted(&here, 100).await?, [(ready, 3, true)]);
    let some = RunFilter { statuses: vec![failed, ready], ..RunFilter::default() };
    let counts = store.count_runs(&some, 100).await?;
    assert_eq!(
        counts.iter().map(|count| (count.status, count.runs)).collect::<Vec<_>>(),
        [(ready, 6), (failed, 3)]
    );
    Ok(())
}

/// Any set of statuses: of live runs, of finished runs, or of both.
pub async fn runs_are_listed_by_status(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let mut made: Vec<(Status, i64)> = Vec::new();
    for n in 0..3 {
        let live = [leader.ad_hoc(at(n)), ready(&leader.ad_hoc(at(n))), running(&leader.ad_hoc(at(n)))];
        let ended = [succeeded(&leader.ad_hoc(at(n)), at(n)), failed(&leader.ad_hoc(at(n)), at(n))];
        made.extend(live.iter().chain(&ended).map(|run| (run.status(), run.id.0)));
        leader.insert(store, live.iter().map(run_row).chain(ended.iter().map(history_row))).await?;
    }
    let sets: [&[Status]; 6] = [
        &[Status::Waiting],
        &[Status::Succeeded],
        &[Status::Failed],
        &[Status::Failed, Status::TimedOut, Status::Running],
        &[Status::Ready, Status::Succeeded, Status::Failed],
        &[Status::Skipped, Status::Cancelled],
    ];
    for wanted in sets {
        for oldest_first in [true, false] {
            let mut expected: Vec<i64> =
                made.iter().filter(|(status, _)| wanted.contains(status)).map(|(_, id)| *id).collect();
            expected.sort_unstable();
            if !oldest_first {
                expected.reverse();
            }
            let filter = RunFilter { statuses: wanted.to_vec(), oldest_first, ..RunFilter::default() };
            assert_eq!(paged(store, &filter, 2).await?, expected, "{wanted:?}");
        }
    }
    Ok(())
}

/// The trigger is only in the run's body; live and finished runs are found.
pub async fn runs_are_listed_by_trigger(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let mut made: Vec<(Trigger, i64)> = Vec::new();
    for n in 0..12 {
        let trigger = [Trigger::Submit, Trigger::Manual, Trigger::Retry][usize::try_from(n % 3).unwrap_or(0)];
        let run = Run { trigger, ..leader.ad_hoc(at(n)) };
        made.insert(0, (trigger, run.id.0));
        leader
            .insert(store, [if n < 6 { history_row(&succeeded(&run, at(n))) } else { run_row(&run) }])
            .await?;
    }
    for wanted in [vec![Trigger::Manual], vec![Trigger::Manual, Trigger::Retry], vec![Trigger::Misfire]] {
        let expected: Vec<i64> =
            made.iter().filter(|(trigger, _)| wanted.contains(trigger)).map(|(_, id)| *id).collect();
        let filter = RunFilter { triggers: wanted, ..RunFilter::default() };
        assert_eq!(paged(store, &filter, 2).await?, expected, "{filter:?}");
    }
    Ok(())
}

/// All runs with a key, in every shard, live and finished.
pub async fn runs_are_listed_by_key(store: &dyn Store) -> Result<()> {
    thirty_runs(store).await?;
    let mut expected = Vec::new();
    for shard in [SHARD, OTHER] {
        let mut leader = Leader::of(store, shard).await?;
        for n in 0..4 {
            let keyed = |run: Run, key: &str| Run { key: Some(Arc::from(key)), ..run };
            let run = keyed(leader.ad_hoc_made_at(at(n), at(100 + n)), "order-17");
            let noise = keyed(leader.ad_hoc_made_at(at(n), at(100 + n)), "order-1");
            leader.insert(store, [run_row(&run), run_row(&noise)]).await?;
            if n % 2 == 0 {
                leader.settle(store, &succeeded(&run, at(200))).await?;
            }
            expected.push(run.id.0);
        }
    }
    expected.sort_unstable();
    let oldest = RunFilter { key: Some(Arc::from("order-17")), oldest_first: true, ..RunFilter::default() };
    assert_eq!(paged(store, &oldest, 3).await?, expected);
    expected.reverse();
    let newest = RunFilter { oldest_first: false, ..oldest };
    for limit in [1, 3, 100] {
        assert_eq!(paged(store, &newest, limit).await?, expected);
    }
    let ended = RunFilter { statuses: vec![Status::Succeeded], ..newest.clone() };
    assert_eq!(paged(store, &ended, 100).await?.len(), 4);
    let elsewhere = RunFilter { namespace: Some(namespace("elsewhere")), ..newest };
    assert!(paged(store, &elsewhere, 100).await?.is_empty());
    Ok(())
}

/// A run of another namespace is found neither by a listing nor by its id.
pub async fn a_run_of_another_namespace_is_not_there(store: &dyn Store) -> Result<()> {
    thirty_runs(store).await?;
    let mut leader = Leader::of(store, SHARD).await?;
    let own = namespace("payments");
    let live = Run { namespace: own.clone(), ..leader.ad_hoc(at(0)) };
    let ended = Run { namespace: own.clone(), ..succeeded(&leader.ad_hoc(at(0)), at(0)) };
    leader.insert(store, [run_row(&live), history_row(&ended)]).await?;
    let filter = RunFilter { namespace: Some(own.clone()), ..RunFilter::default() };
    assert_eq!(paged(store, &filter, 1).await?, [ended.id.0, live.id.0]);
    for namespace_asked in [Namespace::default(), namespace("payments/clearing")] {
        assert_eq!(store.run(&namespace_asked, live.id).await?, None);
        assert_eq!(store.run(&namespace_asked, ended.id).await?, None);
    }
    assert_eq!(store.run(&own, live.id).await?.map(|record| record.run.as_ref().clone()), Some(live));
    Ok(())
}

/// One matching run among thousands is found.
pub async fn a_rare_run_is_found_among_many(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let rare = namespace("rare");
    let mut expected = Vec::new();
    for part in 0..6 {
        let (mut live, mut ended) = (Vec::new(), Vec::new());
        for n in 0..500 {
            live.push(leader.ad_hoc_made_at(at(0), at(part * 1000 + n)));
            ended.push(succeeded(&leader.ad_hoc_made_at(at(0), at(part * 1000 + n)), at(9000)));
        }
        for runs in [&mut live, &mut ended] {
            runs[250].namespace = rare.clone();
            expected.push(runs[250].id.0);
        }
        leader.insert(store, live.iter().map(run_row).chain(ended.iter().map(history_row))).await?;
    }
    expected.sort_unstable();
    let oldest_first = RunFilter { namespace: Some(rare), oldest_first: true, ..RunFilter::default() };
    assert_eq!(paged(store, &oldest_first, 5).await?, expected);
    expected.reverse();
    let newest_first = RunFilter { oldest_first: false, ..oldest_first };
    for limit in [1, 5, 100] {
        assert_eq!(paged(store, &newest_first, limit).await?, expected);
    }
    Ok(())
}
