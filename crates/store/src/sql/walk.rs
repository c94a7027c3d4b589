//! A listing of runs: walks run ids over the live runs of every shard and the history together.
//!
//! Matching rows may be far apart, so the walk is made in steps, each with its own snapshot and a limit on the rows it
//! reads: a rare filter takes more steps, not a longer one. A step covers one range of ids in all its sources, so a run
//! that ends between two steps is still listed once. The first step reads few rows, because usually the first matches
//! are enough; each later step reads more.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use punctual_core::ids::{JobId, RunId, ShardId};
use punctual_core::run::{Run, Status};
use rustc_hash::FxHashSet;

use super::connection::{Ask, Connection, ask};
use super::queries::{history, runs};
use super::value::{Row, Value};
use super::{decode, records, search};
use crate::listing::{Span, listed};
use crate::{Children, Result, RunFilter, codec, ended_key, live_key};

/// Rows that the first step reads from one source beyond its limit, and the most that any step reads.
const VISITS_MIN: usize = 64;
const VISITS_MAX: usize = 2_000;
/// Each step reads this many times as many rows as the one before.
const GROWTH: usize = 4;
/// The fewest rows to read of each shard, however many shards there are.
const VISITS_OF_SHARD_MIN: usize = 16;

#[derive(Debug)]
pub(super) struct Walk {
    filter: RunFilter,
    /// One bit per status; see `codec::status_number`.
    statuses: u8,
    sources: Vec<Source>,
    /// The id range that is left. `None` means the walk is done.
    span: Option<Span>,
    limit: usize,
    visits: usize,
    /// Rows read so far.
    pub(super) rows: usize,
    pub(super) runs: Vec<Arc<Run>>,
    /// Runs counted so far, by `codec::status_number`.
    pub(super) counts: BTreeMap<i64, u64>,
}

/// A row that matches.
#[derive(Debug, Clone, Copy)]
struct Visit {
    id: i64,
    /// The key of its row in the history. `None` means that it is live.
    ended: Option<i64>,
    status: i64,
}

/// An index or table with runs in id order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Ended(Index, Range),
    Live(ShardId),
}

/// An index of the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Index {
    All,
    OfJob(JobId),
    OfKey,
    OfStatus(Status),
    OfParent(RunId),
}

/// Which range of an index, see [`ended_key`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Range {
    Whole,
    Children,
}

/// What a step has read of a source.
#[derive(Debug, Clone, Copy, Default)]
struct Visited {
    rows: usize,
    matches: usize,
    last: i64,
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
            visits: limit.clamp(VISITS_MIN, VISITS_MAX),
            rows: 0,
            runs: Vec::new(),
            counts: BTreeMap::new(),
        }
    }

    pub(super) fn goes_on(&self) -> bool {
        self.span.is_some()
    }

    pub(super) async fn step(mut self, c: &mut dyn Connection) -> Result<Walk> {
        let Some(span) = self.span else { return Ok(self) };
        let wanted = self.limit - self.runs.len();
        let (mut ids, covered) = self.visit(c, span, wanted).await?;
        ids.truncate(wanted);
        let live = ids.iter().filter(|visit| visit.ended.is_none()).map(|visit| RunId(visit.id));
        let mut found = records::live_runs(c, &live.collect::<Vec<_>>(), listed).await?;
        let ended: Vec<i64> = ids.iter().filter_map(|visit| visit.ended).collect();
        found.extend(records::ended_runs(c, &ended, listed).await?);
        self.sort_by(&mut found, |(run, _)| run.id.0);
        self.runs.extend(found.into_iter().map(|(run, _)| run));
        self.span = if self.runs.len() < self.limit { self.beyond(span, covered) } else { None };
        Ok(self)
    }

    /// Counts the runs of the next step by status instead of reading them.
    pub(super) async fn count(mut self, c: &mut dyn Connection) -> Result<Walk> {
        let Some(span) = self.span else { return Ok(self) };
        let (visits, covered) = self.visit(c, span, usize::MAX).await?;
        for visit in visits {
            *self.counts.entry(visit.status).or_default() += 1;
        }
        self.span = self.beyond(span, covered);
        Ok(self)
    }

    /// Reads the next rows of every source: those that match, sorted, and the part of the range that they cover.
    async fn visit(
        &mut self,
        c: &mut dyn Connection,
        span: Span,
        wanted: usize,
    ) -> Result<(Vec<Visit>, Span)> {
        let asks: Vec<Ask<'_>> = self.sources.iter().map(|source| self.ask(*source, span)).collect();
        let (mut visited, mut visits) = (vec![Visited::default(); asks.len()], Vec::new());
        // Which of the rows a search matches is known only after the step.
        let enough = if self.filter.search.is_some() { usize::MAX } else { wanted };
        c.query(&asks, &mut |index, row| {
            let place = row.int(0)?;
            let (id, ended) = match self.sources[index] {
                Source::Live(_) => (live_key::run(place).0, None),
                Source::Ended(..) => (ended_key::run(place).0, Some(place)),
            };
            let visited = &mut visited[index];
            visited.last = id;
            visited.rows += 1;
            if self.takes(row)? {
                visits.push(Visit { id, ended, status: row.int(3)? });
                visited.matches += 1;
            }
            Ok(visited.matches < enough)
        })
        .await?;
        drop(asks);
        let covered = self.covered(span, enough, &visited);
        visits.retain(|visit| (covered.first..=covered.last).contains(&visit.id));
        if let Some(search) = &self.filter.search {
            let found =
                search::matching(c, Some(search), visits.iter().map(|visit| visit.id).collect()).await?;
            let found: FxHashSet<i64> = found.into_iter().collect();
            visits.retain(|visit| found.contains(&visit.id));
        }
        self.sort_by(&mut visits, |visit| visit.id);
        self.rows += visited.iter().map(|visited| visited.rows).sum::<usize>();
        self.visits = (self.visits * GROWTH).min(VISITS_MAX);
        Ok((visits, covered))
    }

    fn sort_by<T>(&self, rows: &mut [T], id: impl Fn(&T) -> i64) {
        if self.filter.oldest_first {
            rows.sort_unstable_by_key(id);
        } else {
            rows.sort_unstable_by_key(|row| Reverse(id(row)));
        }
    }

    fn ask(&self, source: Source, span: Span) -> Ask<'_> {
        let key = self.filter.key.as_deref().map(str::as_bytes);
        let (both, of): ([&'static str; 2], Option<Value<'_>>) = match source {
            Source::Ended(index, _) => match index {
                Index::All => (history::WALK, None),
                Index::OfJob(job) => (history::WALK_OF_JOB, Some(job.0.into())),
                Index::OfKey => (history::WALK_OF_KEY, Some(key.into())),
                Index::OfStatus(status) => {
                    (history::WALK_OF_STATUS, Some(codec::status_number(status).into()))
                }
                Index::OfParent(run) => (history::WALK_OF_PARENT, Some(run.0.into())),
            },
            Source::Live(_) => match self.filter.children {
                Children::Of(run) => (runs::WALK_OF_PARENT, Some(run.0.into())),
                _ if key.is_some() => (runs::WALK_OF_KEY, Some(key.into())),
                Children::LeftOut => (runs::WALK_WITHOUT_CHILDREN, None),
                Children::Included => (runs::WALK, None),
            },
        };
        let (first, last) = match source {
            Source::Live(shard) => {
                (live_key::through(shard, span.first - 1) + 1, live_key::through(shard, span.last))
            }
            Source::Ended(_, Range::Whole) => (span.first, span.last),
            Source::Ended(_, Range::Children) => {
                (ended_key::child(RunId(span.first)), ended_key::child(RunId(span.last)))
            }
        };
        let sql = both[usize::from(!self.filter.oldest_first)];
        let mut ask = ask!(sql, first, last, self.visits_in(source), self.reads_bodies());
        ask.values.extend(of);
        ask
    }

    /// The trigger of a run is only in its body, and so is its key if it was not found by that.
    fn reads_bodies(&self) -> bool {
        let is_of_parent = matches!(self.filter.children, Children::Of(_));
        !self.filter.triggers.is_empty() || (is_of_parent && self.filter.key.is_some())
    }

    fn visits_in(&self, source: Source) -> usize {
        match source {
            Source::Live(_) => (self.visits / self.sources.len()).max(VISITS_OF_SHARD_MIN),
            _ => self.visits,
        }
    }

    fn takes(&self, row: &dyn Row) -> Result<bool> {
        if self.statuses & bit(row.int(3)?) == 0 {
            return Ok(false);
        }
        if !self.filter.jobs.is_empty() {
            let job = row.int_or_none(2)?.map(JobId);
            if !job.is_some_and(|job| self.filter.jobs.contains(&job)) {
                return Ok(false);
            }
        }
        if let Some(namespace) = &self.filter.namespace
            && row.text(1)? != namespace.as_str()
        {
            return Ok(false);
        }
        if !self.filter.children.takes(row.int_or_none(4)?.map(RunId)) {
            return Ok(false);
        }
        Ok(!self.reads_bodies() || self.filter.takes(&*decode::run(row, 5)?))
    }

    /// The part of the range that every source was read through.
    fn covered(&self, span: Span, wanted: usize, visited: &[Visited]) -> Span {
        let stopped = self.sources.iter().zip(visited).filter(|(source, visited)| {
            visited.matches == wanted || visited.rows == self.visits_in(**source)
        });
        stopped.fold(span, |span, (_, visited)| {
            if self.filter.oldest_first {
                Span { last: span.last.min(visited.last), ..span }
            } else {
                Span { first: span.first.max(visited.last), ..span }
            }
        })
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
    let indexes = match (filter.children, filter.jobs.as_slice()) {
        _ if ended.is_empty() => Vec::new(),
        (Children::Of(run), _) => vec![Index::OfParent(run)],
        _ if filter.key.is_some() => vec![Index::OfKey],
        (_, []) if ended.contains(&Status::Succeeded) => vec![Index::All],
        (_, []) => ended.into_iter().map(Index::OfStatus).collect(),
        (_, jobs) => jobs.iter().copied().map(Index::OfJob).collect(),
    };
    let ranges: &[Range] = match filter.children {
        Children::Included => &[Range::Whole, Range::Children],
        Children::LeftOut => &[Range::Whole],
        Children::Of(_) => &[Range::Children],
    };
    let in_ranges = |index| ranges.iter().map(move |range| Source::Ended(index, *range));
    let mut sources: Vec<Source> = indexes.into_iter().flat_map(in_ranges).collect();
    if wanted.iter().any(|status| !status.is_terminal()) {
        let shards: BTreeSet<u16> = match (filter.children, filter.jobs.as_slice()) {
            // A run and its children are in one shard.
            (Children::Of(run), _) => BTreeSet::from([run.shard().0]),
            (_, []) => (0..shards).collect(),
            (_, jobs) => jobs.iter().map(|job| job.shard().0).collect(),
        };
        sources.extend(shards.into_iter().map(|shard| Source::Live(ShardId(shard))));
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
        let listed = RunFilter { children: Children::LeftOut, ..RunFilter::default() };
        let of_job = RunFilter { jobs: vec![job], ..listed.clone() };
        let whole = |index| [Source::Ended(index, Range::Whole)];
        assert_eq!(sources(&listed, &[Status::Failed], 64), whole(Index::OfStatus(Status::Failed)));
        assert_eq!(sources(&of_job, &[Status::Failed, Status::Skipped], 64), whole(Index::OfJob(job)));
        assert_eq!(sources(&of_job, &[Status::Running], 64), [Source::Live(ShardId(0))]);
        assert_eq!(sources(&listed, &[Status::Running], 64).len(), 64);
        assert_eq!(sources(&listed, &Status::ALL, 64).len(), 65);
        assert_eq!(sources(&listed, &[Status::Failed, Status::Succeeded], 64), whole(Index::All));
        let keyed = RunFilter { key: Some("k".into()), ..of_job };
        assert_eq!(sources(&keyed, &[Status::Failed], 64), whole(Index::OfKey));
    }

    #[test]
    fn a_walk_over_children_looks_into_their_range() {
        let parent = RunId(7 << 12);
        let of = RunFilter { children: Children::Of(parent), ..RunFilter::default() };
        let children = Source::Ended(Index::OfParent(parent), Range::Children);
        assert_eq!(sources(&of, &Status::ALL, 64), [children, Source::Live(ShardId(7))]);
        assert_eq!(sources(&RunFilter::default(), &Status::ALL, 64).len(), 66);
    }
}
