//! Starts nodes, gives them their events, pauses them, stops them and lets them crash.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use punctual_core::attempt::Order;
use punctual_core::change::Batch;
use punctual_core::ids::{Epoch, RunId, SessionId, ShardId};
use punctual_core::worker::Announcement;
use punctual_node::driver::Settings;
use punctual_node::{Driver, Failure, Input, Output};
use punctual_store::{Session, Sessions};

use super::clock::Machine;
use super::events::{Asker, Happening, Told};
use super::{World, at_once, millis};
use crate::dice::Dice;
use crate::weather::Weather;
use crate::witness::Life;

pub(super) const SHARD_LEASE: Duration = Duration::from_secs(3);
pub(super) const ATTEMPT_LEASE: Duration = Duration::from_secs(15);
/// The default weight of a node.
const WEIGHT: u32 = 10_000;
/// How long a node that stops waits for its commits and hand-overs.
const STOPPING_MAX: u64 = 10_000;

#[derive(Debug)]
pub(super) struct Node {
    pub(super) index: usize,
    pub(super) life: u32,
    /// `None` means the node is not running.
    pub(super) driver: Option<Driver>,
    pub(super) session: Option<Session>,
    pub(super) machine: Machine,
    /// Its machine is gone too: its address does not refuse connections, it does not answer at all.
    pub(super) is_silent: bool,
    next_wake: u64,
    /// Events for a paused node. `None` means it is not paused.
    pub(super) held: Option<Vec<Happening>>,
    /// Until when a stopping node waits for its commits and hand-overs. `None` means it is not stopping.
    pub(super) stopping_until: Option<u64>,
    /// Commits and releases whose result has not arrived.
    pub(super) in_flight: usize,
    /// Commits that were sent and have not taken effect.
    pub(super) afloat: BTreeMap<u64, Arc<Vec<Batch>>>,
    /// The epoch in which it last acquired each shard, as far as it knows.
    pub(super) epochs: BTreeMap<ShardId, Epoch>,
    /// The newest link of each worker process.
    pub(super) joined: BTreeMap<Life, u64>,
    /// Its load in percent.
    pub(super) load: u8,
    /// Until when its requests to the store are lost, and until when the store's answers are.
    pub(super) requests_cut: u64,
    pub(super) answers_cut: u64,
}

impl Node {
    pub(super) fn new(index: usize, weather: Weather, dice: &mut Dice) -> Self {
        let uptime = Duration::from_millis(dice.below(1_000_000));
        let drift = dice.between(-weather.drift_ppm, weather.drift_ppm);
        Node {
            index,
            life: 0,
            driver: None,
            session: None,
            machine: Machine::new(uptime, drift),
            is_silent: false,
            next_wake: u64::MAX,
            held: None,
            stopping_until: None,
            in_flight: 0,
            afloat: BTreeMap::new(),
            epochs: BTreeMap::new(),
            joined: BTreeMap::new(),
            load: 0,
            requests_cut: 0,
            answers_cut: 0,
        }
    }

    pub(super) fn now(&self) -> Life {
        Life { index: self.index, life: self.life }
    }

    pub(super) fn is_led_elsewhere(&self, shard: ShardId) -> bool {
        let leader = self.driver.as_ref().map(|driver| driver.leader(shard));
        leader != Some(punctual_node::driver::Leader::Here)
    }
}

impl World {
    pub(crate) fn start_all(&mut self) {
        for index in 0..self.nodes.len() {
            self.start(index);
        }
        // The worker of a single node starts with its node.
        let begin = if self.is_alone() { 0 } else { self.workers.len() };
        for worker in 0..begin {
            self.pulse(worker);
        }
    }

    pub(crate) fn start(&mut self, index: usize) {
        if self.nodes[index].driver.is_some() {
            return;
        }
        let lanes = 1 + usize::try_from(self.dice.below(2)).unwrap_or(0);
        let id = i64::try_from(self.dice.below(u64::MAX / 2)).unwrap_or(0);
        let is_alone = self.is_alone();
        let node = &mut self.nodes[index];
        node.life += 1;
        (node.next_wake, node.stopping_until, node.in_flight, node.is_silent) = (u64::MAX, None, 0, false);
        node.epochs.clear();
        node.joined.clear();
        node.machine.forget();
        node.session = (!is_alone).then(|| Session {
            id: SessionId(id),
            node: Arc::from(format!("node-{index}")),
            address: Some(Arc::from(address(index))),
            weight: WEIGHT,
            embedded: false,
            load: 0,
        });
        let settings = Settings {
            shards: self.size.shards,
            lanes,
            shard_lease: SHARD_LEASE,
            commit_batch: self.size.commit_batch,
            session: node.session.clone(),
            engine: punctual_engine::Settings {
                attempt_lease: ATTEMPT_LEASE,
                page: self.size.page,
                records: true,
            },
        };
        self.measure(index);
        let moment = self.moment(index);
        self.nodes[index].driver = Some(Driver::new(settings, moment));
        if is_alone {
            self.replace_worker(0);
        }
        self.step(index, Input::Wake);
    }

    /// Sets the load of a node.
    pub(crate) fn set_load(&mut self, index: usize, percent: u8) {
        self.nodes[index].load = percent;
    }

    pub(crate) fn shards_led(&self, index: usize) -> usize {
        self.nodes[index].driver.as_ref().map_or(0, Driver::shards_led)
    }

    /// The process dies between two steps, with its memory and its unsent output.
    pub(crate) fn crash(&mut self, index: usize) {
        self.witness.seen.crashes += 1;
        let by = self.nodes[index].now();
        let afloat = std::mem::take(&mut self.nodes[index].afloat);
        self.end_life(index);
        // A commit in flight takes effect now, or later (unless another node has acquired the shard before), or never.
        for (_, batches) in afloat {
            match self.dice.below(3) {
                0 => drop(self.land(by, &batches)),
                1 => {
                    let delay = self.dice.below(4_000);
                    self.later(delay, Happening::Late(by, batches));
                }
                _ => {}
            }
        }
    }

    /// The process ends. Events that it has not handled are lost.
    fn end_life(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        let Some(driver) = node.driver.take() else { return };
        let held = node.held.take();
        node.stopping_until = None;
        let by = node.now();
        self.witness.seen.reloads += driver.counts().reloads;
        self.fail_waiting(by);
        self.hang_up_all(index);
        for happening in held.into_iter().flatten() {
            if let Happening::Node(_, Told::Asked(request) | Told::Forwarded(request)) = happening
                && !matches!(request.asker, Asker::People)
            {
                self.unanswered(request);
            }
        }
    }

    /// Pauses the process. Its machine continues: messages that were sent arrive.
    pub(super) fn pause(&mut self, index: usize) {
        self.nodes[index].held.get_or_insert_default();
    }

    pub(super) fn resume(&mut self, index: usize) {
        let by = self.nodes[index].now();
        let Some(held) = self.nodes[index].held.take() else { return };
        let led = self.nodes[index].driver.as_ref().is_some_and(|driver| driver.shards_led() > 0);
        if led && !self.is_alone() && !self.witness.leaders.holds(by, self.time) {
            self.witness.seen.lapses += 1;
        }
        for happening in held {
            self.at(self.time, happening);
        }
    }

    pub(super) fn tell(&mut self, life: Life, told: Told) {
        let node = &mut self.nodes[life.index];
        if node.now() != life || node.driver.is_none() {
            return self.never_told(told);
        }
        if let Some(held) = &mut node.held {
            return held.push(Happening::Node(life, told));
        }
        let index = life.index;
        match told {
            Told::Wake => self.step(index, Input::Wake),
            Told::Result(input) => self.result(index, input),
            Told::Looked(seen) => self.looked(index, seen),
            Told::Stop => {
                self.nodes[index].stopping_until = Some(self.time + STOPPING_MAX);
                self.step(index, Input::Stop);
            }
            Told::News => self.step(index, Input::ClusterChanged),
            Told::Asked(request) => self.asked_at(index, request),
            Told::Forwarded(request) => self.forwarded_to(index, request),
            Told::WaitedEnough(ticket, unwait) => self.waited_enough(index, ticket, unwait),
            Told::Join { worker, link, holding } => {
                self.nodes[index].joined.insert(worker, link);
                let joined = &mut self.workers[worker.index];
                joined.heard = joined.heard.max(self.time);
                self.admit(worker, index, link);
                let announced = Announcement::of(self.workers[worker.index].slots);
                self.step(index, Input::Joined { worker: self.worker_id(worker), announced, holding });
                self.notice_gone(worker, index, link);
            }
            Told::Reports { worker, link, reports, beat } => self.hear(index, worker, link, reports, beat),
            Told::Gone { worker, link } => {
                if self.is_newest(index, worker, link) {
                    self.nodes[index].joined.remove(&worker);
                    self.step(index, Input::Left { worker: self.worker_id(worker) });
                }
            }
        }
    }

    /// The event was for a process that has ended.
    fn never_told(&mut self, told: Told) {
        if let Told::Asked(request) | Told::Forwarded(request) = told {
            self.unanswered(request);
        }
    }

    pub(super) fn is_newest(&self, index: usize, worker: Life, link: u64) -> bool {
        self.nodes[index].joined.get(&worker).is_some_and(|newest| *newest == link)
    }

    fn result(&mut self, index: usize, input: Input) {
        let node = &mut self.nodes[index];
        if matches!(input, Input::Committed { .. } | Input::Released) {
            node.in_flight = node.in_flight.saturating_sub(1);
        }
        if let Input::Acquired { result: Ok(acquired), .. } = &input {
            node.epochs.extend(acquired.iter().copied());
        }
        self.step(index, input);
    }

    pub(super) fn step(&mut self, index: usize, input: Input) {
        let moment = self.moment(index);
        let Some(driver) = &mut self.nodes[index].driver else { return };
        driver.step(input, moment);
        driver.settle_down(moment);
        self.reached = self.reached.max(driver.now());
        for output in driver.outputs() {
            self.carry(index, output);
        }
        self.end_when_stopped(index);
        self.arm_wake(index);
    }

    fn arm_wake(&mut self, index: usize) {
        let (moment, is_alone, time) = (self.moment(index), self.is_alone(), self.time);
        let node = &mut self.nodes[index];
        let Some(driver) = &node.driver else { return };
        let sleep = driver.next_wake().sleep(|due| due.since(moment.now), moment.elapsed);
        let stopping_until = node.stopping_until.map(|until| until.saturating_sub(time));
        let sleep = sleep.map(|sleep| if is_alone { millis(sleep) } else { node.machine.takes(sleep) });
        let Some(sleep) = sleep.into_iter().chain(stopping_until).min() else { return };
        let at = time + sleep.max(1);
        if node.next_wake <= time || at < node.next_wake {
            node.next_wake = at;
            let life = node.now();
            self.at(at, Happening::Node(life, Told::Wake));
        }
    }

    /// A stopping node ends when it leads no shard and waits for no result, or when it has waited long enough.
    fn end_when_stopped(&mut self, index: usize) {
        let node = &self.nodes[index];
        let (Some(until), Some(driver)) = (node.stopping_until, &node.driver) else { return };
        if self.time < until && (node.in_flight > 0 || !driver.leads_nothing()) {
            return;
        }
        let by = node.now();
        if let Some(session) = node.session.as_ref().filter(|_| self.time >= node.requests_cut) {
            drop(at_once(self.store.leave(session.id)));
            self.wake_all(by);
        }
        let afloat = std::mem::take(&mut self.nodes[index].afloat);
        for (_, batches) in afloat {
            let delay = self.dice.below(4_000);
            self.later(delay, Happening::Late(by, batches));
        }
        self.end_life(index);
        if self.stormy {
            let away = self.dice.below(20_000);
            self.later(away, Happening::Start(index));
        }
    }

    fn carry(&mut self, index: usize, output: Output) {
        match output {
            Output::Answer { ticket, answer } => {
                if matches!(answer, Ok(_) | Err(Failure::Refused(_))) {
                    let shard = self.endpoints.shard_of(ticket, self.size.shards);
                    self.speaks(index, shard);
                }
                self.answer(index, ticket, &answer);
            }
            Output::Order { worker, order } => {
                let shard = run_of(&order).map(RunId::shard);
                let is_outdated = shard.is_some_and(|shard| self.is_outdated(index, shard));
                self.speaks(index, shard);
                let verdict = self.witness.ordered(&order, is_outdated);
                self.witnessed(verdict);
                self.send_order(index, &worker, &order);
            }
            Output::Refuse { worker, why } => {
                self.witnessed(Err(format!("the driver refused worker {worker}: {why}")));
            }
            Output::Fail { why } => self.witnessed(Err(format!("the driver gave up: {why}"))),
            Output::CrossShard(request) => {
                self.speaks(index, Some(request.subject().shard()));
                self.begin_exchange(self.nodes[index].now(), request);
            }
            call => self.call(index, call),
        }
    }

    pub(super) fn is_outdated(&self, index: usize, shard: ShardId) -> bool {
        let epoch = self.nodes[index].epochs.get(&shard);
        epoch.is_none_or(|epoch| self.witness.leaders.is_outdated(shard, *epoch))
    }

    /// A node sends an effect for a shard that it leads.
    fn speaks(&mut self, index: usize, shard: Option<ShardId>) {
        let node = &self.nodes[index];
        let (Some(shard), false) = (shard, self.weather.nodes.is_none()) else { return };
        let Some(epoch) = node.epochs.get(&shard).copied() else {
            let by = node.now();
            return self
                .witnessed(Err(format!("{by:?} sent an effect of shard {shard}, which it never acquired")));
        };
        let slow = u64::try_from(-node.machine.drift_ppm).unwrap_or(0);
        let grant = 2 + millis(SHARD_LEASE) * slow / (1_000_000 - slow);
        let verdict = self.witness.leaders.spoke(node.now(), shard, epoch, self.time, grant);
        self.witnessed(verdict);
    }
}

pub(super) fn address(index: usize) -> String {
    format!("node-{index}:7400")
}

/// The run of an order. `None` means the order concerns the worker's slots.
fn run_of(order: &Order) -> Option<RunId> {
    match order {
        Order::Assign(assignment) => Some(assignment.run),
        Order::Cancel { run, .. } | Order::Acknowledge { run, .. } | Order::Saved { run, .. } => Some(*run),
        Order::Resend | Order::GaveBack { .. } | Order::Waiting { .. } | Order::Drain { .. } => None,
    }
}
