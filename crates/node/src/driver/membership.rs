//! Which shards this node should lead, seen from one node of a cluster.
//!
//! Everyone looks at the same two lists, who lives and who leads what, and draws the same conclusion without asking
//! anybody: the nodes that count are ranked for every shard, and the first one leads it. Two nodes that disagree for
//! a moment cost a hand-over, never a double run: that is the epoch's business.
//!
//! ```text
//!  Renew ─▶ View ─▶ moves ─▶ Claim    nobody leads it, and it is ours
//!                        ├─▶ Release  somebody else should lead it: one at a time, to a named heir
//!                        └─▶ Lost     there is a newer epoch than ours
//! ```
//!
//! Times here are of a clock that goes on while the process is stopped: a lease ends whether or not we look.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::ids::{Epoch, SessionId, ShardId};
use punctual_store::{Claim, Lease, Leases, Member, Session};

use super::burden::{Burden, Hot};
use super::rank::{Score, score};

/// How long a node has to live before the others make room for it: one that comes and goes moves nothing.
const STEADY: Duration = Duration::from_secs(5);
/// How long an embedded node keeps a shard that another should lead because its own calls are under way. The other cannot
/// ask for what becomes of them, and would make them again.
const PUT_OFF_MAX: Duration = Duration::from_secs(60);
/// Sessions that a node ends because they have its address: it had fewer lives in the time of a lease.
const ENDED_MAX: usize = 16;
/// How long a node that was lost is remembered.
const LOST_KEPT: Duration = Duration::from_secs(3600);
/// Renewals in the time of one lease: so many may be late or lost but one, and so soon is a death noticed.
const RENEWALS_PER_LEASE: u32 = 5;

/// What one look at the cluster showed.
#[derive(Debug, Clone)]
pub struct View {
    /// None: whoever keeps the sessions could not be asked. Then everyone keeps what it has.
    pub members: Option<Vec<Member>>,
    pub leases: Leases,
    /// Members whose address refuses connections: their process is gone, whatever their session says.
    pub refusing: Vec<SessionId>,
    /// Whether this node knows the store's time well enough to lead.
    pub is_time_known: bool,
}

/// A node that was gone while it led shards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    pub session: Session,
    /// When this was noticed, by the store's clock.
    pub at: Timestamp,
}

/// A shard that is led here, or about to be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ours {
    pub(super) shard: ShardId,
    /// The one in which it is led; none: it is about to be.
    pub(super) epoch: Option<Epoch>,
    /// Whether workers have attempts of it in hand.
    pub(super) is_under_way: bool,
}

/// What is to be done about a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Move {
    Claim(Claim),
    Release {
        shard: ShardId,
        heir: SessionId,
    },
    Lost(ShardId),
    /// A session that was ours in an earlier life stands in the way.
    End(SessionId),
}

#[derive(Debug)]
pub(super) struct Membership {
    me: Session,
    burden: Burden,
    lease: Duration,
    /// Those who may lead, at the last look.
    members: Vec<Session>,
    /// Everyone who lived then.
    known: Vec<Session>,
    /// Nodes that were lost within the last hour and have not come back.
    lost: Vec<Lost>,
    leases: Vec<Lease>,
    /// since when a shard has nobody who leads it.
    orphaned: Vec<Option<Timestamp>>,
    /// until then nobody else takes our shards for dead. Counted from when the renewal was sent.
    held_until: Option<Timestamp>,
    /// when the last renewal that came back was sent.
    looked: Option<Timestamp>,
    renewal: Renewal,
    parting: bool,
    /// since when shards are kept that another should lead.
    put_off: Option<Timestamp>,
    /// Earlier lives of ours that were ended.
    ended: Vec<SessionId>,
}

#[derive(Debug, Clone, Copy)]
enum Renewal {
    Due {
        at: Timestamp,
    },
    /// `again`: meanwhile somebody said that there is something to see, which this look may have missed.
    UnderWay {
        sent: Timestamp,
        again: bool,
    },
}

impl Membership {
    pub(super) fn new(me: Session, lease: Duration, shards: u16, lived: Timestamp) -> Self {
        Membership {
            burden: Burden::of(me.weight),
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
            parting: false,
            put_off: None,
            ended: Vec::new(),
        }
    }

    pub(super) fn me(&self) -> &Session {
        &self.me
    }

    /// Claims nothing more: the node is stopping.
    pub(super) fn part(&mut self) {
        self.parting = true;
    }

    pub(super) fn is_parting(&self) -> bool {
        self.parting
    }

    pub(super) fn set_hot(&mut self, hot: Hot) {
        self.burden.hot = hot;
    }

    pub(super) fn set_load(&mut self, load: u8) {
        self.me.load = load;
    }

    pub(super) fn ttl(&self) -> Duration {
        self.lease
    }

    /// Whether it is time to renew; if so, it counts as sent now.
    pub(super) fn takes_turn(&mut self, lived: Timestamp) -> bool {
        let is_due = matches!(self.renewal, Renewal::Due { at } if at <= lived);
        if is_due {
            self.renewal = Renewal::UnderWay { sent: lived, again: false };
        }
        is_due
    }

    /// When to look again; none: a look is under way.
    pub(super) fn next_renewal(&self) -> Option<Timestamp> {
        match self.renewal {
            Renewal::Due { at } => Some(at),
            Renewal::UnderWay { .. } => None,
        }
    }

    /// Somebody says that there is something to see.
    pub(super) fn look_now(&mut self, lived: Timestamp) {
        match &mut self.renewal {
            Renewal::Due { at } => *at = lived.min(*at),
            Renewal::UnderWay { again, .. } => *again = true,
        }
    }

    /// Whether what was decided may still be said: nobody can have taken our shards for dead.
    pub(super) fn holds(&self, lived: Timestamp) -> bool {
        self.held_until.is_some_and(|until| lived < until)
    }

    /// Whether the last look is recent enough to be called healthy: a node that is cut off says so before it lapses.
    pub(super) fn is_fresh(&self, lived: Timestamp) -> bool {
        self.fresh_until().is_some_and(|until| lived < until)
    }

    /// When it no longer is, unless another look comes back before.
    pub(super) fn fresh_until(&self) -> Option<Timestamp> {
        Some(self.looked? + self.lease * 3 / 5)
    }

    pub(super) fn failed(&mut self, lived: Timestamp) {
        self.renewal = Renewal::Due { at: lived + self.lease / RENEWALS_PER_LEASE };
    }

    /// Takes in a look, and says what follows for the shards, given those that are led or about to be led here.
    pub(super) fn look(&mut self, view: View, ours: &[Ours], lived: Timestamp) -> Vec<Move> {
        if let Renewal::UnderWay { sent, again } = self.renewal {
            self.held_until = Some(sent + self.lease);
            self.looked = Some(sent);
            let at = if again { lived } else { sent + self.lease / RENEWALS_PER_LEASE };
            self.renewal = Renewal::Due { at };
        }
        self.leases = view.leases.shards;
        let Some(mut members) = view.members.filter(|_| !self.parting) else {
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
        let weight = self.burden.weigh(&self.me, &self.members, &led, lived);
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

    /// A node that is gone and still owns shards was lost: one that stops gives its shards up first.
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
        // A dead node that owns nothing any more is not looked after, and its session is listed until its lease ends. One that is
        // listed after that was renewed.
        let has_come_back = |lost: &Lost| {
            let is_over = now.since(lost.at) > 2 * self.lease;
            let known = self.known.iter().filter(|session| session.node == lost.session.node);
            known
                .filter(|session| alive.contains(&session.id))
                .any(|other| other.id != lost.session.id || is_over)
        };
        self.lost.retain(|lost| now.since(lost.at) < LOST_KEPT && !has_come_back(lost));
    }

    /// Nodes that were lost within the last hour and have not come back.
    pub(super) fn lost(&self) -> &[Lost] {
        &self.lost
    }

    /// The lost node that a shard is taken from, and since when nobody leads it.
    pub(super) fn taken_from(&self, shard: ShardId) -> Option<(Arc<str>, Timestamp)> {
        let index = usize::from(shard.0);
        let owner = self.leases.get(index)?.owner.filter(|owner| *owner != self.me.id)?;
        let lost = self.lost.iter().find(|lost| lost.session.id == owner)?;
        Some((Arc::clone(&lost.session.node), (*self.orphaned.get(index)?)?))
    }

    /// Whether another cannot ask our workers what became of something: they dial nodes of a center, and no embedded one.
    fn is_unreachable(&self, heir: SessionId) -> bool {
        let theirs = self.members.iter().find(|session| session.id == heir);
        self.me.embedded && theirs.is_some_and(|session| session.embedded)
    }

    /// A shard is kept while its calls are under way, but not for ever.
    fn put_off(&mut self, release: Option<Move>, lived: Timestamp) -> Option<Move> {
        if release.is_none() {
            self.put_off = None;
            return None;
        }
        let since = *self.put_off.get_or_insert(lived);
        release.filter(|_| lived.since(since) >= PUT_OFF_MAX)
    }

    /// Whoever else has our address was there before us, and is gone. Its session ends by itself, but not soon if the
    /// store's clock was set back meanwhile: until then it would be left what nobody takes. One that comes back after we
    /// ended it lives, and was given our address by mistake.
    fn earlier_lives(&mut self, members: &[Member]) -> Vec<Move> {
        let is_ours = |session: &Session| session.address == self.me.address && session.id != self.me.id;
        let theirs = members.iter().map(|member| &member.session).filter(|session| is_ours(session));
        let room = ENDED_MAX - self.ended.len();
        let earlier = theirs.map(|session| session.id).filter(|id| !self.ended.contains(id)).take(room);
        let earlier: Vec<SessionId> = earlier.filter(|_| self.me.address.is_some()).collect();
        self.ended.extend(&earlier);
        earlier.into_iter().map(Move::End).collect()
    }

    /// Shards that someone else has acquired since.
    fn outdated(&self, ours: &[Ours]) -> Vec<Move> {
        let newest = |shard: ShardId| self.leases.get(usize::from(shard.0)).map(|lease| lease.epoch);
        let outdated =
            ours.iter().filter(|ours| ours.epoch.is_some_and(|epoch| newest(ours.shard) > Some(epoch)));
        outdated.map(|ours| Move::Lost(ours.shard)).collect()
    }

    /// What was left to us by name is ours to take, even while nobody can say who lives.
    fn inherited(&self, ours: &[Ours]) -> Vec<Move> {
        let is_ours = |lease: &&Lease| {
            let is_left = lease.owner.is_none() && lease.heir == Some(self.me.id);
            is_left && !self.parting && ours.iter().all(|ours| ours.shard != lease.shard)
        };
        let claim = |lease: &Lease| Move::Claim(Claim { shard: lease.shard, than: Some(lease.epoch) });
        self.leases.iter().filter(is_ours).map(claim).collect()
    }

    /// A shard that nobody leads goes to whoever ranks first, and to the next one a second later if it does not come.
    fn claim(
        &mut self,
        index: usize,
        lease: Lease,
        alive: &BTreeSet<SessionId>,
        lived: Timestamp,
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
            .then_some(Move::Claim(Claim { shard: lease.shard, than: Some(lease.epoch) }))
    }

    /// Who should lead a shard, the first first.
    fn ranked(&self, shard: ShardId) -> Vec<SessionId> {
        let mut ranked: Vec<_> =
            self.members.iter().map(|session| (Score(score(shard, session)), session.id)).collect();
        ranked.sort_by_key(|(score, id)| (Reverse(*score), *id));
        ranked.into_iter().map(|(_, id)| id).collect()
    }

    /// Who should lead a shard when we are gone.
    pub(super) fn heir(&self, shard: ShardId) -> Option<SessionId> {
        self.ranked(shard).into_iter().find(|session| *session != self.me.id)
    }

    /// Who leads a shard, as far as we know.
    pub(super) fn leader(&self, shard: ShardId) -> Option<SessionId> {
        self.leases.get(usize::from(shard.0))?.owner.filter(|owner| *owner != self.me.id)
    }

    /// Every session that lived at the last look, the oldest first.
    pub(super) fn known(&self) -> &[Session] {
        &self.known
    }

    /// The newest session of every node. A node that was started again has two until the earlier one ends. Programs
    /// with an embedded node may share a name.
    pub(super) fn nodes(&self) -> Vec<Session> {
        let is_newest = |(index, session): &(usize, &Session)| {
            let mut newer = self.known[index + 1..].iter();
            session.embedded || newer.all(|newer| newer.embedded || newer.node != session.node)
        };
        self.known.iter().enumerate().filter(is_newest).map(|(_, session)| session.clone()).collect()
    }
}

/// Members that live. One whose address refuses connections does not, nor one whose address somebody younger has: its
/// process was started again, and nobody refuses any more.
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

/// Members that may lead. Nodes of a center go before embedded ones, and steady nodes before newcomers.
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
