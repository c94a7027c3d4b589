//! The driver: everything a scheduling node does, without doing any I/O.
//!
//! `step(input, now)` takes what arrived and leaves what is to be done in `outputs`; whoever carries them (the node's
//! loop on tokio, the simulator in one thread) brings the results back as further inputs. Inside:
//!
//! ```text
//!  commands ─▶ slots ─▶ shard.apply ─▶ lane: sealed into a batch ─▶ Commit ─▶ committed ─▶ effects
//!                │ rows it needs                 ▲ next batch meanwhile
//!                ▼                               │
//!              reads ─▶ Fetch, Page ─▶ supply ───┘
//! ```
//!
//! **Invariant:** no effect leaves before the commit of every batch applied before it in its lane. While one commit is
//! under way the next batch is applied on top of it; an idle node commits a lone change at once.

mod lane;
mod reads;
mod slot;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::attempt::{Order, Report};
use punctual_core::change::{Batch, Found, Loaded, TimerPage, TimerPlace, Want};
use punctual_core::command::{Answer, Command};
use punctual_core::ids::{self, Epoch, RunId, ShardId, Token, WorkerId};
use punctual_core::limits::COMMIT_BATCH_MAX;
use punctual_engine::{Context, Effect, Event, Pool, Shard, Ticket};
use punctual_store::Error;

use crate::handle::Failure;
use lane::Lane;
use reads::Reads;
use slot::{Next, Slot, Standing};

/// Rows that timers may bring into one commit. A herd is many small commits rather than a few large ones: the first
/// of it start while the last are still being written, and a command in between waits for less.
const TIMER_ROWS: usize = 768;
/// How long a command waits for a shard that nobody leads before it is answered "not now".
const COMMAND_WAIT: Duration = Duration::from_secs(5);
/// The pause before a store that was full or out of reach is tried again.
const REST: Duration = Duration::from_millis(500);
/// More than this between two looks at the clock is a jump, since whoever carries the driver looks every second: the
/// clock was stepped, or we were stopped. Nobody is silent or too slow for that.
const JUMP: Duration = Duration::from_millis(1200);
/// Times a transaction that is known to be rolled back is sent again as it is.
const RESENDS_MAX: u32 = 3;

#[derive(Debug, Clone)]
pub struct Settings {
    pub shards: u16,
    /// Transactions under way at once: one where the store has one writer, two elsewhere.
    pub lanes: usize,
    /// How long a fenced shard is left alone before it is acquired again.
    pub shard_lease: Duration,
    /// About how many rows a lane takes into one commit.
    pub commit_batch: usize,
    pub engine: punctual_engine::Settings,
}

/// What has happened.
#[derive(Debug)]
pub enum Input {
    Command {
        ticket: Ticket,
        command: Command,
    },
    Joined {
        worker: WorkerId,
        slots: usize,
        holding: Vec<(RunId, Token)>,
    },
    Left {
        worker: WorkerId,
    },
    Reports {
        worker: WorkerId,
        reports: Vec<Report>,
    },
    Acquired {
        shards: Vec<ShardId>,
        result: Result<Vec<(ShardId, Epoch)>, Error>,
    },
    Loaded {
        shard: ShardId,
        result: Result<Loaded, Error>,
    },
    Committed {
        lane: usize,
        result: Result<(), Error>,
    },
    Fetched {
        read: u64,
        result: Result<Found, Error>,
    },
    Paged {
        read: u64,
        shard: ShardId,
        result: Result<TimerPage, Error>,
    },
    /// Time has passed.
    Wake,
}

/// What is to be done.
#[derive(Debug)]
pub enum Output {
    Acquire {
        shards: Vec<ShardId>,
    },
    Load {
        shard: ShardId,
        epoch: Epoch,
    },
    Commit {
        lane: usize,
        batches: Arc<Vec<Batch>>,
    },
    Fetch {
        read: u64,
        wants: Vec<(ShardId, Want)>,
    },
    Page {
        read: u64,
        shard: ShardId,
        after: TimerPlace,
        limit: usize,
    },
    Answer {
        ticket: Ticket,
        answer: Result<Answer, Failure>,
    },
    Order {
        worker: WorkerId,
        order: Order,
    },
    /// The store cannot be used any more: the process must not go on as if nothing had happened.
    Fail {
        why: String,
    },
}

#[derive(Debug)]
pub struct Driver {
    settings: Settings,
    slots: Vec<Slot>,
    pool: Pool,
    lanes: Vec<Lane>,
    reads: Reads,
    /// Commands in the order of their arrival, until their shard takes them.
    intake: VecDeque<Waiting>,
    reports: VecDeque<(WorkerId, Report)>,
    joining: VecDeque<Joining>,
    /// Engine time: it never runs back.
    now: Timestamp,
    /// Elapsed time: it goes on whatever is done to the clock.
    elapsed: Timestamp,
    /// The clock at the last look.
    seen: Timestamp,
    outputs: Vec<Output>,
    counts: Counts,
}

/// What a driver has done so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    pub commits: u64,
    pub changes: u64,
    /// Times a shard's memory was thrown away.
    pub reloads: u64,
}

/// A worker that waits to be admitted.
#[derive(Debug)]
struct Joining {
    worker: WorkerId,
    slots: usize,
    holding: Vec<(RunId, Token)>,
}

/// A command that waits for rows, or for its shard.
#[derive(Debug)]
struct Waiting {
    ticket: Ticket,
    command: Command,
    since: Timestamp,
    /// Rows already asked for: what was not found does not exist.
    asked: Vec<Want>,
    /// Rows that what was read showed to be needed too.
    more: Vec<Want>,
}

impl Driver {
    pub fn new(settings: Settings, now: Timestamp) -> Self {
        let slots: Vec<Slot> = (0..settings.shards).map(|id| Slot::new(ShardId(id))).collect();
        let lanes = (0..settings.lanes.max(1)).map(|_| Lane::default()).collect();
        let mut driver = Driver {
            settings,
            slots,
            pool: Pool::default(),
            lanes,
            reads: Reads::default(),
            intake: VecDeque::new(),
            reports: VecDeque::new(),
            joining: VecDeque::new(),
            now,
            elapsed: now,
            seen: now,
            outputs: Vec::new(),
            counts: Counts::default(),
        };
        driver.pump();
        driver
    }

    /// Takes one input. Call [`Driver::settle_down`] when no more is at hand, then carry the outputs out.
    pub fn step(&mut self, input: Input, now: Timestamp) {
        self.advance(now);
        match input {
            Input::Command { ticket, command } => {
                self.intake.push_back(Waiting {
                    ticket,
                    command,
                    since: self.elapsed,
                    asked: Vec::new(),
                    more: Vec::new(),
                });
            }
            Input::Joined { worker, slots, holding } => {
                self.joining.push_back(Joining { worker, slots, holding });
            }
            Input::Left { worker } => self.pool.roster.leave(&worker),
            Input::Reports { worker, reports } => {
                self.reports.extend(reports.into_iter().map(|report| (worker.clone(), report)));
            }
            Input::Acquired { shards, result } => self.acquired(&shards, result),
            Input::Loaded { shard, result } => self.loaded(shard, result),
            Input::Committed { lane, result } => self.committed(lane, result),
            Input::Fetched { read, result } => self.fetched(read, result),
            Input::Paged { read, shard, result } => self.paged(read, shard, result),
            Input::Wake => {}
        }
    }

    /// Applies all that can be applied now, and sends off what can be sent.
    pub fn settle_down(&mut self, now: Timestamp) {
        self.advance(now);
        self.pump();
    }

    /// Due times go by the clock, but never back. What lasts goes by the time between two looks at it, however it was
    /// set in between.
    fn advance(&mut self, now: Timestamp) {
        self.elapsed = self.elapsed + now.since(self.seen).min(JUMP);
        self.seen = now;
        self.now = self.now.max(now);
    }

    pub fn outputs(&mut self) -> Vec<Output> {
        std::mem::take(&mut self.outputs)
    }

    /// Whether more commands may be handed in: else the caller lets them wait where they are bounded.
    pub fn has_room(&self) -> bool {
        self.intake.len() < COMMIT_BATCH_MAX
    }

    /// When to call again if nothing happens before; none: there is nothing to wait for.
    pub fn next_wake(&self) -> Option<Timestamp> {
        let in_engine_time = |deadline: Timestamp| self.now + deadline.since(self.elapsed);
        let slots = self.slots.iter().filter_map(|slot| match &slot.standing {
            // Timers that are due but had no room go on with the commit that is under way.
            Standing::Leading(_) => {
                let takes = self.lane_takes_timers(slot.id);
                let due = slot.wake.filter(|at| *at > self.now || takes);
                let deadline = slot.deadline.filter(|at| *at > self.elapsed || takes).map(in_engine_time);
                let again = slot.page_again_at.map(in_engine_time);
                due.into_iter().chain(deadline).chain(again).min()
            }
            Standing::Resting { until, .. } => Some(in_engine_time(*until)),
            _ => None,
        });
        let silence = self.pool.roster.next_silence(self.settings.engine.attempt_lease).map(in_engine_time);
        let expiry =
            self.slots.iter().filter(|slot| !slot.is_leading()).filter_map(|slot| slot.commands.front());
        let expiry = expiry.map(|waiting| in_engine_time(waiting.since + COMMAND_WAIT));
        slots.chain(silence).chain(expiry).min()
    }

    /// Engine time.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    pub fn is_ready(&self) -> bool {
        self.slots.iter().all(Slot::is_leading)
    }

    pub fn shards_led(&self) -> usize {
        self.slots.iter().filter(|slot| slot.is_leading()).count()
    }

    pub fn counts(&self) -> Counts {
        self.counts
    }

    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// A shard as it is in memory, for looking into it.
    pub fn shard(&self, id: ShardId) -> Option<&Shard> {
        match &self.slots.get(usize::from(id.0))?.standing {
            Standing::Leading(shard) => Some(shard),
            _ => None,
        }
    }

    // ---- applying -------------------------------------------------------------------------------------------

    fn pump(&mut self) {
        self.rise();
        self.admit_workers();
        self.take_reports();
        self.notice_silence();
        self.take_commands();
        self.take_timers();
        self.dispatch();
        self.ask_for_rows();
        self.ask_for_pages();
        for lane in 0..self.lanes.len() {
            self.send_batch(lane);
        }
        self.expire_commands();
    }

    /// Applies an event to a shard that is led here, and keeps the counts around it.
    fn apply(&mut self, id: ShardId, event: Event) {
        let lane = self.lane_of(id);
        let Some(slot) = self.slots.get_mut(usize::from(id.0)) else { return };
        let Standing::Leading(shard) = &mut slot.standing else { return };
        let before = shard.dirty_rows();
        let lane = &mut self.lanes[lane];
        let mut cx = Context {
            now: self.now,
            elapsed: self.elapsed,
            shard: id,
            pool: &mut self.pool,
            effects: &mut lane.effects,
        };
        shard.apply(event, &mut cx);
        lane.rows = (lane.rows + shard.dirty_rows()).saturating_sub(before);
        slot.note_wake();
    }

    fn lane_of(&self, id: ShardId) -> usize {
        usize::from(id.0) % self.lanes.len()
    }

    fn lane_has_room(&self, id: ShardId) -> bool {
        self.lanes[self.lane_of(id)].rows < self.settings.commit_batch
    }

    fn lane_takes_timers(&self, id: ShardId) -> bool {
        self.lanes[self.lane_of(id)].rows < self.settings.commit_batch.min(TIMER_ROWS)
    }

    fn slot(&mut self, id: ShardId) -> Option<&mut Slot> {
        self.slots.get_mut(usize::from(id.0))
    }

    /// Workers join when every shard is in memory: what a worker does not name is lost, and that must be known to
    /// the shard before it offers the attempt again.
    fn admit_workers(&mut self) {
        if self.joining.is_empty() || !self.is_ready() {
            return;
        }
        while let Some(Joining { worker, slots, holding }) = self.joining.pop_front() {
            for (run, token) in self.pool.roster.join(&worker, slots, &holding, self.elapsed) {
                self.apply(run.shard(), Event::Lost { run, token });
            }
        }
    }

    fn take_reports(&mut self) {
        let mut later = VecDeque::new();
        while let Some((worker, report)) = self.reports.pop_front() {
            let run = match &report {
                Report::Alive { attempts } => {
                    let lease = self.settings.engine.attempt_lease;
                    for (run, token) in self.pool.roster.heard(&worker, attempts, lease, self.elapsed) {
                        self.lose(run, token);
                    }
                    continue;
                }
                Report::Started { run, .. } | Report::Progress { run, .. } | Report::Finished { run, .. } => {
                    *run
                }
            };
            let shard = run.shard();
            let Some(slot) = self.slots.get_mut(usize::from(shard.0)) else { continue };
            if !slot.is_leading() {
                slot.backlog.push(Event::Report { worker, report });
            } else if self.lane_has_room(shard) {
                self.apply(shard, Event::Report { worker, report });
            } else {
                later.push_back((worker, report));
            }
        }
        self.reports = later;
    }

    fn lose(&mut self, run: RunId, token: Token) {
        let event = Event::Lost { run, token };
        match self.slot(run.shard()) {
            Some(slot) if !slot.is_leading() => slot.backlog.push(event),
            _ => self.apply(run.shard(), event),
        }
    }

    fn notice_silence(&mut self) {
        let lease = self.settings.engine.attempt_lease;
        if self.pool.roster.next_silence(lease).is_some_and(|at| at <= self.elapsed) {
            for (run, token) in self.pool.roster.silent(lease, self.elapsed) {
                self.lose(run, token);
            }
        }
    }

    /// Commands before timers. One that needs rows waits for them, and later ones of its shard wait behind it.
    fn take_commands(&mut self) {
        let mut later = VecDeque::new();
        while let Some(waiting) = self.intake.pop_front() {
            let shard = waiting.command.shard(self.settings.shards);
            let has_room = self.lane_has_room(shard);
            let Some(slot) = self.slots.get_mut(usize::from(shard.0)) else {
                self.refuse(waiting.ticket, Failure::Unavailable("there is no such shard".to_owned()));
                continue;
            };
            match &slot.standing {
                Standing::Resting { full: true, .. } => self.refuse(waiting.ticket, slot::full()),
                Standing::Leading(shard_value)
                    if slot.commands.is_empty() && shard_value.wants(&waiting.command).is_empty() =>
                {
                    if has_room {
                        let Waiting { ticket, command, .. } = waiting;
                        self.apply(shard, Event::Command { ticket, command });
                    } else {
                        later.push_back(waiting);
                    }
                }
                _ => slot.commands.push_back(waiting),
            }
        }
        self.intake = later;
    }

    /// Timers of all shards that are due, a little of each at a time so that none starves.
    fn take_timers(&mut self) {
        const TURN: usize = 256;
        loop {
            let mut progressed = false;
            for index in 0..self.slots.len() {
                let slot = &self.slots[index];
                let id = slot.id;
                let is_due = slot.wake.is_some_and(|at| at <= self.now)
                    || slot.deadline.is_some_and(|at| at <= self.elapsed);
                if slot.is_leading() && is_due && self.lane_takes_timers(id) {
                    self.apply(id, Event::Tick { limit: TURN });
                    progressed = true;
                }
            }
            if !progressed {
                return;
            }
        }
    }

    /// Gives free slots to whoever is first in the line, whatever shard it belongs to.
    fn dispatch(&mut self) {
        while let Some(first) = self.pool.line.first()
            && self.lane_has_room(first.shard())
            && let Some((run, worker)) = self.pool.next_match()
        {
            self.apply(run.shard(), Event::Assign { run, worker });
        }
    }

    fn expire_commands(&mut self) {
        let now = self.elapsed;
        let mut expired = Vec::new();
        for slot in self.slots.iter_mut().filter(|slot| !slot.is_leading()) {
            while slot.commands.front().is_some_and(|waiting| waiting.since + COMMAND_WAIT <= now) {
                expired.extend(slot.commands.pop_front().map(|waiting| waiting.ticket));
            }
        }
        for ticket in expired {
            self.refuse(ticket, Failure::Unavailable("its shard has no leader now; try again".to_owned()));
        }
    }

    fn refuse(&mut self, ticket: Ticket, failure: Failure) {
        self.outputs.push(Output::Answer { ticket, answer: Err(failure) });
    }

    fn release(&mut self, effects: Vec<(ShardId, Effect)>) {
        for (_, effect) in effects {
            if let Effect::Order { order: Order::Assign(assignment), .. } = &effect
                && !self
                    .shard(assignment.run.shard())
                    .is_some_and(|shard| shard.runs_under(assignment.run, assignment.token))
            {
                // Given up, or ended, since it was decided; a shard that was thrown away offers it again.
                continue;
            }
            if let Effect::Order { worker, order: Order::Assign(assignment) } = &effect {
                self.pool.roster.give(worker, assignment.run, assignment.token, self.elapsed);
            }
            self.outputs.push(match effect {
                Effect::Answer { ticket, answer } => {
                    Output::Answer { ticket, answer: answer.map_err(Failure::Refused) }
                }
                Effect::Order { worker, order } => Output::Order { worker, order },
            });
        }
    }

    // ---- leading --------------------------------------------------------------------------------------------

    /// Starts what every shard that is not led needs next.
    fn rise(&mut self) {
        let now = self.elapsed;
        let mut acquire = Vec::new();
        for slot in &mut self.slots {
            match slot.standing {
                Standing::Away => {
                    slot.standing = Standing::Acquiring;
                    acquire.push(slot.id);
                }
                Standing::Resting { until, next: Next::Acquire, .. } if until <= now => {
                    slot.standing = Standing::Acquiring;
                    acquire.push(slot.id);
                }
                Standing::Resting { until, next: Next::Load(epoch), .. } if until <= now => {
                    slot.standing = Standing::Loading;
                    self.outputs.push(Output::Load { shard: slot.id, epoch });
                }
                _ => {}
            }
        }
        if !acquire.is_empty() {
            self.outputs.push(Output::Acquire { shards: acquire });
        }
    }

    fn acquired(&mut self, shards: &[ShardId], result: Result<Vec<(ShardId, Epoch)>, Error>) {
        let until = self.elapsed + REST;
        match result {
            Ok(epochs) => {
                for (shard, epoch) in epochs {
                    if let Some(slot) = self.slot(shard) {
                        slot.standing = Standing::Loading;
                        self.outputs.push(Output::Load { shard, epoch });
                    }
                }
            }
            Err(Error::Unusable(why)) => self.outputs.push(Output::Fail { why }),
            Err(error) => {
                let full = matches!(error, Error::Full(_));
                for shard in shards {
                    if let Some(slot) = self.slot(*shard) {
                        slot.standing = Standing::Resting { until, next: Next::Acquire, full };
                    }
                }
            }
        }
    }

    fn loaded(&mut self, shard: ShardId, result: Result<Loaded, Error>) {
        match result {
            Ok(loaded) => self.lead(shard, loaded),
            Err(Error::Unusable(why)) => self.outputs.push(Output::Fail { why }),
            Err(_) => {
                let until = self.elapsed + REST;
                if let Some(slot) = self.slot(shard) {
                    slot.standing = Standing::Resting { until, next: Next::Acquire, full: false };
                }
            }
        }
    }

    fn lead(&mut self, id: ShardId, loaded: Loaded) {
        // Engine time does not run back over a restart either: what fired under a clock that was then ahead must
        // not look early to us.
        self.now = self.now.max(ids::made_at(loaded.last_id));
        let (now, elapsed, lane) = (self.now, self.elapsed, self.lane_of(id));
        let effects = &mut self.lanes[lane].effects;
        let mut cx = Context { now, elapsed, shard: id, pool: &mut self.pool, effects };
        let shard = Shard::load(loaded, self.settings.engine, &mut cx);
        let Some(slot) = self.slots.get_mut(usize::from(id.0)) else { return };
        slot.standing = Standing::Leading(Box::new(shard));
        slot.note_wake();
        slot.paging = None;
        for event in std::mem::take(&mut slot.backlog) {
            self.apply(id, event);
        }
        // They go first again: whatever they asked for before the load is asked for anew.
        if let Some(slot) = self.slot(id) {
            slot.commands.iter_mut().for_each(|waiting| waiting.asked.clear());
        }
    }

    /// Throws a shard's memory away, with all that was going to be said of it.
    fn throw_away(&mut self, id: ShardId, standing: Standing, failure: &Failure) {
        self.counts.reloads += 1;
        let lane = self.lane_of(id);
        let Some(slot) = self.slots.get_mut(usize::from(id.0)) else { return };
        if let Standing::Leading(shard) = std::mem::replace(&mut slot.standing, standing) {
            self.pool.live -= shard.live_runs();
            self.pool.line.forget(id);
            self.lanes[lane].rows = self.lanes[lane].rows.saturating_sub(shard.dirty_rows());
        }
        slot.note_wake();
        slot.paging = None;
        self.reads.forget(id);
        let (theirs, others) =
            std::mem::take(&mut self.lanes[lane].effects).into_iter().partition(|(of, _)| *of == id);
        self.lanes[lane].effects = others;
        self.unsay(theirs, failure);
    }

    /// Effects that will never be seen: whoever waits for an answer hears that it did not come.
    fn unsay(&mut self, effects: Vec<(ShardId, Effect)>, failure: &Failure) {
        for (_, effect) in effects {
            if let Effect::Answer { ticket, answer } = effect {
                // A refusal needs no commit to be true, but it may rest on something that was never committed.
                drop(answer);
                self.refuse(ticket, failure.clone());
            }
        }
    }
}
