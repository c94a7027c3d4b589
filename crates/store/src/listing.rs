//! What a listing includes, decided once for every backend.

use std::collections::BTreeMap;
use std::sync::Arc;

use punctual_core::Timestamp;
use punctual_core::alert::Incident;
use punctual_core::change::{DeadLetter, RunRecord};
use punctual_core::command::Expect;
use punctual_core::ids::{RunId, first_id_at};
use punctual_core::job::Job;
use punctual_core::limits::LISTED_OUTPUT_BYTES_MAX;
use punctual_core::name::Namespace;
use punctual_core::run::{Run, Status};
use punctual_core::schedule::calendar;
use punctual_core::statistics::{Bucket, Counts, RecentCounts};

use crate::{
    CalendarFilter, Children, IncidentFilter, JobFilter, LetterFilter, RunFilter, StatisticsFilter,
    StatisticsOf,
};

/// The range of ids a listing may show, both ends included. Ids are in order of creation, so a time range is an id
/// range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) first: i64,
    pub(crate) last: i64,
}

impl Span {
    /// `None` means the range is empty.
    pub(crate) fn of(filter: &RunFilter, after: Option<RunId>) -> Option<Span> {
        let mut span = Span {
            first: filter.since.map_or(0, first_id_at),
            last: filter.until.map_or(i64::MAX, |until| first_id_at(until) - 1),
        };
        match after {
            Some(after) if filter.oldest_first => span.first = span.first.max(after.0.checked_add(1)?),
            Some(after) => span.last = span.last.min(after.0 - 1),
            None => {}
        }
        (span.first <= span.last).then_some(span)
    }
}

/// Where a listing in order of (namespace, name) continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NameSpan<'a> {
    pub(crate) namespace: &'a str,
    /// The name in that namespace after which it continues. Empty means from the first, because no name is empty.
    pub(crate) after: &'a str,
    /// The listing continues into the namespaces after that one.
    pub(crate) goes_beyond: bool,
}

impl<'a> NameSpan<'a> {
    /// `None` means no row can match.
    pub(crate) fn of(
        namespace: Option<&'a Namespace>,
        after: Option<(&'a str, &'a str)>,
    ) -> Option<NameSpan<'a>> {
        let (last, name) = after.unwrap_or(("", ""));
        match namespace.map(Namespace::as_str) {
            None => Some(NameSpan { namespace: last, after: name, goes_beyond: true }),
            Some(wanted) if wanted < last => None,
            Some(wanted) => {
                let after = if wanted == last { name } else { "" };
                Some(NameSpan { namespace: wanted, after, goes_beyond: false })
            }
        }
    }
}

impl RunFilter {
    /// The statuses that the filter names, or all.
    pub(crate) fn wanted_statuses(&self) -> Vec<Status> {
        let is_wanted = |status: &Status| self.statuses.is_empty() || self.statuses.contains(status);
        Status::ALL.into_iter().filter(is_wanted).collect()
    }

    /// Whether a listing by this filter would show a run, apart from `search`: only the index knows that.
    pub fn takes(&self, run: &Run) -> bool {
        Span::of(self, None).is_some_and(|span| (span.first..=span.last).contains(&run.id.0))
            && self.namespace.as_ref().is_none_or(|namespace| run.namespace == *namespace)
            && (self.jobs.is_empty() || run.job().is_some_and(|job| self.jobs.contains(&job)))
            && self.children.takes(run.parent())
            && (self.statuses.is_empty() || self.statuses.contains(&run.status()))
            && (self.triggers.is_empty() || self.triggers.contains(&run.trigger))
            && self.key.as_ref().is_none_or(|key| run.key.as_ref() == Some(key))
    }
}

impl Children {
    /// Whether a run with this parent is listed.
    pub(crate) fn takes(self, parent: Option<RunId>) -> bool {
        match self {
            Children::Included => true,
            Children::LeftOut => parent.is_none(),
            Children::Of(run) => parent == Some(run),
        }
    }
}

/// A run as a listing shows it, with a long result cut: a page of whole results could take a gigabyte.
pub(crate) fn listed(mut run: Arc<Run>) -> Arc<Run> {
    if run.output.len() > LISTED_OUTPUT_BYTES_MAX {
        Arc::make_mut(&mut run).abridge();
    }
    run
}

/// A run as a command needs it: commands use its state, never its result.
pub(crate) fn looked_up(record: RunRecord) -> RunRecord {
    RunRecord { run: listed(record.run), ..record }
}

impl LetterFilter {
    pub(crate) fn takes(&self, letter: &DeadLetter) -> bool {
        self.namespace.as_ref().is_none_or(|namespace| letter.namespace == *namespace)
            && self.job.as_ref().is_none_or(|job| letter.job.as_ref() == Some(job))
            && self.since.is_none_or(|since| letter.at >= since)
    }
}

impl IncidentFilter {
    pub(crate) fn takes(&self, incident: &Incident) -> bool {
        self.namespace.as_ref().is_none_or(|namespace| incident.namespace == *namespace)
            && self.job.as_ref().is_none_or(|job| incident.job_name() == Some(job))
            && (incident.is_open() || !self.is_open)
    }
}

impl JobFilter {
    pub(crate) fn takes(&self, job: &Job) -> bool {
        self.namespace.as_ref().is_none_or(|namespace| job.namespace == *namespace)
            && self
                .calendar
                .as_ref()
                .is_none_or(|name| job.definition.calendars().any(|keeping| keeping.name == *name))
    }
}

impl StatisticsFilter {
    pub(crate) fn takes(&self, bucket: &Bucket) -> bool {
        let is_wanted = match &self.of {
            StatisticsOf::All(period) => bucket.job.is_none() && bucket.period == *period,
            StatisticsOf::Namespace(namespace, period) => {
                bucket.job.is_none() && bucket.period == *period && bucket.namespace == *namespace
            }
            StatisticsOf::Job(namespace, job) => {
                bucket.job.as_ref() == Some(job) && bucket.namespace == *namespace
            }
        };
        is_wanted && self.since <= bucket.at && bucket.at < self.until
    }

    /// Adds what it takes of recent counts.
    pub(crate) fn add(&self, recent: &RecentCounts, buckets: &mut BTreeMap<Timestamp, Counts>) {
        for (counted, counts) in &recent.counts {
            for bucket in counted.buckets().filter(|bucket| self.takes(bucket)) {
                buckets.entry(bucket.at).or_default().add(counts);
            }
        }
    }
}

impl CalendarFilter {
    pub(crate) fn takes(&self, record: &calendar::Record) -> bool {
        self.namespace.as_ref().is_none_or(|namespace| record.namespace == *namespace)
            && !(self.unsettled && record.settled)
    }
}

/// Whether an edit with this expectation may change a calendar.
pub(crate) fn holds(expect: Expect, actual: Option<u32>) -> bool {
    match expect {
        Expect::Anything => true,
        Expect::Absent => actual.is_none(),
        Expect::Revision(version) => actual == Some(version),
    }
}
