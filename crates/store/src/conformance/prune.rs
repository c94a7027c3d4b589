//! Pruning: what is removed, what is kept, and that it ends.

use std::sync::Arc;

use punctual_core::Timestamp;
use punctual_core::change::{Row, RowKey};
use punctual_core::ids::Token;
use punctual_core::job::{Definition, Job, Keep};
use punctual_core::log;
use punctual_core::run::Run;

use super::given::*;
use crate::{LetterFilter, PrunePolicy, Result, RunFilter, Store};

fn policy(now: Timestamp) -> PrunePolicy {
    PrunePolicy { now, ad_hoc_kept: 7 * DAY }
}

/// Prunes until nothing is left to remove; returns how many rows were removed.
async fn prune(store: &dyn Store, now: Timestamp) -> Result<usize> {
    let mut gone = 0;
    loop {
        match store.prune(&policy(now), 1000).await? {
            0 => return Ok(gone),
            rows => gone += rows,
        }
    }
}

async fn history(store: &dyn Store) -> Result<Vec<i64>> {
    let filter = RunFilter { oldest_first: true, ..RunFilter::default() };
    Ok(store.runs(&filter, None, 10_000).await?.iter().map(|run| run.id.0).collect())
}

/// A job created long ago, so that old runs can have larger ids.
fn keeping(leader: &mut Leader, name: &str, runs: u32, days: u32) -> Job {
    let job = leader.job_made_at(name, NOW.before(100 * DAY));
    let definition = Arc::new(Definition { keep: Keep { runs, days }, ..(*job.definition).clone() });
    Job { definition, ..job }
}

/// Adds finished runs of a job, each created and finished a day after the one before, the last one now.
async fn job_with_history(store: &dyn Store, leader: &mut Leader, job: &Job, runs: u32) -> Result<Vec<Run>> {
    let mut ended = Vec::new();
    for n in (0..runs).rev() {
        let then = NOW.before(DAY * n);
        ended.push(succeeded(&leader.run_of_made_at(job, then, then), then));
    }
    leader
        .insert(store, [job_row(job), revision_of(job)].into_iter().chain(ended.iter().map(history_row)))
        .await?;
    Ok(ended)
}

fn ids(runs: &[Run]) -> Vec<i64> {
    runs.iter().map(|run| run.id.0).collect()
}

pub async fn a_job_keeps_its_newest_runs(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let few = keeping(&mut leader, "few", 3, 1000);
    let kept = job_with_history(store, &mut leader, &few, 10).await?;
    let mut other = Leader::of(store, OTHER).await?;
    let many = keeping(&mut other, "many", 100, 1000);
    let all = job_with_history(store, &mut other, &many, 10).await?;
    assert_eq!(prune(store, NOW).await?, 7);
    let mut expected = [&ids(&kept)[7..], &ids(&all)].concat();
    expected.sort_unstable();
    assert_eq!(history(store).await?, expected);
    Ok(())
}

/// Runs that finished longer ago than the job keeps are removed, however few there are.
pub async fn a_job_keeps_its_last_days(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let job = keeping(&mut leader, "daily", 1000, 4);
    let runs = job_with_history(store, &mut leader, &job, 10).await?;
    // The run of exactly four days ago is still kept.
    assert_eq!(prune(store, NOW).await?, 5);
    assert_eq!(history(store).await?, ids(&runs[5..]));
    assert_eq!(prune(store, NOW + DAY).await?, 1);
    Ok(())
}

/// A run that was submitted long ahead has an old id and a recent end; the end decides.
pub async fn a_run_is_as_old_as_its_end(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let job = keeping(&mut leader, "ahead", 1000, 4);
    let long_ago = NOW.before(60 * DAY);
    let of_job = succeeded(&leader.run_of_made_at(&job, NOW, long_ago), NOW);
    let ad_hoc = succeeded(&leader.ad_hoc_made_at(NOW, long_ago), NOW);
    leader.insert(store, [job_row(&job), history_row(&of_job), history_row(&ad_hoc)]).await?;
    assert_eq!(prune(store, NOW + DAY).await?, 0);
    assert_eq!(history(store).await?.len(), 2);
    assert_eq!(prune(store, NOW + 8 * DAY).await?, 2);
    Ok(())
}

pub async fn ad_hoc_history_goes_by_the_policy(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let old = succeeded(&leader.ad_hoc(at(0)), NOW.before(8 * DAY));
    let recent = failed(&leader.ad_hoc(at(0)), NOW.before(6 * DAY));
    leader.insert(store, [&old, &recent].map(history_row)).await?;
    assert_eq!(prune(store, NOW).await?, 1);
    assert_eq!(history(store).await?, [recent.id.0]);
    Ok(())
}

/// Runs of a deleted job are kept like runs without a job.
pub async fn history_of_a_deleted_job_goes_by_the_policy(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let job = keeping(&mut leader, "deleted", 1, 1000);
    let runs = job_with_history(store, &mut leader, &job, 10).await?;
    leader.delete_job(store, &job).await?;
    assert_eq!(prune(store, NOW).await?, 2);
    assert_eq!(history(store).await?, ids(&runs[2..]));
    Ok(())
}

/// A dead letter still needs a decision: neither age nor number removes it.
pub async fn prune_never_takes_a_dead_letter(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let job = keeping(&mut leader, "fails", 1, 1);
    let runs = job_with_history(store, &mut leader, &job, 5).await?;
    let ad_hoc = failed(&leader.ad_hoc(at(0)), NOW.before(100 * DAY));
    let dead = [&runs[0], &runs[2], &ad_hoc];
    leader
        .insert(
            store,
            [history_row(&ad_hoc)].into_iter().chain(dead.map(|run| Row::DeadLetter(letter_of(run)))),
        )
        .await?;
    let far = NOW + 1000 * DAY;
    prune(store, far).await?;
    let mut expected = dead.map(|run| run.id.0).to_vec();
    expected.sort_unstable();
    assert_eq!(history(store).await?, expected);
    assert_eq!(store.dead_letters(&LetterFilter::default(), None, 10).await?.len(), 3);

    // After the decision it is ordinary history.
    leader.delete(store, dead.map(|run| RowKey::DeadLetter(run.id))).await?;
    prune(store, far).await?;
    assert!(history(store).await?.is_empty());
    Ok(())
}

pub async fn prune_never_takes_a_live_run(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let job = keeping(&mut leader, "slow", 1, 1);
    let runs =
        [leader.run_of(&job, at(0)), running(&leader.run_of(&job, at(0))), held(&leader.ad_hoc(at(0)))];
    leader.insert(store, [job_row(&job)].into_iter().chain(runs.iter().map(run_row))).await?;
    assert_eq!(prune(store, NOW + 1000 * DAY).await?, 0);
    assert_eq!(history(store).await?, ids(&runs));
    Ok(())
}

/// Pruning runs beside the real work: no call removes more than its limit, and together they remove everything.
pub async fn prune_takes_no_more_than_its_limit_and_comes_to_an_end(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    for n in 0..5 {
        let job = keeping(&mut leader, &format!("job-{n}"), 2, 1000);
        job_with_history(store, &mut leader, &job, 9).await?;
    }
    let (mut gone, mut calls) = (0, 0);
    loop {
        let rows = store.prune(&policy(NOW), 4).await?;
        assert!(rows <= 4);
        if rows == 0 {
            break;
        }
        (gone, calls) = (gone + rows, calls + 1);
        assert!(calls <= 35, "it does not come to an end");
    }
    assert_eq!(gone, 35);
    assert_eq!(history(store).await?.len(), 10);
    Ok(())
}

pub async fn output_goes_after_its_run(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let old = succeeded(&leader.ad_hoc(at(0)), NOW.before(8 * DAY));
    let recent = succeeded(&leader.ad_hoc(at(0)), NOW);
    let live = running(&leader.ad_hoc(at(0)));
    leader.insert(store, [history_row(&old), history_row(&recent), run_row(&live)]).await?;
    for run in [&old, &recent, &live] {
        let chunk = |number| log::Chunk {
            run: run.id,
            token: Token(1),
            number,
            at: NOW,
            stream: log::Stream::Out,
            bytes: b"line\n".to_vec(),
        };
        store.append_logs((0..3).map(chunk).collect()).await?;
    }
    assert_eq!(prune(store, NOW).await?, 4, "one run and its three chunks");
    assert!(store.read_logs(old.id, None, 10).await?.is_empty());
    for run in [&recent, &live] {
        assert_eq!(store.read_logs(run.id, None, 10).await?.len(), 3);
    }
    Ok(())
}

/// A skip record is part of a job's history and is kept for the same number of days.
pub async fn old_skip_records_go(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let (short, long) = (keeping(&mut leader, "short", 10, 2), keeping(&mut leader, "long", 10, 20));
    let deleted = leader.job("deleted");
    leader.insert(store, [&short, &long].map(job_row)).await?;
    let skips = [&short, &long, &deleted].map(|job| skip_of(job, at(0)));
    leader.insert(store, skips.clone().map(Row::Skip)).await?;
    for (days, left) in [(1, 3), (3, 2), (8, 1), (19, 1), (21, 0)] {
        prune(store, NOW + DAY * days).await?;
        let mut kept = 0;
        for job in [&short, &long, &deleted] {
            kept += store.skips(job.id, None, 10).await?.len();
        }
        assert_eq!(kept, left, "after {days} days");
    }
    Ok(())
}

/// A skip record needs the name and the revisions of its job.
pub async fn a_deleted_job_is_known_as_long_as_its_skip_records(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let deleted = leader.job("deleted");
    let skip = Row::Skip(skip_of(&deleted, at(0)));
    leader.insert(store, [job_row(&deleted), revision_of(&deleted), skip]).await?;
    leader.delete_job(store, &deleted).await?;
    prune(store, NOW).await?;
    assert!(store.revision(deleted.id, 1).await?.is_some());
    assert_eq!(store.deleted_jobs(None, None, 10).await?.len(), 1);

    prune(store, NOW + 400 * DAY).await?;
    assert!(store.skips(deleted.id, None, 10).await?.is_empty());
    assert!(store.revision(deleted.id, 1).await?.is_none());
    assert!(store.deleted_jobs(None, None, 10).await?.is_empty());
    Ok(())
}

/// A revision is kept as long as a run may need it.
pub async fn revisions_go_after_the_last_run_of_a_deleted_job(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let (kept, deleted) = (leader.job("kept"), leader.job("deleted"));
    let (live, ended) = (running(&leader.run_of(&deleted, at(0))), leader.run_of(&deleted, at(0)));
    leader.insert(store, [&kept, &deleted].map(job_row)).await?;
    leader
        .insert(store, [revision_of(&kept), revision_of(&deleted), run_row(&live), run_row(&ended)])
        .await?;
    leader.settle(store, &succeeded(&ended, NOW)).await?;
    leader.delete_job(store, &deleted).await?;
    assert_eq!(prune(store, NOW + 8 * DAY).await?, 1, "only the ended run goes: another is still live");
    assert!(store.revision(deleted.id, 1).await?.is_some());
    assert_eq!(
        store.run(&live.namespace, live.id).await?.map(|record| record.definition),
        Some(deleted.definition)
    );

    leader.delete(store, [RowKey::Run(live.id)]).await?;
    assert_eq!(prune(store, NOW + 8 * DAY).await?, 1);
    assert!(store.revision(deleted.id, 1).await?.is_none());
    assert!(store.revision(kept.id, 1).await?.is_some());
    Ok(())
}
