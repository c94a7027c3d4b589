//! Acquires, hands over and loses shards as the membership of the cluster changes.

use std::collections::BTreeMap;

use punctual_core::ids::{Epoch, SessionId, ShardId};
use punctual_core::time::Elapsed;
use punctual_core::time::Moment;
use punctual_store::{Error, Session};
use rustc_hash::FxHashSet;

use super::membership::{Lost, Membership, Move, Ours, View};
use super::node_weight::LoadLimit;
use super::pump::size_of_report;
use super::shard_entry::{self, Leaving, ShardEntry, Standing};
use super::{Driver, Output};

impl Driver {
    /// Renews our session when it is due.
    pub(super) fn renew(&mut self) {
        let lived = self.lived();
        if let Some(members) = self.membership.as_mut().filter(|members| !members.is_leaving())
            && members.takes_turn(lived)
        {
            let (session, ttl) = (members.me().clone(), members.ttl());
            self.outputs.push(Output::Renew { session, ttl });
        }
    }

    pub(super) fn look_now(&mut self) {
        let lived = self.lived();
        if let Some(members) = &mut self.membership {
            members.look_now(lived);
        }
    }

    /// Sets the load above which this node gives shards away.
    pub fn set_load_limit(&mut self, limit: LoadLimit) {
        if let Some(members) = &mut self.membership {
            members.set_load_limit(limit);
        }
    }

    pub(super) fn note_load(&mut self, load: u8) {
        if let Some(members) = &mut self.membership {
            members.set_load(load);
        }
    }

    pub(super) fn renewed(&mut self, result: Result<View, Error>, moment: Moment) {
        let (elapsed, lived) = (self.elapsed, self.lived());
        let standing = self.shards.iter().filter(|entry| !entry.is_free(elapsed));
        // Only embedded nodes need this, and collecting it is costly on nodes with many attempts.
        let is_embedded = self.membership.as_ref().is_some_and(|members| members.me().embedded);
        let under_way = if is_embedded { self.pool.roster().shards_held() } else { FxHashSet::default() };
        let ours: Vec<Ours> = standing
            .map(|entry| Ours {
                shard: entry.id,
                epoch: entry.epoch.filter(|_| matches!(entry.standing, Standing::Leading(_))),
                is_under_way: under_way.contains(&entry.id),
            })
            .collect();
        let is_time_known = result.as_ref().map_or(true, |view| view.is_time_known);
        let Some(members) = &mut self.membership else { return };
        let mut moves = match result {
            Ok(view) => members.look(view, &ours, lived),
            Err(Error::Unusable(why)) => return self.outputs.push(Output::Fail { why }),
            Err(error) => {
                tracing::warn!(%error, "the members and leases of the cluster could not be read");
                return members.failed(lived);
            }
        };
        // The lease is valid again, so engine time advances before anything is applied or released.
        self.advance(moment);
        if !is_time_known {
            tracing::warn!("the store's time is not known within half a second: this node leads nothing");
            moves.retain(|step| matches!(step, Move::Lost(_)));
            self.leave_all();
        }
        self.carry_out(moves);
        let withheld = std::mem::take(&mut self.withheld);
        self.release(withheld);
    }

    fn carry_out(&mut self, moves: Vec<Move>) {
        let (mut claims, mut lost) = (Vec::new(), 0);
        let is_leaving = self.shards.iter().any(|entry| entry.leaving.is_some());
        for step in moves {
            match step {
                Move::Claim(claim) => {
                    let from = self.membership.as_ref().and_then(|members| members.taken_from(claim.shard));
                    if let Some((node, since)) = from {
                        self.takeovers.claim(node, claim.shard, since);
                    }
                    if let Some(entry) = self.entry(claim.shard) {
                        (entry.standing, entry.epoch) = (Standing::Acquiring, claim.expected_epoch);
                        claims.push(claim);
                    }
                }
                Move::Lost(shard) => {
                    lost += 1;
                    self.step_down(shard, self.elapsed + self.settings.shard_lease);
                }
                Move::End(session) => self.outputs.push(Output::EndSession { session }),
                Move::Release { .. } if is_leaving => {}
                Move::Release { shard, heir } => self.leave(shard, Some(heir)),
            }
        }
        if lost > 0 {
            tracing::warn!(
                shards = lost,
                "other nodes took over shards of this node: it was stopped or cut off for longer than its lease"
            );
        }
        self.acquire(claims);
    }

    /// Begins the hand-over of a shard: its applied changes are committed first.
    fn leave(&mut self, id: ShardId, heir: Option<SessionId>) {
        let Some(entry) = self.entry(id) else { return };
        entry.leaving = Some(Leaving { heir });
        let mut waiting = Vec::new();
        if let Standing::Leading(shard) = &mut entry.standing {
            waiting = shard.dismiss();
            shard.hurry();
        }
        self.turn_away_waiting(waiting);
        self.pool.forget_ready(id);
        self.reads.forget(id);
        self.turn_away(id);
    }

    /// Releases the shards whose hand-over is ready.
    pub(super) fn release_left(&mut self) {
        if self.membership.is_none() {
            return;
        }
        let mut left: BTreeMap<Option<SessionId>, Vec<(ShardId, Epoch)>> = BTreeMap::new();
        for index in 0..self.shards.len() {
            let entry = &self.shards[index];
            let (Some(Leaving { heir }), id, epoch) = (entry.leaving, entry.id, entry.epoch) else {
                continue;
            };
            let is_dirty = matches!(&entry.standing, Standing::Leading(shard) if shard.is_dirty());
            if is_dirty || self.is_in_flight(id) {
                continue;
            }
            let was_led = matches!(entry.standing, Standing::Leading(_));
            self.step_down(id, self.elapsed);
            if let Some(epoch) = epoch.filter(|_| was_led) {
                left.entry(heir).or_default().push((id, epoch));
            }
        }
        self.outputs.extend(left.into_iter().map(|(heir, shards)| Output::Release { shards, heir }));
    }

    /// Stops leading a shard; it is not claimed again before `until`.
    pub(super) fn step_down(&mut self, id: ShardId, until: Elapsed) {
        self.throw_away(id, Standing::Elsewhere { until }, &shard_entry::not_led());
        self.let_go(id);
        let lived = self.lived();
        self.takeovers.lost(id, lived);
    }

    /// Drops everything kept for a shard that this node no longer leads: attempts, waiting commands and reports.
    pub(super) fn let_go(&mut self, id: ShardId) {
        self.pool.forget(id);
        self.turn_away(id);
        let Some(entry) = self.entry(id) else { return };
        entry.leaving = None;
        let unheard = std::mem::take(&mut entry.reports);
        self.unheard_bytes -= unheard.iter().map(|(_, report)| size_of_report(report)).sum::<usize>();
    }

    /// Refuses the commands that wait for this shard; callers ask its new leader.
    fn turn_away(&mut self, id: ShardId) {
        let Some(entry) = self.entry(id) else { return };
        let waiting = std::mem::take(&mut entry.commands);
        for waiting in waiting {
            self.refuse(waiting.ticket, shard_entry::not_led());
        }
    }

    /// Hands every shard over, each to the next node in rank.
    pub(super) fn hand_over(&mut self) {
        let Some(members) = &mut self.membership else { return self.hurry() };
        members.leave();
        self.leave_all();
        for index in 0..self.shards.len() {
            let ShardEntry { id, epoch, ref standing, .. } = self.shards[index];
            match (standing, epoch) {
                (Standing::Loading, Some(epoch)) => self.pass_on(id, epoch),
                (Standing::Loading | Standing::Resting { .. }, _) => self.step_down(id, self.elapsed),
                // A shard that is being acquired is passed on once the claim returns.
                _ => {}
            }
        }
    }

    /// Passes a shard that a stopping node has acquired on to the next node.
    pub(super) fn pass_on(&mut self, id: ShardId, epoch: Epoch) {
        let heir = self.membership.as_ref().and_then(|members| members.heir(id));
        self.step_down(id, self.elapsed);
        self.outputs.push(Output::Release { shards: vec![(id, epoch)], heir });
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.membership.as_ref().is_some_and(Membership::is_leaving)
    }

    fn leave_all(&mut self) {
        let led: Vec<ShardId> =
            self.shards.iter().filter(|entry| entry.is_leading()).map(|entry| entry.id).collect();
        for shard in led {
            let heir = self.membership.as_ref().and_then(|members| members.heir(shard));
            self.leave(shard, heir);
        }
    }

    /// All members at the last reading of the cluster.
    pub fn members(&self) -> &[Session] {
        self.membership.as_ref().map_or(&[], Membership::known)
    }

    /// The newest session of every node at the last reading.
    pub fn nodes(&self) -> Vec<Session> {
        self.membership.as_ref().map(Membership::nodes).unwrap_or_default()
    }

    /// Nodes lost within the last hour that have not come back.
    pub fn lost(&self) -> &[Lost] {
        self.membership.as_ref().map_or(&[], Membership::lost)
    }

    /// The leader of a shard, as far as this node knows.
    pub fn leader(&self, id: ShardId) -> Leader {
        let Some(entry) = self.shards.get(usize::from(id.0)) else { return Leader::Nobody };
        if !entry.is_elsewhere() && entry.leaving.is_none() {
            return Leader::Here;
        }
        let led_by = self.membership.as_ref().and_then(|members| members.leader(id));
        led_by.map_or(Leader::Nobody, Leader::Session)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leader {
    /// This node leads the shard or is about to.
    Here,
    Session(SessionId),
    Nobody,
}
