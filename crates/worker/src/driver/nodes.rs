//! The nodes that a worker knows: how the connection to each stands, and when each last heard the worker.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{HEARTBEAT_MIN, LinkId, Output, Welcome};

/// Nodes that are dialled. A cluster has fewer; what a longer list names beyond it is ignored.
const NODES_MAX: usize = 64;
/// After this many unanswered heartbeats the worker ends the connection.
const BEATS_PER_LEASE: u32 = 3;

#[derive(Debug, Default)]
pub(super) struct Nodes {
    nodes: BTreeMap<LinkId, Node>,
    last: u32,
}

#[derive(Debug, Default)]
pub(super) struct Node {
    url: String,
    /// It was configured, so it is dialled as long as the worker lives.
    is_seed: bool,
    stage: Stage,
    /// Its name, as it told it.
    name: String,
    /// The other link to the same node, if it is connected by that already.
    alias_of: Option<LinkId>,
    /// The addresses of nodes that it told last, `host:port`.
    members: Vec<String>,
    /// When the newest heartbeat that it has heard was sent, and that heartbeat's number.
    heard: Option<Duration>,
    pub(super) heard_beat: u64,
    heartbeat: Duration,
}

#[derive(Debug, Default)]
enum Stage {
    #[default]
    Down,
    /// It was told who we are, then.
    Announced(Duration),
    Admitted,
    /// It is in this process: it hears everything, and nothing it assigns can be given up.
    InProcess,
}

impl Nodes {
    pub(super) fn add_in_process(&mut self) {
        let node = Node { stage: Stage::InProcess, ..Node::default() };
        self.nodes.insert(LinkId::IN_PROCESS, node);
    }

    /// Adds a node, unless it is known or there are too many.
    pub(super) fn add(&mut self, url: &str, is_seed: bool) -> Option<LinkId> {
        let is_known = self.nodes.values().any(|node| authority(&node.url) == authority(url));
        if is_known || self.nodes.len() >= NODES_MAX {
            return None;
        }
        self.last += 1;
        self.nodes.insert(LinkId(self.last), Node { url: url.to_owned(), is_seed, ..Node::default() });
        Some(LinkId(self.last))
    }

    /// A node told its name. False: it is connected by another link already.
    pub(super) fn welcomed(&mut self, link: LinkId, welcome: &Welcome, now: Duration) -> bool {
        let is_same = |node: &Node| node.name == welcome.node && !matches!(node.stage, Stage::Down);
        let same = self.nodes.iter().find(|(other, node)| **other != link && is_same(node));
        let same = same.map(|(other, _)| *other);
        let Some(node) = self.nodes.get_mut(&link) else { return false };
        node.alias_of = same;
        if same.is_some() {
            return false;
        }
        node.name.clone_from(&welcome.node);
        node.heartbeat = welcome.heartbeat;
        node.stage = Stage::Announced(now);
        true
    }

    /// A node takes the worker. False: it was not asked to.
    pub(super) fn admitted(&mut self, link: LinkId) -> bool {
        let Some(node) = self.nodes.get_mut(&link) else { return false };
        let Stage::Announced(since) = node.stage else { return false };
        (node.stage, node.heard, node.heard_beat) = (Stage::Admitted, Some(since), 0);
        true
    }

    /// The connection is gone.
    pub(super) fn down(&mut self, link: LinkId) {
        if let Some(node) = self.nodes.get_mut(&link) {
            node.members.clear();
            node.stage = Stage::Down;
        }
    }

    /// A node has heard a heartbeat.
    pub(super) fn heard_beat(&mut self, link: LinkId, number: u64, sent: Duration) {
        if let Some(node) = self.nodes.get_mut(&link) {
            node.heard = node.heard.max(Some(sent));
            node.heard_beat = node.heard_beat.max(number);
        }
    }

    /// The nodes that give this worker work.
    pub(super) fn admitted_links(&self) -> impl Iterator<Item = (LinkId, &Node)> {
        let is_admitted = |node: &Node| matches!(node.stage, Stage::Admitted | Stage::InProcess);
        self.nodes.iter().filter(move |(_, node)| is_admitted(node)).map(|(link, node)| (*link, node))
    }

    pub(super) fn is_admitted(&self, link: LinkId) -> bool {
        self.nodes.get(&link).is_some_and(|node| matches!(node.stage, Stage::Admitted | Stage::InProcess))
    }

    /// Whether the worker only works for the node in its own process.
    pub(super) fn is_in_process(&self) -> bool {
        self.nodes.contains_key(&LinkId::IN_PROCESS)
    }

    /// The nodes that have not answered a heartbeat for a lease. They may hear the worker all the same, and assign what
    /// never arrives.
    pub(super) fn mute(&self, now: Duration) -> Vec<LinkId> {
        let lease = |node: &Node| (node.heartbeat * BEATS_PER_LEASE).max(HEARTBEAT_MIN);
        let is_mute = |node: &Node| {
            matches!(node.stage, Stage::Admitted)
                && node.heard.is_some_and(|heard| now >= heard + lease(node))
        };
        self.nodes.iter().filter(|(_, node)| is_mute(node)).map(|(link, _)| *link).collect()
    }

    /// Whether a node heard the worker within the lease. If not, it may have given up what it assigned.
    pub(super) fn heard_within(&self, link: LinkId, lease: Duration, now: Duration) -> bool {
        let Some(node) = self.nodes.get(&link) else { return false };
        match node.stage {
            Stage::InProcess => true,
            _ => node.heard.is_some_and(|heard| now < heard + lease),
        }
    }

    /// When the node that is to settle an attempt of this owner's last heard the worker. A node that is gone, and that no
    /// other node lists, has lost its shards to one of them.
    pub(super) fn heard(&self, owner: LinkId, now: Duration) -> Option<Duration> {
        let known = self.nodes.get(&owner);
        let node = known.and_then(|node| node.alias_of).and_then(|same| self.nodes.get(&same)).or(known);
        let lives = |node: &Node| {
            let is_listed = || {
                self.nodes
                    .values()
                    .any(|other| other.members.iter().any(|member| member == authority(&node.url)))
            };
            !matches!(node.stage, Stage::Down) || is_listed()
        };
        match node {
            Some(Node { stage: Stage::InProcess, .. }) => Some(now),
            Some(node) if lives(node) => node.heard,
            _ => self.nodes.values().filter_map(|node| node.heard).max(),
        }
    }

    /// A node lists the nodes of its cluster. New ones are dialled; those that no node lists any more are dropped, unless
    /// they were configured.
    pub(super) fn listed(&mut self, link: LinkId, addresses: Vec<String>) -> Vec<Output> {
        let Some(node) = self.nodes.get_mut(&link) else { return Vec::new() };
        let scheme = node.url.split_once("://").map_or("http", |(scheme, _)| scheme).to_owned();
        node.members = addresses.into_iter().take(NODES_MAX).collect();
        let urls: Vec<String> = node.members.iter().map(|address| format!("{scheme}://{address}")).collect();
        let mut outputs = Vec::new();
        let listed: BTreeSet<String> = self.nodes.values().flat_map(|node| node.members.clone()).collect();
        self.nodes.retain(|link, node| {
            let stays =
                node.is_seed || !matches!(node.stage, Stage::Down) || listed.contains(authority(&node.url));
            if !stays {
                outputs.push(Output::Drop { link: *link });
            }
            stays
        });
        let new = urls.into_iter().filter_map(|url| Some(Output::Dial { link: self.add(&url, false)?, url }));
        outputs.extend(new.collect::<Vec<_>>());
        outputs
    }
}

fn authority(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split('/').next().unwrap_or(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Duration = Duration::from_secs(100);

    fn welcome(node: &str) -> Welcome {
        Welcome { node: node.to_owned(), heartbeat: Duration::from_secs(5), members: Vec::new() }
    }

    fn admitted(nodes: &mut Nodes, url: &str, name: &str, now: Duration) -> LinkId {
        let link = nodes.add(url, true).unwrap();
        assert!(nodes.welcomed(link, &welcome(name), now) && nodes.admitted(link));
        link
    }

    #[test]
    fn a_node_is_connected_once() {
        let mut nodes = Nodes::default();
        let link = admitted(&mut nodes, "http://a:1", "one", AT);
        assert!(nodes.add("http://a:1/", true).is_none());
        let alias = nodes.add("http://balancer:1", true).unwrap();
        assert!(!nodes.welcomed(alias, &welcome("one"), AT));
        let heard = nodes.heard(link, AT);
        assert!(heard.is_some() && nodes.heard(alias, AT) == heard, "it hears us by the other link");
    }

    #[test]
    fn a_node_that_has_not_answered_for_a_lease_is_mute() {
        let mut nodes = Nodes::default();
        let link = nodes.add("http://a:1", true).unwrap();
        assert!(nodes.welcomed(link, &welcome("one"), AT));
        let minute = Duration::from_secs(60);
        assert!(nodes.mute(AT + minute).is_empty(), "it has not admitted us yet");
        assert!(nodes.admitted(link));
        assert!(nodes.mute(AT + Duration::from_secs(14)).is_empty());
        assert_eq!(nodes.mute(AT + Duration::from_secs(15)), [link]);
        nodes.down(link);
        assert!(nodes.mute(AT + minute).is_empty());
    }

    #[test]
    fn nodes_that_are_listed_are_dialled_and_dropped_when_no_node_lists_them() {
        let mut nodes = Nodes::default();
        let a = admitted(&mut nodes, "https://a:1", "one", AT);
        let both = vec!["a:1".to_owned(), "b:1".to_owned()];
        let b = LinkId(2);
        let dialled = nodes.listed(a, both);
        assert_eq!(dialled, [Output::Dial { link: b, url: "https://b:1".to_owned() }]);
        assert_eq!(nodes.listed(a, vec!["a:1".to_owned()]), [Output::Drop { link: b }]);
    }

    #[test]
    fn a_dead_node_is_heard_through_the_others_and_a_living_one_is_not() {
        let mut nodes = Nodes::default();
        let a = admitted(&mut nodes, "http://a:1", "one", AT);
        let later = AT + Duration::from_secs(5);
        let b = admitted(&mut nodes, "http://b:1", "two", later);
        nodes.listed(b, vec!["a:1".to_owned(), "b:1".to_owned()]);
        assert_eq!(nodes.heard(a, later), Some(AT));
        nodes.down(a);
        assert_eq!(nodes.heard(a, later), Some(AT), "it lives, and does not hear us");
        nodes.listed(b, vec!["b:1".to_owned()]);
        assert_eq!(nodes.heard(a, later), Some(later), "another node leads its shards");
    }
}
