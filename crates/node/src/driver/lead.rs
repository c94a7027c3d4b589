//! Acquires and loads shards, and discards their memory.

use punctual_core::Timestamp;
use punctual_core::change::Loaded;
use punctual_core::ids::{self, Epoch, ShardId};
use punctual_engine::{Context, Effect, Shard};
use punctual_store::{Claim, Error};

use super::slot::{self, Next, Standing};
use super::{Driver, Output, REST};
use crate::handle::Failure;

impl Driver {
    /// Starts the next step (acquire or load) of every shard whose pause has ended.
    pub(super) fn rise(&mut self) {
        let now = self.elapsed;
        let mut claims = Vec::new();
        let is_alone = self.membership.is_none();
        for slot in &mut self.slots {
            match slot.standing {
                Standing::Away => {
                    slot.standing = Standing::Acquiring;
                    claims.push(Claim::whatever(slot.id));
                }
                Standing::Resting { until, next: Next::Acquire, .. } if until <= now => {
                    slot.standing = Standing::Acquiring;
                    // In a cluster, do not take the shard from a node that has acquired it meanwhile.
                    let than = if is_alone { None } else { slot.epoch };
                    claims.push(Claim { shard: slot.id, than });
                }
                Standing::Resting { until, next: Next::Load(epoch), .. } if until <= now => {
                    slot.standing = Standing::Loading;
                    self.outputs.push(Output::Load { shard: slot.id, epoch });
                }
                _ => {}
            }
        }
        self.acquire(claims);
    }

    pub(super) fn acquire(&mut self, claims: Vec<Claim>) {
        if !claims.is_empty() {
            let by = self.membership.as_ref().map(|members| members.me().id);
            self.outputs.push(Output::Acquire { by, claims });
        }
    }

    pub(super) fn acquired(&mut self, claims: &[Claim], result: Result<Vec<(ShardId, Epoch)>, Error>) {
        let (now, until) = (self.elapsed, self.elapsed + REST);
        match result {
            Ok(epochs) => {
                for claim in claims {
                    let epoch =
                        epochs.iter().find(|(shard, _)| *shard == claim.shard).map(|(_, epoch)| *epoch);
                    let Some(slot) = self.slot(claim.shard) else { continue };
                    let is_awaited = matches!(slot.standing, Standing::Acquiring);
                    let Some(epoch) = epoch else {
                        // Another node acquired it first, or a later claim of ours did.
                        if is_awaited {
                            self.step_down(claim.shard, now);
                        }
                        continue;
                    };
                    if self.is_stopping() {
                        self.pass_on(claim.shard, epoch);
                        continue;
                    }
                    let Some(slot) = self.slot(claim.shard) else { continue };
                    if slot.is_leading() {
                        // Two claims of ours were in flight: the second epoch fences what is led under the first.
                        self.throw_away(claim.shard, Standing::Acquiring, &slot::not_led());
                    }
                    let Some(slot) = self.slot(claim.shard) else { continue };
                    (slot.standing, slot.epoch) = (Standing::Loading, Some(epoch));
                    self.outputs.push(Output::Load { shard: claim.shard, epoch });
                }
            }
            Err(Error::Unusable(why)) => self.outputs.push(Output::Fail { why }),
            Err(error) => {
                let (full, is_stopping) = (matches!(error, Error::Full(_)), self.is_stopping());
                for claim in claims {
                    let slot = self.slot(claim.shard);
                    let Some(slot) = slot.filter(|slot| matches!(slot.standing, Standing::Acquiring)) else {
                        continue;
                    };
                    if is_stopping {
                        self.step_down(claim.shard, now);
                    } else {
                        slot.standing = Standing::Resting { until, next: Next::Acquire, full };
                    }
                }
            }
        }
    }

    pub(super) fn loaded(&mut self, shard: ShardId, result: Result<Loaded, Error>) {
        let Some(slot) = self.slot(shard) else { return };
        let (is_awaited, epoch) = (matches!(slot.standing, Standing::Loading), slot.epoch);
        match result {
            // Ignore rows read for an epoch that we have lost since.
            Ok(loaded) if !is_awaited || epoch != Some(loaded.epoch) => {}
            Ok(loaded) if self.may_apply() => self.lead(shard, loaded),
            // Without a known time, the waiting times of its runs cannot be evaluated: load it again.
            Ok(loaded) => {
                let (until, next) = (self.elapsed + REST, Next::Load(loaded.epoch));
                if let Some(slot) = self.slot(shard) {
                    slot.standing = Standing::Resting { until, next, full: false };
                }
            }
            Err(Error::Fenced { .. }) if !is_awaited => {}
            Err(Error::Unusable(why)) => self.outputs.push(Output::Fail { why }),
            Err(Error::Fenced { .. }) if self.membership.is_some() => {
                self.step_down(shard, self.elapsed + self.settings.shard_lease);
            }
            Err(_) => {
                let until = self.elapsed + REST;
                if let Some(slot) = self.slot(shard).filter(|_| is_awaited) {
                    slot.standing = Standing::Resting { until, next: Next::Acquire, full: false };
                }
            }
        }
    }

    fn lead(&mut self, id: ShardId, loaded: Loaded) {
        // Engine time must not go backwards over a restart either: runs fired by a clock that was ahead must not look
        // early.
        self.now = self.now.max(ids::made_at(loaded.last_id));
        let (now, elapsed, lane) = (self.now, self.elapsed, self.lane_of(id));
        let effects = &mut self.lanes[lane].effects;
        let mut cx = Context { now, elapsed, shard: id, pool: &mut self.pool, effects };
        let shard = Shard::load(loaded, self.settings.engine, &mut cx);
        let Some(slot) = self.slots.get_mut(usize::from(id.0)) else { return };
        slot.standing = Standing::Leading(Box::new(shard));
        slot.note_wake();
        self.takeovers.led(id, Timestamp::MIN + self.lasted.seen);
        let Some(slot) = self.slots.get_mut(usize::from(id.0)) else { return };
        slot.paging = None;
        slot.backlogs.clear();
        self.take_backlog(id);
        // Rows requested before the load are no longer in memory: the waiting commands request them again.
        if let Some(slot) = self.slot(id) {
            slot.commands.iter_mut().for_each(|waiting| waiting.asked.clear());
        }
    }

    /// Discards a shard's memory and its unreleased effects.
    pub(super) fn throw_away(&mut self, id: ShardId, standing: Standing, failure: &Failure) {
        self.counts.reloads += 1;
        let lane = self.lane_of(id);
        let Some(slot) = self.slots.get_mut(usize::from(id.0)) else { return };
        slot.backlogs.clear();
        let mut waiting = Vec::new();
        if let Standing::Leading(mut shard) = std::mem::replace(&mut slot.standing, standing) {
            waiting = shard.dismiss();
            self.pool.live -= shard.live_runs();
            self.pool.line.forget(id);
            self.lanes[lane].rows = self.lanes[lane].rows.saturating_sub(shard.dirty_rows());
        }
        slot.note_wake();
        slot.paging = None;
        self.reads.forget(id);
        self.turn_away_waiting(waiting);
        let theirs = self.lanes[lane].withdraw(id);
        self.unsay(theirs, failure);
        let (theirs, others) = std::mem::take(&mut self.withheld).into_iter().partition(|(of, _)| *of == id);
        self.withheld = others;
        // These effects are committed but were not released in time: callers must not think the command failed and ask
        // another node.
        self.unsay(theirs, &slot::unsaid());
    }

    /// Drops effects that will never be released: callers get the failure instead of their answer.
    pub(super) fn unsay(&mut self, effects: Vec<(ShardId, Effect)>, failure: &Failure) {
        for (_, effect) in effects {
            if let Effect::Answer { ticket, answer } = effect {
                // Even a refusal is dropped: it may be based on a change that was never committed.
                drop(answer);
                self.refuse(ticket, failure.clone());
            }
        }
    }
}
