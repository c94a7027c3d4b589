//! Calendars that are edited on one node while another node leads the jobs.

use std::sync::Arc;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::command::{Command, Expect, Made, PutJob};
use punctual_core::job::{Definition, Job};
use punctual_core::name::{Name, Namespace};
use punctual_core::schedule::calendar::{Days, Record, Weekday};
use punctual_core::schedule::{Schedule, ScheduleCalendar, When};
use punctual_core::task::Task;
use punctual_node::calendars::EditCalendar;
use punctual_node::{Handle, Leaders};
use punctual_store::memory::Memory;
use punctual_store::{Calendars, PutCalendar, Reads, Swap};

use super::rig::{LONG, SHARDS, Told, at, leading, passing_on, store};

const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);
const JOBS: u32 = 12;

fn work() -> Name {
    "work".parse().unwrap()
}

fn days(only: Weekday) -> Days {
    Days::new([only].into_iter().collect(), Vec::new(), Vec::new())
}

fn edit(only: Weekday) -> EditCalendar {
    EditCalendar {
        namespace: Namespace::default(),
        name: work(),
        days: days(only),
        description: String::new(),
        expect: Expect::Anything,
    }
}

/// An edit that another node has stored without re-planning any job.
async fn stored(store: &Memory, only: Weekday) -> Arc<Record> {
    let EditCalendar { namespace, name, days, description, expect } = edit(only);
    match store
        .put_calendar(PutCalendar { namespace, name, days, description, at: NOW, expect })
        .await
        .unwrap()
    {
        Swap::Done(record) => record,
        Swap::Refused { .. } => unreachable!("the edit expects no version"),
    }
}

async fn put_jobs(handle: &Handle) {
    for number in 0..JOBS {
        let mut schedule = Schedule::new(When::Every(Duration::from_secs(3600)));
        schedule.calendar = Some(ScheduleCalendar::named(work(), "UTC").unwrap());
        let definition = Arc::new(Definition { schedules: vec![schedule], ..Definition::of(Task::Noop) });
        let (namespace, name) = (Namespace::default(), format!("job-{number}").parse().unwrap());
        let put = PutJob { namespace, name, definition, expect: Expect::Absent };
        handle.command(Command::PutJob(put)).await.unwrap();
    }
}

async fn versions(store: &Memory) -> Vec<u32> {
    let version = |job: &Arc<Job>| job.definition.calendars().next().unwrap().version().unwrap();
    let jobs = store.jobs(&punctual_store::JobFilter::default(), None, 100).await.unwrap();
    assert_eq!(jobs.len(), JOBS as usize);
    jobs.iter().map(version).collect()
}

/// Checks the condition after every write until it is true.
async fn until(store: &Memory, what: &str, is_so: impl AsyncFn() -> bool) {
    let mut written = store.written();
    let so = async {
        while !is_so().await {
            written.changed().await.expect("the store exists");
        }
    };
    assert!(tokio::time::timeout(LONG, so).await.is_ok(), "{what}");
}

async fn wait_for_version(store: &Memory, version: u32) {
    let follow = async || versions(store).await.iter().all(|have| *have == version);
    until(store, "every job has the version", follow).await;
}

#[tokio::test]
async fn an_edit_on_a_node_that_leads_nothing_reaches_every_job() {
    let store = store();
    let (leader, _lead) = leading(&store).await;
    let (node, lead) = passing_on(&store, Told::new(leader.handle(), &[]), LONG);
    lead.send_replace(at("a:1"));
    let handle = node.handle();
    let (first, made) = handle.put_calendar(edit(Weekday::Monday)).await.unwrap();
    assert_eq!((made, first.settled), (Made::Created, true));
    // The node that leads the jobs looks up their calendar.
    put_jobs(&handle).await;
    let (second, made) = handle.put_calendar(edit(Weekday::Friday)).await.unwrap();
    assert_eq!((made, second.settled), (Made::Changed, true));
    assert_eq!(versions(&store).await, vec![second.calendar.version; JOBS as usize]);
}

#[tokio::test]
async fn two_nodes_that_edit_at_once_leave_every_job_with_the_newest_version() {
    let store = store();
    let (leader, _lead) = leading(&store).await;
    let (node, lead) = passing_on(&store, Told::new(leader.handle(), &[]), LONG);
    lead.send_replace(at("a:1"));
    leader.handle().put_calendar(edit(Weekday::Monday)).await.unwrap();
    put_jobs(&leader.handle()).await;
    for _ in 0..10 {
        let (one, two) = (leader.handle(), node.handle());
        let edits = [(one, Weekday::Tuesday), (two, Weekday::Friday)].map(|(handle, day)| {
            // One edit may lose the race to the other and be refused.
            tokio::spawn(async move { drop(handle.put_calendar(edit(day)).await) })
        });
        for edit in edits {
            edit.await.unwrap();
        }
        let newest = store.calendar(&Namespace::default(), &work()).await.unwrap().unwrap();
        wait_for_version(&store, newest.calendar.version).await;
    }
}

#[tokio::test]
async fn the_leader_of_the_first_shard_finishes_walks_of_other_nodes() {
    let store = store();
    let (leader, lead) = leading(&store).await;
    leader.handle().put_calendar(edit(Weekday::Monday)).await.unwrap();
    put_jobs(&leader.handle()).await;
    let record = stored(&store, Weekday::Friday).await;
    // It would look within seconds; the change of leaders makes it look now.
    lead.send_replace(Leaders::alone(SHARDS));
    wait_for_version(&store, record.calendar.version).await;
    let is_settled = async || store.calendar(&Namespace::default(), &work()).await.unwrap().unwrap().settled;
    until(&store, "the calendar is marked as settled", is_settled).await;
}

/// A leader died between a job's commit and its second check of the calendar, so the job has an outdated calendar.
#[tokio::test]
async fn a_job_with_an_outdated_calendar_is_replanned_by_the_next_leader() {
    let store = store();
    let (leader, lead) = leading(&store).await;
    leader.handle().put_calendar(edit(Weekday::Monday)).await.unwrap();
    put_jobs(&leader.handle()).await;
    let record = stored(&store, Weekday::Friday).await;
    let version = record.calendar.version;
    store.settle_calendar(&Namespace::default(), &work(), version).await.unwrap();
    lead.send_replace(Leaders::alone(SHARDS));
    wait_for_version(&store, version).await;
}
