//! A rig to run the engine on: shards, one pool, one worker, a clock moved by hand, and a map of rows as the store.
//!
//! It does what the driver does, in one thread and without a wait: commands, timers, dispatch, one batch, pages. Where
//! a test is about what lies between two of these, it takes the step itself: `pass` moves the clock and looks at
//! nothing, `hold_commits` keeps batches on their way, `ask_page` and `bring` part a page's question from its answer.

mod given;
mod rows;
mod asks;
mod looks;
mod requests;

use std::collections::VecDeque;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::attempt::{Assignment, End, Order, Outcome, Report};
use punctual_core::change::{Batch, TimerPage};
use punctual_core::command::{Answer, Command, Refusal};
use punctual_core::ids::{RunId, ShardId, Token, WorkerId};
use punctual_core::run::Assignee;
use punctual_core::time::Elapsed;
use punctual_core::worker::Announcement;
use punctual_engine::pool::Heard;
use punctual_engine::{Context, Effect, Event, Pool, Settings, Shard, Ticket};

pub(crate) use asks::*;
pub(crate) use given::*;
pub(crate) use rows::Rows;

#[derive(Debug)]
pub(crate) struct Rig {
    pub(crate) now: Timestamp,
    pub(crate) pool: Pool,
    pub(crate) shards: Vec<Shard>,
    pub(crate) rows: Rows,
    /// What the world has seen so far.
    pub(crate) effects: Vec<Effect>,
    /// Every batch so far.
    pub(crate) batches: Vec<Batch>,
    settings: Settings,
    unseen: Vec<(ShardId, Effect)>,
    in_flight: VecDeque<(Batch, u64)>,
    holds_commits: bool,
    reading: bool,
    tickets: u64,
    /// Slots that the worker has lent so far: all at first, then one with every outcome.
    lent: u64,
}

pub(crate) fn worker() -> WorkerId {
    WorkerId::new("w", 1)
}

impl Rig {
    /// One shard and a worker with so many slots.
    pub(crate) fn new(slots: usize) -> Rig {
        Rig::with(1, slots, Settings::default())
    }

    pub(crate) fn with(shards: u16, slots: usize, settings: Settings) -> Rig {
        let mut rig = Rig {
            now: START,
            pool: Pool::default(),
            shards: Vec::new(),
            rows: Rows::default(),
            effects: Vec::new(),
            batches: Vec::new(),
            settings,
            unseen: Vec::new(),
            in_flight: VecDeque::new(),
            holds_commits: false,
            reading: false,
            tickets: 0,
            lent: 0,
        };
        rig.shards = (0..shards).map(|id| rig.load(ShardId(id))).collect();
        rig.join(slots);
        rig.settle();
        rig
    }

    fn load(&mut self, shard: ShardId) -> Shard {
        let loaded = self.rows.load(shard);
        let mut cx = Context {
            now: self.now,
            elapsed: elapsed(self.now),
            shard,
            pool: &mut self.pool,
            effects: &mut self.unseen,
        };
        Shard::load(loaded, self.settings, &mut cx)
    }

    /// Throws all memory away and reads it back from the rows.
    pub(crate) fn reload(&mut self) {
        for index in 0..self.shards.len() {
            self.pool.unload(self.shards[index].id(), self.shards[index].live_runs());
            self.shards[index] = self.load(self.shards[index].id());
        }
        self.settle();
    }

    pub(crate) fn join(&mut self, slots: usize) {
        if slots > 0 {
            self.pool.join(&worker(), Announcement::of(slots), &[], elapsed(self.now));
            self.lent = slots as u64;
            self.lend(&worker(), self.lent);
        }
    }

    // ---- time ---------------------------------------------------------------------------------------------------

    /// Moves the clock while nobody looks.
    pub(crate) fn pass(&mut self, text: &str) {
        self.now = self.now + span(text);
    }

    /// Time during which nobody was there; then someone is.
    pub(crate) fn outage(&mut self, text: &str) {
        self.pass(text);
        self.settle();
    }

    /// Lets time go by, acting on everything at its own instant.
    pub(crate) fn advance(&mut self, text: &str) {
        self.advance_by(span(text));
    }

    pub(crate) fn advance_by(&mut self, span: Duration) {
        let until = self.now + span;
        self.settle();
        while let Some(wake) = self.next_wake().filter(|wake| *wake <= until) {
            self.now = self.now.max(wake);
            self.settle();
        }
        self.now = until;
    }

    pub(crate) fn next_wake(&self) -> Option<Timestamp> {
        self.shards.iter().filter_map(wake_of).min()
    }

    // ---- the driver's loop --------------------------------------------------------------------------------------

    pub(crate) fn apply(&mut self, id: ShardId, event: Event) {
        let mut cx = Context {
            now: self.now,
            elapsed: elapsed(self.now),
            shard: id,
            pool: &mut self.pool,
            effects: &mut self.unseen,
        };
        self.shards[usize::from(id.0)].apply(event, &mut cx);
    }

    /// Does all that can be done at this instant.
    pub(crate) fn settle(&mut self) {
        loop {
            for index in 0..self.shards.len() {
                let id = self.shards[index].id();
                while wake_of(&self.shards[index]).is_some_and(|wake| wake <= self.now) {
                    self.apply(id, Event::Tick { limit: 256 });
                }
            }
            for (run, lack) in self.pool.notice() {
                self.apply(run.shard(), Event::Fits { run, lack });
            }
            while let Some(given) = self.pool.next_match(|_| true) {
                self.apply(given.run.shard(), Event::Assign(given));
            }
            self.commit();
            while !self.reading
                && let Some(page) = self.ask_page()
            {
                self.bring(page);
            }
            let has_read = self.read_message_pages();
            if !has_read && self.next_wake().is_none_or(|wake| wake > self.now) {
                return;
            }
        }
    }

    pub(crate) fn commit(&mut self) {
        for index in 0..self.shards.len() {
            if !self.shards[index].is_dirty() {
                continue;
            }
            let shard = &mut self.shards[index];
            let mut cx = Context {
                now: self.now,
                elapsed: elapsed(self.now),
                shard: shard.id(),
                pool: &mut self.pool,
                effects: &mut self.unseen,
            };
            let batch = shard.seal(&mut cx);
            self.batches.push(batch.clone());
            self.in_flight.push_back((batch, shard.sealed()));
        }
        if !self.holds_commits {
            self.land();
        }
    }

    /// From now on batches are sealed and not yet in the store.
    pub(crate) fn hold_commits(&mut self) {
        self.holds_commits = true;
    }

    pub(crate) fn let_commits_through(&mut self) {
        self.holds_commits = false;
        self.land();
    }

    fn land(&mut self) {
        for (batch, sealed) in self.in_flight.drain(..) {
            self.rows.commit(&batch);
            if !self.reading {
                self.shards[usize::from(batch.shard.0)].release_pins(sealed);
            }
        }
        for (_, effect) in self.unseen.drain(..) {
            if let Effect::Order { worker, order: Order::Assign(assignment) } = &effect {
                self.pool.sent(worker, assignment.run, assignment.token, elapsed(self.now));
            }
            self.effects.push(effect);
        }
    }

    /// Brings every page of a line that is wanted, as the rows have it now.
    fn read_message_pages(&mut self) -> bool {
        let mut has_read = false;
        for shard in &mut self.shards {
            while !self.reading
                && !self.holds_commits
                && let Some((queue, after, limit)) = shard.ask_message_page()
            {
                has_read = true;
                let page = self.rows.message_page(shard.id(), queue, after, limit);
                let mut cx = Context {
                    now: self.now,
                    elapsed: elapsed(self.now),
                    shard: shard.id(),
                    pool: &mut self.pool,
                    effects: &mut self.unseen,
                };
                shard.message_page(queue, page, limit, &mut cx);
            }
        }
        has_read
    }

    /// The next page as the rows have it now, if the first shard that wants one wants it.
    pub(crate) fn ask_page(&mut self) -> Option<(usize, TimerPage)> {
        for (index, shard) in self.shards.iter_mut().enumerate() {
            let mut cx = Context {
                now: self.now,
                elapsed: elapsed(self.now),
                shard: shard.id(),
                pool: &mut self.pool,
                effects: &mut self.unseen,
            };
            if let Some((after, limit)) = shard.ask_page(&mut cx) {
                self.reading = true;
                return Some((index, self.rows.due(shard.id(), after, limit)));
            }
        }
        None
    }

    pub(crate) fn bring(&mut self, (index, page): (usize, TimerPage)) {
        self.reading = false;
        let shard = &mut self.shards[index];
        let mut cx = Context {
            now: self.now,
            elapsed: elapsed(self.now),
            shard: shard.id(),
            pool: &mut self.pool,
            effects: &mut self.unseen,
        };
        shard.page(page, &mut cx);
    }

    /// Carries a command out as an endpoint would, at this instant and before any timer of it.
    pub(crate) fn ask(&mut self, command: Command) -> Result<Answer, Refusal> {
        let ticket = self.begin(command);
        self.settle();
        self.answer(ticket).expect("an answer after the commit")
    }

    /// Applies a command and leaves it at that.
    pub(crate) fn begin(&mut self, command: Command) -> Ticket {
        let shards = u16::try_from(self.shards.len()).expect("few shards");
        let id = command.shard(shards);
        let mut asked = Vec::new();
        loop {
            let shard = &mut self.shards[usize::from(id.0)];
            let wants: Vec<_> =
                shard.wants(&command).into_iter().filter(|want| !asked.contains(want)).collect();
            if wants.is_empty() {
                break;
            }
            asked.extend(wants);
            shard.supply(self.rows.fetch(id, &asked));
        }
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        self.apply(id, Event::Command { ticket, command });
        self.shards[usize::from(id.0)].supplied();
        ticket
    }

    /// What an endpoint has heard under a ticket so far.
    pub(crate) fn answer(&self, ticket: Ticket) -> Option<Result<Answer, Refusal>> {
        self.effects.iter().find_map(|effect| match effect {
            Effect::Answer { ticket: of, answer } if *of == ticket => Some(answer.clone()),
            _ => None,
        })
    }

    // ---- the worker ---------------------------------------------------------------------------------------------

    pub(crate) fn report(&mut self, run: RunId, end: End) {
        let token = self.run(run).token;
        self.report_under(run, token, end);
    }

    pub(crate) fn report_under(&mut self, run: RunId, token: Token, end: End) {
        let outcome = match end {
            End::Succeeded => Outcome::succeeded(self.now),
            end => Outcome { end, ..Outcome::failed(self.now, "it broke") },
        };
        self.report_outcome(run, token, outcome);
    }

    pub(crate) fn report_outcome(&mut self, run: RunId, token: Token, outcome: Outcome) {
        // Nobody speaks for the run of another.
        let assignee = self.run(run).assignee.clone();
        let worker = assignee.as_ref().and_then(Assignee::worker).cloned().unwrap_or_else(worker);
        self.tell_as(worker, Report::Finished { run, token, outcome });
    }

    pub(crate) fn tell(&mut self, report: Report) {
        self.tell_as(worker(), report);
    }

    fn tell_as(&mut self, worker: WorkerId, report: Report) {
        let Some(run) = report.run() else { return };
        if matches!(report, Report::Finished { .. }) {
            self.lend_again();
        }
        self.apply(run.shard(), Event::Report { worker, report });
        self.settle();
    }

    /// The worker tells the total of slots that it has lent. Returns whether that can be true.
    pub(crate) fn lend(&mut self, worker: &WorkerId, total: u64) -> bool {
        let lease = self.settings.attempt_lease;
        self.pool.hear(worker, &Report::Lent { total }, lease, self.elapsed()) == Heard::Nothing
    }

    pub(crate) fn elapsed(&self) -> Elapsed {
        elapsed(self.now)
    }

    /// A slot of the worker is free again.
    pub(crate) fn lend_again(&mut self) {
        self.lent += u64::from(self.lend(&worker(), self.lent + 1));
    }

    /// The worker is silent for its lease; what it had in hand is lost.
    pub(crate) fn lose_worker(&mut self) {
        for order in self.orders() {
            if let Order::Assign(Assignment { run, token, .. }) = order {
                self.pool.sent(&worker(), run, token, elapsed(self.now));
            }
        }
        self.now = self.now + self.settings.attempt_lease;
        for (run, token) in self.pool.silence(self.settings.attempt_lease, elapsed(self.now)).lost {
            self.apply(run.shard(), Event::Lost { run, token });
        }
        self.settle();
    }
}

/// In a rig the wall clock is never set, so elapsed time is read from it.
fn elapsed(now: Timestamp) -> Elapsed {
    Elapsed::from_millis(now.as_millis())
}

/// In a rig time only goes on, so what is due and what lasts go by one clock.
fn wake_of(shard: &Shard) -> Option<Timestamp> {
    let deadline = shard.next_deadline().map(|at| Timestamp::from_millis(at.as_millis()));
    shard.next_due().into_iter().chain(deadline).min()
}
