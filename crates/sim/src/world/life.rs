//! The node's life: it starts, is asked, is stepped, and dies; and what befalls its machine and its store.

use std::time::Duration;

use punctual_core::command::{Command, RetryRun, RunJob, Submit};
use punctual_core::ids::{ShardId, WorkerId};
use punctual_core::time::Moment;
use punctual_engine::Ticket;
use punctual_node::driver::Settings;
use punctual_node::{Driver, Input, Output};
use punctual_store::{Claim, PrunePolicy, Store};

use super::{Happening, World, at_once, millis};
use crate::worker::Worker;
use crate::workload::Known;

impl World {
    /// People begin to ask and things begin to go wrong.
    pub(crate) fn begin_storm(&mut self) {
        self.stormy = true;
        for _ in 0..self.weather.names.min(16) {
            let delay = self.dice.below(50);
            self.later(delay, Happening::Ask);
        }
        for (gap, what) in [
            (self.weather.crash_gap, Happening::Crash),
            (self.weather.step_gap, Happening::StepClock),
            (self.weather.usurp_gap, Happening::Usurp),
            (self.weather.prune_gap, Happening::Prune),
            (self.weather.cut_gap, Happening::CutLink),
        ] {
            if gap > 0 {
                let delay = 2_000 + self.dice.below(gap);
                self.later(delay, what);
            }
        }
    }

    pub(crate) fn start(&mut self) {
        self.life += 1;
        self.worker = Worker::new(self.size.slots);
        (self.link_down, self.link_up, self.next_wake) = (self.time, self.time, u64::MAX);
        let settings = Settings {
            shards: self.size.shards,
            lanes: 1 + usize::try_from(self.dice.below(2)).unwrap_or(0),
            shard_lease: Duration::from_secs(3),
            commit_batch: self.size.commit_batch,
            session: None,
            engine: punctual_engine::Settings {
                attempt_lease: Duration::from_secs(15),
                page: self.size.page,
            },
        };
        self.driver = Some(Driver::new(settings, self.moment()));
        self.link();
        self.heartbeat();
    }

    pub(crate) fn worker_id(&self) -> WorkerId {
        WorkerId::new("local", u64::from(self.life))
    }

    /// The process is gone between two steps, with all it had in memory and in hand.
    pub(crate) fn crash(&mut self) {
        self.witness.seen.crashes += 1;
        let Some(driver) = self.driver.take() else { return };
        self.witness.seen.reloads += driver.counts().reloads;
        // What was on its way to the disk is there, or comes there before someone takes the shard, or never does.
        for (_, batches) in std::mem::take(&mut self.afloat) {
            match self.dice.below(3) {
                0 => drop(self.land(&batches)),
                1 => {
                    let delay = self.dice.below(4_000);
                    self.later(delay, Happening::Late(batches));
                }
                _ => {}
            }
        }
        self.disappoint();
    }

    /// Nobody will be answered; whoever has a key asks again.
    fn disappoint(&mut self) {
        for (_, command) in std::mem::take(&mut self.patient) {
            let delay = self.dice.below(8_000);
            self.later(delay, Happening::Repeat(command));
        }
    }

    pub(super) fn maybe_crash(&mut self) {
        if !self.stormy {
            return;
        }
        let next = 500 + self.dice.below(self.weather.crash_gap);
        if self.driver.is_none() {
            return self.later(next, Happening::Crash);
        }
        self.crash();
        let away = if self.dice.one_in(8) { self.dice.below(90_000) } else { self.dice.below(3_000) };
        self.later(away, Happening::Start);
        self.later(away + next, Happening::Crash);
    }

    pub(super) fn maybe_step_clock(&mut self) {
        if !self.stormy {
            return;
        }
        self.witness.seen.clock_steps += 1;
        self.offset += match self.dice.below(6) {
            0 => self.dice.between(0, 8 * 3_600_000),
            1 => self.dice.between(-60_000, 0),
            _ => self.dice.between(-900, 20_000),
        };
        // The system tells, in its own time.
        let told = self.dice.below(1_000);
        self.later(told, Happening::Wake);
        let next = 5_000 + self.dice.below(self.weather.step_gap);
        self.later(next, Happening::StepClock);
    }

    /// Another leader takes a shard and does nothing with it: whatever this node then writes must be refused.
    pub(super) fn maybe_usurp(&mut self) {
        if !self.stormy {
            return;
        }
        let shard = ShardId(u16::try_from(self.dice.below(u64::from(self.size.shards))).unwrap_or(0));
        if at_once(self.store.acquire(None, &[Claim::whatever(shard)])).is_ok() {
            self.witness.seen.usurped += 1;
            self.usurped.insert(shard);
        }
        let next = 5_000 + self.dice.below(self.weather.usurp_gap);
        self.later(next, Happening::Usurp);
    }

    pub(super) fn maybe_prune(&mut self) {
        if !self.stormy {
            return;
        }
        // A node tidies up only while it is there.
        if self.is_ready() {
            let policy = PrunePolicy { now: self.engine_time(), ad_hoc_kept: Duration::from_secs(3600) };
            self.witness.seen.pruned += at_once(self.store.prune(&policy, 50)).unwrap_or(0) as u64;
        }
        let next = 1_000 + self.dice.below(self.weather.prune_gap);
        self.later(next, Happening::Prune);
    }

    pub(super) fn people_ask(&mut self) {
        if !self.stormy {
            return;
        }
        let runs = self.witness.runs.newest(30);
        let known = Known { runs: &runs, now: self.clock() };
        let command = self.people.ask(Ticket(self.next_ticket + 1), known, &mut self.dice);
        self.ask(command);
        let next = self.dice.below(self.weather.ask_gap);
        self.later(next, Happening::Ask);
    }

    pub(crate) fn ask(&mut self, command: Command) {
        self.next_ticket += 1;
        let ticket = Ticket(self.next_ticket);
        if self.driver.is_none() {
            return;
        }
        self.witness.asked(ticket, &command);
        if has_key(&command) {
            self.patient.insert(ticket, command.clone());
        }
        self.step(Input::Command { ticket, command });
    }

    pub(super) fn step(&mut self, input: Input) {
        let moment = self.moment();
        let Some(driver) = &mut self.driver else { return };
        driver.step(input, moment);
        driver.settle_down(moment);
        for output in driver.outputs() {
            self.carry(output);
        }
        self.arm_wake();
    }

    fn arm_wake(&mut self) {
        let Some(driver) = &self.driver else { return };
        let Moment { now, elapsed } = self.moment();
        let Some(sleep) = driver.next_wake().sleep(|due| due.since(now), elapsed) else { return };
        let at = self.time + millis(sleep).max(1);
        if self.next_wake <= self.time || at < self.next_wake {
            self.next_wake = at;
            self.at(at, Happening::Wake);
        }
    }

    fn carry(&mut self, output: Output) {
        match output {
            Output::Answer { ticket, answer } => {
                let verdict = self.witness.answered(ticket, &answer);
                self.witnessed(verdict);
                let command = self.patient.remove(&ticket);
                if let (Some(command), Err(punctual_node::Failure::Unavailable(_))) = (command, answer) {
                    let delay = self.dice.below(4_000);
                    self.later(delay, Happening::Repeat(command));
                }
            }
            Output::Order { worker, order } => {
                let verdict = self.witness.ordered(&order);
                self.witnessed(verdict);
                // One for an earlier life of the worker reaches nobody.
                if worker == self.worker_id() {
                    self.send_order(&order);
                }
            }
            Output::Fail { why } => self.witnessed(Err(format!("the driver gave up: {why}"))),
            call => self.call(call),
        }
    }
}

/// Whether asking again is safe.
fn has_key(command: &Command) -> bool {
    match command {
        Command::Submit(Submit { key, .. })
        | Command::RunJob(RunJob { key, .. })
        | Command::RetryRun(RetryRun { key, .. }) => key.is_some(),
        _ => false,
    }
}
