//! Store calls: when they take effect, what goes wrong with them, and when their results come back.

use std::sync::Arc;

use punctual_core::change::Batch;
use punctual_node::{Input, Output};
use punctual_store::{Error, Store};

use super::{Happening, World, at_once};

impl World {
    pub(super) fn call(&mut self, output: Output) {
        let delay = self.latency();
        let Output::Commit { lane, batches } = output else {
            return self.later(delay, Happening::Call(output));
        };
        if let Some(error) = self.trouble(&batches) {
            self.witness.seen.failed_commits += 1;
            return self.later(delay, Happening::Result(Input::Committed { lane, result: Err(error) }));
        }
        self.later(delay, Happening::Call(Output::Commit { lane, batches: Arc::clone(&batches) }));
        self.afloat.insert(self.sequence, batches);
    }

    fn latency(&mut self) -> u64 {
        let slow = self.stormy && self.dice.one_in(self.weather.slow);
        if slow { self.dice.below(2_000) } else { self.dice.below(12) }
    }

    /// What goes wrong with a commit, if anything does.
    fn trouble(&mut self, batches: &Arc<Vec<Batch>>) -> Option<Error> {
        if !self.stormy || !self.dice.one_in(self.weather.commit_trouble) {
            return None;
        }
        Some(match self.dice.below(5) {
            0 => Error::RolledBack("a deadlock".to_owned()),
            1 => Error::Full("no space".to_owned()),
            2 => Error::Unreachable("no route".to_owned()),
            _ => {
                self.witness.seen.unknown_commits += 1;
                // It landed and only the word of it was lost, or it lands by and by, or never.
                match self.dice.below(4) {
                    0 => drop(self.land(batches)),
                    1 => {
                        let delay = self.dice.below(15);
                        self.later(delay, Happening::Late(Arc::clone(batches)));
                    }
                    2 => {
                        let delay = self.dice.below(3_000);
                        self.later(delay, Happening::Late(Arc::clone(batches)));
                    }
                    _ => {}
                }
                Error::Unknown("the line went dead".to_owned())
            }
        })
    }

    /// A store call takes effect; its result is on its way back.
    pub(super) fn perform(&mut self, output: Output) {
        let flaky = self.stormy && self.dice.one_in(50);
        let check = || if flaky { Err(Error::Unreachable("no route".to_owned())) } else { Ok(()) };
        let input = match output {
            Output::Commit { lane, batches } => {
                self.afloat.retain(|_, afloat| !Arc::ptr_eq(afloat, &batches));
                Input::Committed { lane, result: self.commit(&batches) }
            }
            Output::Acquire { by, claims } => {
                let result = check().and_then(|()| at_once(self.store.acquire(by, &claims)));
                if result.is_ok() {
                    self.usurped.retain(|shard| !claims.iter().any(|claim| claim.shard == *shard));
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
            Output::Renew { .. }
            | Output::Release { .. }
            | Output::Answer { .. }
            | Output::Order { .. }
            | Output::Fail { .. } => return,
        };
        let delay = self.latency();
        self.later(delay, Happening::Result(input));
    }

    fn commit(&mut self, batches: &Arc<Vec<Batch>>) -> Result<(), Error> {
        let result = self.land(batches);
        match &result {
            // Sent twice by something in between: the second time must not count.
            Ok(()) if self.stormy && self.dice.one_in(40) => {
                let delay = self.dice.below(3_000);
                self.later(delay, Happening::Late(Arc::clone(batches)));
            }
            // Pruned between the engine's look at an expired key and the commit that takes it over: the shard is
            // loaded again, and whoever asked hears "not now".
            Err(Error::Refused { what, .. }) if what.starts_with("key") && what.ends_with("is not there") => {
            }
            Err(Error::Refused { what, .. }) => {
                self.witnessed(Err(format!("memory and store had come apart: {what}")));
            }
            Err(Error::Fenced { shard, .. }) if !self.usurped.contains(shard) => {
                self.witnessed(Err(format!("shard {shard} was fenced off, and nobody had taken it")));
            }
            _ => {}
        }
        result
    }

    pub(super) fn land_late(&mut self, batches: &Arc<Vec<Batch>>) {
        match self.land(batches) {
            Ok(()) => self.witness.seen.late_commits += 1,
            Err(_) => self.witness.seen.late_commits_fenced += 1,
        }
    }

    pub(super) fn land(&mut self, batches: &Arc<Vec<Batch>>) -> Result<(), Error> {
        at_once(self.store.commit(Arc::clone(batches)))?;
        for batch in batches.iter() {
            let verdict = self.witness.landed(batch);
            self.witnessed(verdict);
        }
        let verdict = self.witness.settled();
        self.witnessed(verdict);
        Ok(())
    }
}
