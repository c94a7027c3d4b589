//! A commit lane: one transaction in flight, and the effects to release when it is committed.

use std::sync::Arc;

use punctual_core::change::Batch;
use punctual_core::ids::ShardId;
use punctual_engine::{Context, Effect};
use punctual_store::Error;

use super::shard_entry::{self, Next, ShardEntry, Standing};
use super::{BLOCKED_REST, Driver, Output, RESENDS_MAX, REST};
use crate::failure::Failure;

#[derive(Debug, Default)]
pub(super) struct Lane {
    /// Effects applied since the last batch was sealed.
    pub(super) effects: Vec<(ShardId, Effect)>,
    /// Approximate number of rows changed since then.
    pub(super) rows: usize,
    /// How many of these rows come from timers.
    pub(super) timer_rows: usize,
    /// How many of these rows come from queue commands, whose callers wait only for the commit.
    pub(super) queue_rows: usize,
    in_flight: Option<InFlight>,
}

#[derive(Debug)]
struct InFlight {
    batches: Arc<Vec<Batch>>,
    effects: Vec<(ShardId, Effect)>,
    /// The seal number of each shard in this commit, used to release its pins.
    seals: Vec<(ShardId, u64)>,
    resends: u32,
}

impl Lane {
    /// Takes out the effects that are backed only by the shard's memory: those of the next batch, and those that wait
    /// for a commit in flight without rows of this shard.
    pub(super) fn withdraw(&mut self, id: ShardId) -> Vec<(ShardId, Effect)> {
        let under_way = self.in_flight.as_mut();
        let under_way = under_way.filter(|flight| flight.batches.iter().all(|batch| batch.shard != id));
        let mut theirs: Vec<_> = under_way
            .map(|flight| flight.effects.extract_if(.., |(of, _)| *of == id).collect())
            .unwrap_or_default();
        theirs.extend(self.effects.extract_if(.., |(of, _)| *of == id));
        theirs
    }
}

impl Driver {
    /// Seals the changed shards and sends their batches, if the lane is free.
    pub(super) fn send_batch(&mut self, index: usize) {
        if self.lanes[index].in_flight.is_some() {
            return;
        }
        let (now, elapsed, lanes) = (self.now, self.elapsed, self.lanes.len());
        let (mut batches, mut seals) = (Vec::new(), Vec::new());
        self.join_lazy(index);
        for entry in self.shards.iter_mut().filter(|entry| usize::from(entry.id.0) % lanes == index) {
            let Standing::Leading(shard) = &mut entry.standing else { continue };
            if shard.is_dirty() {
                let effects = &mut self.lanes[index].effects;
                let mut cx = Context { now, elapsed, shard: entry.id, pool: &mut self.pool, effects };
                batches.push(shard.seal(&mut cx));
                seals.push((entry.id, shard.sealed()));
                entry.note_wake();
            }
        }
        let lane = &mut self.lanes[index];
        (lane.rows, lane.timer_rows, lane.queue_rows) = (0, 0, 0);
        let effects = std::mem::take(&mut lane.effects);
        if batches.is_empty() {
            // No commit is in flight in this lane, so everything that these effects depend on is committed.
            return self.release(effects);
        }
        let batches = Arc::new(batches);
        lane.in_flight = Some(InFlight { batches: Arc::clone(&batches), effects, seals, resends: 0 });
        self.outputs.push(Output::Commit { lane: index, batches });
    }

    /// If reports of one shard are about to be written, the reports of the others join them.
    fn join_lazy(&mut self, index: usize) {
        let (elapsed, lanes) = (self.elapsed, self.lanes.len());
        let is_of_lane = |entry: &ShardEntry| usize::from(entry.id.0) % lanes == index;
        let is_due = |entry: &ShardEntry| {
            is_of_lane(entry) && matches!(&entry.standing, Standing::Leading(shard) if shard.has_lazy_due())
        };
        if !self.shards.iter().any(is_due) {
            return;
        }
        for entry in self.shards.iter_mut().filter(|entry| is_of_lane(entry)) {
            if let Standing::Leading(shard) = &mut entry.standing {
                shard.join_lazy(elapsed);
            }
        }
    }

    pub(super) fn committed(&mut self, index: usize, result: Result<(), Error>) {
        let Some(mut flight) = self.lanes[index].in_flight.take() else { return };
        match result {
            Ok(()) => self.landed(index, flight),
            Err(Error::RolledBack(_)) if flight.resends < RESENDS_MAX => {
                flight.resends += 1;
                self.send_again(index, flight);
            }
            Err(Error::Fenced { shard, epoch }) => {
                let until = self.elapsed + self.settings.shard_lease;
                let why = format!("this node no longer leads shard {shard} in epoch {epoch}; try again");
                let standing = match &self.membership {
                    Some(_) => Standing::Elsewhere { until },
                    None => Standing::Resting { until, next: Next::Acquire, full: false },
                };
                self.leave_out(index, flight, shard, standing, &why);
                if self.membership.is_some() {
                    self.let_go(shard);
                }
            }
            Err(Error::Blocked { shard }) => {
                tracing::warn!(%shard, "another transaction has locked rows of a shard: the shard waits, the others go on");
                let until = self.elapsed + BLOCKED_REST;
                let epoch = flight.batches.iter().find(|batch| batch.shard == shard).map(|batch| batch.epoch);
                let next = epoch.map_or(Next::Acquire, Next::Load);
                let standing = Standing::Resting { until, next, full: false };
                self.leave_out(
                    index,
                    flight,
                    shard,
                    standing,
                    "another transaction has locked its rows in the database; try again",
                );
            }
            Err(Error::Refused { shard, what }) => {
                // Our memory may be wrong: discard it and load the store's rows.
                let why = format!("the store refused a change of shard {shard}: {what}; try again");
                let standing = Standing::Resting { until: self.elapsed, next: Next::Acquire, full: false };
                self.leave_out(index, flight, shard, standing, &why);
            }
            Err(Error::Unusable(why)) => self.outputs.push(Output::Fail { why }),
            Err(error) => self.lose_flight(flight, &error),
        }
    }

    fn landed(&mut self, index: usize, flight: InFlight) {
        self.counts.commits += 1;
        self.counts.changes += flight.batches.iter().map(|batch| batch.changes.len() as u64).sum::<u64>();
        self.reads.release_after_those_under_way(flight.seals);
        self.release_pins();
        let lane = &self.lanes[index];
        let is_due = lane.timer_rows > 0 && !self.pool.is_behind();
        if (is_due || lane.queue_rows > 0) && self.is_dirty(index) {
            // Send due timers and queue changes now: the commit runs while effects are released, and before reports
            // join it.
            self.send_batch(index);
        }
        self.release(flight.effects);
    }

    /// Whether a shard has rows or effects that are not yet committed in its lane.
    pub(super) fn is_in_flight(&self, id: ShardId) -> bool {
        let lane = &self.lanes[self.lane_of(id)];
        let flight = lane.in_flight.as_ref();
        flight.is_some_and(|flight| {
            flight.batches.iter().any(|batch| batch.shard == id)
                || flight.effects.iter().any(|(of, _)| *of == id)
        }) || lane.effects.iter().any(|(of, _)| *of == id)
    }

    fn is_dirty(&self, index: usize) -> bool {
        let lanes = self.lanes.len();
        let mut shards = self.shards.iter().filter(|entry| usize::from(entry.id.0) % lanes == index);
        shards.any(|entry| matches!(&entry.standing, Standing::Leading(shard) if shard.is_dirty()))
    }

    fn send_again(&mut self, index: usize, flight: InFlight) {
        self.outputs.push(Output::Commit { lane: index, batches: Arc::clone(&flight.batches) });
        self.lanes[index].in_flight = Some(flight);
    }

    /// Discards one shard whose batch cannot be committed, and sends the rest again.
    fn leave_out(
        &mut self,
        index: usize,
        mut flight: InFlight,
        shard: ShardId,
        standing: Standing,
        why: &str,
    ) {
        let failure = Failure::Unavailable(why.to_owned());
        let (theirs, others) = flight.effects.into_iter().partition(|(of, _)| *of == shard);
        flight.effects = others;
        flight.seals.retain(|(of, _)| *of != shard);
        let rest: Vec<Batch> = flight.batches.iter().filter(|batch| batch.shard != shard).cloned().collect();
        flight.batches = Arc::new(rest);
        self.throw_away(shard, standing, &failure);
        self.fail_effects(theirs, &failure);
        if flight.batches.is_empty() {
            self.release(flight.effects);
        } else {
            self.send_again(index, flight);
        }
    }

    /// Discards every shard of the failed commit. Each is loaded again, under a new epoch if the outcome is unknown.
    fn lose_flight(&mut self, flight: InFlight, error: &Error) {
        let (full, unknown) = (matches!(error, Error::Full(_)), matches!(error, Error::Unknown(_)));
        let advice = if unknown { "check before you try again" } else { "try again" };
        let failed = || Failure::Unavailable(format!("{error}; {advice}"));
        let failure = if full { shard_entry::full() } else { failed() };
        let until = if unknown { self.elapsed } else { self.elapsed + REST };
        for batch in flight.batches.iter() {
            let next = if unknown { Next::Acquire } else { Next::Load(batch.epoch) };
            self.throw_away(batch.shard, Standing::Resting { until, next, full }, &failure);
        }
        // A shard without rows in this commit keeps its memory and its effects.
        let is_lost = |shard: ShardId| flight.batches.iter().any(|batch| batch.shard == shard);
        let (theirs, others) = flight.effects.into_iter().partition(|(of, _)| is_lost(*of));
        self.fail_effects(theirs, &failure);
        self.release(others);
    }
}
