//! A listing of runs: walks run ids over the live runs of every shard and the history together.
//!
//! Matching rows may be far apart, so the walk is made in steps, each with its own snapshot and a limit on the rows it
//! reads: a rare filter takes more steps, not a longer snapshot. A step covers one range of ids in all its sources, so
//! a run that ends between two steps is still listed once.

use std::sync::Arc;

use punctual_core::ids::{JobId, RunId, ShardId};
use punctual_core::run::{Run, Status};
use rusqlite::{Params, Row};

use super::failure::Failure;
use super::reader::Snapshot;
use super::{queries, rows};
use crate::listing::{Span, listed};
use crate::{RunFilter, codec, place};

type Result<T, E = Failure> = std::result::Result<T, E>;

/// Rows that a step reads from one source: a few milliseconds of work.
const VISITS_MAX: usize = 2_000;

pub(super) struct Walk {
    filter: RunFilter,
    /// One bit per status; see `codec::status_number`.
    statuses: u8,
    sources: Vec<Source>,
    /// The id range that is left. `None` means the walk is done.
    span: Option<Span>,
    limit: usize,
    pub(super) runs: Vec<Arc<Run>>,
}

/// An index or table with runs in id order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    History,
    HistoryOfJob(JobId),
    HistoryOfKey,
    HistoryOfStatus(Status),
    Live(ShardId),
}

#[derive(Debug, Clone, Copy)]
struct Match {
    id: i64,
    live: bool,
}

impl Walk {
    pub(super) fn new(filter: &RunFilter, after: Option<RunId>, limit: usize, shards: u16) -> Walk {
        let wanted = if filter.statuses.is_empty() { &Status::ALL[..] } else { &filter.statuses };
        Walk {
            filter: filter.clone(),
            statuses: wanted.iter().fold(0, |bits, status| bits | bit(codec::status_number(*status))),
            sources: sources(filter, wanted, shards),
            span: Span::of(filter, after).filter(|_| limit > 0),
            limit,
            runs: Vec::new(),
        }
    }

    pub(super) fn goes_on(&self) -> bool {
        self.span.is_some()
    }

    pub(super) fn step(&mut self, snapshot: &Snapshot<'_>) -> Result<()> {
        let Some(span) = self.span else { return Ok(()) };
        let (mut covered, mut matches) = (span, Vec::new());
        for source in &self.sources {
            // A source that stops early narrows the range for the sources after it.
            covered = self.look_into(*source, covered, snapshot, &mut matches)?;
        }
        matches.retain(|found| (covered.first..=covered.last).contains(&found.id));
        matches.sort_unstable_by_key(|found| if self.filter.oldest_first { found.id } else { -found.id });
        matches.truncate(self.limit - self.runs.len());
        for found in matches {
            self.runs.extend(read(found, snapshot)?.map(listed));
        }
        self.span = if self.runs.len() < self.limit { self.beyond(span, covered) } else { None };
        Ok(())
    }

    /// Adds the matching runs, and returns the part of the range that was read.
    fn look_into(
        &self,
        source: Source,
        span: Span,
        snapshot: &Snapshot<'_>,
        matches: &mut Vec<Match>,
    ) -> Result<Span> {
        let Span { first, last } = span;
        let oldest_first = self.filter.oldest_first;
        let pick = |oldest: &'static str, newest: &'static str| if oldest_first { oldest } else { newest };
        match source {
            Source::History => {
                let sql = pick(queries::history::OLDEST_FIRST, queries::history::NEWEST_FIRST);
                self.visit(sql, (first, last), false, span, snapshot, matches)
            }
            Source::HistoryOfJob(job) => {
                let sql = pick(queries::history::OF_JOB_OLDEST_FIRST, queries::history::OF_JOB_NEWEST_FIRST);
                self.visit(sql, (first, last, job.0), false, span, snapshot, matches)
            }
            Source::HistoryOfKey => {
                let sql = pick(queries::history::OF_KEY_OLDEST_FIRST, queries::history::OF_KEY_NEWEST_FIRST);
                self.visit(sql, (first, last, self.filter.key.as_deref()), false, span, snapshot, matches)
            }
            Source::HistoryOfStatus(status) => {
                let sql =
                    pick(queries::history::OF_STATUS_OLDEST_FIRST, queries::history::OF_STATUS_NEWEST_FIRST);
                let status = codec::status_number(status);
                self.visit(sql, (first, last, status), false, span, snapshot, matches)
            }
            Source::Live(shard) => {
                let places = (place::through(shard, first - 1) + 1, place::through(shard, last));
                match self.filter.key.as_deref() {
                    Some(key) => {
                        let sql =
                            pick(queries::runs::OF_KEY_OLDEST_FIRST, queries::runs::OF_KEY_NEWEST_FIRST);
                        self.visit(sql, (places.0, places.1, key), true, span, snapshot, matches)
                    }
                    None => {
                        let sql = pick(queries::runs::OLDEST_FIRST, queries::runs::NEWEST_FIRST);
                        self.visit(sql, places, true, span, snapshot, matches)
                    }
                }
            }
        }
    }

    fn visit(
        &self,
        sql: &str,
        params: impl Params,
        live: bool,
        span: Span,
        snapshot: &Snapshot<'_>,
        matches: &mut Vec<Match>,
    ) -> Result<Span> {
        let mut statement = snapshot.connection.prepare_cached(sql)?;
        let mut rows = statement.query(params)?;
        let (wanted, mut found, mut visits) = (self.limit - self.runs.len(), 0, 0);
        while let Some(row) = rows.next()? {
            let key: i64 = row.get(0)?;
            let id = if live { place::run(key).0 } else { key };
            if self.takes(row)? {
                matches.push(Match { id, live });
                found += 1;
            }
            visits += 1;
            if found == wanted || visits == VISITS_MAX {
                return Ok(if self.filter.oldest_first {
                    Span { last: id, ..span }
                } else {
                    Span { first: id, ..span }
                });
            }
        }
        Ok(span)
    }

    fn takes(&self, row: &Row<'_>) -> Result<bool> {
        if self.statuses & bit(row.get(3)?) == 0 {
            return Ok(false);
        }
        if let Some(job) = self.filter.job
            && row.get::<_, Option<i64>>(2)? != Some(job.0)
        {
            return Ok(false);
        }
        if let Some(namespace) = &self.filter.namespace
            && rows::text(row, 1)? != namespace.as_str()
        {
            return Ok(false);
        }
        // Triggers come last: they are only in the run's body, which has to be decoded.
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
            Some(job) => sources.push(Source::Live(job.shard())),
            None => sources.extend((0..shards).map(|shard| Source::Live(ShardId(shard)))),
        }
    }
    sources
}

fn bit(status: i64) -> u8 {
    1 << (status & 7)
}

fn read(found: Match, snapshot: &Snapshot<'_>) -> Result<Option<Arc<Run>>> {
    if found.live {
        snapshot.one(queries::runs::GET, [place::of(RunId(found.id))], |row| rows::run(row, 0))
    } else {
        snapshot.one(queries::history::GET, [found.id], |row| rows::run(row, 0))
    }
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
        assert_eq!(sources(Some(job), &[Status::Running], 64), [Source::Live(ShardId(0))]);
        assert_eq!(sources(None, &[Status::Running], 64).len(), 64);
        assert_eq!(sources(None, &Status::ALL, 64).len(), 65);
        assert_eq!(sources(None, &[Status::Failed, Status::Succeeded], 64), [Source::History]);
        let keyed = RunFilter { key: Some("k".into()), job: Some(job), ..RunFilter::default() };
        assert_eq!(super::sources(&keyed, &[Status::Failed], 64), [Source::HistoryOfKey]);
    }
}
