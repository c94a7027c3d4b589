//! A listing of runs: walks run ids over the live runs of every shard and the history together.
//!
//! Matching rows may be far apart, so the walk is made in steps, each with its own snapshot and a limit on the rows it
//! reads: a rare filter takes more steps, not a longer one. A step covers one range of ids in all its sources, so a run
//! that ends between two steps is still listed once.

use std::sync::Arc;

use mysql_async::Row;
use punctual_core::ids::{JobId, RunId, ShardId};
use punctual_core::run::{Run, Status};

use super::doors::rows_max;
use super::failure::{Failure, Moment};
use super::link::Held;
use super::script::{hex, int, put};
use super::{Mysql, rows};
use crate::listing::{Span, listed};
use crate::{RunFilter, codec, place};

type Result<T, E = Failure> = std::result::Result<T, E>;

/// Rows that a step reads from one source: a few milliseconds of work.
const VISITS_MAX: usize = 2_000;
/// Runs by key, in id order.
const OF_KEY: &str = " FROM keyed AS k FORCE INDEX (keyed_key) STRAIGHT_JOIN ";
/// Shards that one query reads.
const SHARDS_AT_ONCE: usize = 64;

struct Walk<'a> {
    filter: &'a RunFilter,
    /// One bit per status; see `codec::status_number`.
    statuses: u8,
    sources: Vec<Source>,
    /// The id range that is left. `None` means the walk is done.
    span: Option<Span>,
    limit: usize,
    runs: Vec<Arc<Run>>,
}

/// An index or table with runs in id order.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Source {
    History,
    HistoryOfJob(JobId),
    HistoryOfKey,
    HistoryOfStatus(Status),
    Live(Vec<ShardId>),
    LiveOfKey,
}

impl Mysql {
    pub(super) async fn list_runs(
        &self,
        filter: &RunFilter,
        after: Option<RunId>,
        limit: usize,
    ) -> crate::Result<Vec<Arc<Run>>> {
        let mut walk = Walk::new(filter, after, limit, self.shards);
        while walk.span.is_some() {
            let mut held = self.door().await?;
            let stepped = walk.step(self, &mut held).await;
            held.finish(stepped, Moment::Reading).await?;
        }
        Ok(walk.runs)
    }
}

impl<'a> Walk<'a> {
    fn new(filter: &'a RunFilter, after: Option<RunId>, limit: usize, shards: u16) -> Walk<'a> {
        let wanted = if filter.statuses.is_empty() { &Status::ALL[..] } else { &filter.statuses };
        Walk {
            filter,
            statuses: wanted.iter().fold(0, |bits, status| bits | bit(codec::status_number(*status))),
            sources: sources(filter, wanted, shards),
            span: Span::of(filter, after).filter(|_| limit > 0),
            limit,
            runs: Vec::new(),
        }
    }

    async fn step(&mut self, store: &Mysql, held: &mut Held<'_>) -> Result<()> {
        let Some(span) = self.span else { return Ok(()) };
        held.snapshot().await?;
        let (mut covered, mut ids) = (span, Vec::new());
        for source in &self.sources {
            // A source that stops early narrows the range for the sources after it.
            covered = self.look_into(source, covered, held, &mut ids).await?;
        }
        ids.retain(|id| (covered.first..=covered.last).contains(id));
        ids.sort_unstable_by_key(|id| if self.filter.oldest_first { *id } else { -id });
        ids.truncate(self.limit - self.runs.len());
        let ids: Vec<RunId> = ids.into_iter().map(RunId).collect();
        let mut runs: Vec<Arc<Run>> =
            store.runs_by_id(held, &ids).await?.into_iter().map(|(run, _)| run).collect();
        if !self.filter.oldest_first {
            runs.reverse();
        }
        self.runs.extend(runs.into_iter().map(listed));
        self.span = if self.runs.len() < self.limit { self.beyond(span, covered) } else { None };
        Ok(())
    }

    /// Adds the ids of matching runs, and returns the part of the range that was read.
    async fn look_into(
        &self,
        source: &Source,
        span: Span,
        held: &mut Held<'_>,
        ids: &mut Vec<i64>,
    ) -> Result<Span> {
        match source {
            Source::Live(shards) => {
                let most = (VISITS_MAX / shards.len()).max(self.wanted()).min(VISITS_MAX);
                let found = held.text(self.live_query(shards, span, most)).await?;
                let mut covered = span;
                for of_shard in found.chunk_by(|a, b| shard_of(a) == shard_of(b)) {
                    let part = self.visit(of_shard, true, most, span, ids)?;
                    covered =
                        Span { first: covered.first.max(part.first), last: covered.last.min(part.last) };
                }
                Ok(covered)
            }
            Source::LiveOfKey => {
                let found = held.text(self.live_of_key_query(span)).await?;
                self.visit(&found, true, VISITS_MAX, span, ids)
            }
            _ => {
                let most = if self.is_plain() { self.wanted().min(VISITS_MAX) } else { VISITS_MAX };
                let found = held.text(self.history_query(source, span, most)).await?;
                self.visit(&found, false, most, span, ids)
            }
        }
    }

    fn wanted(&self) -> usize {
        self.limit - self.runs.len()
    }

    /// Whether the filter takes every row of the history.
    fn is_plain(&self) -> bool {
        let RunFilter { namespace, job, statuses, triggers, key, .. } = self.filter;
        namespace.is_none() && job.is_none() && statuses.is_empty() && triggers.is_empty() && key.is_none()
    }

    /// The columns that `takes` reads; the trigger of a run is only in its body.
    fn columns(&self) -> &'static str {
        if self.filter.triggers.is_empty() {
            ", t.namespace, t.job, t.status"
        } else {
            ", t.namespace, t.job, t.status, t.body"
        }
    }

    fn history_query(&self, source: &Source, Span { first, last }: Span, most: usize) -> Vec<u8> {
        let mut sql = Vec::new();
        put(&mut sql, "SELECT t.id");
        put(&mut sql, self.columns());
        let column = match source {
            Source::HistoryOfJob(job) => {
                put(&mut sql, " FROM history AS t FORCE INDEX (history_of_job) WHERE t.job = ");
                int(&mut sql, job.0);
                " AND t.place"
            }
            Source::HistoryOfKey => {
                put(&mut sql, OF_KEY);
                put(&mut sql, "history AS t ON t.id = k.run WHERE k.run_key = ");
                hex(&mut sql, self.filter.key.as_deref().unwrap_or_default().as_bytes());
                " AND k.run"
            }
            Source::HistoryOfStatus(status) => {
                put(
                    &mut sql,
                    " FROM unusual AS u FORCE INDEX (unusual_status) STRAIGHT_JOIN history AS t ON t.id = u.run",
                );
                put(&mut sql, " WHERE u.status = ");
                int(&mut sql, codec::status_number(*status));
                " AND u.run"
            }
            Source::History | Source::Live(_) | Source::LiveOfKey => {
                put(&mut sql, " FROM history AS t FORCE INDEX (PRIMARY) WHERE");
                " t.id"
            }
        };
        self.between(&mut sql, column, Span { first, last }, most);
        sql
    }

    fn live_of_key_query(&self, span: Span) -> Vec<u8> {
        let mut sql = Vec::new();
        put(&mut sql, "SELECT t.place");
        put(&mut sql, self.columns());
        put(&mut sql, OF_KEY);
        put(&mut sql, "runs AS t ON t.place = k.place WHERE k.run_key = ");
        hex(&mut sql, self.filter.key.as_deref().unwrap_or_default().as_bytes());
        self.between(&mut sql, " AND k.run", span, VISITS_MAX);
        sql
    }

    /// The end of a query: limits `column`, the last word of that text, to the range and sorts by it.
    fn between(&self, sql: &mut Vec<u8>, column: &str, Span { first, last }: Span, most: usize) {
        put(sql, column);
        put(sql, " BETWEEN ");
        int(sql, first);
        put(sql, " AND ");
        int(sql, last);
        put(sql, " ORDER BY ");
        put(sql, column.rsplit(' ').next().unwrap_or(column));
        put(sql, if self.filter.oldest_first { " LIMIT " } else { " DESC LIMIT " });
        int(sql, rows_max(most));
    }

    /// One query for several shards, each in its own order.
    fn live_query(&self, shards: &[ShardId], Span { first, last }: Span, most: usize) -> Vec<u8> {
        let mut sql = Vec::new();
        for (index, shard) in shards.iter().enumerate() {
            put(&mut sql, if index == 0 { "(SELECT t.place" } else { " UNION ALL (SELECT t.place" });
            put(&mut sql, self.columns());
            put(&mut sql, " FROM runs AS t FORCE INDEX (PRIMARY) WHERE");
            put(&mut sql, " t.place BETWEEN ");
            int(&mut sql, place::through(*shard, first - 1) + 1);
            put(&mut sql, " AND ");
            int(&mut sql, place::through(*shard, last));
            let order = if self.filter.oldest_first { "" } else { " DESC" };
            put(&mut sql, " ORDER BY t.place");
            put(&mut sql, order);
            put(&mut sql, " LIMIT ");
            int(&mut sql, rows_max(most));
            put(&mut sql, ")");
        }
        sql
    }

    fn visit(&self, found: &[Row], live: bool, most: usize, span: Span, ids: &mut Vec<i64>) -> Result<Span> {
        let (wanted, mut taken) = (self.wanted(), 0);
        for (index, row) in found.iter().enumerate() {
            let key = rows::int(row, 0)?;
            let id = if live { place::run(key).0 } else { key };
            if self.takes(row)? {
                ids.push(id);
                taken += 1;
            }
            if taken == wanted || index + 1 == most {
                return Ok(if self.filter.oldest_first {
                    Span { last: id, ..span }
                } else {
                    Span { first: id, ..span }
                });
            }
        }
        Ok(span)
    }

    fn takes(&self, row: &Row) -> Result<bool> {
        if self.statuses & bit(rows::int(row, 3)?) == 0 {
            return Ok(false);
        }
        if let Some(job) = self.filter.job
            && rows::int_or_none(row, 2)? != Some(job.0)
        {
            return Ok(false);
        }
        if let Some(namespace) = &self.filter.namespace
            && rows::text(row, 1)? != namespace.as_str()
        {
            return Ok(false);
        }
        Ok(self.filter.triggers.is_empty() || self.filter.takes(&*rows::run(row, 4)?))
    }

    fn beyond(&self, span: Span, covered: Span) -> Option<Span> {
        if self.filter.oldest_first {
            (covered.last < span.last).then(|| Span { first: covered.last + 1, ..span })
        } else {
            (covered.first > span.first).then(|| Span { last: covered.first - 1, ..span })
        }
    }
}

fn shard_of(row: &Row) -> Option<ShardId> {
    rows::int(row, 0).ok().map(|place| place::run(place).shard())
}

/// The smallest set of sources that contains the wanted runs. History comes first: it usually ends a step.
fn sources(filter: &RunFilter, wanted: &[Status], shards: u16) -> Vec<Source> {
    let job = filter.job;
    let ended = wanted.iter().copied().filter(|status| status.is_terminal());
    let mut sources: Vec<Source> = match job {
        _ if filter.key.is_some() => ended.map(|_| Source::HistoryOfKey).take(1).collect(),
        Some(job) => ended.map(|_| Source::HistoryOfJob(job)).take(1).collect(),
        None if wanted.contains(&Status::Succeeded) => vec![Source::History],
        None => ended.map(Source::HistoryOfStatus).collect(),
    };
    if wanted.iter().any(|status| !status.is_terminal()) {
        match job {
            _ if filter.key.is_some() => sources.push(Source::LiveOfKey),
            Some(job) => sources.push(Source::Live(vec![job.shard()])),
            None => {
                let all: Vec<ShardId> = (0..shards).map(ShardId).collect();
                sources.extend(all.chunks(SHARDS_AT_ONCE).map(|shards| Source::Live(shards.to_vec())));
            }
        }
    }
    sources
}

fn bit(status: i64) -> u8 {
    1 << (status & 7)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_looks_only_where_the_wanted_runs_can_lie() {
        let job = JobId(0);
        let sources = |job: Option<JobId>, wanted: &[Status], shards| {
            sources(&RunFilter { job, ..RunFilter::default() }, wanted, shards)
        };
        assert_eq!(sources(None, &[Status::Failed], 64), [Source::HistoryOfStatus(Status::Failed)]);
        assert_eq!(sources(Some(job), &[Status::Failed, Status::Skipped], 64), [Source::HistoryOfJob(job)]);
        assert_eq!(sources(Some(job), &[Status::Running], 64), [Source::Live(vec![ShardId(0)])]);
        assert_eq!(sources(None, &[Status::Running], 64).len(), 1);
        assert_eq!(sources(None, &Status::ALL, 1024).len(), 17);
        assert_eq!(sources(None, &[Status::Failed, Status::Succeeded], 64), [Source::History]);
    }
}
