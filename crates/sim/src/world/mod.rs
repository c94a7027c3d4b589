//! A node, its store and its worker in one thread, on virtual time, from one seed.
//!
//! The very engine and driver that run in production are driven here; only what carries their inputs and outputs is
//! made of dice: commits are slow, fail, end unknown or land late, reads return late and see the past, messages are
//! lost and doubled, the clock steps, another leader takes a shard away, the process dies between any two steps.
//!
//! `life` is the node's and its faults, `calls` carries store calls, `link` carries messages to the worker and back,
//! `end` looks at what is left when all is quiet.

mod life;
mod calls;
mod link;
mod end;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context as Poller, Poll, Waker};
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::attempt::{End, Order, Report};
use punctual_core::change::Batch;
use punctual_core::command::Command;
use punctual_core::ids::{RunId, ShardId, Token};
use punctual_core::time::Moment;
use punctual_engine::Ticket;
use punctual_node::{Driver, Input, Output};
use punctual_store::memory::Memory;

use crate::dice::Dice;
use crate::weather::Weather;
use crate::witness::{Verdict, Witness};
use crate::worker::Worker;
use crate::workload::People;

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
    /// An ask that was not answered is repeated, word for word.
    Repeat(Command),
    Crash,
    Start,
    StepClock,
    Usurp,
    Prune,
    CutLink,
    /// A commit that nobody waits for any more reaches the store.
    Late(Arc<Vec<Batch>>),
    Wake,
    Result(Input),
    /// A store call that takes effect now and answers later.
    Call(Output),
    /// Over which link, and what.
    Deliver(u32, Order),
    Hear(u32, Vec<Report>),
    End(RunId, Token, End),
    Heartbeat,
}

/// Something that happens to one life of the node; to a later one it means nothing.
#[derive(Debug)]
struct Event {
    life: u32,
    what: Happening,
}

#[derive(Debug)]
pub(crate) struct World {
    dice: Dice,
    size: Size,
    weather: Weather,
    /// Faults are on and people ask.
    stormy: bool,
    people: People,
    /// True time, in milliseconds since the world began.
    time: u64,
    /// What the machine's clock shows more than true time.
    offset: i64,
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    events: BTreeMap<u64, Event>,
    sequence: u64,
    pub(crate) store: Memory,
    driver: Option<Driver>,
    worker: Worker,
    life: u32,
    /// Deliveries on a link keep their order: when the last one of each direction arrives.
    link_down: u64,
    link_up: u64,
    /// Which link this is, and whether something was lost on it.
    link: u32,
    torn: bool,
    /// Until when each direction is cut.
    cut_down: u64,
    cut_up: u64,
    next_wake: u64,
    next_ticket: u64,
    /// Asks that wait for an answer and bear a key: whoever hears nothing asks again.
    patient: BTreeMap<Ticket, Command>,
    /// Commits under way that have not landed.
    afloat: BTreeMap<u64, Arc<Vec<Batch>>>,
    /// Shards that another leader took and that the node has not taken back.
    usurped: BTreeSet<ShardId>,
    pub(crate) witness: Witness,
    broken: Option<String>,
    trace: bool,
}

impl World {
    pub(crate) fn new(mut dice: Dice, size: Size, weather: Option<Weather>, trace: bool) -> Self {
        let weather = weather.unwrap_or_else(|| Weather::of(&mut dice));
        World {
            dice,
            size,
            weather,
            stormy: false,
            people: People::new(weather),
            time: 0,
            offset: 1_800_000_000_000,
            queue: BinaryHeap::new(),
            events: BTreeMap::new(),
            sequence: 0,
            store: Memory::new(size.shards),
            driver: None,
            worker: Worker::new(size.slots),
            life: 0,
            link_down: 0,
            link_up: 0,
            link: 0,
            torn: false,
            cut_down: 0,
            cut_up: 0,
            next_wake: u64::MAX,
            next_ticket: 0,
            patient: BTreeMap::new(),
            afloat: BTreeMap::new(),
            usurped: BTreeSet::new(),
            witness: Witness::default(),
            broken: None,
            trace,
        }
    }

    /// What the machine's clock shows.
    pub(crate) fn clock(&self) -> Timestamp {
        Timestamp::from_millis(self.offset + i64::try_from(self.time).unwrap_or(i64::MAX))
    }

    /// What a look at it tells.
    fn moment(&self) -> Moment {
        Moment { now: self.clock(), elapsed: Duration::from_millis(self.time) }
    }

    pub(crate) fn engine_time(&self) -> Timestamp {
        self.driver.as_ref().map_or(self.clock(), Driver::now)
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.driver.as_ref().is_some_and(Driver::is_ready)
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
        self.events.insert(self.sequence, Event { life: self.life, what });
    }

    /// Lets a span of true time pass, or less if something breaks.
    pub(crate) fn run_for(&mut self, span: Duration) {
        let until = self.time + millis(span);
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
        if self.broken.is_none() {
            self.time = self.time.max(until);
        }
    }

    fn happen(&mut self, event: Event) {
        let mine = event.life == self.life && self.driver.is_some();
        match event.what {
            Happening::Start => self.start(),
            Happening::Ask => self.people_ask(),
            Happening::Repeat(command) => self.ask(command),
            Happening::Crash => self.maybe_crash(),
            Happening::StepClock => self.maybe_step_clock(),
            Happening::Usurp => self.maybe_usurp(),
            Happening::Prune => self.maybe_prune(),
            Happening::CutLink => self.maybe_cut_link(),
            Happening::Late(batches) => self.land_late(&batches),
            _ if !mine => {}
            Happening::Wake => self.step(Input::Wake),
            Happening::Result(input) => self.step(input),
            Happening::Call(output) => self.perform(output),
            Happening::Deliver(link, _) | Happening::Hear(link, _) if link != self.link => {}
            Happening::Deliver(_, order) => self.deliver(order),
            Happening::Hear(_, reports) => self.step(Input::Reports { worker: self.worker_id(), reports }),
            Happening::End(run, token, end) => {
                if let Some(report) = self.worker.end(run, token, end) {
                    self.say(&[report]);
                    self.lend();
                }
            }
            Happening::Heartbeat => self.heartbeat(),
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
