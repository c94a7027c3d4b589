//! The transport: the streams to all nodes, and what is said on them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use punctual_core::attempt::Report;
use punctual_failpoint::{Point, hit};
use punctual_wire::grpc::{self, OrderReader, v1};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tracing::{debug, info, warn};

use super::dial::{Trouble, near_url};
use super::link::{self, Link};
use super::load::Gauge;
use super::logs::Pending;
use super::outbox::Outbox;
use super::{Refused, Settings, Status};
use crate::driver::{Driver, Input, LinkId, Output, Welcome};
use crate::worker::{Event, Transport};

/// Messages of all nodes that wait to be read.
const EVENTS_MAX: usize = 64;
/// How long a node may take to hear our good-bye.
const PARTING_MAX: Duration = Duration::from_secs(2);

pub(super) struct Session {
    settings: Arc<Settings>,
    chunks: mpsc::UnboundedReceiver<Pending>,
    events_in: mpsc::Sender<(LinkId, link::Event)>,
    events: mpsc::Receiver<(LinkId, link::Event)>,
    links: JoinSet<()>,
    nodes: BTreeMap<LinkId, Node>,
    reader: OrderReader,
    gauge: Gauge,
    /// The load that was measured for the newest heartbeat.
    load: (u64, Option<Report>),
    /// Output that no node can take now.
    unsent: VecDeque<Pending>,
    /// What was read and the driver has not been told yet.
    read: VecDeque<Input>,
    status: watch::Sender<Status>,
    was_admitted: bool,
    /// Why no node takes this worker: it ends.
    pub(super) refused: Option<Refused>,
}

struct Node {
    url: String,
    stage: Stage,
    /// Why it refused us last. `None`: it has not since it last admitted us.
    refusal: Option<String>,
    stop: watch::Sender<bool>,
}

enum Stage {
    Down,
    /// It said who it is, and waits to hear whether it is wanted.
    Welcomed(Outbox, oneshot::Sender<bool>),
    Announced(Outbox),
    Admitted(Outbox),
}

impl Session {
    pub(super) fn new(
        settings: Arc<Settings>,
        chunks: mpsc::UnboundedReceiver<Pending>,
        status: watch::Sender<Status>,
    ) -> Session {
        let (events_in, events) = mpsc::channel(EVENTS_MAX);
        Session {
            settings,
            chunks,
            events_in,
            events,
            links: JoinSet::new(),
            nodes: BTreeMap::new(),
            reader: OrderReader::default(),
            gauge: Gauge::new(),
            load: (0, None),
            unsent: VecDeque::new(),
            read: VecDeque::new(),
            status,
            was_admitted: false,
            refused: None,
        }
    }

    /// Dials the nodes that were configured.
    pub(super) fn dial_seeds(&mut self, driver: &mut Driver) {
        let near = self.settings.near.as_ref().map(|near| near_url(near.over_tls()));
        for url in near.into_iter().chain(self.settings.servers.clone()) {
            if let Some(link) = driver.add_node(&url) {
                self.dial(link, url);
            }
        }
    }

    fn dial(&mut self, id: LinkId, url: String) {
        debug!(url, "dialling a node");
        let (stop, stopped) = watch::channel(false);
        let (settings, events) = (Arc::clone(&self.settings), self.events_in.clone());
        self.links.spawn(Link { id, url: url.clone(), settings, events, stop: stopped }.run());
        self.nodes.insert(id, Node { url, stage: Stage::Down, refusal: None, stop });
        while self.links.try_join_next().is_some() {}
    }

    fn outbox(&self, link: LinkId) -> Option<&Outbox> {
        match &self.nodes.get(&link)?.stage {
            Stage::Admitted(outbox) => Some(outbox),
            _ => None,
        }
    }

    fn admitted(&self) -> impl Iterator<Item = &Node> {
        self.nodes.values().filter(|node| matches!(node.stage, Stage::Admitted(_)))
    }

    fn hear(&mut self, link: LinkId, event: link::Event) {
        match event {
            link::Event::Welcomed { welcome, outbox, wanted } => {
                hit(Point::WorkerWelcomed);
                let Some(node) = self.nodes.get_mut(&link) else { return };
                node.stage = Stage::Welcomed(outbox, wanted);
                let welcome = Welcome {
                    node: welcome.node,
                    heartbeat: Duration::from_millis(welcome.heartbeat_ms),
                    members: welcome.nodes.map(|nodes| nodes.addresses).unwrap_or_default(),
                };
                self.read.push_back(Input::Welcomed { link, welcome });
            }
            link::Event::Message(message) => self.message(link, message),
            link::Event::Gone(trouble) => {
                self.gone(link, trouble);
                self.read.push_back(Input::Gone { link });
            }
        }
    }

    fn message(&mut self, link: LinkId, message: v1::FromNode) {
        if message.admitted {
            self.admit(link);
        }
        // What comes after we hung up is too late: what it assigns may run elsewhere.
        let Some(outbox) = self.outbox(link) else { return };
        if message.ask > 0 {
            outbox.answer(message.ask);
        }
        let acks = message.log_acks.into_iter();
        let acks = acks.filter_map(|ack| Some((grpc::read_attempt(ack.attempt).ok()?, ack.number)));
        let kept = acks.filter_map(|(key, number)| outbox.acknowledged(key, number).map(|_| key));
        let kept: Vec<Input> = kept.map(Input::OutputKept).collect();
        if message.heard > 0 {
            self.read.push_back(Input::Heard { link, beat: message.heard });
        }
        if !kept.is_empty() {
            hit(Point::WorkerOutputKept);
        }
        self.read.extend(kept);
        if let Some(nodes) = message.nodes {
            self.read.push_back(Input::Members { link, addresses: nodes.addresses });
        }
        if !message.orders.is_empty() {
            self.ordered(link, message.orders);
        }
    }

    fn ordered(&mut self, link: LinkId, orders: Vec<v1::Order>) {
        hit(Point::WorkerOrdered);
        let orders = orders.into_iter().filter_map(|order| match self.reader.read(order) {
            Ok(order) => order,
            Err(error) => {
                warn!(%error, "a node ordered what this worker does not understand");
                None
            }
        });
        let orders = orders.collect();
        self.read.push_back(Input::Orders { link, orders });
    }

    fn admit(&mut self, link: LinkId) {
        let Some(node) = self.nodes.get_mut(&link) else { return };
        let Stage::Announced(outbox) = &node.stage else { return };
        hit(Point::WorkerAdmitted);
        info!(node = node.url, "this worker takes work from a node");
        for pending in self.unsent.drain(..) {
            outbox.log(pending);
        }
        node.stage = Stage::Admitted(outbox.clone());
        node.refusal = None;
        self.was_admitted = true;
        self.read.push_back(Input::Admitted { link });
        self.tell_status(None);
    }

    fn gone(&mut self, link: LinkId, trouble: Trouble) {
        let Some(node) = self.nodes.get_mut(&link) else { return };
        let before = std::mem::replace(&mut node.stage, Stage::Down);
        let why = match trouble {
            Trouble::Refused(refused) => {
                let why = refused.to_string();
                // A worker that no node has taken ends with the reason; one that works for others goes on trying.
                if !self.was_admitted && self.settings.near.is_none() {
                    self.refused = Some(refused);
                } else if node.refusal.replace(why.clone()).as_ref() != Some(&why) {
                    warn!(why, "a node refuses this worker; it goes on trying");
                }
                why
            }
            Trouble::Unreachable(why) => why,
        };
        match before {
            Stage::Admitted(outbox) => {
                warn!(why, "a node is gone; what it assigned goes on until its lease ends");
                for pending in outbox.take_logs() {
                    self.print(pending, None);
                }
            }
            _ => debug!(why, "a node was not reached"),
        }
        self.tell_status(Some(why));
    }

    fn tell_status(&self, trouble: Option<String>) {
        let nodes = self.admitted().map(|node| node.url.clone()).collect();
        self.status.send_replace(Status { nodes, trouble });
    }

    fn announce(&mut self, to: LinkId, holding: &[crate::driver::Key]) {
        let Some(node) = self.nodes.get_mut(&to) else { return };
        let Stage::Welcomed(outbox, wanted) = std::mem::replace(&mut node.stage, Stage::Down) else { return };
        // A link that has ended meanwhile says so.
        let _ = wanted.send(true);
        let Settings { name, life, version, announcement, .. } = &*self.settings;
        outbox.announce(grpc::announcement(name, *life, version, announcement, holding));
        node.stage = Stage::Announced(outbox);
    }

    fn heartbeat(&mut self, to: LinkId, beat: u64, holding: Vec<crate::driver::Key>) {
        hit(Point::WorkerBeatBegun);
        if self.load.0 != beat {
            self.load = (beat, self.gauge.read());
        }
        if let Some(outbox) = self.outbox(to) {
            outbox.beat(beat, Report::Alive { attempts: holding });
            self.load.1.iter().for_each(|load| outbox.report(load.clone()));
        }
        hit(Point::WorkerBeatDone);
    }
}

#[async_trait]
impl Transport for Session {
    async fn next(&mut self) -> Option<Event> {
        loop {
            if self.refused.is_some() {
                return None;
            }
            if let Some(input) = self.read.pop_front() {
                return Some(Event::Input(input));
            }
            tokio::select! {
                biased;
                Some((link, event)) = self.events.recv() => self.hear(link, event),
                Some(pending) = self.chunks.recv() => return Some(Event::Printed(pending)),
            }
        }
    }

    fn printed(&mut self) -> Option<Pending> {
        self.chunks.try_recv().ok()
    }

    fn print(&mut self, pending: Pending, owner: Option<LinkId>) {
        let outbox = owner.and_then(|owner| self.outbox(owner));
        let any = || self.nodes.keys().find_map(|link| self.outbox(*link));
        match outbox.or_else(any) {
            Some(outbox) => outbox.log(pending),
            None => self.unsent.push_back(pending),
        }
        hit(Point::WorkerOutputSent);
    }

    fn carry(&mut self, output: Output) {
        match output {
            Output::Say { to, report } => {
                let is_outcome = matches!(report, Report::Finished { .. });
                if let Some(outbox) = self.outbox(to) {
                    outbox.report(report);
                }
                if is_outcome {
                    hit(Point::WorkerOutcomeSent);
                }
            }
            Output::Announce { to, holding } => self.announce(to, &holding),
            Output::Heartbeat { to, beat, holding } => self.heartbeat(to, beat, holding),
            Output::Dial { link, url } => self.dial(link, url),
            Output::Drop { link } => {
                if let Some(node) = self.nodes.remove(&link) {
                    node.stop.send_replace(true);
                }
            }
            Output::Unwanted { link } => {
                if let Some(node) = self.nodes.get_mut(&link)
                    && let Stage::Welcomed(_, wanted) = std::mem::replace(&mut node.stage, Stage::Down)
                {
                    let _ = wanted.send(false);
                }
            }
            Output::HangUp { link } => {
                if let Some(outbox) = self.outbox(link) {
                    outbox.close();
                }
                self.gone(link, Trouble::Unreachable("it has not answered for a lease".to_owned()));
            }
            Output::Execute { .. } | Output::Stop { .. } | Output::Saved { .. } => {}
        }
    }

    async fn part(&mut self) {
        let mut left: Vec<LinkId> = Vec::new();
        for (link, node) in &self.nodes {
            if let Stage::Admitted(outbox) = &node.stage {
                outbox.leave();
                left.push(*link);
            }
        }
        let parting = async {
            while !left.is_empty()
                && let Some((link, event)) = self.events.recv().await
            {
                if matches!(event, link::Event::Gone(_)) {
                    left.retain(|waited| *waited != link);
                }
            }
        };
        if tokio::time::timeout(PARTING_MAX, parting).await.is_err() {
            debug!("a node did not hear the good-bye");
        }
        for node in self.nodes.values() {
            node.stop.send_replace(true);
        }
        self.events.close();
        while self.links.join_next().await.is_some() {}
    }
}
