//! The driver, carried by hand: a store in memory answers when the test says so.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::sync::Arc;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::attempt::{Order, Outcome, Report};
use punctual_core::change::{Batch, RowKey};
use punctual_core::command::{Command, Expect, PutJob};
use punctual_core::ids::WorkerId;
use punctual_core::job::{Definition, Overlap};
use punctual_core::name::Namespace;
use punctual_core::schedule::{Schedule, When};
use punctual_core::task::Task;
use punctual_core::worker::Announcement;
use punctual_engine::Ticket;
use punctual_node::driver::Settings;
use punctual_node::{Driver, Input, Output};
use punctual_store::Store;
use punctual_store::memory::Memory;

const JOBS: usize = 800;

struct Rig {
    driver: Driver,
    store: Memory,
    now: Timestamp,
    /// The transaction under way.
    commit: Option<Arc<Vec<Batch>>>,
    orders: Vec<Order>,
}

impl Rig {
    async fn ready() -> Rig {
        let now = Timestamp::from_millis(1_800_000_000_000);
        let settings = Settings {
            shards: 1,
            lanes: 1,
            shard_lease: Duration::from_secs(3),
            session: None,
            commit_batch: 4096,
            engine: punctual_engine::Settings::default(),
        };
        let driver = Driver::new(settings, now);
        let mut rig = Rig { driver, store: Memory::new(1), now, commit: None, orders: Vec::new() };
        rig.carry().await;
        while !rig.driver.is_ready() || rig.commit.is_some() {
            rig.land().await;
        }
        let (announced, holding) = (Announcement::of(2 * JOBS), Vec::new());
        rig.step(Input::Joined { worker: worker(), announced, holding }).await;
        let lent = Report::Lent { total: 2 * JOBS as u64 };
        rig.step(Input::Reports { worker: worker(), reports: vec![lent] }).await;
        rig
    }

    async fn step(&mut self, input: Input) {
        self.driver.step(input, self.now);
        self.driver.settle_down(self.now);
        self.carry().await;
    }

    /// Reads are answered at once; a commit waits for [`Rig::land`].
    async fn carry(&mut self) {
        loop {
            let outputs = self.driver.outputs();
            if outputs.is_empty() {
                return;
            }
            for output in outputs {
                let input = match output {
                    Output::Commit { batches, .. } => {
                        assert!(self.commit.replace(batches).is_none(), "one lane, one transaction");
                        continue;
                    }
                    Output::Order { order, .. } => {
                        self.orders.push(order);
                        continue;
                    }
                    Output::Acquire { by, claims } => {
                        let result = self.store.acquire(by, &claims).await;
                        Input::Acquired { claims, result }
                    }
                    Output::Load { shard, epoch } => {
                        Input::Loaded { shard, result: self.store.load(shard, epoch).await }
                    }
                    Output::Fetch { read, wants } => {
                        Input::Fetched { read, result: self.store.fetch(wants).await }
                    }
                    Output::Page { read, shard, after, limit } => {
                        Input::Paged { read, shard, result: self.store.due(shard, after, limit).await }
                    }
                    Output::Answer { .. } => continue,
                    Output::Renew { .. } | Output::Release { .. } => panic!("it is alone"),
                    Output::Fail { why } => panic!("{why}"),
                };
                self.driver.step(input, self.now);
            }
            self.driver.settle_down(self.now);
        }
    }

    /// Lets the transaction under way land, without settling down: as when more arrives in the same moment.
    async fn land_only(&mut self) {
        if let Some(batches) = self.commit.take() {
            let result = self.store.commit(batches).await;
            self.driver.step(Input::Committed { lane: 0, result }, self.now);
        }
    }

    fn note_orders(&mut self) {
        for output in self.driver.outputs() {
            match output {
                Output::Order { order, .. } => self.orders.push(order),
                Output::Commit { batches, .. } => self.commit = Some(batches),
                output => panic!("{output:?}"),
            }
        }
    }

    async fn land(&mut self) {
        self.land_only().await;
        self.driver.settle_down(self.now);
        self.carry().await;
    }
}

fn worker() -> WorkerId {
    WorkerId::new("here", 1)
}

fn every_minute(index: usize, start: Timestamp) -> Command {
    let schedule = Schedule { start: Some(start), ..Schedule::new(When::Every(Duration::from_secs(60))) };
    Command::PutJob(PutJob {
        namespace: Namespace::default(),
        name: format!("job-{index}").parse().unwrap(),
        definition: Arc::new(Definition {
            schedules: vec![schedule],
            overlap: Overlap::Allow,
            ..Definition::of(Task::Noop)
        }),
        expect: Expect::Absent,
    })
}

/// More jobs in one instant than one commit takes: the second half must not wait until the ends of the first half
/// are written too.
#[tokio::test]
async fn what_is_due_is_written_before_what_has_ended() {
    let mut rig = Rig::ready().await;
    let due = rig.now + Duration::from_secs(60);
    for index in 0..JOBS {
        let ticket = Ticket(u64::try_from(index).unwrap());
        rig.step(Input::Command { ticket, command: every_minute(index, due) }).await;
    }
    while rig.commit.is_some() {
        rig.land().await;
    }
    rig.now = due;
    rig.step(Input::Wake).await;
    rig.land_only().await;
    // The worker is as fast as the driver: its reports come before the driver settles down.
    rig.note_orders();
    let first: Vec<Report> = rig.orders.iter().map(|order| finished(order, due)).collect();
    assert!(!first.is_empty() && first.len() < JOBS, "{} of {JOBS} were in the first commit", first.len());
    rig.step(Input::Reports { worker: worker(), reports: first }).await;
    let second = rig.commit.as_ref().expect("the rest is being written");
    let keys: Vec<&RowKey> =
        second.iter().flat_map(|batch| batch.changes.iter().map(|(key, _)| key)).collect();
    assert!(keys.iter().any(|key| matches!(key, RowKey::Run(_))));
    assert!(!keys.iter().any(|key| matches!(key, RowKey::History(_))), "an end was written before a start");
}

fn finished(order: &Order, at: Timestamp) -> Report {
    let Order::Assign(assignment) = order else { panic!("{order:?}") };
    Report::Finished { run: assignment.run, token: assignment.token, outcome: Outcome::succeeded(at) }
}
