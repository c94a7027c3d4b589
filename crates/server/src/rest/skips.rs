//! Skip records of a job: ranges of skipped due times, with the reason.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use punctual_core::Timestamp;
use punctual_core::change::{self, DeletedJob, SkipReason};
use punctual_core::ids::JobId;
use punctual_core::job::{Definition, Job};
use punctual_core::name::{Name, Namespace};
use punctual_core::schedule::{self, When};
use punctual_store::Error;
use punctual_wire::Text;
use punctual_wire::rest::{Page, Skip};
use serde::Deserialize;

use super::problem::Failed;
use super::request::{Asked, Named, page_limit};
use crate::Endpoints;

/// Due times counted for one skip record; more are not worth counting.
const COUNT_MAX: u64 = 1_000_000;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Listing {
    limit: Option<Text<usize>>,
    after: Option<Text<SkipPosition>>,
}

/// The cursor of the listing: job, revision and first due time of a record, newest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SkipPosition {
    job: JobId,
    revision: u32,
    from: Timestamp,
}

pub(crate) async fn list(
    State(endpoints): State<Endpoints>,
    at: Named,
    Asked(listing): Asked<Listing>,
) -> Result<Json<Page<Skip>>, Failed> {
    let limit = page_limit(listing.limit)?;
    let after = listing.after.map(|after| after.0);
    let mut items = Vec::new();
    for id in endpoints.jobs_named(&at.namespace, &at.name).await? {
        if after.is_some_and(|after| id > after.job) {
            continue;
        }
        let before = after.filter(|after| after.job == id).map(|after| (after.revision, after.from));
        let skips = endpoints.handle.reads().skips(id, before, limit + 1 - items.len()).await?;
        let mut owner = Owner::find(&endpoints, id, &at.namespace, &at.name).await?;
        for skip in &skips {
            items.push((skip.clone(), owner.tell(&endpoints, skip).await?));
        }
        if items.len() > limit {
            break;
        }
    }
    let page = Page::cut(items, limit, |(skip, _)| SkipPosition::of(skip).to_string());
    Ok(Json(Page { items: page.items.into_iter().map(|(_, skip)| skip).collect(), next: page.next }))
}

/// The job of the skip records, with the definitions needed to count them.
pub(super) struct Owner<'a> {
    id: JobId,
    namespace: &'a Namespace,
    name: &'a Name,
    created_at: Timestamp,
    definitions: BTreeMap<u32, Option<Arc<Definition>>>,
}

impl<'a> Owner<'a> {
    pub(super) fn of(job: &'a Job) -> Owner<'a> {
        let definitions = BTreeMap::from([(job.revision, Some(Arc::clone(&job.definition)))]);
        let Job { id, namespace, name, created_at, .. } = job;
        Owner { id: *id, namespace, name, created_at: *created_at, definitions }
    }

    /// A job that may have been deleted; its first revision has the time of its creation.
    async fn find(
        endpoints: &Endpoints,
        id: JobId,
        namespace: &'a Namespace,
        name: &'a Name,
    ) -> Result<Owner<'a>, Error> {
        let first = endpoints.handle.reads().revision(id, 1).await?;
        let created_at = first.map_or(Timestamp::MIN, |first| first.at);
        Ok(Owner { id, namespace, name, created_at, definitions: BTreeMap::new() })
    }

    pub(super) async fn tell(&mut self, endpoints: &Endpoints, skip: &change::Skip) -> Result<Skip, Error> {
        let count = self.count(endpoints, skip).await?;
        Ok(Skip::of(skip, self.namespace, self.name, count))
    }

    /// The number of due times in a record. They are not stored, so they are counted by the schedule of that
    /// revision.
    async fn count(&mut self, endpoints: &Endpoints, skip: &change::Skip) -> Result<Option<u64>, Error> {
        if !self.definitions.contains_key(&skip.revision) {
            let found = endpoints.handle.reads().revision(self.id, skip.revision).await?;
            self.definitions.insert(skip.revision, found.map(|found| Arc::clone(&found.definition)));
        }
        let Some(Some(definition)) = self.definitions.get(&skip.revision).cloned() else { return Ok(None) };
        let (created, skip) = (self.created_at, skip.clone());
        // A million steps through a calendar take a while; other requests should not wait for it.
        let counting = tokio::task::spawn_blocking(move || count(&definition, created, &skip));
        Ok(counting.await.unwrap_or(None))
    }
}

fn count(definition: &Definition, created: Timestamp, skip: &change::Skip) -> Option<u64> {
    let (from, to) = (skip.from, skip.to);
    let schedules = &definition.schedules;
    if skip.reason == SkipReason::Calendar {
        return count_by(from, to, |after| schedule::next_excluded(schedules, created, after, to));
    }
    if let [schedule] = schedules.as_slice()
        && schedule.calendar.is_none()
        && let When::Every(period) = schedule.when
        && !period.is_zero()
    {
        let beats = to.since(from).as_millis() / period.as_millis();
        return u64::try_from(beats).ok().map(|beats| beats + 1);
    }
    // Several schedules with the same due time make one fire.
    count_by(from, to, |after| schedules.iter().filter_map(|schedule| schedule.next(after, created)).min())
}

fn count_by(from: Timestamp, to: Timestamp, next: impl Fn(Timestamp) -> Option<Timestamp>) -> Option<u64> {
    let mut count = 0;
    let mut after = Timestamp::from_millis(from.as_millis() - 1);
    loop {
        match next(after) {
            Some(due) if due <= to && count < COUNT_MAX => {
                count += 1;
                after = due;
            }
            Some(due) if due <= to => return None,
            // A due time that depends on the end of a run has no occurrence in the schedule, but counts as one.
            _ => return Some(count.max(1)),
        }
    }
}

impl SkipPosition {
    fn of(skip: &change::Skip) -> SkipPosition {
        SkipPosition { job: skip.job, revision: skip.revision, from: skip.from }
    }
}

impl fmt::Display for SkipPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.job, self.revision, self.from.as_millis())
    }
}

impl FromStr for SkipPosition {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let read = || {
            let mut parts = text.splitn(3, '-');
            let (job, revision, from) = (parts.next()?, parts.next()?, parts.next()?);
            let from = Timestamp::from_millis(from.parse().ok()?);
            Some(SkipPosition { job: job.parse().ok()?, revision: revision.parse().ok()?, from })
        };
        read().ok_or("not the `next` of a page of skip records")
    }
}

/// The last state of a deleted job. `None` means that its revisions were pruned.
pub(super) async fn last_of(endpoints: &Endpoints, gone: &DeletedJob) -> Result<Option<Job>, Error> {
    let store = endpoints.handle.reads();
    let (first, last) = (store.revision(gone.id, 1).await?, store.revisions(gone.id, None, 1).await?.pop());
    Ok(first.zip(last).map(|(first, last)| gone.as_job(&first, &last)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use punctual_core::schedule::calendar::{Calendar, Days, Weekday};
    use punctual_core::schedule::{Cron, Schedule, ScheduleCalendar};
    use punctual_core::task::Task;

    use super::*;

    fn check(schedules: Vec<Schedule>, reason: SkipReason, from: &str, to: &str, expected: Option<u64>) {
        let definition = Definition { schedules, ..Definition::of(Task::Noop) };
        let created = "2026-01-01T00:00:00Z".parse().unwrap();
        let (from, to) = (from.parse().unwrap(), to.parse().unwrap());
        let skip = change::Skip { job: JobId(1), revision: 1, from, to, reason, at: to };
        assert_eq!(count(&definition, created, &skip), expected);
    }

    fn cron(text: &str) -> Schedule {
        Schedule::new(When::Cron(Cron::parse(text, "UTC").unwrap()))
    }

    #[test]
    fn a_range_of_skips_is_counted_by_its_schedule() {
        let check = |schedules, from, to, expected| check(schedules, SkipReason::Misfire, from, to, expected);
        let every = |period| Schedule::new(When::Every(period));
        let (from, to) = ("2026-01-02T00:00:00Z", "2026-01-02T08:00:00Z");
        check(vec![every(Duration::from_secs(1))], from, to, Some(28_801));
        check(vec![cron("0 * * * *")], from, to, Some(9));
        check(vec![cron("0 * * * *"), cron("0,30 * * * *")], from, to, Some(17));
        check(vec![Schedule::new(When::AfterFinish(Duration::from_secs(1)))], from, from, Some(1));
        check(vec![cron("* * * * * *")], from, "2026-02-02T08:00:00Z", None);
    }

    #[test]
    fn only_excluded_due_times_are_counted_for_a_calendar() {
        let days = Days::new(Weekday::ALL[..5].iter().copied().collect(), [], []);
        let calendar = Calendar { name: "work".parse().unwrap(), version: 1, days };
        let keeping = ScheduleCalendar::of(Arc::new(calendar), "UTC").unwrap();
        let daily = Schedule { calendar: Some(keeping), ..cron("0 8 * * *") };
        // Two weekends, from a Saturday to the Sunday of the week after.
        let (from, to) = ("2026-01-03T08:00:00Z", "2026-01-11T08:00:00Z");
        check(vec![daily.clone()], SkipReason::Calendar, from, to, Some(4));
        check(vec![daily], SkipReason::Misfire, from, to, Some(5));
    }

    #[test]
    fn a_place_is_read_as_it_is_written() {
        let place =
            SkipPosition { job: JobId(77), revision: 3, from: Timestamp::from_millis(1_767_225_600_000) };
        assert_eq!(place.to_string().parse(), Ok(place));
        for text in ["", "1", "1-2", "1-2-x", "x-2-3", "1--3"] {
            assert!(text.parse::<SkipPosition>().is_err(), "{text}");
        }
    }
}
