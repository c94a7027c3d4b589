//! What the doors list: stable pages in a known order, whichever shard a row is in.

use std::sync::Arc;

use punctual_core::Timestamp;
use punctual_core::change::{Row, RowKey};
use punctual_core::ids::{JobId, RunId, ShardId};
use punctual_core::job::Job;
use punctual_core::name::{Name, Namespace};
use punctual_core::run::{Run, Status};

use super::given::*;
use crate::{JobFilter, Result, RunFilter, Stats, Store};

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

/// Ten runs in each of three shards, every third of them ended, made a millisecond apart.
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

/// The other way round on request.
pub async fn runs_are_listed_oldest_first_on_request(store: &dyn Store) -> Result<()> {
    let expected = thirty_runs(store).await?;
    let filter = RunFilter { oldest_first: true, ..RunFilter::default() };
    for limit in [1, 4, 30, 1000] {
        assert_eq!(paged(store, &filter, limit).await?, expected, "pages of {limit}");
    }
    assert!(store.runs(&filter, None, 0).await?.is_empty());
    Ok(())
}

/// Runs come, and runs end, between two pages: no run is shown twice and none that was there is missed.
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
        for run in [&runs[usize::try_from(step).unwrap_or(0)], &runs[8 - usize::try_from(step).unwrap_or(0)]] {
            leader.settle(store, &succeeded(run, at(200))).await?;
        }
    }
    let mut expected = run_ids(runs.into_iter().map(Arc::new).collect::<Vec<_>>().iter());
    expected.reverse();
    assert_eq!(seen, expected);
    Ok(())
}

/// A time is a span of ids: from its first millisecond up to, but not including, its last.
pub async fn runs_are_listed_by_time(store: &dyn Store) -> Result<()> {
    let all = thirty_runs(store).await?;
    let made_in = |from: i64, to: i64| RunFilter { since: Some(at(from)), until: Some(at(to)), ..RunFilter::default() };
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
    (id - punctual_core::ids::first_id_at(NOW)) >> 22
}

/// One job's runs, the live ones and those that have ended.
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
    let filter = RunFilter { job: Some(job.id), ..RunFilter::default() };
    assert_eq!(paged(store, &filter, 2).await?, expected);
    let failed = RunFilter { statuses: vec![Status::Failed], ..filter.clone() };
    assert_eq!(paged(store, &failed, 2).await?.len(), 3);
    let nobody = RunFilter { job: Some(JobId(job.id.0 + 100)), ..filter };
    assert!(paged(store, &nobody, 2).await?.is_empty());
    Ok(())
}

/// Any set of statuses, of live runs, of ended ones, or of both.
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

/// A namespace is a wall: neither a listing nor an id leads across it.
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

/// One run among thousands that do not match: however far the store has to look, it finds it.
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

/// Jobs are listed by namespace, then name, whatever their shard and age.
pub async fn jobs_are_listed_by_namespace_and_name(store: &dyn Store) -> Result<()> {
    let mut expected: Vec<(Namespace, Name)> = Vec::new();
    for (shard, space) in [(SHARD, "b"), (OTHER, "a/b"), (ShardId(0), "a")] {
        let mut leader = Leader::of(store, shard).await?;
        for job in ["zeta", "Alpha", "m-1", "m.1", "m_1"] {
            let job = Job { namespace: namespace(space), ..leader.job(job) };
            leader.insert(store, [job_row(&job)]).await?;
            expected.push((job.namespace, job.name));
        }
    }
    expected.sort();
    for limit in [1, 4, 100] {
        assert_eq!(paged_jobs(store, &JobFilter::default(), limit).await?, expected, "pages of {limit}");
    }
    for space in ["a", "a/b", "b", "c"].map(namespace) {
        let within: Vec<_> = expected.iter().filter(|(of, _)| *of == space).cloned().collect();
        let filter = JobFilter { namespace: Some(space.clone()) };
        assert_eq!(paged_jobs(store, &filter, 2).await?, within, "in {space}");
    }
    Ok(())
}

async fn paged_jobs(store: &dyn Store, filter: &JobFilter, limit: usize) -> Result<Vec<(Namespace, Name)>> {
    let mut all: Vec<(Namespace, Name)> = Vec::new();
    loop {
        let page = store.jobs(filter, all.last().cloned(), limit).await?;
        assert!(page.len() <= limit);
        if page.is_empty() {
            return Ok(all);
        }
        all.extend(page.iter().map(|job| (job.namespace.clone(), job.name.clone())));
    }
}

/// Dead letters wait for someone, the oldest first, each in its namespace.
pub async fn dead_letters_are_listed_oldest_first(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let mut ids = Vec::new();
    for n in 0..6 {
        let space = namespace(if n % 2 == 0 { "even" } else { "odd" });
        let run = Run { namespace: space, ..failed(&leader.ad_hoc(at(n)), at(n)) };
        leader.insert(store, [history_row(&run), Row::DeadLetter(letter_of(&run))]).await?;
        ids.push(run.id);
    }
    let listed = async |space: Option<&str>, after: Option<RunId>, limit| -> Result<Vec<RunId>> {
        let space = space.map(namespace);
        let letters = store.dead_letters(space.as_ref(), after, limit).await?;
        Ok(letters.into_iter().map(|letter| letter.run).collect())
    };
    assert_eq!(listed(None, None, 100).await?, ids);
    assert_eq!(listed(None, Some(ids[1]), 2).await?, ids[2..4]);
    assert_eq!(listed(Some("odd"), None, 100).await?, [ids[1], ids[3], ids[5]]);
    assert_eq!(listed(Some("odd"), Some(ids[1]), 1).await?, [ids[3]]);
    assert!(listed(Some("nobody"), None, 100).await?.is_empty());
    Ok(())
}

/// Skip records in order of job and time.
pub async fn skips_are_listed_by_job_and_time(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let jobs = [leader.job("first"), leader.job("second")];
    let mut expected = Vec::new();
    for job in &jobs {
        for n in [0, 60, 3600] {
            expected.push(skip_of(job, at(n)));
        }
    }
    leader.insert(store, expected.iter().rev().cloned().map(Row::Skip)).await?;
    let place = |index: usize| Some((expected[index].job, expected[index].from));
    assert_eq!(store.skips(None, None, 100).await?, expected);
    assert_eq!(store.skips(None, place(1), 2).await?, expected[2..4]);
    assert_eq!(store.skips(Some(jobs[1].id), None, 100).await?, expected[3..]);
    assert_eq!(store.skips(Some(jobs[1].id), place(1), 100).await?, expected[3..]);
    assert_eq!(store.skips(Some(jobs[1].id), place(4), 100).await?, expected[5..]);
    assert!(store.skips(Some(jobs[0].id), place(4), 100).await?.is_empty());
    Ok(())
}

/// The counts are of what is there, after everything that came and went.
pub async fn stats_count_what_is_there(store: &dyn Store) -> Result<()> {
    assert_eq!(store.stats().await?, Stats::default());
    let mut leader = Leader::of(store, SHARD).await?;
    let (job, gone) = (leader.job("stays"), leader.job("goes"));
    let runs: Vec<Run> = (0..5).map(|n| leader.ad_hoc(at(n))).collect();
    leader.insert(store, [job_row(&job), job_row(&gone)].into_iter().chain(runs.iter().map(run_row))).await?;
    for run in &runs[..3] {
        leader.settle(store, &failed(run, at(9))).await?;
    }
    leader.insert(store, [Row::DeadLetter(letter_of(&runs[0])), Row::DeadLetter(letter_of(&runs[1]))]).await?;
    leader.delete(store, [RowKey::Job(gone.id), RowKey::DeadLetter(runs[1].id)]).await?;
    leader.update(store, [job_row(&job)]).await?;
    assert!(leader.clone().insert(store, [run_row(&runs[4])]).await.is_err(), "a refused commit counts nothing");
    let stats = Stats { jobs: 1, live_runs: 2, history_runs: 3, dead_letters: 1 };
    assert_eq!(store.stats().await?, stats);

    let policy = crate::PrunePolicy { now: Timestamp::MAX, ad_hoc_kept: DAY };
    assert_eq!(store.prune(&policy, 100).await?, 2);
    assert_eq!(store.stats().await?, Stats { history_runs: 1, ..stats });
    Ok(())
}
