//! The driver without a loop: the test carries out its outputs, and a memory store answers when the test says so.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::sync::Arc;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::attempt::{Order, Outcome, Report};
use punctual_core::change::{Batch, RowKey};
use punctual_core::command::{Command, Expect, PutJob};
use punctual_core::ids::{RunId, ShardId, Token, WorkerId};
use punctual_core::job::{Definition, Overlap};
use punctual_core::name::Namespace;
use punctual_core::progress::Progress;
use punctual_core::retry::Retry;
use punctual_core::schedule::{Schedule, When};
use punctual_core::task::Task;
use punctual_core::time::Moment;
use punctual_core::worker::Announcement;
use punctual_engine::Ticket;
use punctual_node::driver::Settings;
use punctual_node::{Driver, Input, Output, Wake};
use punctual_store::memory::Memory;
use punctual_store::{Error, Reads, Shards};

const JOBS: usize = 800;

struct Rig {
    driver: Driver,
    store: Memory,
    /// The wall clock, and the monotonic clock.
    now: Timestamp,
    elapsed: Duration,
    /// The commit in flight.
    commit: Option<Arc<Vec<Batch>>>,
    orders: Vec<Order>,
}

impl Rig {
    async fn ready() -> Rig {
        Rig::of(1).await
    }

    async fn of(shards: u16) -> Rig {
        let now = Timestamp::from_millis(1_800_000_000_000);
        let settings = Settings {
            shards,
            lanes: 1,
            shard_lease: Duration::from_secs(3),
            session: None,
            commit_batch: 4096,
            engine: punctual_engine::Settings::default(),
        };
        let elapsed = Duration::from_secs(1);
        let driver = Driver::new(settings, Moment { now, elapsed });
        let mut rig =
            Rig { driver, store: Memory::new(shards), now, elapsed, commit: None, orders: Vec::new() };
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

    fn moment(&self) -> Moment {
        Moment { now: self.now, elapsed: self.elapsed }
    }

    /// Advances both clocks.
    fn pass(&mut self, span: Duration) {
        self.now = self.now + span;
        self.elapsed += span;
    }

    /// Completes every commit in flight.
    async fn land_all(&mut self) {
        while self.commit.is_some() {
            self.land().await;
        }
    }

    /// Puts one job and waits for its commit.
    async fn put(&mut self, command: Command) {
        self.step(Input::Command { ticket: Ticket(1), command }).await;
        self.land_all().await;
    }

    async fn step(&mut self, input: Input) {
        self.driver.step(input, self.moment());
        self.driver.settle_down(self.moment());
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
                    Output::ReadMessages { read, shard, queue, after, limit } => {
                        let result = self.store.backlog(shard, queue, after, limit).await;
                        Input::MessagesRead { read, shard, result }
                    }
                    Output::Answer { .. } => continue,
                    Output::CrossShard(request) => panic!("no job here delivers into a queue: {request:?}"),
                    Output::Renew { .. } | Output::Release { .. } | Output::EndSession { .. } => {
                        panic!("this node is in no cluster")
                    }
                    Output::Refuse { why, .. } | Output::Fail { why } => panic!("{why}"),
                };
                self.driver.step(input, self.moment());
            }
            self.driver.settle_down(self.moment());
        }
    }

    /// Completes the commit in flight without letting the driver settle, as when more input arrives at the same moment.
    async fn land_only(&mut self) {
        if let Some(batches) = self.commit.take() {
            let result = self.store.commit(batches).await;
            self.driver.step(Input::Committed { lane: 0, result }, self.moment());
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
        self.driver.settle_down(self.moment());
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

/// More jobs are due at one instant than one commit takes. The second half must not wait until the outcomes of the first
/// half are written.
#[tokio::test]
async fn due_runs_are_written_before_outcomes() {
    let mut rig = Rig::ready().await;
    let due = rig.now + Duration::from_secs(60);
    for index in 0..JOBS {
        let ticket = Ticket(u64::try_from(index).unwrap());
        rig.step(Input::Command { ticket, command: every_minute(index, due) }).await;
    }
    rig.land_all().await;
    rig.pass(Duration::from_secs(60));
    rig.step(Input::Wake).await;
    rig.land_only().await;
    // The worker is as fast as the driver: its reports arrive before the driver settles.
    rig.note_orders();
    let first: Vec<Report> = rig.orders.iter().map(|order| finished(order, due)).collect();
    assert!(!first.is_empty() && first.len() < JOBS, "{} of {JOBS} were in the first commit", first.len());
    rig.step(Input::Reports { worker: worker(), reports: first }).await;
    let second = rig.commit.as_ref().expect("the rest is being written");
    let keys: Vec<&RowKey> =
        second.iter().flat_map(|batch| batch.changes.iter().map(|(key, _)| key)).collect();
    assert!(keys.iter().any(|key| matches!(key, RowKey::Run(_))));
    assert!(
        !keys.iter().any(|key| matches!(key, RowKey::History(_))),
        "an outcome was written before a due run"
    );
}

/// Another transaction has locked rows of one shard: the shard is retried later, and the other shards do not wait.
#[tokio::test]
async fn a_shard_with_locked_rows_delays_no_other_shard() {
    let mut rig = Rig::of(2).await;
    let due = rig.now + Duration::from_secs(60);
    for index in 0..10 {
        rig.put(every_minute(index, due)).await;
    }
    rig.pass(Duration::from_secs(60));
    rig.step(Input::Wake).await;
    let both = rig.commit.take().expect("the due runs are being written");
    let shards: Vec<ShardId> = both.iter().map(|batch| batch.shard).collect();
    assert_eq!(shards, [ShardId(0), ShardId(1)]);
    let blocked = Err(Error::Blocked { shard: ShardId(0) });
    rig.step(Input::Committed { lane: 0, result: blocked }).await;
    let rest = rig.commit.as_ref().expect("the rest is sent at once");
    assert!(rest.iter().all(|batch| batch.shard == ShardId(1)));
    rig.land_all().await;
    let others = rig.orders.len();
    assert!(others > 0 && others < 10, "{others} of 10");
    for _ in 0..3 {
        rig.pass(rig.sleep().expect("the shard is retried"));
        rig.step(Input::Wake).await;
        rig.land_all().await;
    }
    assert_eq!(rig.orders.len(), 10, "late, not skipped");
}

/// Runs of many shards report all the time. One commit a second writes the reports of all of them.
#[tokio::test]
async fn reports_of_all_shards_are_written_in_one_commit() {
    let mut rig = Rig::of(8).await;
    let due = rig.now + Duration::from_secs(60);
    for index in 0..20 {
        rig.put(every_minute(index, due)).await;
    }
    rig.pass(Duration::from_secs(60));
    rig.step(Input::Wake).await;
    rig.land_all().await;
    let attempts = std::mem::take(&mut rig.orders);
    assert_eq!(attempts.len(), 20);
    let mut commits = 0;
    for millis in 0..5000 {
        rig.pass(Duration::from_millis(1));
        let reporting = attempts.iter().skip(millis % 50).step_by(50);
        let reports = reporting.map(|order| reported(order, u8::try_from(millis / 50).unwrap()));
        rig.step(Input::Reports { worker: worker(), reports: reports.collect() }).await;
        rig.step(Input::Wake).await;
        commits += usize::from(rig.commit.is_some());
        rig.land_all().await;
    }
    assert!((4..=7).contains(&commits), "{commits} commits in five seconds");
}

fn reported(order: &Order, percent: u8) -> Report {
    let Order::Assign(assignment) = order else { panic!("{order:?}") };
    let progress = Progress::percent(percent);
    Report::Progress { run: assignment.run, token: assignment.token, progress }
}

fn finished(order: &Order, at: Timestamp) -> Report {
    let Order::Assign(assignment) = order else { panic!("{order:?}") };
    Report::Finished { run: assignment.run, token: assignment.token, outcome: Outcome::succeeded(at) }
}

const HOUR: Duration = Duration::from_secs(3600);
const LEASE: Duration = Duration::from_secs(15);

impl Rig {
    /// A node with one job that has just fired, and a worker that runs the attempt.
    async fn at_work(change: impl FnOnce(&mut Definition)) -> Rig {
        Rig::ready().await.with_attempt(change).await
    }

    async fn with_attempt(mut self, change: impl FnOnce(&mut Definition)) -> Rig {
        let rig = &mut self;
        let due = rig.now + Duration::from_secs(60);
        let Command::PutJob(mut put) = every_minute(0, due) else { unreachable!("the command puts a job") };
        let mut definition = Definition::clone(&put.definition);
        definition.schedules[0].when = When::Every(24 * HOUR);
        change(&mut definition);
        put.definition = Arc::new(definition);
        rig.put(Command::PutJob(put)).await;
        rig.pass(Duration::from_secs(60));
        rig.step(Input::Wake).await;
        rig.land_all().await;
        assert_eq!(rig.orders.len(), 1, "the worker has the attempt");
        self
    }

    async fn report(&mut self, report: Report) {
        self.step(Input::Reports { worker: worker(), reports: vec![report] }).await;
        self.land_all().await;
    }

    /// How long the driver lets its caller sleep.
    fn sleep(&self) -> Option<Duration> {
        self.driver.next_wake().sleep(|due| due.since(self.now), self.elapsed)
    }
}

#[tokio::test]
async fn an_idle_node_sleeps_until_the_next_due_time() {
    let mut rig = Rig::ready().await;
    assert_eq!(rig.driver.next_wake(), Wake::default(), "without a job there is no wake-up");
    let due = rig.now + 24 * HOUR;
    rig.put(every_minute(0, due)).await;
    rig.pass(Duration::from_secs(30));
    rig.step(Input::Wake).await;
    assert_eq!(rig.driver.next_wake().due, Some(due));
    let lasting = rig.driver.next_wake().elapsed.map(|at| at.saturating_sub(rig.elapsed));
    assert!(lasting.is_none_or(|sleep| sleep > HOUR), "nothing else wakes it: {lasting:?}");
}

#[tokio::test]
async fn a_node_that_was_paused_gives_no_worker_up() {
    let mut rig = Rig::at_work(|_| {}).await;
    for _ in 0..5 {
        rig.pass(HOUR);
        rig.step(Input::Wake).await;
        assert!(rig.commit.is_none(), "the attempt was given up");
    }
    let sleep = rig.sleep().expect("a worker is expected to report");
    assert!(
        sleep <= Duration::from_secs(1),
        "the node wakes often enough to notice that it was paused: {sleep:?}"
    );
}

#[tokio::test]
async fn a_silent_worker_is_given_up_after_its_lease() {
    let mut rig = Rig::at_work(|_| {}).await;
    let given_at = rig.elapsed;
    while rig.commit.is_none() {
        rig.pass(rig.sleep().expect("a worker is expected to report"));
        rig.step(Input::Wake).await;
    }
    assert_eq!(rig.elapsed - given_at, LEASE);
    assert!(matches!(rig.orders.last(), Some(Order::Resend)), "the worker is asked to report again");
}

/// The worker leaves between the decision and its commit. No worker ever had the attempt, so none would report it as lost.
#[tokio::test]
async fn an_assignment_for_a_worker_that_left_goes_to_another() {
    let mut rig = Rig::ready().await;
    let due = rig.now + Duration::from_secs(60);
    rig.put(every_minute(0, due)).await;
    rig.pass(Duration::from_secs(60));
    rig.step(Input::Wake).await;
    assert!(rig.commit.is_some(), "the assignment is being written");
    rig.step(Input::Left { worker: worker() }).await;
    rig.land_all().await;
    assert_eq!(rig.orders, [], "the worker that left gets no order");
    let other = WorkerId::new("there", 1);
    let (announced, holding) = (Announcement::of(1), Vec::new());
    rig.step(Input::Joined { worker: other.clone(), announced, holding }).await;
    rig.step(Input::Reports { worker: other, reports: vec![Report::Lent { total: 1 }] }).await;
    rig.land_all().await;
    let Some(Order::Assign(assignment)) = rig.orders.last() else { panic!("{:?}", rig.orders) };
    assert_eq!(assignment.attempt, 2);
}

const SECOND: Duration = Duration::from_secs(1);

impl Rig {
    /// The worker has been silent for almost its lease. After a failed commit a shard is to be loaded again: another one than
    /// that of its attempt, if there are several.
    async fn before_a_load(shards: u16) -> (Rig, (RunId, Token)) {
        let mut rig = Rig::of(shards).await.with_attempt(|_| {}).await;
        let Some(Order::Assign(given)) = rig.orders.pop() else { panic!("the worker has the attempt") };
        while rig.now.since(given.due) + SECOND < LEASE {
            rig.pass(SECOND);
            rig.step(Input::Wake).await;
        }
        rig.pass(SECOND * 4 / 5);
        let own = given.run.shard();
        let loaded = (0..shards).map(ShardId).find(|shard| *shard != own).unwrap_or(own);
        let mut commands = (1..).map(|index| every_minute(index, rig.now + HOUR));
        let command = commands.find(|command| command.shard(shards) == loaded).unwrap();
        rig.step(Input::Command { ticket: Ticket(2), command }).await;
        rig.commit = None;
        let result = Err(Error::Unreachable("no route".to_owned()));
        rig.step(Input::Committed { lane: 0, result }).await;
        assert!(rig.driver.shard(loaded).is_none(), "the shard is not loaded yet");
        (rig, (given.run, given.token))
    }

    async fn join_with(&mut self, attempt: (RunId, Token)) {
        let (announced, holding) = (Announcement::of(1), vec![attempt]);
        self.step(Input::Joined { worker: worker(), announced, holding }).await;
    }

    fn has(&self, (run, token): (RunId, Token)) -> bool {
        self.driver.shard(run.shard()).expect("the shard is loaded").runs_under(run, token)
    }

    /// Lets the pause before the load pass.
    async fn load(&mut self) {
        self.pass(SECOND);
        self.step(Input::Wake).await;
        self.land_all().await;
        assert!(self.driver.is_ready());
    }
}

/// Its worker was silent for a lease while the shard was not loaded, and came back before the load.
#[tokio::test]
async fn an_attempt_that_its_worker_names_survives_a_load() {
    let (mut rig, attempt) = Rig::before_a_load(1).await;
    rig.pass(SECOND * 3 / 10);
    rig.step(Input::Wake).await;
    assert_eq!(rig.orders, [Order::Resend], "the worker is silent");
    rig.join_with(attempt).await;
    rig.load().await;
    assert!(rig.has(attempt), "{:?}", rig.orders);
}

/// The worker is admitted when every shard is loaded.
#[tokio::test]
async fn a_worker_that_waits_to_be_admitted_loses_no_attempt() {
    let (mut rig, attempt) = Rig::before_a_load(2).await;
    assert!(rig.has(attempt), "its shard is not the one that is loaded");
    rig.join_with(attempt).await;
    rig.pass(SECOND * 3 / 10);
    rig.step(Input::Wake).await;
    rig.load().await;
    assert!(rig.has(attempt), "it was heard when it joined: {:?}", rig.orders);
}

#[tokio::test]
async fn a_worker_that_leaves_before_a_load_loses_its_attempts_at_once() {
    let (mut rig, attempt) = Rig::before_a_load(1).await;
    rig.step(Input::Departed { worker: worker() }).await;
    rig.load().await;
    assert!(!rig.has(attempt), "no other worker gets the run before the end of a lease");
}

/// Setting the wall clock neither delays a retry nor brings it forward, and the node need not wake every second for it.
#[tokio::test]
async fn a_retry_comes_after_its_delay_whatever_the_clock_shows() {
    for step in [HOUR / 2, 12 * HOUR] {
        for back in [false, true] {
            let mut rig = Rig::at_work(|definition| {
                definition.retry = Retry { attempts: 2, delay: HOUR, ..Retry::default() };
            })
            .await;
            let order = rig.orders[0].clone();
            rig.report(failed(&order, rig.now)).await;
            rig.now = if back { rig.now.before(step) } else { rig.now + step };
            let mut looks = 0;
            let before = rig.elapsed;
            while rig.orders.iter().filter(|order| matches!(order, Order::Assign(_))).count() < 2 {
                rig.pass(rig.sleep().expect("a retry waits"));
                rig.step(Input::Wake).await;
                rig.land_all().await;
                looks += 1;
            }
            assert_eq!(rig.elapsed - before, HOUR, "back: {back}, by {step:?}");
            assert!(looks < 10, "{looks} looks");
        }
    }
}

fn failed(order: &Order, at: Timestamp) -> Report {
    let Order::Assign(assignment) = order else { panic!("{order:?}") };
    Report::Finished {
        run: assignment.run,
        token: assignment.token,
        outcome: Outcome::failed(at, "it broke"),
    }
}
