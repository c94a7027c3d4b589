//! Acquires and loads shards, and discards their memory.

use punctual_core::change::Loaded;
use punctual_core::ids::{self, Epoch, ShardId};
use punctual_engine::{Context, Effect, Shard};
use punctual_store::{Claim, Error};

use super::shard_entry::{self, Next, Standing};
use super::{Driver, Output, REST};
use crate::failure::Failure;

impl Driver {
    /// Starts the next step (acquire or load) of every shard whose pause has ended.
    pub(super) fn start_pending(&mut self) {
        let now = self.elapsed;
        let mut claims = Vec::new();
        let is_alone = self.membership.is_none();
        for entry in &mut self.shards {
            match entry.standing {
                Standing::Away => {
                    entry.standing = Standing::Acquiring;
                    claims.push(Claim::any_epoch(entry.id));
                }
                Standing::Resting { until, next: Next::Acquire, .. } if until <= now => {
                    entry.standing = Standing::Acquiring;
                    // In a cluster, do not take the shard from a node that has acquired it meanwhile.
                    let expected_epoch = if is_alone { None } else { entry.epoch };
                    claims.push(Claim { shard: entry.id, expected_epoch });
                }
                Standing::Resting { until, next: Next::Load(epoch), .. } if until <= now => {
                    entry.standing = Standing::Loading;
                    self.outputs.push(Output::Load { shard: entry.id, epoch });
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
                    let Some(entry) = self.entry(claim.shard) else { continue };
                    let is_awaited = matches!(entry.standing, Standing::Acquiring);
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
                    let Some(entry) = self.entry(claim.shard) else { continue };
                    if entry.is_leading() {
                        // Two claims of ours were in flight: the second epoch fences what is led under the first.
                        self.throw_away(claim.shard, Standing::Acquiring, &shard_entry::not_led());
                    }
                    let Some(entry) = self.entry(claim.shard) else { continue };
                    (entry.standing, entry.epoch) = (Standing::Loading, Some(epoch));
                    self.outputs.push(Output::Load { shard: claim.shard, epoch });
                }
            }
            Err(Error::Unusable(why)) => self.outputs.push(Output::Fail { why }),
            Err(error) => {
                let (full, is_stopping) = (matches!(error, Error::Full(_)), self.is_stopping());
                for claim in claims {
                    let entry = self.entry(claim.shard);
                    let Some(entry) = entry.filter(|entry| matches!(entry.standing, Standing::Acquiring))
                    else {
                        continue;
                    };
                    if is_stopping {
                        self.step_down(claim.shard, now);
                    } else {
                        entry.standing = Standing::Resting { until, next: Next::Acquire, full };
                    }
                }
            }
        }
    }

    pub(super) fn loaded(&mut self, shard: ShardId, result: Result<Loaded, Error>) {
        let Some(entry) = self.entry(shard) else { return };
        let (is_awaited, epoch) = (matches!(entry.standing, Standing::Loading), entry.epoch);
        match result {
            // Ignore rows read for an epoch that we have lost since.
            Ok(loaded) if !is_awaited || epoch != Some(loaded.epoch) => {}
            Ok(loaded) if self.may_apply() => self.lead(shard, loaded),
            // Without a known time, the waiting times of its runs cannot be evaluated: load it again.
            Ok(loaded) => {
                let (until, next) = (self.elapsed + REST, Next::Load(loaded.epoch));
                if let Some(entry) = self.entry(shard) {
                    entry.standing = Standing::Resting { until, next, full: false };
                }
            }
            Err(Error::Fenced { .. }) if !is_awaited => {}
            Err(Error::Unusable(why)) => self.outputs.push(Output::Fail { why }),
            Err(Error::Fenced { .. }) if self.membership.is_some() => {
                self.step_down(shard, self.elapsed + self.settings.shard_lease);
            }
            Err(_) => {
                let until = self.elapsed + REST;
                if let Some(entry) = self.entry(shard).filter(|_| is_awaited) {
                    entry.standing = Standing::Resting { until, next: Next::Acquire, full: false };
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
        let Some(entry) = self.shards.get_mut(usize::from(id.0)) else { return };
        entry.standing = Standing::Leading(Box::new(shard));
        entry.note_wake();
        self.takeovers.led(id, self.lived());
        let Some(entry) = self.shards.get_mut(usize::from(id.0)) else { return };
        entry.paging = None;
        entry.message_reads.clear();
        self.apply_waiting(id);
        // Rows requested before the load are no longer in memory: the waiting commands request them again.
        if let Some(entry) = self.entry(id) {
            entry.commands.iter_mut().for_each(|waiting| waiting.asked.clear());
        }
    }

    /// Discards a shard's memory and its unreleased effects.
    pub(super) fn throw_away(&mut self, id: ShardId, standing: Standing, failure: &Failure) {
        self.counts.reloads += 1;
        let lane = self.lane_of(id);
        let Some(entry) = self.shards.get_mut(usize::from(id.0)) else { return };
        entry.message_reads.clear();
        let (mut waiting, mut unreleased) = (Vec::new(), Vec::new());
        if let Standing::Leading(mut shard) = std::mem::replace(&mut entry.standing, standing) {
            waiting = shard.dismiss();
            unreleased = shard.unreleased();
            self.pool.unload(id, shard.live_runs());
            self.lanes[lane].rows = self.lanes[lane].rows.saturating_sub(shard.dirty_rows());
        }
        entry.note_wake();
        entry.paging = None;
        self.reads.forget(id);
        self.turn_away_waiting(waiting);
        unreleased.extend(self.lanes[lane].withdraw(id));
        self.fail_effects(unreleased, failure);
        let (theirs, others) = std::mem::take(&mut self.withheld).into_iter().partition(|(of, _)| *of == id);
        self.withheld = others;
        // These effects are committed but were not released in time: callers must not think the command failed and ask
        // another node.
        self.fail_effects(theirs, &shard_entry::answer_unknown());
    }

    /// Drops effects that will never be released: callers get the failure instead of their answer.
    pub(super) fn fail_effects(&mut self, effects: Vec<(ShardId, Effect)>, failure: &Failure) {
        for (_, effect) in effects {
            if let Effect::Answer { ticket, answer } = effect {
                // Even a refusal is dropped: it may be based on a change that was never committed.
                drop(answer);
                self.refuse(ticket, failure.clone());
            }
        }
    }
}
