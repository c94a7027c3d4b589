//! A cluster, its store and its workers in one thread, on virtual time, from one seed.
//!
//! The engine, both drivers and the store clock of production are driven here; only what carries their inputs
//! and outputs is made of dice. Commits are slow, fail, end unknown or land late; reads return late and see the past;
//! messages are lost, doubled, late and overtaken; clocks drift and are set; nodes die, stand still past their lease and
//! go on with what they had in flight, leave and come back; anybody can be cut off from anybody, in one direction or both.
//!
//! `node` is a node's life, `faults` what befalls it, `clock` what it takes for time; `calls` and `look` carry store calls,
//! `endpoint` carries commands to their leader, `queues` is what producers and consumers do, `link` the words between nodes and workers, `work` is the workers' part, and
//! `end` looks at what is left when all is quiet.
//!
//! Some worlds have one node that is alone with its store, as on one machine: its worker dies with it, and the clock of the
//! machine is the store's.

mod clock;
mod node;
mod faults;
mod calls;
mod look;
mod endpoint;
mod queues;
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
use punctual_core::change::Batch;
use punctual_core::command::Command;
use punctual_core::ids::ShardId;
use punctual_core::time::{ManualClock, Moment};
use punctual_node::{Driver, Output};
use punctual_store::memory::Memory;

use crate::dice::Dice;
use crate::traffic::Traffic;
use crate::weather::Weather;
use crate::witness::{Life, Verdict, Witness};
use crate::worker::Worker;
use crate::workload::People;
use calls::Unheard;
use endpoint::Endpoints;
use faults::Fault;
use link::Link;
use look::Look;
pub(crate) use node::address;
use node::{Node, Told};
use queues::Turn;
use work::Word;

/// How far a node's time may be from the store's.
const SKEW: Duration = Duration::from_millis(500);
/// The same where a clock that is a tenth off meets a store that takes seconds to answer: its last good reading is
/// believed for longer than it is worth.
const SKEW_DRIFTING: Duration = Duration::from_millis(2_000);
/// From here on a clock drifts more than any honest one.
const DRIFT_PPM: i64 = 500;

/// What a node is made with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    pub(crate) shards: u16,
    pub(crate) slots: usize,
    /// Timers on one page: small, so that most of a world is beyond the horizon.
    pub(crate) page: usize,
    pub(crate) commit_batch: usize,
}

/// What happens next.
#[derive(Debug)]
enum Happening {
    Ask,
    AskAfterOutage,
    /// An ask that was not answered is repeated, word for word.
    Repeat(Command),
    Fault(Fault),
    Start(usize),
    Resume(usize),
    ResumeWorker(usize),
    /// A commit that nobody waits for any more reaches the store.
    Late(Life, Arc<Vec<Batch>>),
    /// A store call that takes effect now and answers later.
    Call(Life, Output),
    Look(Life, Look),
    /// One whose answer never comes.
    Unheard(Life, Unheard),
    /// Something for a node; to a later life of it it means nothing.
    Node(Life, Told),
    /// The same for a worker.
    Worker(Life, Word),
    Queue(Turn),
}

#[derive(Debug)]
pub(crate) struct World {
    dice: Dice,
    size: Size,
    weather: Weather,
    /// Faults are on and people ask.
    stormy: bool,
    people: People,
    /// None: nobody uses queues.
    traffic: Option<Traffic>,
    /// True time, in milliseconds since the world began.
    time: u64,
    /// What the store's clock shows more than true time, and the most that it ever showed.
    offset: i64,
    /// Offsets that the store's clock had before it was set, and until when a leader may still go by them.
    offsets: Vec<(u64, i64)>,
    latest: Timestamp,
    /// As far as anybody's engine time ever came.
    reached: Timestamp,
    store_time: Arc<ManualClock>,
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    events: BTreeMap<u64, Happening>,
    sequence: u64,
    pub(crate) store: Memory,
    nodes: Vec<Node>,
    workers: Vec<Worker>,
    /// What happens to workers that stand still, until they go on.
    held: Vec<Option<Vec<Happening>>>,
    /// By worker and node.
    links: Vec<Vec<Link>>,
    next_link: u64,
    endpoints: Endpoints,
    /// Until when nodes cannot reach each other, by direction.
    peers_cut: BTreeMap<(usize, usize), u64>,
    /// Shards that another leader took and that no node has taken back.
    usurped: BTreeSet<ShardId>,
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
        let store_time = Arc::new(ManualClock::at(Timestamp::from_millis(BEGAN)));
        let name =
            |index: usize| if weather.nodes.is_none() { "local".into() } else { format!("worker-{index}") };
        World {
            dice,
            size,
            weather,
            stormy: false,
            people: People::new(weather),
            traffic: None,
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
                .map(|index| Worker::new(name(index), 0, size.slots, nodes.len()))
                .collect(),
            held: (0..weather.workers).map(|_| None).collect(),
            nodes,
            next_link: 0,
            endpoints: Endpoints::default(),
            peers_cut: BTreeMap::new(),
            usurped: BTreeSet::new(),
            witness: Witness::of(weather.workers),
            broken: None,
            trace,
        }
    }

    /// There are queues in this world, and people who use them.
    pub(crate) fn with_traffic(self, traffic: Option<Traffic>) -> Self {
        World { traffic, ..self }
    }

    fn is_alone(&self) -> bool {
        self.weather.nodes.is_none()
    }

    /// What the store's clock shows.
    pub(crate) fn clock(&self) -> Timestamp {
        Timestamp::from_millis(self.offset + i64::try_from(self.time).unwrap_or(i64::MAX))
    }

    /// The earliest time that a leader may take it to be. It may not have heard yet that the store's clock was set.
    fn earliest(&self) -> Timestamp {
        let believed = self.offsets.iter().filter(|(until, _)| self.time < *until).map(|(_, offset)| *offset);
        let offset = believed.fold(self.offset, i64::min);
        Timestamp::from_millis(offset + i64::try_from(self.time).unwrap_or(i64::MAX)).before(self.skew())
    }

    /// How far a node's time may be from the store's.
    fn skew(&self) -> Duration {
        if self.weather.drift_ppm > DRIFT_PPM { SKEW_DRIFTING } else { SKEW }
    }

    /// What a node's look at its clocks tells. One that is alone has its store on its own machine.
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

    /// As far as anybody's time has come.
    pub(crate) fn engine_time(&self) -> Timestamp {
        self.drivers().map(Driver::now).max().unwrap_or(self.clock())
    }

    fn drivers(&self) -> impl Iterator<Item = &Driver> {
        self.nodes.iter().filter_map(|node| node.driver.as_ref())
    }

    /// Every node is there, and every shard is led by one of them.
    pub(crate) fn is_ready(&self) -> bool {
        self.drivers().count() == self.nodes.len()
            && self.drivers().all(Driver::is_ready)
            && self.drivers().map(Driver::shards_led).sum::<usize>() == usize::from(self.size.shards)
    }

    /// What broke first.
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

    /// Lets a span of true time pass, or less if something breaks.
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
            Happening::Repeat(command) => self.ask(command),
            Happening::Fault(fault) => self.befall(fault),
            Happening::Resume(index) => self.resume(index),
            Happening::ResumeWorker(index) => self.resume_worker(index),
            Happening::Late(by, batches) => self.land_late(by, &batches),
            Happening::Call(by, call) => self.reach_store(by, call),
            Happening::Look(by, look) => self.look(by, look),
            Happening::Unheard(by, call) => self.take_effect(by, call),
            Happening::Node(life, told) => self.tell(life, told),
            Happening::Worker(life, word) => self.tell_worker(life, word),
            Happening::Queue(turn) => self.take_turn(turn),
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
        Poll::Pending => unreachable!("the memory store waits for nothing"),
    }
}
