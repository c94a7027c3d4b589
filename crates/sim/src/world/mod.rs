//! A cluster, its store and its workers in one thread, on virtual time, from one seed.
//!
//! The engine, both drivers and the store clock are the real ones; only the transport of their inputs and outputs is
//! simulated, with random delays and faults. Commits are slow, fail, end unknown or take effect late; reads return late
//! with outdated rows; messages are lost, doubled, late and reordered; clocks drift and are set; nodes die, are paused past
//! their lease and continue with calls in flight, leave and come back; any two parts can be cut off from each other, in
//! one direction or both.
//!
//! `events` lists what can happen. `node` starts, runs and stops nodes, `faults` injects faults, `clock` has the clock of each machine; `calls` and `look`
//! carry store calls, `endpoint` carries commands to their leader, `holds` has the operators, `queues` has producers and consumers, `locks` the
//! owners of locks, `link` carries
//! messages between nodes and workers, `work` runs the workers, and `end` checks the final state.
//!
//! Some worlds have a single node on one machine with its store: its worker dies with it, and the machine's clock is the
//! store's clock.

mod events;
mod clock;
mod node;
mod faults;
mod calls;
mod look;
mod courier;
mod endpoint;
mod holds;
mod queues;
mod locks;
mod link;
mod work;
mod end;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context as Poller, Poll, Waker};
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::ids::ShardId;
use punctual_core::time::{ManualClock, Moment};
use punctual_node::Driver;
use punctual_store::memory::Memory;

use crate::dice::Dice;
use crate::traffic::Traffic;
use crate::weather::Weather;
use crate::witness::{Verdict, Witness};
use crate::worker::Worker;
use crate::workload::People;
use endpoint::Endpoints;
use events::Happening;
pub use faults::Departure;
use link::Link;
use locks::Owners;
use node::{Node, address};

/// Maximum difference between a node's time and the store's.
const SKEW: Duration = Duration::from_millis(500);
/// The same for a clock that drifts by a tenth and a store that takes seconds to answer: the last good reading is trusted
/// for longer than it is precise. A node that was paused while it read the clock goes by the time at which the store
/// answered, up to one shard lease ago.
const SKEW_DRIFTING: Duration = Duration::from_millis(3_000);
/// A clock that drifts more than this is broken.
const DRIFT_PPM: i64 = 500;

/// The size of a world.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    pub(crate) shards: u16,
    pub(crate) slots: usize,
    /// Timers on one page: few, so that most timers are not in memory.
    pub(crate) page: usize,
    pub(crate) commit_batch: usize,
}

#[derive(Debug)]
pub(crate) struct World {
    dice: Dice,
    size: Size,
    weather: Weather,
    /// Faults are injected, and users send commands.
    stormy: bool,
    people: People,
    /// The random numbers of the operators who hold and release.
    operators: Dice,
    /// `None` means this world has no queues.
    traffic: Option<Traffic>,
    owners: Owners,
    /// True time, in milliseconds since the world began.
    time: u64,
    /// The store's clock minus true time.
    offset: i64,
    /// Earlier offsets of the store's clock, and until when a leader may still use them.
    offsets: Vec<(u64, i64)>,
    /// The latest time that the store's clock ever showed.
    latest: Timestamp,
    /// The latest engine time of any node so far.
    reached: Timestamp,
    store_time: Arc<ManualClock>,
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    events: BTreeMap<u64, Happening>,
    sequence: u64,
    pub(crate) store: Memory,
    nodes: Vec<Node>,
    workers: Vec<Worker>,
    /// Events for each paused worker. `None` means the worker is not paused.
    held: Vec<Option<Vec<Happening>>>,
    /// Indexed by worker and node.
    links: Vec<Vec<Link>>,
    next_link: u64,
    endpoints: Endpoints,
    /// Until when the first node cannot reach the second.
    peers_cut: BTreeMap<(usize, usize), u64>,
    /// Shards that were taken away by a leader from outside and that no node has acquired since.
    stolen: BTreeSet<ShardId>,
    pub(crate) witness: Witness,
    broken: Option<String>,
    trace: bool,
}

impl World {
    pub(crate) fn new(mut dice: Dice, size: Size, weather: Option<Weather>, trace: bool) -> Self {
        const BEGAN: i64 = 1_800_000_000_000;
        let weather = weather.unwrap_or_else(|| Weather::of(&mut dice));
        let nodes: Vec<Node> =
            (0..weather.nodes.unwrap_or(1)).map(|index| Node::new(index, weather, &mut dice)).collect();
        let owners = Owners::new(dice.apart().apart(), weather.step_gap > 0);
        let store_time = Arc::new(ManualClock::at(Timestamp::from_millis(BEGAN)));
        let name =
            |index: usize| if weather.nodes.is_none() { "local".into() } else { format!("worker-{index}") };
        World {
            operators: dice.apart().apart(),
            dice,
            size,
            weather,
            stormy: false,
            people: People::new(weather),
            traffic: None,
            owners,
            time: 0,
            offset: BEGAN,
            offsets: Vec::new(),
            latest: Timestamp::from_millis(BEGAN),
            reached: Timestamp::from_millis(BEGAN),
            store: Memory::with_clock(size.shards, store_time.clone()),
            store_time,
            queue: BinaryHeap::new(),
            events: BTreeMap::new(),
            sequence: 0,
            links: (0..weather.workers).map(|_| nodes.iter().map(|_| Link::default()).collect()).collect(),
            workers: (0..weather.workers)
                .map(|index| Worker::new(name(index), 0, size.slots, (0..nodes.len()).map(address)))
                .collect(),
            held: (0..weather.workers).map(|_| None).collect(),
            nodes,
            next_link: 0,
            endpoints: Endpoints::default(),
            peers_cut: BTreeMap::new(),
            stolen: BTreeSet::new(),
            witness: Witness::of(weather.workers),
            broken: None,
            trace,
        }
    }

    /// Adds queues, producers and consumers to this world.
    pub(crate) fn with_traffic(self, traffic: Option<Traffic>) -> Self {
        World { traffic, ..self }
    }

    fn is_alone(&self) -> bool {
        self.weather.nodes.is_none()
    }

    /// The time of the store's clock.
    pub(crate) fn clock(&self) -> Timestamp {
        Timestamp::from_millis(self.offset + i64::try_from(self.time).unwrap_or(i64::MAX))
    }

    /// The earliest time that a leader may use. It may not know yet that the store's clock was set.
    fn earliest(&self) -> Timestamp {
        let believed = self.offsets.iter().filter(|(until, _)| self.time < *until).map(|(_, offset)| *offset);
        let offset = believed.fold(self.offset, i64::min);
        Timestamp::from_millis(offset + i64::try_from(self.time).unwrap_or(i64::MAX)).before(self.skew())
    }

    /// Maximum difference between a node's time and the store's.
    fn skew(&self) -> Duration {
        if self.weather.drift_ppm > DRIFT_PPM { SKEW_DRIFTING } else { SKEW }
    }

    /// The clocks of a node. A single node has its store on its own machine.
    fn moment(&self, index: usize) -> Moment {
        if self.is_alone() {
            Moment { now: self.clock(), elapsed: Duration::from_millis(self.time) }
        } else {
            self.nodes[index].machine.moment(self.time)
        }
    }

    /// True time, as a monotonic clock shows it.
    fn elapsed_time(&self) -> Duration {
        Duration::from_millis(self.time)
    }

    /// The latest engine time of the running nodes.
    pub(crate) fn engine_time(&self) -> Timestamp {
        self.drivers().map(Driver::now).max().unwrap_or(self.clock())
    }

    fn drivers(&self) -> impl Iterator<Item = &Driver> {
        self.nodes.iter().filter_map(|node| node.driver.as_ref())
    }

    /// Whether every node is running, and every shard has a leader.
    pub(crate) fn is_ready(&self) -> bool {
        self.drivers().count() == self.nodes.len()
            && self.drivers().all(Driver::is_ready)
            && self.drivers().map(Driver::shards_led).sum::<usize>() == usize::from(self.size.shards)
    }

    /// The first broken promise.
    pub(crate) fn broken(&self) -> Option<&str> {
        self.broken.as_deref()
    }

    fn witnessed(&mut self, verdict: Verdict) {
        if let (Err(what), None) = (verdict, &self.broken) {
            self.broken = Some(what);
        }
    }

    fn later(&mut self, millis: u64, what: Happening) {
        self.at(self.time + millis, what);
    }

    fn at(&mut self, time: u64, what: Happening) {
        self.sequence += 1;
        self.queue.push(Reverse((time, self.sequence)));
        self.events.insert(self.sequence, what);
    }

    /// Lets a span of true time pass; stops early if a promise is broken.
    pub(crate) fn run_for(&mut self, span: Duration) {
        let until = self.time + millis(span);
        while self.broken.is_none()
            && let Some(Reverse((time, sequence))) = self.queue.peek().copied()
            && time <= until
        {
            self.queue.pop();
            self.move_to(time);
            let Some(event) = self.events.remove(&sequence) else { continue };
            if self.trace {
                eprintln!("{} {event:?}", self.clock());
            }
            self.happen(event);
        }
        if self.broken.is_none() {
            self.move_to(until);
        }
    }

    fn move_to(&mut self, time: u64) {
        self.time = self.time.max(time);
        self.latest = self.latest.max(self.clock());
        self.store_time.set(self.clock());
    }

    fn happen(&mut self, event: Happening) {
        match event {
            Happening::Start(index) => self.start(index),
            Happening::Ask => self.people_ask(),
            Happening::AskAfterOutage => self.ask_after_outage(),
            Happening::Hold => self.operators_hold(),
            Happening::Repeat(command) => self.ask(command),
            Happening::Fault(fault) => self.inject(fault),
            Happening::Resume(index) => self.resume(index),
            Happening::ResumeWorker(index) => self.resume_worker(index),
            Happening::Late(by, batches) => self.land_late(by, &batches),
            Happening::Call(by, call) => self.reach_store(by, call),
            Happening::Look(by, look) => self.look(by, look),
            Happening::Unheard(by, call) => self.take_effect(by, call),
            Happening::Node(life, told) => self.tell(life, told),
            Happening::Worker(life, word) => self.tell_worker(life, word),
            Happening::Exchange(life, request) => self.begin_exchange(life, *request),
            Happening::Queue(turn) => self.take_turn(turn),
            Happening::Lock(turn) => self.take_lock_turn(turn),
        }
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// The memory store never waits, so its futures are ready at once.
pub(crate) fn at_once<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Poller::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => unreachable!("the memory store never waits"),
    }
}
