//! A listing of runs: walks run ids over the live runs of every shard and the history together.
//!
//! Matching rows may be far apart, so the walk is made in steps, each with its own snapshot and a limit on the rows it
//! reads: a rare filter takes more steps, not a longer statement. A step covers one range of ids in all its sources, so
//! a run that ends between two steps is still listed once. The first step reads few rows, because usually the first
//! matches are enough; each later step reads more.

use std::collections::BTreeMap;
use std::sync::Arc;

use punctual_core::ids::{JobId, RunId, ShardId};
use punctual_core::run::{Run, Status};
use tokio_postgres::Row;

use super::doors::rows_max;
use super::link::{Ask, ask};
use super::snapshot::Snapshot;
use super::{queries, rows};
use crate::listing::{Span, listed};
use crate::{Result, RunFilter, codec, place};

/// Rows that the first step reads from one source beyond its limit, and the most that any step reads.
const VISITS_MIN: usize = 64;
const VISITS_MAX: usize = 2_000;
/// Each step reads this many times as many rows as the one before.
const STRIDE: usize = 4;
/// The fewest rows to read of each shard, however many shards there are.
const VISITS_OF_SHARD_MIN: usize = 16;

pub(super) struct Walk {
    filter: RunFilter,
    wanted: Vec<Status>,
    sources: Vec<Source>,
    /// The id range that is left. `None` means the walk is done.
    span: Option<Span>,
    limit: usize,
    visits: usize,
    pub(super) runs: Vec<Arc<Run>>,
}

/// An index or table with runs in id order.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Source {
    History,
    HistoryOfJob,
    HistoryOfKey,
    HistoryOfStatus(Status),
    Live(Vec<ShardId>),
}

impl Walk {
    pub(super) fn new(filter: &RunFilter, after: Option<RunId>, limit: usize, shards: u16) -> Walk {
        let wanted = if filter.statuses.is_empty() { Status::ALL.to_vec() } else { filter.statuses.clone() };
        Walk {
            filter: filter.clone(),
            sources: sources(filter, &wanted, shards),
            wanted,
            span: Span::of(filter, after).filter(|_| limit > 0),
            limit,
            visits: limit.clamp(VISITS_MIN, VISITS_MAX),
            runs: Vec::new(),
        }
    }

    pub(super) fn goes_on(&self) -> bool {
        self.span.is_some()
    }

    pub(super) async fn step(&mut self, snapshot: &mut Snapshot<'_>) -> Result<()> {
        let Some(span) = self.span else { return Ok(()) };
        let asks = self.sources.iter().map(|source| self.ask(source, span)).collect();
        let pages = snapshot.all(asks).await?;
        let (mut covered, mut matches) = (span, Vec::new());
        for (source, page) in self.sources.iter().zip(&pages) {
            covered = self.look_into(source, page, covered, &mut matches)?;
        }
        matches.retain(|id| (covered.first..=covered.last).contains(id));
        self.sort_by(&mut matches, |id| *id);
        matches.truncate(self.limit - self.runs.len());
        let ids: Vec<RunId> = matches.into_iter().map(RunId).collect();
        let mut found: Vec<Arc<Run>> = snapshot.runs(&ids).await?.into_iter().map(|(run, _)| run).collect();
        self.sort_by(&mut found, |run| run.id.0);
        self.runs.extend(found.into_iter().map(listed));
        self.visits = (self.visits * STRIDE).min(VISITS_MAX);
        self.span = if self.runs.len() < self.limit { self.beyond(span, covered) } else { None };
        Ok(())
    }

    fn sort_by<T>(&self, rows: &mut [T], id: impl Fn(&T) -> i64) {
        rows.sort_unstable_by_key(|row| if self.filter.oldest_first { id(row) } else { -id(row) });
    }

    fn ask(&self, source: &Source, span: Span) -> Ask {
        let pick = |oldest, newest| if self.filter.oldest_first { oldest } else { newest };
        use queries::{history, runs};
        let sql = match source {
            Source::History => pick(history::OLDEST_FIRST, history::NEWEST_FIRST),
            Source::HistoryOfJob => pick(history::OF_JOB_OLDEST_FIRST, history::OF_JOB_NEWEST_FIRST),
            Source::HistoryOfKey => pick(history::OF_KEY_OLDEST_FIRST, history::OF_KEY_NEWEST_FIRST),
            Source::HistoryOfStatus(_) => {
                pick(history::OF_STATUS_OLDEST_FIRST, history::OF_STATUS_NEWEST_FIRST)
            }
            Source::Live(_) if self.filter.key.is_some() => {
                pick(runs::OF_KEY_OLDEST_FIRST, runs::OF_KEY_NEWEST_FIRST)
            }
            Source::Live(_) => pick(runs::OLDEST_FIRST, runs::NEWEST_FIRST),
        };
        let statuses = match source {
            Source::HistoryOfStatus(status) => vec![number(*status)],
            _ => self.wanted.iter().copied().map(number).collect(),
        };
        let filter = &self.filter;
        let mut ask = ask!(
            sql,
            span.first,
            span.last,
            rows_max(self.visits_in(source)),
            filter.namespace.as_ref().map(|namespace| namespace.as_str().to_owned()),
            filter.job.map(|job: JobId| job.0),
            statuses,
            filter.key.as_ref().map(|key| key.as_bytes().to_vec()),
            !filter.triggers.is_empty(),
        );
        if let Source::Live(shards) = source {
            let spans = |from: fn(ShardId, Span) -> i64| -> Vec<i64> {
                shards.iter().map(|shard| from(*shard, span)).collect()
            };
            ask.params[0] = Box::new(spans(|shard, span| place::through(shard, span.first - 1) + 1));
            ask.params[1] = Box::new(spans(|shard, span| place::through(shard, span.last)));
        }
        ask
    }

    fn visits_in(&self, source: &Source) -> usize {
        match source {
            Source::Live(shards) => (self.visits / shards.len().max(1)).max(VISITS_OF_SHARD_MIN),
            _ => self.visits,
        }
    }

    /// Adds the matching runs, and returns the part of the range that was read.
    fn look_into(&self, source: &Source, page: &[Row], span: Span, matches: &mut Vec<i64>) -> Result<Span> {
        let is_live = matches!(source, Source::Live(_));
        // How many rows of each shard were read, and the last of them.
        let mut passed: BTreeMap<Option<ShardId>, (usize, i64)> = BTreeMap::new();
        for row in page {
            let at: i64 = rows::get(row, 0)?;
            let id = if is_live { place::run(at).0 } else { at };
            if rows::get(row, 1)? && self.takes(row)? {
                matches.push(id);
            }
            let passed = passed.entry(is_live.then(|| RunId(id).shard())).or_insert((0, id));
            *passed =
                (passed.0 + 1, if self.filter.oldest_first { passed.1.max(id) } else { passed.1.min(id) });
        }
        let stopped = passed.values().filter(|(count, _)| *count == self.visits_in(source));
        Ok(stopped.fold(span, |span, (_, id)| {
            if self.filter.oldest_first {
                Span { last: span.last.min(*id), ..span }
            } else {
                Span { first: span.first.max(*id), ..span }
            }
        }))
    }

    /// Checks the triggers, which are only in the run's body.
    fn takes(&self, row: &Row) -> Result<bool> {
        Ok(self.filter.triggers.is_empty() || self.filter.takes(&*rows::run(row, 2)?))
    }

    fn beyond(&self, span: Span, covered: Span) -> Option<Span> {
        if self.filter.oldest_first {
            (covered.last < span.last).then(|| Span { first: covered.last + 1, ..span })
        } else {
            (covered.first > span.first).then(|| Span { last: covered.first - 1, ..span })
        }
    }
}

/// The smallest set of sources that contains the wanted runs.
fn sources(filter: &RunFilter, wanted: &[Status], shards: u16) -> Vec<Source> {
    let ended: Vec<Status> = wanted.iter().copied().filter(|status| status.is_terminal()).collect();
    let mut sources = match filter.job {
        _ if ended.is_empty() => Vec::new(),
        _ if filter.key.is_some() => vec![Source::HistoryOfKey],
        Some(_) => vec![Source::HistoryOfJob],
        None if ended.contains(&Status::Succeeded) => vec![Source::History],
        None => ended.into_iter().map(Source::HistoryOfStatus).collect(),
    };
    if wanted.iter().any(|status| !status.is_terminal()) {
        sources.push(Source::Live(match filter.job {
            Some(job) => vec![job.shard()],
            None => (0..shards).map(ShardId).collect(),
        }));
    }
    sources
}

fn number(status: Status) -> i16 {
    i16::try_from(codec::status_number(status)).unwrap_or(i16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_looks_only_where_the_wanted_runs_can_lie() {
        let sources = |job: Option<JobId>, wanted: &[Status]| {
            sources(&RunFilter { job, ..RunFilter::default() }, wanted, 4)
        };
        let job = Some(JobId(0));
        let everywhere = Source::Live((0..4).map(ShardId).collect());
        assert_eq!(sources(None, &[Status::Failed]), [Source::HistoryOfStatus(Status::Failed)]);
        assert_eq!(sources(job, &[Status::Failed, Status::Skipped]), [Source::HistoryOfJob]);
        assert_eq!(sources(job, &[Status::Running]), [Source::Live(vec![ShardId(0)])]);
        assert_eq!(sources(None, &Status::ALL), [Source::History, everywhere]);
        assert_eq!(sources(None, &[Status::Failed, Status::Succeeded]), [Source::History]);
        let keyed = RunFilter { key: Some("k".into()), job, ..RunFilter::default() };
        assert_eq!(super::sources(&keyed, &[Status::Failed], 4), [Source::HistoryOfKey]);
    }
}
