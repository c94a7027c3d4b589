//! Store calls: when they take effect, how they fail, and when their results arrive.

use std::sync::Arc;

use punctual_core::change::Batch;
use punctual_node::{Input, Output};
use punctual_store::{Error, Reads, Sessions, Shards};

use super::events::{Happening, Look, Told, Unheard};
use super::node::SHARD_LEASE;
use super::{World, at_once, millis};
use crate::witness::{Life, Now};

impl World {
    pub(super) fn call(&mut self, index: usize, output: Output) {
        let by = self.nodes[index].now();
        if matches!(output, Output::Commit { .. } | Output::Release { .. }) {
            self.nodes[index].in_flight += 1;
        }
        if self.is_cut_off(index) {
            return self.call_in_vain(by, output);
        }
        let delay = self.latency();
        match output {
            Output::Renew { session, ttl } => {
                let asked = self.nodes[index].machine.elapsed(self.time);
                self.later(delay, Happening::Look(by, Look::new(session, ttl, asked)));
            }
            Output::Commit { lane, batches } => {
                if let Some(error) = self.trouble(by, &batches) {
                    self.witness.seen.failed_commits += 1;
                    return self.reply(by, delay, Input::Committed { lane, result: Err(error) });
                }
                self.later(
                    delay,
                    Happening::Call(by, Output::Commit { lane, batches: Arc::clone(&batches) }),
                );
                self.nodes[index].afloat.insert(self.sequence, batches);
            }
            call => self.later(delay, Happening::Call(by, call)),
        }
    }

    pub(super) fn reply(&mut self, to: Life, delay: u64, input: Input) {
        self.later(delay, Happening::Node(to, Told::Result(input)));
    }

    pub(super) fn latency(&mut self) -> u64 {
        let slow = self.stormy && self.dice.one_in(self.weather.slow);
        if slow { self.dice.below(2_000) } else { self.dice.below(12) }
    }

    fn is_cut_off(&self, index: usize) -> bool {
        let node = &self.nodes[index];
        self.stormy && self.time < node.requests_cut.max(node.answers_cut)
    }

    /// The node is cut off from the store: the call or its result is lost. The node gives up after a while.
    fn call_in_vain(&mut self, by: Life, output: Output) {
        let arrives = self.time >= self.nodes[by.index].requests_cut;
        let gives_up = match output {
            Output::Renew { .. } => millis(SHARD_LEASE),
            _ => 300 + self.dice.below(3_000),
        };
        let failure = self.in_vain(by, &output, arrives);
        self.reply(by, gives_up, failure);
        if !arrives {
            return;
        }
        let delay = self.latency();
        let call = match output {
            Output::Renew { session, ttl } => {
                let asked = self.nodes[by.index].machine.elapsed(self.time);
                Unheard::Look(Look::new(session, ttl, asked))
            }
            call => Unheard::Call(call),
        };
        self.later(delay, Happening::Unheard(by, call));
    }

    /// The result that the node gets when it gives up.
    fn in_vain(&mut self, by: Life, output: &Output, arrives: bool) -> Input {
        let lost = || Error::Unreachable("the connection is lost".to_owned());
        match output {
            Output::Commit { lane, batches } => {
                self.witness.seen.failed_commits += 1;
                self.witness.seen.unknown_commits += 1;
                if !arrives && self.dice.one_in(3) {
                    let delay = self.dice.below(8_000);
                    self.later(delay, Happening::Late(by, Arc::clone(batches)));
                }
                Input::Committed {
                    lane: *lane,
                    result: Err(Error::Unknown("the connection was lost".to_owned())),
                }
            }
            Output::Acquire { claims, .. } => Input::Acquired { claims: claims.clone(), result: Err(lost()) },
            Output::Load { shard, .. } => Input::Loaded { shard: *shard, result: Err(lost()) },
            Output::Fetch { read, .. } => Input::Fetched { read: *read, result: Err(lost()) },
            Output::Page { read, shard, .. } => {
                Input::Paged { read: *read, shard: *shard, result: Err(lost()) }
            }
            Output::ReadMessages { read, shard, .. } => {
                Input::MessagesRead { read: *read, shard: *shard, result: Err(lost()) }
            }
            Output::Renew { .. } => Input::Renewed { result: Err(lost()) },
            Output::Release { .. } => Input::Released,
            Output::EndSession { .. }
            | Output::Answer { .. }
            | Output::Order { .. }
            | Output::CrossShard(_)
            | Output::Refuse { .. }
            | Output::Fail { .. } => Input::Wake,
        }
    }

    /// The failure of a commit. `None` means it succeeds.
    fn trouble(&mut self, by: Life, batches: &Arc<Vec<Batch>>) -> Option<Error> {
        if !self.stormy || !self.dice.one_in(self.weather.commit_trouble) {
            return None;
        }
        Some(match self.dice.below(5) {
            0 => Error::RolledBack("a deadlock".to_owned()),
            1 => Error::Full("no space".to_owned()),
            2 => Error::Unreachable("no route".to_owned()),
            _ => {
                self.witness.seen.unknown_commits += 1;
                // The commit took effect and only its result is lost, or it takes effect later, or never.
                match self.dice.below(4) {
                    0 => drop(self.land(by, batches)),
                    1 => {
                        let delay = self.dice.below(15);
                        self.later(delay, Happening::Late(by, Arc::clone(batches)));
                    }
                    2 => {
                        let delay = self.dice.below(3_000);
                        self.later(delay, Happening::Late(by, Arc::clone(batches)));
                    }
                    _ => {}
                }
                Error::Unknown("the connection was lost".to_owned())
            }
        })
    }

    /// A call arrives at the store. If its node is paused or gone, the call may or may not have been sent before.
    pub(super) fn reach_store(&mut self, by: Life, call: Output) {
        let had_left = self.dice.one_in(2);
        let node = &mut self.nodes[by.index];
        if node.now() != by || node.driver.is_none() {
            // Its commits were handled when the node died.
            if had_left && !self.is_alone() && !matches!(call, Output::Commit { .. }) {
                self.take_effect(by, Unheard::Call(call));
            }
            return;
        }
        if let Some(held) = node.held.as_mut().filter(|_| !had_left) {
            return held.push(Happening::Call(by, call));
        }
        if let Some(input) = self.perform(by, call) {
            let delay = self.latency();
            self.reply(by, delay, input);
        }
    }

    pub(super) fn take_effect(&mut self, by: Life, call: Unheard) {
        match call {
            Unheard::Call(call) => drop(self.perform(by, call)),
            Unheard::Look(mut look) => self.renew(by, &mut look),
        }
    }

    /// A store call takes effect. Returns its result.
    fn perform(&mut self, by: Life, call: Output) -> Option<Input> {
        let flaky = self.stormy && self.dice.one_in(50);
        let check = || if flaky { Err(Error::Unreachable("no route".to_owned())) } else { Ok(()) };
        Some(match call {
            Output::Commit { lane, batches } => {
                self.nodes[by.index].afloat.retain(|_, afloat| !Arc::ptr_eq(afloat, &batches));
                Input::Committed { lane, result: self.commit(by, &batches) }
            }
            Output::Acquire { by: session, claims } => {
                let result = check().and_then(|()| at_once(self.store.acquire(session, &claims)));
                for (shard, epoch) in result.iter().flatten() {
                    self.stolen.remove(shard);
                    let verdict =
                        self.witness.leaders.acquired(Some(by), *shard, *epoch, &mut self.witness.seen);
                    self.witnessed(verdict);
                }
                Input::Acquired { claims, result }
            }
            Output::Load { shard, epoch } => {
                Input::Loaded { shard, result: check().and_then(|()| at_once(self.store.load(shard, epoch))) }
            }
            Output::Fetch { read, wants } => {
                self.witness.seen.fetches += 1;
                Input::Fetched { read, result: check().and_then(|()| at_once(self.store.fetch(wants))) }
            }
            Output::Page { read, shard, after, limit } => {
                self.witness.seen.pages += 1;
                let result = check().and_then(|()| at_once(self.store.due(shard, after, limit)));
                Input::Paged { read, shard, result }
            }
            Output::ReadMessages { read, shard, queue, after, limit } => {
                self.witness.seen.queue_pages += 1;
                let result = check().and_then(|()| at_once(self.store.backlog(shard, queue, after, limit)));
                Input::MessagesRead { read, shard, result }
            }
            Output::Release { shards, heir } => {
                if check().is_ok() && at_once(self.store.release(&shards, heir)).is_ok() {
                    self.witness.seen.hand_overs += shards.len() as u64;
                    self.wake_heir(by, heir);
                }
                Input::Released
            }
            Output::EndSession { session } => {
                if check().is_ok() {
                    drop(at_once(self.store.leave(session)));
                }
                return None;
            }
            Output::Renew { .. }
            | Output::Answer { .. }
            | Output::Order { .. }
            | Output::CrossShard(_)
            | Output::Refuse { .. }
            | Output::Fail { .. } => return None,
        })
    }

    fn commit(&mut self, by: Life, batches: &Arc<Vec<Batch>>) -> Result<(), Error> {
        let result = self.land(by, batches);
        match &result {
            // The network delivers the commit a second time: it must have no second effect.
            Ok(()) if self.stormy && self.dice.one_in(40) => {
                let delay = self.dice.below(3_000);
                self.later(delay, Happening::Late(by, Arc::clone(batches)));
            }
            // The pruner deleted an expired key after the engine had read it and before the commit that replaces it: the
            // shard is loaded again, and the client is told to try again.
            Err(Error::Refused { what, .. }) if what.starts_with("key") && what.ends_with("is not there") => {
            }
            Err(Error::Refused { what, .. }) => {
                self.witnessed(Err(format!("memory and store differ: {what}")));
            }
            Err(Error::Fenced { shard, epoch }) => {
                let is_taken = if self.is_alone() {
                    self.stolen.contains(shard)
                } else {
                    self.witness.leaders.is_outdated(*shard, *epoch)
                };
                if !is_taken {
                    self.witnessed(Err(format!(
                        "shard {shard} was fenced off, but no other leader had acquired it"
                    )));
                }
            }
            _ => {}
        }
        result
    }

    pub(super) fn land_late(&mut self, by: Life, batches: &Arc<Vec<Batch>>) {
        match self.land(by, batches) {
            Ok(()) => self.witness.seen.late_commits += 1,
            Err(_) => self.witness.seen.late_commits_fenced += 1,
        }
    }

    pub(super) fn land(&mut self, by: Life, batches: &Arc<Vec<Batch>>) -> Result<(), Error> {
        at_once(self.store.commit(Arc::clone(batches)))?;
        let now = Now { clock: self.clock(), reached: self.reached, time: self.time };
        for batch in batches.iter() {
            let verdict = self.witness.landed(batch, by, now);
            self.witnessed(verdict);
        }
        let verdict = self.witness.settled();
        self.witnessed(verdict);
        Ok(())
    }
}
