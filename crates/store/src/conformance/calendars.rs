//! Calendars: compare-and-swap on a version, and the jobs that use them.

use std::sync::Arc;

use punctual_core::command::Expect;
use punctual_core::job::{Definition, Job};
use punctual_core::name::{Name, Namespace};
use punctual_core::schedule::calendar::{Calendar, Days, Entry, Record, Weekday};
use punctual_core::schedule::{Schedule, ScheduleCalendar};

use super::given::*;
use crate::{CalendarFilter, JobFilter, PutCalendar, Result, Store, Swap};

fn days(out: &str) -> Days {
    let out: Entry = out.parse().expect("a case uses good days");
    Days::new([Weekday::Monday, Weekday::Sunday].into_iter().collect(), [], [out])
}

fn put(space: &str, calendar: &str, out: &str, expect: Expect) -> PutCalendar {
    PutCalendar {
        namespace: namespace(space),
        name: name(calendar),
        days: days(out),
        description: format!("without {out}"),
        at: at(5),
        expect,
    }
}

/// The record of a successful swap; panics if it was refused.
fn done(swap: Swap) -> Arc<Record> {
    match swap {
        Swap::Done(record) => record,
        Swap::Refused { actual } => panic!("it was refused, {actual:?} is there"),
    }
}

/// A calendar reads back as it was put, and is not settled until this version is settled.
pub async fn a_calendar_reads_back_as_it_was_put(store: &dyn Store) -> Result<()> {
    let (space, work) = (namespace("payments/clearing"), name("work"));
    assert_eq!(store.calendar(&space, &work).await?, None);
    let made = done(store.put_calendar(put("payments/clearing", "work", "12-25", Expect::Absent)).await?);
    assert_eq!((made.namespace.clone(), made.calendar.name.clone()), (space.clone(), work.clone()));
    assert_eq!((&made.calendar.days, made.updated_at, made.settled), (&days("12-25"), at(5), false));
    assert_eq!(made.description, "without 12-25");
    assert_eq!(store.calendar(&space, &work).await?, Some(Arc::clone(&made)));
    store.settle_calendar(&space, &work, made.calendar.version + 1).await?;
    assert_eq!(store.calendar(&space, &work).await?.map(|record| record.settled), Some(false));
    store.settle_calendar(&space, &work, made.calendar.version).await?;
    assert_eq!(store.calendar(&space, &work).await?.map(|record| record.settled), Some(true));
    let again = put("payments/clearing", "work", "12-26", Expect::Anything);
    assert!(!done(store.put_calendar(again).await?).settled, "a new version is to be followed anew");
    Ok(())
}

/// An edit that expects an outdated version changes nothing, and gets the current one.
pub async fn an_edit_of_an_outdated_version_is_refused(store: &dyn Store) -> Result<()> {
    let first = done(store.put_calendar(put("a", "work", "01-01", Expect::Absent)).await?).calendar.version;
    let refused = |actual| Swap::Refused { actual };
    let expect = [Expect::Absent, Expect::Revision(first + 7)];
    for expect in expect {
        assert_eq!(store.put_calendar(put("a", "work", "01-02", expect)).await?, refused(Some(first)));
        let deleted = store.delete_calendar(&namespace("a"), &name("work"), expect).await?;
        assert_eq!(deleted, refused(Some(first)));
    }
    assert_eq!(store.put_calendar(put("a", "other", "01-02", Expect::Revision(first))).await?, refused(None));
    let second = done(store.put_calendar(put("a", "work", "01-03", Expect::Revision(first))).await?);
    assert!(second.calendar.version > first);
    let late = store.put_calendar(put("a", "work", "01-04", Expect::Revision(first))).await?;
    assert_eq!(late, refused(Some(second.calendar.version)));
    assert_eq!(store.calendar(&namespace("a"), &name("work")).await?, Some(second));
    Ok(())
}

/// No version is used twice, not by another calendar and not after a delete, so that an old version is never mistaken
/// for the current one.
pub async fn no_version_of_a_calendar_comes_twice(store: &dyn Store) -> Result<()> {
    let mut versions = Vec::new();
    for round in 0..3 {
        for space in ["a", "b"] {
            let made = done(store.put_calendar(put(space, "work", "01-01", Expect::Absent)).await?);
            versions.push(made.calendar.version);
            let deleted =
                store.delete_calendar(&made.namespace, &made.calendar.name, Expect::Anything).await?;
            assert_eq!(done(deleted).calendar, made.calendar, "round {round}");
            let gone = store.delete_calendar(&made.namespace, &made.calendar.name, Expect::Anything).await?;
            assert_eq!(gone, Swap::Refused { actual: None });
            assert_eq!(store.calendar(&made.namespace, &made.calendar.name).await?, None);
        }
    }
    assert!(versions.is_sorted_by(|a, b| a < b), "{versions:?}");
    Ok(())
}

/// Calendars are listed in order of namespace, then name; a filter leaves out other namespaces.
pub async fn calendars_are_listed_by_namespace_and_name(store: &dyn Store) -> Result<()> {
    let mut expected: Vec<(Namespace, Name)> = Vec::new();
    for space in ["b", "a", "a/b"] {
        for calendar in ["zeta", "Alpha", "m.1", "m-1"] {
            let made = done(store.put_calendar(put(space, calendar, "01-01", Expect::Absent)).await?);
            expected.push((made.namespace.clone(), made.calendar.name.clone()));
        }
    }
    expected.sort();
    let listed = async |filter: CalendarFilter, limit: usize| -> Result<Vec<(Namespace, Name)>> {
        let mut all: Vec<(Namespace, Name)> = Vec::new();
        loop {
            let page = store.calendars(&filter, all.last().cloned(), limit).await?;
            assert!(page.len() <= limit);
            if page.is_empty() {
                return Ok(all);
            }
            all.extend(page.iter().map(|record| (record.namespace.clone(), record.calendar.name.clone())));
        }
    };
    for limit in [1, 5, 100] {
        assert_eq!(listed(CalendarFilter::default(), limit).await?, expected, "pages of {limit}");
    }
    let within = CalendarFilter { namespace: Some(namespace("a")), unsettled: false };
    let of_a: Vec<_> = expected.iter().filter(|(of, _)| of.as_str() == "a").cloned().collect();
    assert_eq!(listed(within, 3).await?, of_a);
    for (space, calendar) in &expected[2..] {
        let record = store.calendar(space, calendar).await?.expect("it was put");
        store.settle_calendar(space, calendar, record.calendar.version).await?;
    }
    let unsettled = CalendarFilter { namespace: None, unsettled: true };
    assert_eq!(listed(unsettled, 1).await?, expected[..2]);
    Ok(())
}

fn keeps(mut job: Job, calendars: &[&str]) -> Job {
    let of = |calendar: &&str| {
        let calendar = Calendar { name: name(calendar), version: 3, days: days("12-25") };
        let keeping = ScheduleCalendar::of(Arc::new(calendar), "Asia/Shanghai").expect("a zone");
        Schedule { calendar: Some(keeping), ..job.definition.schedules[0].clone() }
    };
    let schedules = calendars.iter().map(of).collect();
    job.definition = Arc::new(Definition { schedules, ..(*job.definition).clone() });
    job
}

/// The jobs of a calendar are found in pages, also after an edit changed the calendars of a job.
pub async fn the_jobs_that_keep_to_a_calendar_are_found(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let (none, work) = (leader.job("none"), keeps(leader.job("work"), &["work"]));
    let both = keeps(leader.job("both"), &["work", "rest", "work"]);
    let longer = keeps(leader.job("longer"), &["workdays"]);
    let elsewhere = Job { namespace: namespace("elsewhere"), ..keeps(leader.job("work"), &["work"]) };
    leader.insert(store, [&none, &work, &both, &longer, &elsewhere].map(job_row)).await?;
    let found = async |calendar: &str| -> Result<Vec<String>> {
        let filter = JobFilter { namespace: Some(Namespace::default()), calendar: Some(name(calendar)) };
        let mut all: Vec<Arc<Job>> = Vec::new();
        loop {
            let after = all.last().map(|job| (job.namespace.clone(), job.name.clone()));
            let page = store.jobs(&filter, after, 1).await?;
            if page.is_empty() {
                return Ok(all.iter().map(|job| job.name.to_string()).collect());
            }
            all.extend(page);
        }
    };
    assert_eq!(found("work").await?, ["both", "work"]);
    assert_eq!(found("rest").await?, ["both"]);
    assert_eq!(found("day").await?, Vec::<String>::new());
    let read = store.job(&both.namespace, &both.name).await?.expect("it was put");
    assert_eq!(*read, both, "a job carries its calendars");
    let none = Job { revision: 2, ..keeps(none, &["rest"]) };
    let both = Job { revision: 2, definition: Arc::clone(&longer.definition), ..both };
    leader.update(store, [&none, &both].map(job_row)).await?;
    assert_eq!(found("work").await?, ["work"]);
    assert_eq!(found("rest").await?, ["none"]);
    assert_eq!(found("workdays").await?, ["both", "longer"]);
    leader.delete(store, [punctual_core::change::RowKey::Job(work.id)]).await?;
    assert_eq!(found("work").await?, Vec::<String>::new());
    Ok(())
}
