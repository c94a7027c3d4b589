//! The nodes we know of: how each stands, and when it last heard us.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use punctual_wire::grpc::v1;
use tokio::sync::watch;
use tokio::time::Instant;

use super::LinkId;
use super::hub::HEARTBEAT_MIN;
use super::outbox::Outbox;

/// Nodes that are dialled at once. A cluster has fewer; a list that is longer is not believed.
const NODES_MAX: usize = 64;
/// Heartbeats in a lease: so many may go unanswered.
const BEATS_PER_LEASE: u32 = 3;

#[derive(Debug, Default)]
pub(crate) struct Peers {
    peers: BTreeMap<LinkId, Peer>,
    next: u32,
}

#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) url: String,
    /// It was given to us, and is dialled for ever.
    seed: bool,
    pub(crate) stage: Stage,
    /// Who it said it is.
    node: String,
    /// The way by which the same node is reached.
    alias_of: Option<LinkId>,
    /// The nodes that it named last, `host:port`.
    names: Vec<String>,
    /// Why it refused us last. `None`: it has not since it last admitted us.
    refusal: Option<String>,
    /// When the newest heartbeat was sent that it has heard.
    pub(crate) heard: Option<Instant>,
    /// How often it wants one.
    heartbeat: Duration,
    stop: watch::Sender<bool>,
}

#[derive(Debug)]
pub(crate) enum Stage {
    Down,
    /// It waits to hear who we are.
    Welcomed(Outbox),
    /// We have said who we are, then.
    Announced(Outbox, Instant),
    Admitted(Outbox),
}

impl Peers {
    /// Notes a node, unless it is known or there are too many. Gives what its link needs.
    pub(crate) fn add(&mut self, url: &str, seed: bool) -> Option<(LinkId, watch::Receiver<bool>)> {
        let known = self.peers.values().any(|peer| authority(&peer.url) == authority(url));
        if known || self.peers.len() >= NODES_MAX {
            return None;
        }
        self.next += 1;
        let (stop, stopped) = watch::channel(false);
        let peer = Peer {
            url: url.to_owned(),
            seed,
            stage: Stage::Down,
            node: String::new(),
            alias_of: None,
            names: Vec::new(),
            refusal: None,
            heard: None,
            heartbeat: Duration::ZERO,
            stop,
        };
        self.peers.insert(LinkId(self.next), peer);
        Some((LinkId(self.next), stopped))
    }

    pub(crate) fn get_mut(&mut self, link: LinkId) -> Option<&mut Peer> {
        self.peers.get_mut(&link)
    }

    pub(crate) fn admitted(&self) -> impl Iterator<Item = (LinkId, &Outbox)> {
        self.peers.iter().filter_map(|(link, peer)| match &peer.stage {
            Stage::Admitted(outbox) => Some((*link, outbox)),
            _ => None,
        })
    }

    pub(crate) fn outbox(&self, link: LinkId) -> Option<&Outbox> {
        match &self.peers.get(&link)?.stage {
            Stage::Admitted(outbox) => Some(outbox),
            _ => None,
        }
    }

    /// A node said who it is. False: it is reached another way already.
    pub(crate) fn welcomed(&mut self, link: LinkId, welcome: &v1::Welcome, outbox: Outbox) -> bool {
        let is_same = |peer: &Peer| peer.node == welcome.node && !matches!(peer.stage, Stage::Down);
        let same = self.peers.iter().find(|(other, peer)| **other != link && is_same(peer));
        let same = same.map(|(other, _)| *other);
        if let Some(peer) = self.peers.get_mut(&link) {
            peer.alias_of = same;
        }
        if same.is_some() {
            return false;
        }
        if let Some(peer) = self.peers.get_mut(&link) {
            peer.node.clone_from(&welcome.node);
            peer.heartbeat = Duration::from_millis(welcome.heartbeat_ms);
            peer.stage = Stage::Welcomed(outbox);
        }
        true
    }

    /// Whoever waits to hear who we are, as of now.
    pub(crate) fn take_welcomed(&mut self, now: Instant) -> Vec<Outbox> {
        let mut taken = Vec::new();
        for peer in self.peers.values_mut() {
            if let Stage::Welcomed(outbox) = &peer.stage {
                let outbox = outbox.clone();
                taken.push(outbox.clone());
                peer.stage = Stage::Announced(outbox, now);
            }
        }
        taken
    }

    /// False: it was not waited for.
    pub(crate) fn admit(&mut self, link: LinkId) -> bool {
        let Some(peer) = self.peers.get_mut(&link) else { return false };
        let Stage::Announced(outbox, since) = &peer.stage else { return false };
        (peer.stage, peer.heard) = (Stage::Admitted(outbox.clone()), Some(*since));
        peer.refusal = None;
        true
    }

    /// The stream is gone. Gives what was on it, if we were admitted.
    pub(crate) fn down(&mut self, link: LinkId) -> Option<Outbox> {
        let peer = self.peers.get_mut(&link)?;
        peer.names.clear();
        match std::mem::replace(&mut peer.stage, Stage::Down) {
            Stage::Admitted(outbox) => Some(outbox),
            _ => None,
        }
    }

    /// A node refused us. True: it has not said so before, and it is worth a line in the log.
    pub(crate) fn refused(&mut self, link: LinkId, why: &str) -> bool {
        let Some(peer) = self.peers.get_mut(&link) else { return false };
        peer.refusal.replace(why.to_owned()).as_deref() != Some(why)
    }

    /// Whether anything is expected of a node.
    pub(crate) fn is_up(&self, link: LinkId) -> bool {
        self.peers.get(&link).is_some_and(|peer| !matches!(peer.stage, Stage::Down))
    }

    /// The nodes that have not said for a lease that they hear us.
    pub(crate) fn mute(&self, now: Instant) -> Vec<LinkId> {
        let lease = |peer: &Peer| (peer.heartbeat * BEATS_PER_LEASE).max(HEARTBEAT_MIN);
        let is_mute = |peer: &Peer| peer.heard.is_some_and(|heard| now >= heard + lease(peer));
        let admitted = self.peers.iter().filter(|(_, peer)| matches!(peer.stage, Stage::Admitted(_)));
        admitted.filter(|(_, peer)| is_mute(peer)).map(|(link, _)| *link).collect()
    }

    /// Whether a node is known to have heard us so short a time ago: if not, it may have given up whatever it assigned.
    pub(crate) fn hears_within(&self, link: LinkId, lease: Duration, now: Instant) -> bool {
        self.peers.get(&link).and_then(|peer| peer.heard).is_some_and(|heard| now < heard + lease)
    }

    /// A node names the others. Gives the URLs that are new.
    pub(crate) fn named(&mut self, link: LinkId, addresses: Vec<String>) -> Vec<String> {
        let Some(peer) = self.peers.get_mut(&link) else { return Vec::new() };
        let scheme = peer.url.split_once("://").map_or("http", |(scheme, _)| scheme).to_owned();
        peer.names = addresses.into_iter().take(NODES_MAX).collect();
        let urls: Vec<String> = peer.names.iter().map(|address| format!("{scheme}://{address}")).collect();
        self.drop_unnamed();
        urls
    }

    /// A node that nobody names any more is dialled no more, if nobody asked us to.
    fn drop_unnamed(&mut self) {
        let named: BTreeSet<String> = self.peers.values().flat_map(|peer| peer.names.clone()).collect();
        self.peers.retain(|_, peer| {
            let stays =
                peer.seed || !matches!(peer.stage, Stage::Down) || named.contains(authority(&peer.url));
            if !stays {
                peer.stop.send_replace(true);
            }
            stays
        });
    }

    /// When whoever is to settle an attempt of this node's last heard us. A node that is gone, and that no other
    /// names, has lost its shards to one of them.
    pub(crate) fn heard(&self, owner: LinkId) -> Option<Instant> {
        let known = self.peers.get(&owner);
        let peer = known.and_then(|peer| peer.alias_of).and_then(|same| self.peers.get(&same)).or(known);
        let lives = peer.is_some_and(|peer| {
            let named = || {
                self.peers.values().any(|other| other.names.iter().any(|name| name == authority(&peer.url)))
            };
            !matches!(peer.stage, Stage::Down) || named()
        });
        match peer {
            Some(peer) if lives => peer.heard,
            _ => self.peers.values().filter_map(|peer| peer.heard).max(),
        }
    }

    pub(crate) fn stop_all(&self) {
        for peer in self.peers.values() {
            peer.stop.send_replace(true);
        }
    }
}

fn authority(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split('/').next().unwrap_or(rest)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn admitted(peers: &mut Peers, url: &str, node: &str, now: Instant) -> LinkId {
        let (link, _) = peers.add(url, true).unwrap();
        let welcome = v1::Welcome { node: node.to_owned(), ..Default::default() };
        assert!(peers.welcomed(link, &welcome, Outbox::default()));
        peers.take_welcomed(now);
        assert!(peers.admit(link));
        link
    }

    #[test]
    fn a_node_that_is_reached_already_is_not_reached_again() {
        let mut peers = Peers::default();
        admitted(&mut peers, "http://a:1", "one", Instant::now());
        assert!(peers.add("http://a:1/", true).is_none());
        let (alias, _) = peers.add("http://balancer:1", true).unwrap();
        let welcome = v1::Welcome { node: "one".to_owned(), ..Default::default() };
        assert!(!peers.welcomed(alias, &welcome, Outbox::default()));
        let heard = peers.heard(LinkId(1));
        assert!(heard.is_some() && peers.heard(alias) == heard, "it hears us the other way");
    }

    #[test]
    fn a_node_that_has_not_said_for_a_lease_that_it_hears_us_is_mute() {
        let mut peers = Peers::default();
        let now = Instant::now();
        let (link, _) = peers.add("http://a:1", true).unwrap();
        let welcome = v1::Welcome { node: "one".to_owned(), heartbeat_ms: 5000, ..Default::default() };
        assert!(peers.welcomed(link, &welcome, Outbox::default()));
        peers.take_welcomed(now);
        assert!(peers.mute(now + Duration::from_secs(60)).is_empty(), "it has not taken us yet");
        assert!(peers.admit(link));
        assert!(peers.mute(now + Duration::from_secs(14)).is_empty());
        assert_eq!(peers.mute(now + Duration::from_secs(15)), [link]);
        peers.down(link);
        assert!(peers.mute(now + Duration::from_secs(60)).is_empty() && !peers.is_up(link));
    }

    #[test]
    fn the_others_are_heard_of_and_forgotten_when_nobody_names_them() {
        let mut peers = Peers::default();
        let a = admitted(&mut peers, "https://a:1", "one", Instant::now());
        let new = peers.named(a, vec!["a:1".to_owned(), "b:1".to_owned()]);
        assert_eq!(new, ["https://a:1", "https://b:1"]);
        assert!(peers.add(&new[0], false).is_none());
        let (b, mut stop) = peers.add(&new[1], false).unwrap();
        peers.named(a, vec!["a:1".to_owned()]);
        assert!(peers.get_mut(b).is_none() && *stop.borrow_and_update());
    }

    #[test]
    fn a_node_that_died_is_heard_through_the_others_but_one_that_lives_is_not() {
        let mut peers = Peers::default();
        let now = Instant::now();
        let a = admitted(&mut peers, "http://a:1", "one", now);
        let later = now + Duration::from_secs(5);
        let b = admitted(&mut peers, "http://b:1", "two", later);
        peers.named(b, vec!["a:1".to_owned(), "b:1".to_owned()]);
        assert_eq!(peers.heard(a), Some(now));
        peers.down(a);
        assert_eq!(peers.heard(a), Some(now), "it lives, and does not hear us");
        peers.named(b, vec!["b:1".to_owned()]);
        assert_eq!(peers.heard(a), Some(later), "somebody else leads what it led");
    }
}
