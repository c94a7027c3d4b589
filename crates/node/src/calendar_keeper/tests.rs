//! Jobs are re-planned for newer time zone data, and after the one race that the gate cannot prevent: another node edits
//! a calendar while this node saves a job that uses it.

use punctual_core::Timestamp;
use punctual_core::change::{Batch, Changes, Revision, Row};
use punctual_core::ids::{IdMaker, JobId};
use punctual_core::job::Cursor;
use punctual_core::schedule::calendar::{Days, Weekday};
use punctual_core::schedule::{Cron, Schedule, ScheduleCalendar, When};
use punctual_core::task::Task;
use punctual_core::time::ManualClock;
use punctual_store::memory::Memory;
use punctual_store::{Calendars, Claim, Reads, Shards, Store};
use tokio::sync::oneshot;

use super::*;
use crate::handle::Ask;
use crate::leaders::{Forwarding, PATIENCE};
use crate::node::{Config, Node};

const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

fn work() -> Name {
    "work".parse().unwrap()
}

/// Stores an edit as another node does that finished its walk before the job was saved. Returns the version.
async fn edited_elsewhere(store: &Memory, only: Weekday) -> u32 {
    let put = PutCalendar {
        namespace: Namespace::default(),
        name: work(),
        days: Days::new([only].into_iter().collect(), Vec::new(), Vec::new()),
        description: String::new(),
        at: NOW,
        expect: Expect::Anything,
    };
    let Swap::Done(record) = store.put_calendar(put).await.unwrap() else {
        unreachable!("the edit expects no version")
    };
    let version = record.calendar.version;
    store.settle_calendar(&Namespace::default(), &work(), version).await.unwrap();
    version
}

/// A node that leads every shard, and the sender that can change the leaders.
fn alone(store: &Arc<Memory>) -> (Node, watch::Sender<Leaders>) {
    let (lead, leaders) = watch::channel(Leaders::alone(1));
    let peers = Arc::new(crate::peers::None);
    let forwarding = Forwarding { leaders, peers, patience: PATIENCE, schedules: true };
    let config = Config {
        store: Arc::clone(store) as Arc<dyn Store>,
        clock: Arc::new(ManualClock::at(NOW)),
        lanes: 1,
        attempt_lease: Duration::from_secs(15),
        records: true,
        shard_lease: Duration::from_secs(3),
        cluster: None,
        attempt_keys: None,
        channels: None,
    };
    (Node::start_in(forwarding, config).unwrap(), lead)
}

/// Stores jobs whose due times were computed with older time zone data and are an hour too late.
async fn planned_with_older_data(store: &Memory, count: usize) {
    let shard = ShardId(0);
    let epoch = store.acquire(None, &[Claim::any_epoch(shard)]).await.unwrap()[0].1;
    let loaded = store.load(shard, epoch).await.unwrap();
    let (mut ids, mut changes) = (IdMaker::new(shard, loaded.last_id), Changes::default());
    for number in 0..count {
        let zone = if number == 0 { "UTC" } else { "Europe/Berlin" };
        let when = When::Cron(Cron::parse("0 8 * * *", zone).unwrap());
        let definition = Definition { schedules: vec![Schedule::new(when)], ..Definition::of(Task::Noop) };
        let mut job = Job {
            id: JobId(ids.next(NOW)),
            namespace: Namespace::default(),
            name: format!("job-{number}").parse().unwrap(),
            revision: 1,
            definition: Arc::new(definition),
            pause: None,
            failures: 0,
            watch: None,
            created_at: NOW,
            updated_at: NOW,
            cursor: Cursor { fired_through: NOW, ..Cursor::default() },
        };
        job.plan_after(NOW);
        let late = Duration::from_secs(3600);
        job.cursor.next_due = job.cursor.next_due.map(|due| due + late);
        job.cursor.wake_at = job.cursor.wake_at.map(|wake| wake + late);
        job.cursor.zone_data = job.cursor.zone_data.map(|_| "2001a".into());
        let (revision, state) = (job.revision, job.state());
        let definition = Arc::clone(&job.definition);
        changes.insert(Row::Revision(Arc::new(Revision {
            job: job.id,
            revision,
            definition,
            at: NOW,
            state,
        })));
        changes.insert(Row::Job(Arc::new(job)));
    }
    let batch = Batch { shard, epoch, commit: loaded.commit, last_id: ids.last(), changes };
    store.commit(Arc::new(vec![batch])).await.unwrap();
}

#[tokio::test]
async fn jobs_planned_with_older_zone_data_are_replanned() {
    let store = Arc::new(Memory::new(1));
    // More than one page.
    let count = PAGE + 3;
    planned_with_older_data(&store, count).await;
    let (node, _lead) = alone(&store);
    let replanned = async {
        while !store.outdated_jobs(ZONE_DATA, 1).await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), replanned).await.expect("every job is planned again");
    for number in 0..count {
        let name = format!("job-{number}").parse().unwrap();
        let job = store.job(&Namespace::default(), &name).await.unwrap().unwrap();
        let mut expected = (*job).clone();
        expected.plan_after(NOW);
        let depends = number > 0;
        assert_eq!(job.cursor.next_due == expected.cursor.next_due, depends, "{name}: {job:?}");
        assert_eq!(job.cursor.zone_data.as_deref(), depends.then_some(ZONE_DATA));
        assert_eq!(job.revision, 1, "no edit");
    }
    node.shut_down().await;
}

#[tokio::test]
async fn a_job_saved_during_an_edit_elsewhere_is_replanned_after_its_commit() {
    let store = Arc::new(Memory::new(1));
    let (node, _lead) = alone(&store);
    let handle = node.handle();
    let older = edited_elsewhere(&store, Weekday::Monday).await;

    let mut schedule = Schedule::new(When::Every(Duration::from_secs(3600)));
    schedule.calendar = Some(ScheduleCalendar::named(work(), "UTC").unwrap());
    let definition = Arc::new(Definition { schedules: vec![schedule], ..Definition::of(Task::Noop) });
    let (namespace, name) = (Namespace::default(), "daily".parse::<Name>().unwrap());
    let put = PutJob { namespace: namespace.clone(), name: name.clone(), definition, expect: Expect::Absent };
    let mut command = Command::PutJob(put);
    let save = handle.look_up_calendars(&mut command).await.unwrap();
    let newer = edited_elsewhere(&store, Weekday::Friday).await;
    let (reply, answer) = oneshot::channel();
    handle.asks.send(Ask { command, reply, save }).await.unwrap();
    let Ok(Ok(punctual_core::command::Answer::Job { job, .. })) = answer.await else {
        panic!("the job was not saved")
    };
    assert_eq!(
        job.definition.calendars().next().unwrap().version(),
        Some(older),
        "the version that was looked up"
    );

    let version = async || {
        let job = store.job(&namespace, &name).await.unwrap().unwrap();
        job.definition.calendars().next().unwrap().version().unwrap()
    };
    let follows = async {
        while version().await != newer {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), follows).await.expect("the job gets the newer calendar");
    node.shut_down().await;
}
