//! Prunes rows past their retention: a read finds them, then small transactions remove them.
//!
//! Jobs are visited in a circular walk, a few at a time, and the position is kept between calls: a limit reached at one
//! job does not starve the later ones. The result is 0 only after a full walk that found nothing. Several nodes may
//! prune at once: they may find the same rows; each leaves out the rows that another has locked, and counts only those
//! that it deleted.

use std::collections::BTreeMap;

use async_trait::async_trait;
use parking_lot::Mutex;
use punctual_core::Timestamp;
use punctual_core::ids::{RunId, ShardId, first_id_at};
use punctual_core::statistics::Period;
use rustc_hash::{FxHashMap, FxHashSet};

use super::backend::{Backend, Purpose, Scope, work};
use super::connection::{Ask, Connection, ask};
use super::dialect::Dialect;
use super::queries::{
    chunks, deleted_jobs, history, revisions, run_terms, shards, skips, statistics, steps, uniques,
};
use super::records;
use crate::circular_walk::{self, CircularWalk};
use crate::listing::listed;
use crate::retention::{Kept, statistics_kept_since};
use crate::{PrunePolicy, Result, Upkeep, codec, ended_key};

/// Rows removed in one transaction: few enough not to delay the next commit.
const ROWS_MAX: usize = 200;
/// Jobs, or runs with output, that one step of a walk examines.
const VISITS_MAX: usize = 256;
/// Jobs whose history is read with one request: few enough not to read much more than a step removes.
const JOBS_AT_ONCE: usize = 16;
/// Runs whose children are read with one request.
const RUNS_AT_ONCE: usize = 64;
const DAY_MILLIS: i64 = 24 * 3600 * 1000;

/// The positions of the circular walks.
#[derive(Debug)]
pub(crate) struct Positions {
    history: Mutex<i64>,
    revisions: Mutex<i64>,
    output: Mutex<i64>,
}

impl Default for Positions {
    fn default() -> Self {
        let start = || Mutex::new(circular_walk::START);
        Positions { history: start(), revisions: start(), output: start() }
    }
}

/// Rows to remove from the state.
#[derive(Debug, Default)]
struct Expired {
    /// Places of ended runs, in levels: a run is in a later level than its children.
    history: Vec<Vec<i64>>,
    uniques: Vec<(u16, Vec<u8>)>,
    skips: Vec<(i64, u32, i64)>,
    revisions: Vec<(i64, u32)>,
    /// Deleted jobs whose last revision is removed with these rows.
    deleted_jobs: Vec<i64>,
    chunks: Vec<(i64, i64, i64)>,
    statistics: Vec<StatisticsRow>,
    /// The key after which a circular walk continues. `None` means there are no more keys.
    next: Option<i64>,
}

/// The primary key of a row of statistics: namespace, job, and four numbers.
type StatisticsRow = (String, String, [i64; 4]);

/// What a step looks for.
#[derive(Debug, Clone, Copy)]
enum Target {
    /// Rows that an index finds directly.
    Indexed,
    History,
    Revisions,
    Output,
}

/// What a step needs to know.
#[derive(Debug, Clone)]
struct Step {
    target: Target,
    after: i64,
    policy: PrunePolicy,
    limit: usize,
}

#[async_trait]
impl<B: Backend> Upkeep for B {
    async fn prune(&self, policy: &PrunePolicy, limit: usize) -> Result<usize> {
        let mut gone = 0;
        while gone < limit {
            let removed = step(self, Target::Indexed, circular_walk::START, policy, limit - gone).await?.0;
            gone += removed;
            if removed == 0 {
                break;
            }
        }
        let positions = &self.facts().pruned;
        let walks = [
            (Target::History, &positions.history),
            (Target::Revisions, &positions.revisions),
            (Target::Output, &positions.output),
        ];
        for (target, position) in walks {
            let mut walk = CircularWalk::from(*position.lock());
            while gone < limit {
                let (removed, next) = step(self, target, walk.at(), policy, limit - gone).await?;
                gone += removed;
                let goes_on = walk.go_on(next);
                *position.lock() = walk.at();
                if !goes_on {
                    break;
                }
            }
        }
        Ok(gone)
    }
}

/// Finds a few rows and removes them. Returns how many it removed, and where the walk continues.
async fn step<B: Backend>(
    store: &B,
    target: Target,
    after: i64,
    policy: &PrunePolicy,
    limit: usize,
) -> Result<(usize, Option<i64>)> {
    let (now, step) =
        (policy.now, Step { target, after, policy: policy.clone(), limit: ROWS_MAX.min(limit) });
    let expired = match target {
        Target::Output => output(store, &step).await?,
        _ => store.list(work!(|c| find(c, step).await)).await?,
    };
    let next = expired.next;
    if expired.is_empty() {
        return Ok((0, next));
    }
    let purpose = if expired.chunks.is_empty() { Purpose::Prune } else { Purpose::Output };
    let removed = store.run(purpose, Scope::Transaction, work!(|c| remove(c, &expired, now).await)).await?;
    // Another node has locked these rows: continue after them, so that they are not found again and again.
    let next = if removed == 0 { next.map(|key| key + 1) } else { next };
    Ok((removed, next))
}

async fn find(c: &mut dyn Connection, step: Step) -> Result<Expired> {
    match step.target {
        Target::Indexed => indexed(c, &step).await,
        Target::History => of_jobs(c, &step).await,
        Target::Revisions | Target::Output => of_deleted_jobs(c, &step).await,
    }
}

/// Rows that an index finds directly, without a walk.
async fn indexed(c: &mut dyn Connection, step: &Step) -> Result<Expired> {
    let (now, mut left) = (step.policy.now, step.limit);
    let since = now.before(step.policy.ad_hoc_kept);
    let runs = c.all(ask!(history::EXPIRED_AD_HOC, since, left), |row| row.int(0)).await?;
    let history = with_children(c, runs, left).await?;
    left -= history.iter().map(Vec::len).sum::<usize>();
    let uniques =
        c.all(ask!(uniques::EXPIRED, now, left), |row| Ok((row.number(0)?, row.bytes(1)?.to_vec()))).await?;
    left -= uniques.len();
    let ad_hoc = i64::try_from(step.policy.ad_hoc_kept.as_millis()).unwrap_or(i64::MAX);
    // Every record is kept for at least a day or `ad_hoc_kept`, whichever is shorter.
    let newest = now.as_millis().saturating_sub(ad_hoc.min(DAY_MILLIS));
    let skips = c
        .all(ask!(skips::EXPIRED, now, ad_hoc, newest, left), |row| {
            Ok((row.int(0)?, row.number(1)?, row.int(2)?))
        })
        .await?;
    left -= skips.len();
    let statistics = old_statistics(c, now, left).await?;
    Ok(Expired { history, uniques, skips, statistics, ..Expired::default() })
}

async fn old_statistics(c: &mut dyn Connection, now: Timestamp, limit: usize) -> Result<Vec<StatisticsRow>> {
    let mut found = Vec::new();
    for (period, is_of_job) in [(Period::Minute, false), (Period::Hour, false), (Period::Hour, true)] {
        let (kind, since) = (codec::statistics_kind(period, is_of_job), statistics_kept_since(period, now));
        let expired = ask!(statistics::EXPIRED, kind, since, limit - found.len());
        let rows = c.all(expired, |row| {
            let key = [row.int(2)?, row.int(3)?, row.int(4)?, row.int(5)?];
            Ok((row.text(0)?.to_owned(), row.text(1)?.to_owned(), key))
        });
        found.extend(rows.await?);
    }
    Ok(found)
}

/// History beyond what jobs keep, for the next few jobs that have history.
async fn of_jobs(c: &mut dyn Connection, step: &Step) -> Result<Expired> {
    let jobs = next_keys(c, history::NEXT_JOB, history::NEXT_JOBS, step.after).await?;
    let keys = jobs.iter().map(|job| vec![(*job).into()]).collect();
    let keep =
        c.by_keys(history::KEEP, keys, |row| Ok((row.int(0)?, (row.number(1)?, row.number(2)?)))).await?;
    let keep: FxHashMap<i64, (u32, u32)> = keep.into_iter().collect();
    let kept: Vec<Kept> = jobs.iter().map(|job| Kept::of(keep.get(job).copied(), &step.policy)).collect();
    let mut beyond = vec![-1; jobs.len()];
    let asks: Vec<Ask<'_>> =
        jobs.iter().zip(&kept).map(|(job, kept)| ask!(history::BEYOND, *job, kept.runs)).collect();
    c.query(&asks, &mut |index, row| {
        beyond[index] = row.int(0)?;
        Ok(true)
    })
    .await?;
    let asks = jobs.iter().zip(&kept).zip(&beyond).map(|((job, kept), beyond)| {
        // A run created after `kept.since` cannot have finished before it.
        let newest = first_id_at(kept.since).max(*beyond);
        ask!(history::EXPIRED_OF_JOB, *job, newest, *beyond, kept.since, step.limit)
    });
    let (asks, mut runs) = (asks.collect::<Vec<_>>(), Vec::new());
    for (first, asks) in asks.chunks(JOBS_AT_ONCE).enumerate() {
        c.query(asks, &mut |index, row| {
            runs.push((jobs[first * JOBS_AT_ONCE + index], row.int(0)?));
            Ok(runs.len() < step.limit)
        })
        .await?;
        if runs.len() >= step.limit {
            break;
        }
    }
    runs.truncate(step.limit);
    let history = with_children(c, runs.iter().map(|(_, run)| *run).collect(), step.limit).await?;
    let is_whole = history.last().is_some_and(|level| level.len() == runs.len());
    let next = match (runs.first(), runs.last()) {
        // Their children are removed first.
        (Some((job, _)), _) if !is_whole => Some(job - 1),
        // This job may have more.
        (_, Some((job, _))) if runs.len() == step.limit => Some(job - 1),
        _ => last_of(&jobs),
    };
    Ok(Expired { history, next, ..Expired::default() })
}

/// These runs and their children, at most `limit`, in levels: a run is in a later level than its children. A run is left
/// out unless all its children are there.
async fn with_children(c: &mut dyn Connection, runs: Vec<i64>, limit: usize) -> Result<Vec<Vec<i64>>> {
    let mut levels = vec![runs];
    while let Some(parents) = levels.last() {
        let children = children_of(c, parents, limit).await?;
        if children.is_empty() {
            break;
        }
        if children.len() == limit {
            // There may be more of them, so their parents stay for now.
            levels.clear();
        }
        levels.push(children);
    }
    levels.reverse();
    let mut left = limit;
    for level in &mut levels {
        level.truncate(left);
        left -= level.len();
    }
    levels.retain(|level| !level.is_empty());
    Ok(levels)
}

async fn children_of(c: &mut dyn Connection, parents: &[i64], limit: usize) -> Result<Vec<i64>> {
    let mut found = Vec::new();
    for parents in parents.chunks(RUNS_AT_ONCE) {
        let ask = |place: &i64| ask!(history::CHILDREN, ended_key::run(*place).0, limit);
        let asks: Vec<Ask<'_>> = parents.iter().map(ask).collect();
        c.query(&asks, &mut |_, row| {
            found.push(row.int(0)?);
            Ok(found.len() < limit)
        })
        .await?;
        if found.len() >= limit {
            break;
        }
    }
    found.truncate(limit);
    Ok(found)
}

/// Revisions of deleted jobs that no run or skip record needs, for the next few deleted jobs.
async fn of_deleted_jobs(c: &mut dyn Connection, step: &Step) -> Result<Expired> {
    let mut expired = Expired::default();
    let jobs = c
        .all(ask!(deleted_jobs::NEEDED, step.after, VISITS_MAX), |row| Ok((row.int(0)?, row.flag(1)?)))
        .await?;
    expired.next = jobs.last().filter(|_| jobs.len() == VISITS_MAX).map(|(job, _)| *job);
    for (job, is_needed) in jobs {
        if is_needed {
            continue;
        }
        let left = step.limit - expired.revisions.len();
        let found = c.all(ask!(revisions::OF_JOB, job, left), |row| Ok((job, row.number(0)?))).await?;
        let is_all = found.len() < left;
        expired.revisions.extend(found);
        if !is_all {
            expired.next = Some(job - 1);
            break;
        }
        expired.deleted_jobs.push(job);
    }
    Ok(expired)
}

/// Output whose run is gone. It may be in another database than the runs.
async fn output<B: Backend>(store: &B, step: &Step) -> Result<Expired> {
    let after = step.after;
    let next_runs = work!(|c| next_keys(c, chunks::NEXT_RUN, chunks::NEXT_RUNS, after).await);
    let logged = store.run(Purpose::ReadOutput, Scope::Statement, next_runs).await?;
    let mut next = last_of(&logged);
    let gone = store.list(work!(|c| without_run(c, logged).await)).await?;
    let limit = step.limit;
    let find = work!(|c| chunks_of(c, &gone, limit).await);
    let (found, stopped_at) = store.run(Purpose::ReadOutput, Scope::Statement, find).await?;
    if let Some(run) = stopped_at {
        next = Some(run - 1);
    }
    Ok(Expired { chunks: found, next, ..Expired::default() })
}

async fn without_run(c: &mut dyn Connection, logged: Vec<i64>) -> Result<Vec<i64>> {
    let ids: Vec<RunId> = logged.iter().copied().map(RunId).collect();
    let found = records::runs_by_id(c, &ids, listed).await?;
    let found: FxHashSet<i64> = found.into_iter().map(|(run, _)| run.id.0).collect();
    Ok(logged.into_iter().filter(|run| !found.contains(run)).collect())
}

/// At most `limit` chunks of these runs, and the run that may have more.
async fn chunks_of(
    c: &mut dyn Connection,
    runs: &[i64],
    limit: usize,
) -> Result<(Vec<(i64, i64, i64)>, Option<i64>)> {
    let mut found = Vec::new();
    for run in runs {
        let left = limit - found.len();
        let of_run = ask!(chunks::OF_RUN, *run, left);
        found.extend(c.all(of_run, |row| Ok((*run, row.int(0)?, row.int(1)?))).await?);
        if found.len() == limit {
            return Ok((found, Some(*run)));
        }
    }
    Ok((found, None))
}

/// The next different keys of an index, after the given one. PostgreSQL finds them with one statement.
async fn next_keys(
    c: &mut dyn Connection,
    one: &'static str,
    many: &'static str,
    after: i64,
) -> Result<Vec<i64>> {
    if c.dialect() == Dialect::Postgres {
        return c.all(ask!(many, after, VISITS_MAX), |row| row.int(0)).await;
    }
    let (mut keys, mut last) = (Vec::new(), after);
    while keys.len() < VISITS_MAX
        && let Some(key) = c.one(ask!(one, last), |row| row.int(0)).await?
    {
        keys.push(key);
        last = key;
    }
    Ok(keys)
}

/// The key after which a walk continues. `None` means these were the last.
fn last_of(keys: &[i64]) -> Option<i64> {
    keys.last().copied().filter(|_| keys.len() == VISITS_MAX)
}

impl Expired {
    fn is_empty(&self) -> bool {
        self.history.is_empty()
            && self.uniques.is_empty()
            && self.skips.is_empty()
            && self.revisions.is_empty()
            && self.deleted_jobs.is_empty()
            && self.chunks.is_empty()
            && self.statistics.is_empty()
    }
}

/// Removes ended runs. What belongs to them is added to `last`.
async fn remove_runs(c: &mut dyn Connection, places: &[i64], last: &mut Vec<Ask<'static>>) -> Result<usize> {
    let (mut gone, mut of_shards): (usize, BTreeMap<ShardId, Vec<i64>>) = Default::default();
    for place in places {
        of_shards.entry(ended_key::run(*place).shard()).or_default().push(*place);
    }
    for (shard, mut places) in of_shards {
        places.sort_unstable();
        let delete = |sql: &'static str| places.iter().map(|place| ask!(sql, *place)).collect::<Vec<_>>();
        let removed = c.execute(&delete(history::DELETE)).await?;
        gone += removed;
        last.push(ask!(shards::PRUNED, shard.0, removed));
        for place in &places {
            let run = ended_key::run(*place).0;
            last.extend([ask!(run_terms::DELETE, run), ask!(steps::DELETE, run)]);
        }
        if c.dialect() == Dialect::Mysql {
            last.extend(history::DELETE_FROM_SIDE_TABLES.into_iter().flat_map(delete));
        }
    }
    Ok(gone)
}

/// Removes the rows that were found. Rows that changed since are left alone.
async fn remove(c: &mut dyn Connection, expired: &Expired, now: Timestamp) -> Result<usize> {
    // Last, because nodes that prune the same shard wait for each other there.
    let (mut gone, mut last) = (0, Vec::new());
    for level in &expired.history {
        let removed = remove_runs(c, level, &mut last).await?;
        gone += removed;
        if removed < level.len() {
            // Another node has locked the others and may fail, so their parents stay for now.
            break;
        }
    }
    let Expired { uniques, skips, revisions, chunks, .. } = expired;
    let mut asks = Vec::new();
    asks.extend(uniques.iter().map(|(shard, key)| ask!(uniques::DELETE_EXPIRED, *shard, &**key, now)));
    asks.extend(skips.iter().map(|(job, revision, from)| ask!(skips::DELETE, *job, *revision, *from)));
    asks.extend(revisions.iter().map(|(job, revision)| ask!(revisions::DELETE, *job, *revision)));
    asks.extend(chunks.iter().map(|(run, token, number)| ask!(chunks::DELETE, *run, *token, *number)));
    asks.extend(expired.statistics.iter().map(|(namespace, job, [kind, at, shard, commit])| {
        ask!(statistics::DELETE, &**namespace, &**job, *kind, *at, *shard, *commit)
    }));
    gone += c.execute(&asks).await?;
    last.extend(expired.deleted_jobs.iter().map(|job| ask!(deleted_jobs::DELETE, *job)));
    c.execute(&last).await?;
    Ok(gone)
}
