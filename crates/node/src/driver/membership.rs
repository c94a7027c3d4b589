//! Decides which shards this node should lead.
//!
//! Every node reads the same two lists, the members and the leases, and reaches the same result without asking the
//! others: the eligible nodes are ranked for every shard, and the first one leads it. If two nodes disagree for a
//! moment, that costs a hand-over but never a double run, because the epoch fences the older leader.
//!
//! ```text
//!  Renew ─▶ View ─▶ moves ─▶ Claim    the shard has no leader, and this node is next in rank
//!                        ├─▶ Release  another node should lead it: one at a time, to a named heir
//!                        └─▶ Lost     the store has a newer epoch than ours
//! ```
//!
//! Times here come from the monotonic clock, which also runs while the process is paused: so do leases.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::ids::{Epoch, SessionId, ShardId};
use punctual_core::time::Elapsed;
use punctual_store::{Claim, Lease, Leases, Member, Session};

use super::node_weight::{LoadLimit, NodeWeight};
use super::rank::{Score, score};

/// How long a node has to be alive before shards move to it. A node that joins and leaves quickly moves nothing.
const STEADY: Duration = Duration::from_secs(5);
/// How long an embedded node keeps a shard that another node should lead while its own attempts are running. The other
/// node could not ask for their outcomes and would run them again.
const PUT_OFF_MAX: Duration = Duration::from_secs(60);
/// Maximum number of sessions that a node ends because they have its address.
const ENDED_MAX: usize = 16;
/// How long a lost node is remembered.
const LOST_KEPT: Duration = Duration::from_secs(3600);
/// Renewals per lease: all but one may be late or lost. More renewals also mean that a dead node is noticed sooner.
const RENEWALS_PER_LEASE: u32 = 5;

/// The state of the cluster as read with one renewal.
#[derive(Debug, Clone)]
pub struct View {
    /// `None` means the session service could not be reached. Then every node keeps its shards.
    pub members: Option<Vec<Member>>,
    pub leases: Leases,
    /// Members whose address refuses connections: their process is gone even if their session still lives.
    pub refusing: Vec<SessionId>,
    /// Whether this node knows the store's time well enough to lead.
    pub is_time_known: bool,
}

impl View {
    /// Whether it matters that the address of a member refuses connections: the member leads a shard, or one could be
    /// handed over to it. Embedded nodes are many and are handed shards only when no center node is left.
    pub fn is_knocked_at(session: &Session, leases: &Leases) -> bool {
        let leads = leases.shards.iter().any(|lease| lease.owner == Some(session.id));
        leads || (session.weight > 0 && !session.embedded)
    }

    /// Whether a shard has a leader that is no member. If the members were read before the leases, it may have joined
    /// between the two reads, so the members must be read again.
    pub fn has_unknown_leader(members: &[Member], leases: &Leases) -> bool {
        let is_member = |owner| members.iter().any(|member| member.session.id == owner);
        leases.shards.iter().filter_map(|lease| lease.owner).any(|owner| !is_member(owner))
    }
}

/// A node that disappeared while it led shards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    pub session: Session,
    /// When the loss was noticed, by the store's clock.
    pub at: Timestamp,
}

/// A shard that this node leads or is about to lead.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ours {
    pub(super) shard: ShardId,
    /// The epoch in which this node leads it. `None` means it does not lead it yet.
    pub(super) epoch: Option<Epoch>,
    /// Whether workers have attempts of this shard.
    pub(super) is_under_way: bool,
}

/// A decision about a shard or a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Move {
    Claim(Claim),
    Release {
        shard: ShardId,
        heir: SessionId,
    },
    Lost(ShardId),
    /// End the session of an earlier process of this node.
    End(SessionId),
}

#[derive(Debug)]
pub(super) struct Membership {
    me: Session,
    weight: NodeWeight,
    lease: Duration,
    /// Members eligible to lead, at the last reading.
    members: Vec<Session>,
    /// All members at the last reading.
    known: Vec<Session>,
    /// Nodes lost within the last hour that have not come back.
    lost: Vec<Lost>,
    leases: Vec<Lease>,
    /// Since when each shard has had no leader. `None` means it has one.
    orphaned: Vec<Option<Elapsed>>,
    /// Our lease ends then: no other node takes our shards before. Counted from when the renewal was sent.
    held_until: Option<Elapsed>,
    /// When the last successful renewal was sent.
    looked: Option<Elapsed>,
    renewal: Renewal,
    leaving: bool,
    /// Since when the release of a shard has been delayed.
    put_off: Option<Elapsed>,
    /// Sessions of earlier processes of this node that were ended.
    ended: Vec<SessionId>,
}

#[derive(Debug, Clone, Copy)]
enum Renewal {
    Due {
        at: Elapsed,
    },
    /// `again`: a change was announced that this reading may have missed, so read again at once.
    UnderWay {
        sent: Elapsed,
        again: bool,
    },
}

impl Membership {
    pub(super) fn new(me: Session, lease: Duration, shards: u16, lived: Elapsed) -> Self {
        Membership {
            weight: NodeWeight::of(me.weight),
            me,
            lease,
            members: Vec::new(),
            known: Vec::new(),
            lost: Vec::new(),
            leases: Vec::new(),
            orphaned: vec![None; usize::from(shards)],
            held_until: None,
            looked: None,
            renewal: Renewal::Due { at: lived },
            leaving: false,
            put_off: None,
            ended: Vec::new(),
        }
    }

    pub(super) fn me(&self) -> &Session {
        &self.me
    }

    /// The node is stopping: claim nothing more.
    pub(super) fn leave(&mut self) {
        self.leaving = true;
    }

    pub(super) fn is_leaving(&self) -> bool {
        self.leaving
    }

    pub(super) fn set_load_limit(&mut self, limit: LoadLimit) {
        self.weight.load_limit = limit;
    }

    pub(super) fn set_load(&mut self, load: u8) {
        self.me.load = load;
    }

    pub(super) fn ttl(&self) -> Duration {
        self.lease
    }

    /// Whether a renewal is due; if so, it is marked as sent now.
    pub(super) fn takes_turn(&mut self, lived: Elapsed) -> bool {
        let is_due = matches!(self.renewal, Renewal::Due { at } if at <= lived);
        if is_due {
            self.renewal = Renewal::UnderWay { sent: lived, again: false };
        }
        is_due
    }

    /// When the next renewal is due. `None` means one is in flight.
    pub(super) fn next_renewal(&self) -> Option<Elapsed> {
        match self.renewal {
            Renewal::Due { at } => Some(at),
            Renewal::UnderWay { .. } => None,
        }
    }

    /// A change was announced: renew as soon as possible.
    pub(super) fn look_now(&mut self, lived: Elapsed) {
        match &mut self.renewal {
            Renewal::Due { at } => *at = lived.min(*at),
            Renewal::UnderWay { again, .. } => *again = true,
        }
    }

    /// Whether effects may still be released: our lease is valid, so no other node can have taken our shards.
    pub(super) fn holds(&self, lived: Elapsed) -> bool {
        self.held_until.is_some_and(|until| lived < until)
    }

    /// Whether the last reading is recent enough to report healthy. A node that is cut off reports that before its
    /// lease ends.
    pub(super) fn is_fresh(&self, lived: Elapsed) -> bool {
        self.fresh_until().is_some_and(|until| lived < until)
    }

    /// When [`Membership::is_fresh`] becomes false unless another renewal returns before.
    pub(super) fn fresh_until(&self) -> Option<Elapsed> {
        Some(self.looked? + self.lease * 3 / 5)
    }

    pub(super) fn failed(&mut self, lived: Elapsed) {
        self.renewal = Renewal::Due { at: lived + self.lease / RENEWALS_PER_LEASE };
    }

    /// Takes in a view and decides what to do. `ours` are the shards that this node leads or is about to lead.
    pub(super) fn look(&mut self, view: View, ours: &[Ours], lived: Elapsed) -> Vec<Move> {
        if let Renewal::UnderWay { sent, again } = self.renewal {
            self.held_until = Some(sent + self.lease);
            self.looked = Some(sent);
            let at = if again { lived } else { sent + self.lease / RENEWALS_PER_LEASE };
            self.renewal = Renewal::Due { at };
        }
        self.leases = view.leases.shards;
        let Some(mut members) = view.members.filter(|_| !self.leaving) else {
            return self.outdated(ours).into_iter().chain(self.inherited(ours)).collect();
        };
        let earlier = self.earlier_lives(&members);
        members.retain(|member| !earlier.contains(&Move::End(member.session.id)));
        let alive = alive(&members, &view.refusing);
        self.members = counting(&members, &alive);
        let before = std::mem::take(&mut self.known);
        members.sort_by_key(|member| Reverse(member.age));
        self.known = members.into_iter().map(|member| member.session).collect();
        self.note_lost(&before, &alive, view.leases.now);
        let led: Vec<ShardId> =
            ours.iter().filter(|ours| ours.epoch.is_some()).map(|ours| ours.shard).collect();
        let weight = self.weight.weigh(&self.me, &self.members, &led, lived);
        if weight != std::mem::replace(&mut self.me.weight, weight) {
            tracing::info!(
                weight,
                load = self.me.load,
                "this node's share of the shards changes with its load"
            );
        }
        let mut moves = self.outdated(ours);
        moves.extend(earlier);
        let (mut release, mut reluctant) = (None, None);
        for index in 0..self.leases.len() {
            let lease = self.leases[index];
            match ours.iter().find(|ours| ours.shard == lease.shard) {
                Some(Ours { epoch: Some(epoch), .. }) if lease.epoch > *epoch => {}
                Some(Ours { epoch: None, .. }) => {}
                Some(Ours { shard, is_under_way, .. }) => {
                    self.orphaned[index] = None;
                    if let Some(heir) = self.ranked(*shard).first().filter(|heir| **heir != self.me.id) {
                        let keeps = *is_under_way && self.is_unreachable(*heir);
                        let place = if keeps { &mut reluctant } else { &mut release };
                        place.get_or_insert(Move::Release { shard: *shard, heir: *heir });
                    }
                }
                None => moves.extend(self.claim(index, lease, &alive, lived)),
            }
        }
        let overdue = self.put_off(reluctant, lived);
        moves.extend(release.or(overdue));
        moves
    }

    /// Notes lost nodes: a node that is gone but still owns shards. A node that stops properly releases its shards
    /// first.
    fn note_lost(&mut self, before: &[Session], alive: &BTreeSet<SessionId>, now: Timestamp) {
        let is_new = |session: &&Session| {
            session.id != self.me.id
                && !alive.contains(&session.id)
                && self.lost.iter().all(|lost| lost.session.id != session.id)
                && self.leases.iter().any(|lease| lease.owner == Some(session.id))
        };
        let mut gone: Vec<Session> = self.known.iter().chain(before).filter(is_new).cloned().collect();
        gone.dedup_by_key(|session| session.id);
        self.lost.extend(gone.into_iter().map(|session| Lost { session, at: now }));
        // The session of a dead node stays listed until it expires. If it is listed for longer, it was renewed.
        let has_come_back = |lost: &Lost| {
            let is_over = now.since(lost.at) > 2 * self.lease;
            let known = self.known.iter().filter(|session| session.node == lost.session.node);
            known
                .filter(|session| alive.contains(&session.id))
                .any(|other| other.id != lost.session.id || is_over)
        };
        self.lost.retain(|lost| now.since(lost.at) < LOST_KEPT && !has_come_back(lost));
    }

    pub(super) fn lost(&self) -> &[Lost] {
        &self.lost
    }

    /// The lost node that a shard is taken over from, and since when the shard has had no leader.
    pub(super) fn taken_from(&self, shard: ShardId) -> Option<(Arc<str>, Elapsed)> {
        let index = usize::from(shard.0);
        let owner = self.leases.get(index)?.owner.filter(|owner| *owner != self.me.id)?;
        let lost = self.lost.iter().find(|lost| lost.session.id == owner)?;
        Some((Arc::clone(&lost.session.node), (*self.orphaned.get(index)?)?))
    }

    /// Whether the heir cannot ask our workers for outcomes: workers connect to nodes of a center, not to embedded
    /// nodes.
    fn is_unreachable(&self, heir: SessionId) -> bool {
        let theirs = self.members.iter().find(|session| session.id == heir);
        self.me.embedded && theirs.is_some_and(|session| session.embedded)
    }

    /// Delays the release of a shard while its attempts are running, for at most [`PUT_OFF_MAX`].
    fn put_off(&mut self, release: Option<Move>, lived: Elapsed) -> Option<Move> {
        if release.is_none() {
            self.put_off = None;
            return None;
        }
        let since = *self.put_off.get_or_insert(lived);
        release.filter(|_| lived.since(since) >= PUT_OFF_MAX)
    }

    /// Finds sessions with our address: they belong to earlier processes of this node, which are gone. They would
    /// expire by themselves, but late if the store's clock was set back, and until then shards would be assigned to
    /// them. A session that returns after we ended it is alive: another node was configured with our address by
    /// mistake.
    fn earlier_lives(&mut self, members: &[Member]) -> Vec<Move> {
        let is_ours = |session: &Session| session.address == self.me.address && session.id != self.me.id;
        let theirs = members.iter().map(|member| &member.session).filter(|session| is_ours(session));
        let room = ENDED_MAX - self.ended.len();
        let earlier = theirs.map(|session| session.id).filter(|id| !self.ended.contains(id)).take(room);
        let earlier: Vec<SessionId> = earlier.filter(|_| self.me.address.is_some()).collect();
        self.ended.extend(&earlier);
        earlier.into_iter().map(Move::End).collect()
    }

    /// Our shards that another node has acquired since.
    fn outdated(&self, ours: &[Ours]) -> Vec<Move> {
        let newest = |shard: ShardId| self.leases.get(usize::from(shard.0)).map(|lease| lease.epoch);
        let outdated =
            ours.iter().filter(|ours| ours.epoch.is_some_and(|epoch| newest(ours.shard) > Some(epoch)));
        outdated.map(|ours| Move::Lost(ours.shard)).collect()
    }

    /// Claims shards that were released to this node by name, even while the membership is unknown.
    fn inherited(&self, ours: &[Ours]) -> Vec<Move> {
        let is_ours = |lease: &&Lease| {
            let is_left = lease.owner.is_none() && lease.heir == Some(self.me.id);
            is_left && !self.leaving && ours.iter().all(|ours| ours.shard != lease.shard)
        };
        let claim =
            |lease: &Lease| Move::Claim(Claim { shard: lease.shard, expected_epoch: Some(lease.epoch) });
        self.leases.iter().filter(is_ours).map(claim).collect()
    }

    /// Claims a shard without a leader if this node ranks first. Each following node waits two renewal intervals
    /// longer.
    fn claim(
        &mut self,
        index: usize,
        lease: Lease,
        alive: &BTreeSet<SessionId>,
        lived: Elapsed,
    ) -> Option<Move> {
        let is_led = lease.owner.is_some_and(|owner| owner != self.me.id && alive.contains(&owner));
        if is_led {
            self.orphaned[index] = None;
            return None;
        }
        let since = *self.orphaned[index].get_or_insert(lived);
        let ranked = match lease.heir.filter(|heir| alive.contains(heir)) {
            Some(heir) => {
                let others = self.ranked(lease.shard).into_iter().filter(|other| *other != heir);
                std::iter::once(heir).chain(others).collect()
            }
            None => self.ranked(lease.shard),
        };
        let rank = ranked.iter().position(|session| *session == self.me.id)?;
        let patience = self.lease / RENEWALS_PER_LEASE * 2 * u32::try_from(rank).unwrap_or(u32::MAX);
        (lived.since(since) >= patience)
            .then_some(Move::Claim(Claim { shard: lease.shard, expected_epoch: Some(lease.epoch) }))
    }

    /// The eligible nodes for a shard, best first.
    fn ranked(&self, shard: ShardId) -> Vec<SessionId> {
        let mut ranked: Vec<_> =
            self.members.iter().map(|session| (Score(score(shard, session)), session.id)).collect();
        ranked.sort_by_key(|(score, id)| (Reverse(*score), *id));
        ranked.into_iter().map(|(_, id)| id).collect()
    }

    /// The node that should lead a shard when this one is gone.
    pub(super) fn heir(&self, shard: ShardId) -> Option<SessionId> {
        self.ranked(shard).into_iter().find(|session| *session != self.me.id)
    }

    /// The other node that leads a shard, as far as we know.
    pub(super) fn leader(&self, shard: ShardId) -> Option<SessionId> {
        self.leases.get(usize::from(shard.0))?.owner.filter(|owner| *owner != self.me.id)
    }

    /// All sessions at the last reading, oldest first.
    pub(super) fn known(&self) -> &[Session] {
        &self.known
    }

    /// The newest session of every node. A restarted node has two sessions until the older one ends. Embedded nodes may
    /// share a name, so each of their sessions is listed.
    pub(super) fn nodes(&self) -> Vec<Session> {
        let is_newest = |(index, session): &(usize, &Session)| {
            let mut newer = self.known[index + 1..].iter();
            session.embedded || newer.all(|newer| newer.embedded || newer.node != session.node)
        };
        self.known.iter().enumerate().filter(is_newest).map(|(_, session)| session.clone()).collect()
    }
}

/// Members that are alive. A member is dead if its address refuses connections, or if a newer member has the same
/// address: then its process was restarted, and the new process accepts the connections.
fn alive(members: &[Member], refusing: &[SessionId]) -> BTreeSet<SessionId> {
    let is_outlived = |member: &Member| {
        let address = &member.session.address;
        address.is_some()
            && members.iter().any(|other| other.session.address == *address && other.age < member.age)
    };
    let alive = members
        .iter()
        .filter(|member| !refusing.contains(&member.session.id) && !is_outlived(member))
        .map(|member| member.session.id);
    alive.collect()
}

/// Members eligible to lead: center nodes before embedded ones, and steady nodes before new ones.
fn counting(members: &[Member], alive: &BTreeSet<SessionId>) -> Vec<Session> {
    let may_lead = |member: &&Member| member.session.weight > 0 && alive.contains(&member.session.id);
    let leading: Vec<&Member> = members.iter().filter(may_lead).collect();
    let has_center = leading.iter().any(|member| !member.session.embedded);
    let right_kind: Vec<&Member> =
        leading.into_iter().filter(|member| !(has_center && member.session.embedded)).collect();
    let has_steady = right_kind.iter().any(|member| member.age >= STEADY);
    let counts = right_kind.into_iter().filter(|member| !has_steady || member.age >= STEADY);
    counts.map(|member| member.session.clone()).collect()
}

#[cfg(test)]
mod tests;
