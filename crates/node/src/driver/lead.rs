//! Leading: how a shard is acquired and loaded, and how its memory is thrown away.

use punctual_core::change::Loaded;
use punctual_core::ids::{self, Epoch, ShardId};
use punctual_engine::{Context, Effect, Shard};
use punctual_store::Error;

use super::slot::{Next, Standing};
use super::{Driver, Output, REST};
use crate::handle::Failure;

impl Driver {
    /// Starts what every shard that is not led needs next.
    pub(super) fn rise(&mut self) {
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

    pub(super) fn acquired(&mut self, shards: &[ShardId], result: Result<Vec<(ShardId, Epoch)>, Error>) {
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

    pub(super) fn loaded(&mut self, shard: ShardId, result: Result<Loaded, Error>) {
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
    pub(super) fn throw_away(&mut self, id: ShardId, standing: Standing, failure: &Failure) {
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
    pub(super) fn unsay(&mut self, effects: Vec<(ShardId, Effect)>, failure: &Failure) {
        for (_, effect) in effects {
            if let Effect::Answer { ticket, answer } = effect {
                // A refusal needs no commit to be true, but it may rest on something that was never committed.
                drop(answer);
                self.refuse(ticket, failure.clone());
            }
        }
    }
}
