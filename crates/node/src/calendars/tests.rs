//! The one race that no gate can hold back: an edit on another node, while a job is being saved here.

use punctual_core::Timestamp;
use punctual_core::schedule::calendar::Weekday;
use punctual_core::schedule::{Keeping, Schedule, When};
use punctual_core::task::Task;
use punctual_store::Store;
use punctual_store::memory::Memory;

use super::*;
use crate::handle::Ask;
use crate::leaders::{Forwarding, PATIENCE};
use crate::node::{Config, Node};

const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

#[derive(Debug)]
struct Standing;

impl Clock for Standing {
    fn now(&self) -> Timestamp {
        NOW
    }
}

fn work() -> Name {
    "work".parse().unwrap()
}

/// What another node stores, walks and calls settled, all without seeing the job.
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
        unreachable!("it expects nothing")
    };
    let version = record.calendar.version;
    store.settle_calendar(&Namespace::default(), &work(), version).await.unwrap();
    version
}

#[tokio::test]
async fn a_job_that_was_being_saved_while_another_node_edited_its_calendar_follows_after_its_commit() {
    let store = Arc::new(Memory::new(1));
    let (_lead, leaders) = watch::channel(Leaders::alone(1));
    let peers = Arc::new(crate::peers::None);
    let forwarding = Forwarding { leaders, peers, patience: PATIENCE, schedules: true };
    let config = Config {
        store: Arc::clone(&store) as Arc<dyn Store>,
        clock: Arc::new(Standing),
        lanes: 1,
        attempt_lease: Duration::from_secs(15),
        shard_lease: Duration::from_secs(3),
        cluster: None,
    };
    let node = Node::start_in(forwarding, config).unwrap();
    let handle = node.handle();
    let older = edited_elsewhere(&store, Weekday::Monday).await;

    let mut schedule = Schedule::new(When::Every(Duration::from_secs(3600)));
    schedule.calendar = Some(Keeping::named(work(), "UTC").unwrap());
    let definition = Arc::new(Definition { schedules: vec![schedule], ..Definition::of(Task::Noop) });
    let (namespace, name) = (Namespace::default(), "daily".parse::<Name>().unwrap());
    let put = PutJob { namespace: namespace.clone(), name: name.clone(), definition, expect: Expect::Absent };
    let (command, held) = handle.look_up(Command::PutJob(put)).await.unwrap();
    let newer = edited_elsewhere(&store, Weekday::Friday).await;
    let (reply, answer) = oneshot::channel();
    handle.asks.send(Ask { command, reply, held }).await.unwrap();
    let Ok(Ok(punctual_core::command::Answer::Job { job, .. })) = answer.await else { panic!("it is saved") };
    assert_eq!(job.definition.calendars().next().unwrap().version(), Some(older), "as it was looked up");

    let version = async || {
        let job = store.job(&namespace, &name).await.unwrap().unwrap();
        job.definition.calendars().next().unwrap().version().unwrap()
    };
    let follows = async {
        while version().await != newer {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), follows).await.expect("it follows");
    node.shut_down().await;
}
