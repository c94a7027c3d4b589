//! Reads of a shard's leader: its live set, rows by key, its next timers.

use std::sync::Arc;

use punctual_core::Timestamp;
use punctual_core::change::{DueRun, DueSpan, Found, Loaded, RATE_PREFIX, TimerPage, TimerPosition, Want};
use punctual_core::ids::{Epoch, RunId, SessionId, ShardId, first_id_at};
use punctual_core::job::Job;
use punctual_core::queue::Message;

use super::connection::{Ask, Connection, ask};
use super::queries::{
    self, history, holds, incidents, jobs, listeners, locks, queues, runs, shards, statistics, steps, uniques,
};
use super::value::Row;
use super::{decode, messages, records};
use crate::listing::listed;
use crate::page_bytes::PageBytes;
use crate::{Error, Leases, Result, codec, ended_key, live_key};

/// The time by the store's clock, and the leader of each shard.
pub(crate) async fn leases(c: &mut dyn Connection) -> Result<Leases> {
    let mut now = Timestamp::MIN;
    let shards = c
        .all(ask!(shards::LEASES), |row| {
            now = row.instant(0)?;
            decode::lease(row)
        })
        .await?;
    Ok(Leases { now, shards })
}

/// Every transaction locks the rows of shards in their order, so there is no deadlock.
pub(crate) async fn release(
    c: &mut dyn Connection,
    mut released: Vec<(ShardId, Epoch)>,
    heir: Option<SessionId>,
) -> Result<()> {
    released.sort_unstable();
    let heir = heir.map(|session| session.0);
    let asks: Vec<Ask<'_>> =
        released.iter().map(|(shard, epoch)| ask!(shards::RELEASE, shard.0, epoch.0, heir)).collect();
    c.execute(&asks).await.map(|_| ())
}

pub(crate) async fn load(c: &mut dyn Connection, shard: ShardId, epoch: Epoch) -> Result<Loaded> {
    let (first, last) = live_key::span(shard);
    // The next byte after the slash that ends the prefix.
    let rates_end = RATE_PREFIX.replace('/', "0");
    let asks = [
        ask!(shards::GET, shard.0, epoch.0),
        ask!(runs::LOAD, shard.0, first, last),
        ask!(queues::LOAD, shard.0),
        ask!(statistics::RECENT, shard.0),
        ask!(listeners::LOAD, shard.0),
        ask!(locks::LOAD, shard.0),
        ask!(holds::LOAD, shard.0),
        ask!(incidents::LOAD, shard.0),
        ask!(uniques::LOAD, shard.0, RATE_PREFIX.as_bytes(), rates_end.as_bytes()),
    ];
    let (mut fence, mut live, mut queues) = (None, Vec::new(), Vec::new());
    let (mut recent_counts, mut rates) = (Vec::new(), Vec::new());
    let (mut listeners, mut locks, mut holds) = (Vec::new(), Vec::new(), Vec::new());
    let mut incidents = Vec::new();
    c.query(&asks, &mut |index, row| {
        match index {
            0 => fence = Some((row.int(0)?.cast_unsigned(), row.int(1)?)),
            1 => live.push((decode::run(row, 0)?, false)),
            2 => queues.push(decode::queue(row)?),
            3 => recent_counts.push(decode::recent_counts(row)?),
            4 => listeners.push(codec::read_json(row.bytes(0)?)?),
            5 => locks.push(codec::read_json(row.bytes(0)?)?),
            6 => holds.push(codec::read_json(row.bytes(0)?)?),
            7 => incidents.push(codec::read_json(row.bytes(0)?)?),
            _ => rates.push(decode::unique(row)?),
        }
        Ok(true)
    })
    .await?;
    let (commit, last_id) = fence.ok_or(Error::Fenced { shard, epoch })?;
    let workflows = live.iter().filter(|(run, _)| run.may_have_steps());
    let workflows = workflows.map(|(run, _)| vec![run.id.0.into()]).collect();
    let mut steps = c.by_keys(steps::OF_RUNS, workflows, decode::step).await?;
    steps.sort_unstable_by_key(|step| step.key);
    let runs = records::records(c, live).await?;
    Ok(Loaded {
        shard,
        epoch,
        commit,
        last_id,
        runs,
        steps,
        listeners,
        locks,
        holds,
        incidents,
        queues,
        recent_counts,
        rates,
    })
}

pub(crate) async fn fetch(c: &mut dyn Connection, wants: &[(ShardId, Want)]) -> Result<Found> {
    let (mut names, mut ids) = (Vec::new(), Vec::new());
    let (mut keys, mut messages, mut workflows) = (Vec::new(), Vec::new(), Vec::new());
    let mut spans = Vec::new();
    for (shard, want) in wants {
        match want {
            Want::Job(namespace, name) => names.push(vec![namespace.as_str().into(), name.as_str().into()]),
            Want::Run(run) => ids.push(*run),
            Want::Steps(run) => workflows.push(vec![run.0.into()]),
            Want::Unique(key) => keys.push(vec![shard.0.into(), key.as_bytes().into()]),
            Want::Message(id) => {
                messages.push(vec![id.shard().0.into(), id.queue.0.into(), id.number.into()]);
            }
            Want::DueRuns(span) => spans.push(*span),
        }
    }
    let definitions = c.definitions();
    let jobs = c.by_keys(jobs::NAMED, names, |row| decode::job(row, &definitions)).await?;
    let uniques = c.by_keys(uniques::GET, keys, decode::unique).await?;
    let messages = c.by_keys(queries::messages::FIND, messages, decode::message).await?;
    let mut steps = c.by_keys(steps::WHOLE_OF_RUNS, workflows, decode::step).await?;
    steps.sort_unstable_by_key(|step| step.key);
    let runs = records::runs_by_id(c, &ids, listed).await?;
    let runs = records::records(c, runs).await?;
    let due_runs = due_runs(c, &spans).await?;
    Ok(Found { jobs, runs, steps, uniques, messages, due_runs })
}

/// The due time is in the body of a run, so all runs are read that the job has had since the span began: those without a
/// parent, and the child runs of backfills among the children.
async fn due_runs(c: &mut dyn Connection, spans: &[DueSpan]) -> Result<Vec<DueRun>> {
    if spans.is_empty() {
        return Ok(Vec::new());
    }
    let both = |span: &DueSpan| {
        let first = RunId(first_id_at(span.from));
        let walk = |from: i64, through: i64| {
            ask!(history::WALK_OF_JOB[0], from, through, usize::MAX, true, span.job.0)
        };
        [
            walk(ended_key::whole(first), i64::MAX),
            walk(ended_key::child(first), ended_key::child(RunId(i64::MAX))),
        ]
    };
    let asks: Vec<Ask<'static>> = spans.iter().flat_map(both).collect();
    let mut found = Vec::new();
    c.query(&asks, &mut |index, row| {
        found.extend(spans[index / 2].due_of(&*decode::run(row, 5)?));
        Ok(true)
    })
    .await?;
    Ok(found)
}

/// Jobs, waiting runs and messages have three indexes in the same order; a page is the first `limit` rows of all three.
pub(crate) async fn due(
    c: &mut dyn Connection,
    shard: ShardId,
    after: TimerPosition,
    limit: usize,
) -> Result<TimerPage> {
    let through = live_key::through(shard, after.id);
    let asks = [
        ask!(jobs::DUE, shard.0, after.at, after.id, limit),
        ask!(runs::DUE, shard.0, after.at, through, limit),
    ];
    let (mut jobs, mut runs) = (Vec::new(), Vec::new());
    let definitions = c.definitions();
    c.query(&asks, &mut |index, row| {
        match index {
            0 => jobs.push(decode::job(row, &definitions)?),
            _ => runs.push((run_place(row)?, decode::run(row, 2)?)),
        }
        Ok(true)
    })
    .await?;
    let from = vec![shard.0.into(), after.at.into(), after.id.into()];
    let mut messages = messages::page(c, &queries::messages::DUE, from, limit).await?;
    let mut places: Vec<TimerPosition> = jobs.iter().filter_map(job_place).collect();
    places.extend(runs.iter().map(|(place, _)| *place));
    places.extend(messages.iter().map(|message| message_place(message)));
    places.sort_unstable();
    if let Some(last) = messages.last()
        && PageBytes::of(&messages).is_full()
    {
        // The page of messages ended early: drop what comes after its last message.
        let last = message_place(last);
        places.retain(|place| *place <= last);
    }
    places.truncate(limit);
    let Some(end) = places.last().copied() else { return Ok(TimerPage::default()) };
    jobs.retain(|job| job_place(job).is_some_and(|place| place <= end));
    messages.retain(|message| message_place(message) <= end);
    let runs = runs.into_iter().filter(|(place, _)| *place <= end).map(|(_, run)| (run, false)).collect();
    let runs = records::records(c, runs).await?;
    Ok(TimerPage { jobs, runs, messages, end: Some(end) })
}

/// The place of a message among the timers.
pub(crate) fn message_place(message: &Message) -> TimerPosition {
    TimerPosition { at: message.wake_at(), id: message.id.number }
}

fn job_place(job: &Arc<Job>) -> Option<TimerPosition> {
    Some(TimerPosition { at: job.timer_at()?, id: job.id.0 })
}

/// Reads the wake time and the place of a live run.
pub(crate) fn run_place(row: &dyn Row) -> Result<TimerPosition> {
    Ok(TimerPosition { at: row.instant(0)?, id: live_key::run(row.int(1)?).0 })
}
