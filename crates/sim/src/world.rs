//! A node, its store and its worker in one thread, on virtual time, from one seed.
//!
//! The very engine and driver that run in production are driven here; only what carries their inputs and outputs is
//! made of dice: commits are slow, fail, or end unknown, reads return late and see the past, reports are lost and
//! doubled, the clock steps, the process dies between any two steps.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context as Poller, Poll, Waker};
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::attempt::{End, Order, Report};
use punctual_core::change::{Batch, Change, Row};
use punctual_core::command::Command;
use punctual_core::ids::{JobId, RunId, Token, WorkerId};
use punctual_core::job::Overlap;
use punctual_core::name::Namespace;
use punctual_engine::Ticket;
use punctual_node::driver::Settings;
use punctual_node::{Driver, Input, Output};
use punctual_store::memory::Memory;
use punctual_store::{Error, JobFilter, RunFilter, Store};
use punctual_verify::{History, Options};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::dice::Dice;
use crate::witness::{Seen, Witness};
use crate::worker::{Did, Worker};
use crate::workload;

const SHARDS: u16 = 3;
const SLOTS: usize = 4;
const HEARTBEAT: Duration = Duration::from_secs(5);
/// As in the node's loop: a stepped clock is noticed within it.
const SLEEP_MAX: Duration = Duration::from_secs(1);
/// How long faults and commands go on, in virtual time.
const STORM: Duration = Duration::from_secs(240);
/// How long the world then has to catch up, and after that to come to rest.
const CALM: Duration = Duration::from_secs(150);
const REST: Duration = Duration::from_secs(400);

/// What happens next, and to which life of the node.
#[derive(Debug)]
enum Happening {
    Ask,
    Crash,
    StepClock,
    Start,
    Wake,
    Result(Input),
    /// A store call that takes effect now and answers later.
    Call(Output),
    Deliver(Order),
    Hear(Vec<Report>),
    End(RunId, Token, End),
    Heartbeat,
}

#[derive(Debug)]
struct Event {
    life: u32,
    what: Happening,
}

#[derive(Debug)]
pub(crate) struct World {
    dice: Dice,
    /// True time, in milliseconds since the world began.
    time: u64,
    /// What the machine's clock shows more than true time.
    offset: i64,
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    events: BTreeMap<u64, Event>,
    sequence: u64,
    store: Memory,
    driver: Option<Driver>,
    worker: Worker,
    life: u32,
    /// Deliveries on a link keep their order: when the last one of each direction arrives.
    link_down: u64,
    link_up: u64,
    next_wake: u64,
    next_ticket: u64,
    /// Commits whose outcome nobody was told: they land before the next acquire, or never.
    ghosts: Vec<Arc<Vec<Batch>>>,
    /// Commits under way that have not landed.
    afloat: BTreeMap<u64, Arc<Vec<Batch>>>,
    policies: FxHashMap<JobId, Overlap>,
    lenient: FxHashSet<JobId>,
    faults: bool,
    witness: Witness,
    broken: Option<String>,
    pub(crate) trace: bool,
}

/// What broke, and what had been seen until then.
#[derive(Debug)]
pub struct Failure {
    pub seed: u64,
    pub at: String,
    pub what: String,
}

/// Runs one world from a seed to its end.
pub fn run(seed: u64, trace: bool) -> Result<Seen, Failure> {
    let mut world = World::new(seed, trace);
    world.live_through();
    match world.broken.take() {
        Some(what) => Err(Failure { seed, at: world.clock().to_string(), what }),
        None => Ok(world.witness.seen),
    }
}

impl World {
    fn new(seed: u64, trace: bool) -> Self {
        World {
            dice: Dice::new(seed),
            time: 0,
            offset: 1_800_000_000_000,
            queue: BinaryHeap::new(),
            events: BTreeMap::new(),
            sequence: 0,
            store: Memory::new(SHARDS),
            driver: None,
            worker: Worker::default(),
            life: 0,
            link_down: 0,
            link_up: 0,
            next_wake: u64::MAX,
            next_ticket: 0,
            ghosts: Vec::new(),
            afloat: BTreeMap::new(),
            policies: FxHashMap::default(),
            lenient: FxHashSet::default(),
            faults: true,
            witness: Witness::default(),
            broken: None,
            trace,
        }
    }

    fn live_through(&mut self) {
        self.start();
        for _ in 0..12 {
            self.later(self.dice.clone().below(50), Happening::Ask);
        }
        self.later(2_000, Happening::Crash);
        self.later(5_000, Happening::StepClock);
        self.run_for(STORM);
        self.faults = false;
        // What hung forever ends now: only the promises of a living program are checked.
        for (run, token) in self.worker.unfinished() {
            self.later(1_000, Happening::End(run, token, End::Failed));
        }
        self.run_for(CALM);
        self.check_caught_up();
        for name in workload::NAMES {
            let name = name.parse().expect("a name");
            self.ask(Command::PauseJob { namespace: Namespace::default(), name });
        }
        self.run_for(REST);
        self.check_at_rest();
    }

    fn clock(&self) -> Timestamp {
        Timestamp::from_millis(self.offset + i64::try_from(self.time).unwrap_or(i64::MAX))
    }

    fn fail(&mut self, what: String) {
        if self.broken.is_none() {
            self.broken = Some(what);
        }
    }

    fn witnessed(&mut self, verdict: Result<(), String>) {
        if let Err(what) = verdict {
            self.fail(what);
        }
    }

    fn later(&mut self, millis: u64, what: Happening) {
        self.at(self.time + millis, what);
    }

    fn at(&mut self, time: u64, what: Happening) {
        self.sequence += 1;
        self.queue.push(Reverse((time, self.sequence)));
        self.events.insert(self.sequence, Event { life: self.life, what });
    }

    fn run_for(&mut self, span: Duration) {
        let until = self.time + u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        while self.broken.is_none()
            && let Some(Reverse((time, sequence))) = self.queue.peek().copied()
            && time <= until
        {
            self.queue.pop();
            self.time = self.time.max(time);
            let Some(event) = self.events.remove(&sequence) else { continue };
            if self.trace {
                eprintln!("{} life {} {:?}", self.clock(), event.life, event.what);
            }
            self.happen(event);
        }
        self.time = self.time.max(until);
    }

    fn happen(&mut self, event: Event) {
        let mine = event.life == self.life && self.driver.is_some();
        match event.what {
            Happening::Start => self.start(),
            Happening::Ask => self.people_ask(),
            Happening::Crash => self.maybe_crash(),
            Happening::StepClock => self.maybe_step_clock(),
            _ if !mine => {}
            Happening::Wake => self.step(Input::Wake),
            Happening::Result(input) => self.step(input),
            Happening::Call(output) => self.perform(output),
            Happening::Deliver(order) => self.deliver(order),
            Happening::Hear(reports) => self.step(Input::Reports { worker: self.worker_id(), reports }),
            Happening::End(run, token, end) => {
                if let Some(report) = self.worker.end(run, token, end) {
                    self.say(vec![report]);
                }
            }
            Happening::Heartbeat => {
                let reports = self.worker.heartbeat();
                self.say(reports);
                self.later(millis(HEARTBEAT), Happening::Heartbeat);
            }
        }
    }

    // ---- the node's life ------------------------------------------------------------------------------------

    fn start(&mut self) {
        self.life += 1;
        self.worker = Worker::default();
        (self.link_down, self.link_up, self.next_wake) = (self.time, self.time, u64::MAX);
        let settings = Settings {
            shards: SHARDS,
            lanes: 1 + usize::try_from(self.dice.below(2)).unwrap_or(0),
            shard_lease: Duration::from_secs(3),
            commit_batch: 24,
            engine: punctual_engine::Settings { attempt_lease: Duration::from_secs(15), page: 4 },
        };
        self.driver = Some(Driver::new(settings, self.clock()));
        self.step(Input::Joined { worker: self.worker_id(), slots: SLOTS, holding: Vec::new() });
        self.later(millis(HEARTBEAT), Happening::Heartbeat);
    }

    fn maybe_crash(&mut self) {
        if !self.faults {
            return;
        }
        let next = 500 + self.dice.below(40_000);
        if self.driver.is_none() {
            return self.later(next, Happening::Crash);
        }
        self.witness.seen.crashes += 1;
        self.witness.seen.reloads += self.driver.as_ref().map_or(0, |driver| driver.counts().reloads);
        self.driver = None;
        // What was on its way to the disk is there or it is not.
        for (_, batches) in std::mem::take(&mut self.afloat) {
            if self.dice.one_in(2) {
                drop(self.land(&batches));
            }
        }
        let away = if self.dice.one_in(8) { self.dice.below(90_000) } else { self.dice.below(3_000) };
        self.later(away, Happening::Start);
        self.later(away + next, Happening::Crash);
    }

    fn maybe_step_clock(&mut self) {
        if !self.faults {
            return;
        }
        self.witness.seen.clock_steps += 1;
        self.offset += match self.dice.below(6) {
            0 => self.dice.between(0, 8 * 3_600_000),
            1 => self.dice.between(-60_000, 0),
            _ => self.dice.between(-900, 20_000),
        };
        let next = 5_000 + self.dice.below(120_000);
        self.later(next, Happening::StepClock);
    }

    fn people_ask(&mut self) {
        if !self.faults {
            return;
        }
        let known = self.witness.known_runs();
        let recent = &known[known.len().saturating_sub(30)..];
        let now = self.clock();
        let command = workload::command(&mut self.dice, recent, now);
        self.ask(command);
        let next = self.dice.below(4_000);
        self.later(next, Happening::Ask);
    }

    fn ask(&mut self, command: Command) {
        self.next_ticket += 1;
        let ticket = Ticket(self.next_ticket);
        if self.driver.is_some() {
            self.step(Input::Command { ticket, command });
        }
    }

    fn step(&mut self, input: Input) {
        let clock = self.clock();
        let Some(driver) = &mut self.driver else { return };
        driver.step(input, clock);
        driver.settle_down(clock);
        for output in driver.outputs() {
            self.carry(output);
        }
        self.arm_wake();
    }

    fn arm_wake(&mut self) {
        let Some(driver) = &self.driver else { return };
        let sleep = driver.next_wake().map_or(SLEEP_MAX, |at| at.since(self.clock()).min(SLEEP_MAX));
        let at = self.time + millis(sleep).max(1);
        if self.next_wake <= self.time || at < self.next_wake {
            self.next_wake = at;
            self.at(at, Happening::Wake);
        }
    }

    // ---- what the driver wants done -------------------------------------------------------------------------

    fn carry(&mut self, output: Output) {
        match output {
            Output::Answer { answer: Ok(answer), .. } => {
                let verdict = self.witness.answered(&answer);
                self.witnessed(verdict);
            }
            Output::Answer { .. } => {}
            Output::Order { order, .. } => {
                let verdict = self.witness.ordered(&order);
                self.witnessed(verdict);
                self.send_order(order);
            }
            Output::Fail { why } => self.fail(format!("the driver gave up: {why}")),
            Output::Commit { lane, batches } => self.commit(lane, batches),
            call => {
                let delay = self.latency();
                self.later(delay, Happening::Call(call));
            }
        }
    }

    fn latency(&mut self) -> u64 {
        if self.faults && self.dice.one_in(40) { self.dice.below(2_000) } else { self.dice.below(12) }
    }

    fn commit(&mut self, lane: usize, batches: Arc<Vec<Batch>>) {
        let delay = self.latency();
        let error = match self.dice.below(60) {
            _ if !self.faults => None,
            0 => Some(Error::RolledBack("a deadlock".to_owned())),
            1 => Some(Error::Full("no space".to_owned())),
            2 => Some(Error::Unreachable("no route".to_owned())),
            3 | 4 => {
                self.witness.seen.unknown_commits += 1;
                // It lands at once, or before the next acquire, or never.
                if self.dice.one_in(3) {
                    drop(self.land(&batches));
                } else {
                    self.ghosts.push(Arc::clone(&batches));
                }
                Some(Error::Unknown("the line went dead".to_owned()))
            }
            _ => None,
        };
        if let Some(error) = error {
            self.witness.seen.failed_commits += 1;
            return self.later(delay, Happening::Result(Input::Committed { lane, result: Err(error) }));
        }
        self.later(delay, Happening::Call(Output::Commit { lane, batches: Arc::clone(&batches) }));
        self.afloat.insert(self.sequence, batches);
    }

    /// A store call takes effect; its result is on its way back.
    fn perform(&mut self, output: Output) {
        let flaky = self.faults && self.dice.one_in(50);
        let error = || Error::Unreachable("no route".to_owned());
        let input = match output {
            Output::Commit { lane, batches } => {
                self.afloat.retain(|_, afloat| !Arc::ptr_eq(afloat, &batches));
                Input::Committed { lane, result: self.land(&batches) }
            }
            Output::Acquire { shards } => {
                for ghost in std::mem::take(&mut self.ghosts) {
                    if self.dice.one_in(2) {
                        drop(self.land(&ghost));
                    }
                }
                let result = if flaky { Err(error()) } else { at_once(self.store.acquire(&shards)) };
                Input::Acquired { shards, result }
            }
            Output::Load { shard, epoch } => {
                let result = if flaky { Err(error()) } else { at_once(self.store.load(shard, epoch)) };
                Input::Loaded { shard, result }
            }
            Output::Fetch { read, wants } => {
                let result = if flaky { Err(error()) } else { at_once(self.store.fetch(wants)) };
                Input::Fetched { read, result }
            }
            Output::Page { read, shard, after, limit } => {
                let result = if flaky { Err(error()) } else { at_once(self.store.due(shard, after, limit)) };
                Input::Paged { read, shard, result }
            }
            Output::Answer { .. } | Output::Order { .. } | Output::Fail { .. } => return,
        };
        let delay = self.latency();
        self.later(delay, Happening::Result(input));
    }

    fn land(&mut self, batches: &Arc<Vec<Batch>>) -> Result<(), Error> {
        at_once(self.store.commit(Arc::clone(batches)))?;
        for batch in batches.iter() {
            self.note_policies(batch);
            let verdict = self.witness.landed(batch);
            self.witnessed(verdict);
        }
        let verdict = self.witness.overlap(|job| {
            self.policies.get(&job).copied().filter(|_| !self.lenient.contains(&job))
        });
        self.witnessed(verdict);
        Ok(())
    }

    /// A job that ever allowed overlap may have runs from then.
    fn note_policies(&mut self, batch: &Batch) {
        for (_, change) in batch.changes.iter() {
            match change {
                Change::Insert(Row::Job(job)) | Change::Update(Row::Job(job)) => {
                    self.policies.insert(job.id, job.definition.overlap);
                }
                Change::Insert(Row::Revision(revision)) if revision.definition.overlap == Overlap::Allow => {
                    self.lenient.insert(revision.job);
                }
                _ => {}
            }
        }
    }

    // ---- the worker -----------------------------------------------------------------------------------------

    fn send_order(&mut self, order: Order) {
        if self.faults && self.dice.one_in(150) {
            self.witness.seen.lost_messages += 1;
            return;
        }
        let copies = if self.faults && self.dice.one_in(40) { 2 } else { 1 };
        self.link_down = self.link_down.max(self.time + self.dice.below(4));
        for _ in 0..copies {
            self.at(self.link_down, Happening::Deliver(order.clone()));
        }
    }

    fn say(&mut self, reports: Vec<Report>) {
        if self.faults && self.dice.one_in(25) {
            self.witness.seen.lost_messages += 1;
            return;
        }
        let copies = if self.faults && self.dice.one_in(25) { 2 } else { 1 };
        self.link_up = self.link_up.max(self.time + self.dice.below(4));
        for _ in 0..copies {
            self.at(self.link_up, Happening::Hear(reports.clone()));
        }
    }

    fn deliver(&mut self, order: Order) {
        let clock = self.clock();
        match self.worker.take(order, clock) {
            Did::Start(assignment) => {
                // A clock that was stepped back since the fire does not make it early: engine time stood still.
                let engine_time = clock.max(assignment.due.min(self.engine_time()));
                let verdict = self.witness.started(&assignment, engine_time);
                self.witnessed(verdict);
                let (run, token) = (assignment.run, assignment.token);
                if self.dice.one_in(3) {
                    self.say(vec![Report::Started { run, token, at: clock }]);
                }
                let end = if self.faults && self.dice.one_in(4) { End::Failed } else { End::Succeeded };
                let takes = match self.dice.below(40) {
                    _ if !self.faults => self.dice.below(20),
                    0 => return,
                    1 => self.dice.below(60_000),
                    2..=9 => self.dice.below(4_000),
                    _ => self.dice.below(300),
                };
                self.later(takes, Happening::End(run, token, end));
            }
            Did::Stop(run, token) => {
                let takes = self.dice.below(500);
                self.later(takes, Happening::End(run, token, End::Failed));
            }
            Did::Say(reports) => self.say(reports),
            Did::Nothing => {}
        }
    }

    fn worker_id(&self) -> WorkerId {
        WorkerId::new("local", u64::from(self.life))
    }

    fn engine_time(&self) -> Timestamp {
        self.driver.as_ref().map_or(self.clock(), Driver::now)
    }

    // ---- the end --------------------------------------------------------------------------------------------

    /// After a calm, nothing is owed: every job's next due time is still to come.
    fn check_caught_up(&mut self) {
        if self.broken.is_some() {
            return;
        }
        if !self.driver.as_ref().is_some_and(Driver::is_ready) {
            return self.fail("the node did not recover by itself".to_owned());
        }
        let now = self.engine_time();
        let jobs = at_once(self.store.jobs(&JobFilter::default(), None, 1000)).unwrap_or_default();
        let late = jobs.iter().find(|job| job.cursor.wake_at.is_some_and(|at| at + Duration::from_secs(5) < now));
        if let Some(job) = late {
            let wake = job.cursor.wake_at.unwrap_or_default();
            self.fail(format!("never lost: job {} was due at {wake}, it is {now} and nothing fired", job.name));
        }
    }

    fn check_at_rest(&mut self) {
        if self.broken.is_some() {
            return;
        }
        let pending = self.witness.acknowledged.iter().find(|run| {
            !self.witness.status(**run).is_some_and(punctual_core::run::Status::is_terminal)
        });
        if let Some(run) = pending {
            let status = self.witness.status(*run);
            let pool = self.driver.as_ref().map(|driver| format!("{:?}", driver.pool()));
            return self.fail(format!("never lost: run {run} was acknowledged and is still {status:?}; {pool:?}"));
        }
        let history = self.history();
        let now = self.engine_time();
        let options = Options { ended_through: Some(now), still: true, may_be_empty: true, ..Options::default() };
        let report = history.check(&options);
        if !report.findings.is_empty() {
            self.fail(report.to_string());
        }
    }

    fn history(&self) -> History {
        let mut history = History::new();
        let filter = RunFilter { oldest_first: true, ..RunFilter::default() };
        let mut after = None;
        loop {
            let runs = at_once(self.store.runs(&filter, after, 500)).unwrap_or_default();
            let Some(last) = runs.last() else { break };
            after = Some(last.id);
            runs.iter().for_each(|run| history.add_run(run));
        }
        for job in at_once(self.store.jobs(&JobFilter::default(), None, 1000)).unwrap_or_default() {
            for revision in 1..=job.revision {
                if let Ok(Some(revision)) = at_once(self.store.revision(job.id, revision)) {
                    history.add_revision(&revision);
                }
            }
            history.add_job(&job);
        }
        let mut after = None;
        loop {
            let skips = at_once(self.store.skips(None, after, 500)).unwrap_or_default();
            let Some(last) = skips.last() else { break };
            after = Some((last.job, last.from));
            skips.iter().for_each(|skip| history.add_skip(skip));
        }
        history
    }
}


fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// The memory store never waits, so its futures are ready at once.
fn at_once<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Poller::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => unreachable!("the memory store waits for nothing"),
    }
}
