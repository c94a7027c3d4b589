//! A node looks at the cluster: it renews its session, and reads the members, the leases and the store's time.
//!
//! Sessions and leases are read one after the other, in any order; other events may happen in between.

use punctual_core::ids::SessionId;
use punctual_node::Input;
use punctual_node::driver::View;
use punctual_store::{Leases, Member, Sessions, Shards};

use super::events::{Happening, Look, Seen, Told};
use super::node::{Node, address};
use super::{World, at_once};
use crate::witness::Life;

impl World {
    pub(super) fn look(&mut self, by: Life, mut look: Look) {
        let had_left = self.dice.one_in(2);
        let node = &mut self.nodes[by.index];
        if node.now() != by || node.driver.is_none() {
            if had_left {
                self.renew(by, &mut look);
            }
            return;
        }
        if let Some(held) = node.held.as_mut().filter(|_| !had_left) {
            return held.push(Happening::Look(by, look));
        }
        if !look.is_renewed && (look.leases.is_some() || self.dice.one_in(2)) {
            self.renew(by, &mut look);
        } else {
            look.leases = at_once(self.store.leases()).ok();
        }
        let delay = self.latency();
        if let (Some(members), Some(leases)) = (&look.members, &look.leases)
            && !look.is_newer_than_leases
            && View::has_unknown_leader(members, leases)
        {
            look.is_renewed = false;
        }
        match look {
            Look { is_renewed: true, members, leases: Some(leases), asked, .. } => {
                let refusing = self.knock(by, members.as_deref().unwrap_or_default(), &leases);
                let seen = Seen { asked, members, leases, refusing };
                self.later(delay, Happening::Node(by, Told::Looked(seen)));
            }
            look => self.later(delay, Happening::Look(by, look)),
        }
    }

    pub(super) fn renew(&mut self, by: Life, look: &mut Look) {
        if look.is_renewed {
            return;
        }
        // If the session service does not answer, every node keeps its shards.
        let is_service_down = self.stormy && self.dice.one_in(60);
        let members = (!is_service_down).then(|| at_once(self.store.renew(&look.session, look.ttl)).ok());
        (look.is_renewed, look.members) = (true, members.flatten());
        look.is_newer_than_leases = look.leases.is_some();
        let ttl = u64::try_from(look.ttl.as_millis()).unwrap_or(u64::MAX);
        self.witness.leaders.renewed(by, self.time + ttl);
    }

    pub(super) fn looked(&mut self, index: usize, seen: Seen) {
        let Seen { asked, members, leases, refusing } = seen;
        let node = &mut self.nodes[index];
        node.machine.measured(asked, self.time, &leases);
        let is_time_known = node.machine.is_trusted(self.time);
        let view = View { members, leases, refusing, is_time_known };
        self.step(index, Input::Load(self.nodes[index].load));
        self.step(index, Input::Renewed { result: Ok(view) });
    }

    /// Before a node starts, it reads the store's clock.
    pub(super) fn measure(&mut self, index: usize) {
        let Ok(leases) = at_once(self.store.leases()) else { return };
        let machine = &mut self.nodes[index].machine;
        machine.measured(machine.elapsed(self.time), self.time, &leases);
    }

    /// Members that lead or could lead and whose address refuses connections: their process is gone, or the network refuses
    /// by mistake.
    fn knock(&mut self, by: Life, members: &[Member], leases: &Leases) -> Vec<SessionId> {
        let mut refusing = Vec::new();
        for Member { session, .. } in members {
            let is_asked = View::is_knocked_at(session, leases);
            let other =
                (0..self.nodes.len()).find(|other| session.address.as_deref() == Some(&*address(*other)));
            let Some(other) = other.filter(|other| is_asked && *other != by.index) else { continue };
            let node = &self.nodes[other];
            let is_gone = node.driver.is_none() && !node.is_silent && !self.is_cut(by.index, other);
            if is_gone || (self.stormy && self.dice.one_in(self.weather.refusals)) {
                refusing.push(session.id);
            }
        }
        refusing
    }

    /// Whether messages of one node do not reach another.
    pub(super) fn is_cut(&self, from: usize, to: usize) -> bool {
        self.stormy && self.peers_cut.get(&(from, to)).is_some_and(|until| self.time < *until)
    }

    /// Wakes the node that a shard was released to; if it cannot be reached, all nodes.
    pub(super) fn wake_heir(&mut self, by: Life, heir: Option<SessionId>) {
        let Some(heir) = heir else { return };
        let is_heir = |node: &&Node| node.session.as_ref().is_some_and(|session| session.id == heir);
        let heir = self.nodes.iter().find(is_heir).filter(|node| node.driver.is_some()).map(Node::now);
        match heir.filter(|heir| !self.is_cut(by.index, heir.index)) {
            Some(heir) => self.wake(heir),
            None => self.wake_all(by),
        }
    }

    /// Makes every node that can be reached look at the cluster.
    pub(super) fn wake_all(&mut self, by: Life) {
        for index in 0..self.nodes.len() {
            if !self.is_cut(by.index, index) {
                self.wake(self.nodes[index].now());
            }
        }
    }

    fn wake(&mut self, node: Life) {
        let delay = self.dice.below(5);
        self.later(delay, Happening::Node(node, Told::News));
    }
}
