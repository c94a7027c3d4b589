//! The hub: between the worker's loop and the streams.
//!
//! It owns what is known about both, and is driven by one event at a time: a report, a chunk of output, something from a
//! node, the clock, the wish to end.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::attempt::{Assignment, Order, Report};
use punctual_failpoint::{Point, hit};
use punctual_wire::grpc::{self, OrderReader, v1};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::book::{Audience, Book, Key};
use super::dial::{Trouble, near_url};
use super::link::{Event, Link};
use super::load::Gauge;
use super::logs::Pending;
use super::outbox::Outbox;
use super::peers::Peers;
use super::{LinkId, Refused, Settings, Status};
use crate::lender::Lender;
use crate::order::Handle;
use crate::worker::HEARTBEAT;

/// Messages of all nodes that wait for the hub.
const EVENTS_MAX: usize = 64;
/// How often leases and outcomes that wait for their output are looked at, while there are any.
const PULSE: Duration = Duration::from_millis(100);
/// How long an outcome waits for its output to be kept.
const OUTPUT_WAIT_MAX: Duration = Duration::from_secs(5);
/// A heartbeat is not wanted more often than this.
pub(crate) const HEARTBEAT_MIN: Duration = Duration::from_millis(50);
/// Heartbeats whose answer may still come.
const BEATS_MAX: usize = 64;
/// How long a node may take to hear our good-bye.
const PARTING_MAX: Duration = Duration::from_secs(2);

pub(crate) struct Hub {
    settings: Arc<Settings>,
    worker: Handle,
    reports: mpsc::Receiver<Vec<Report>>,
    chunks: mpsc::UnboundedReceiver<Pending>,
    events_in: mpsc::Sender<(LinkId, Event)>,
    events: mpsc::Receiver<(LinkId, Event)>,
    status: watch::Sender<Status>,
    links: JoinSet<()>,
    peers: Peers,
    book: Book,
    lender: Lender<LinkId>,
    /// The lender counts its time from here.
    began: Instant,
    reader: OrderReader,
    gauge: Gauge,
    /// Output that no node takes now.
    unsent: VecDeque<Pending>,
    heartbeat: Duration,
    next_beat: Instant,
    next_pulse: Instant,
    /// Heartbeats that were sent: their number and when.
    beats: VecDeque<(u64, Instant)>,
    beat: u64,
    was_admitted: bool,
    refused: Option<Refused>,
    /// When what runs is stopped, once someone asked for the end.
    drain_until: Option<Instant>,
}

impl Hub {
    pub(crate) fn new(
        settings: Arc<Settings>,
        worker: Handle,
        reports: mpsc::Receiver<Vec<Report>>,
        chunks: mpsc::UnboundedReceiver<Pending>,
        status: watch::Sender<Status>,
    ) -> Hub {
        let (events_in, events) = mpsc::channel(EVENTS_MAX);
        let now = Instant::now();
        Hub {
            settings,
            worker,
            reports,
            chunks,
            events_in,
            events,
            status,
            links: JoinSet::new(),
            peers: Peers::default(),
            book: Book::default(),
            lender: Lender::default(),
            began: now,
            reader: OrderReader::default(),
            gauge: Gauge::new(),
            unsent: VecDeque::new(),
            heartbeat: HEARTBEAT,
            next_beat: now + HEARTBEAT,
            next_pulse: now,
            beats: VecDeque::new(),
            beat: 0,
            was_admitted: false,
            refused: None,
            drain_until: None,
        }
    }

    /// Returns when it was asked to end and has, or when it is refused before it was ever taken.
    pub(crate) async fn run(mut self, stop: impl Future<Output = ()>) -> Result<(), Refused> {
        let near = self.settings.near.as_ref().map(|near| near_url(near.over_tls()));
        for url in near.into_iter().chain(self.settings.servers.clone()) {
            self.dial(&url, true);
        }
        let mut stop = pin!(stop);
        while self.refused.is_none() && !self.is_done() {
            let wake = self.next_wake();
            tokio::select! {
                biased;
                () = &mut stop, if self.drain_until.is_none() => self.drain(),
                Some((link, event)) = self.events.recv() => self.hear(link, event).await,
                Some(pending) = self.chunks.recv() => self.print(pending),
                reports = self.reports.recv() => match reports {
                    Some(reports) => self.tell(reports),
                    // The worker's loop ended by itself, which it does not.
                    None => break,
                },
                () = tokio::time::sleep_until(wake) => {}
            }
            self.look_at_the_clock().await;
            self.lend();
        }
        self.part().await;
        self.refused.map_or(Ok(()), Err)
    }

    fn dial(&mut self, url: &str, seed: bool) {
        if let Some((id, stop)) = self.peers.add(url, seed) {
            debug!(url, "dialling a node");
            let (settings, events) = (Arc::clone(&self.settings), self.events_in.clone());
            let link = Link { id, url: url.to_owned(), settings, events, stop };
            self.links.spawn(link.run());
        }
        while self.links.try_join_next().is_some() {}
    }

    fn next_wake(&self) -> Instant {
        let is_busy = self.book.busy() > 0 || self.book.first_held().is_some();
        let pulse = is_busy.then_some(self.next_pulse);
        let lend = self.lender.next_wake().map(|at| self.began + at.since(Timestamp::MIN));
        let next = [Some(self.next_beat), pulse, lend, self.drain_until];
        next.into_iter().flatten().min().unwrap_or(self.next_beat)
    }

    /// The monotonic clock, as the lender reads it.
    fn elapsed(&self) -> Timestamp {
        Timestamp::MIN + self.began.elapsed()
    }

    async fn look_at_the_clock(&mut self) {
        let now = Instant::now();
        if now >= self.next_beat {
            self.ask_for_a_beat().await;
        }
        if now < self.next_pulse {
            return;
        }
        self.next_pulse = now + PULSE;
        if let Some(before) = now.checked_sub(OUTPUT_WAIT_MAX) {
            for (audience, report) in self.book.held_since(before) {
                self.route(audience, report);
            }
        }
        let overdue = self.book.overdue(now, |link| self.peers.heard(link));
        if !overdue.is_empty() {
            self.give_up(overdue).await;
        }
        for link in self.peers.mute(now) {
            self.hang_up(link);
        }
    }

    /// A node that does not answer may hear us all the same: as long as it does, it gives us what never arrives.
    fn hang_up(&mut self, link: LinkId) {
        if let Some(outbox) = self.peers.outbox(link) {
            outbox.close();
        }
        self.gone(link, Trouble::Unreachable("it has not answered for a lease".to_owned()));
    }

    /// Asks the worker what it has in hand; its answer becomes the heartbeat.
    async fn ask_for_a_beat(&mut self) {
        self.next_beat = Instant::now() + self.heartbeat;
        // A worker that has ended answers nothing, and its reports end too.
        let _ = self.worker.beat().await;
    }

    /// Nobody who could settle these has heard us for a lease: by now they may run elsewhere.
    async fn give_up(&mut self, overdue: Vec<Key>) {
        for (run, token) in &overdue {
            warn!(%run, %token, "no node has heard this worker for a lease: the attempt is stopped");
            self.book.forget((*run, *token));
        }
        self.unsent.retain(|pending| !overdue.contains(&pending.key()));
        let _ = self.worker.give_up(overdue).await;
    }

    async fn hear(&mut self, link: LinkId, event: Event) {
        match event {
            Event::Welcomed { welcome, outbox, wanted } => {
                self.welcomed(link, welcome, outbox, wanted).await;
            }
            Event::Message(message) => self.message(link, message).await,
            Event::Gone(trouble) => self.gone(link, trouble),
        }
    }

    async fn welcomed(
        &mut self,
        link: LinkId,
        welcome: v1::Welcome,
        outbox: Outbox,
        wanted: oneshot::Sender<bool>,
    ) {
        let is_wanted = self.drain_until.is_none() && self.peers.welcomed(link, &welcome, outbox);
        hit(Point::WorkerWelcomed);
        // A link that has ended meanwhile says so.
        let _ = wanted.send(is_wanted);
        if !is_wanted {
            return;
        }
        let heartbeat = Duration::from_millis(welcome.heartbeat_ms).clamp(HEARTBEAT_MIN, HEARTBEAT);
        self.heartbeat = self.heartbeat.min(heartbeat);
        self.named(link, welcome.nodes);
        self.ask_for_a_beat().await;
    }

    fn named(&mut self, link: LinkId, nodes: Option<v1::Nodes>) {
        let addresses = nodes.map(|nodes| nodes.addresses).unwrap_or_default();
        for url in self.peers.named(link, addresses) {
            self.dial(&url, false);
        }
    }

    async fn message(&mut self, link: LinkId, message: v1::FromNode) {
        // What comes after we hung up is too late: what it assigns may be under way elsewhere.
        if !self.peers.is_up(link) {
            return;
        }
        if message.admitted && self.peers.admit(link) {
            self.admitted(link).await;
        }
        if message.ask > 0
            && let Some(outbox) = self.peers.outbox(link)
        {
            outbox.answer(message.ask);
        }
        if message.heard > 0 {
            self.heard(link, message.heard);
        }
        for ack in message.log_acks {
            if let Ok(key) = grpc::read_attempt(ack.attempt) {
                self.kept(link, key, ack.number);
            }
        }
        if message.nodes.is_some() {
            self.named(link, message.nodes);
        }
        if !message.orders.is_empty() {
            self.ordered(link, message.orders).await;
        }
    }

    async fn admitted(&mut self, link: LinkId) {
        hit(Point::WorkerAdmitted);
        self.lender.joined(link);
        self.was_admitted = true;
        if let Some(peer) = self.peers.get_mut(link) {
            info!(node = peer.url, "this worker takes work from a node");
        }
        if let Some(outbox) = self.peers.outbox(link) {
            for report in self.book.starts(link) {
                outbox.report(report);
            }
            for pending in self.unsent.drain(..) {
                outbox.log(pending);
            }
        }
        // It may be the one that can settle what nobody acknowledged.
        let _ = self.worker.send(vec![Order::Resend]).await;
        self.tell_status(None);
    }

    fn heard(&mut self, link: LinkId, number: u64) {
        let sent = self.beats.iter().find(|(beat, _)| *beat == number).map(|(_, at)| *at);
        if let (Some(sent), Some(peer)) = (sent, self.peers.get_mut(link)) {
            peer.heard = peer.heard.max(Some(sent));
        }
    }

    fn kept(&mut self, link: LinkId, key: Key, number: u32) {
        let is_kept = self.peers.outbox(link).and_then(|outbox| outbox.acknowledged(key, number)).is_some();
        hit(Point::WorkerOutputKept);
        if is_kept && let Some((audience, report)) = self.book.printed(key) {
            self.route(audience, report);
        }
    }

    async fn ordered(&mut self, link: LinkId, orders: Vec<v1::Order>) {
        hit(Point::WorkerOrdered);
        let now = Instant::now();
        let mut batch = Vec::with_capacity(orders.len());
        for order in orders {
            let order = match self.reader.read(order) {
                Ok(Some(order)) => order,
                Ok(None) => continue,
                Err(error) => {
                    warn!(%error, "a node ordered what this worker does not understand");
                    continue;
                }
            };
            match &order {
                Order::Assign(assignment) if !self.peers.hears_within(link, assignment.lease, now) => {
                    self.let_lie(link, assignment);
                    continue;
                }
                Order::Assign(assignment) => {
                    self.book.assigned(assignment, link, now);
                    self.uses_credit(link, assignment);
                }
                Order::Acknowledge { run, token } => self.book.forget((*run, *token)),
                Order::GaveBack { total } => {
                    self.lender.gave_back(&link, *total);
                    continue;
                }
                Order::Waiting { priority, runs } => {
                    let now = self.elapsed();
                    self.lender.waits(&link, *priority, *runs, now);
                    continue;
                }
                Order::Cancel { .. } | Order::Resend => {}
            }
            batch.push(order);
        }
        // A worker that is about to end takes no more: what it does not name is lost, and given elsewhere.
        let _ = self.worker.send(batch).await;
    }

    /// It lay somewhere while we stood still, or while the line was dead: its node has given it up, and it may be under way
    /// elsewhere. What we do not name is lost, and given elsewhere; its credit was used all the same.
    fn let_lie(&mut self, link: LinkId, assignment: &Assignment) {
        let Assignment { run, token, .. } = assignment;
        warn!(%run, %token, "an assignment came after its lease: it is not begun");
        self.uses_credit(link, assignment);
    }

    /// Whoever decided an assignment has used a credit for it, even if the shard's next leader has offered it meanwhile,
    /// or a newer one has come. What is offered again has used none.
    fn uses_credit(&mut self, link: LinkId, assignment: &Assignment) {
        if !assignment.again {
            self.lender.used(&link);
        }
    }

    fn gone(&mut self, link: LinkId, trouble: Trouble) {
        self.lender.left(&link);
        let outbox = self.peers.down(link);
        let was_admitted = outbox.is_some();
        for pending in outbox.iter().flat_map(Outbox::take_logs) {
            self.forward(pending);
        }
        let why = match trouble {
            Trouble::Refused(refused) => {
                let why = refused.to_string();
                // A worker that no node has taken ends with the reason; one that works for others goes on trying.
                if !self.was_admitted && self.settings.near.is_none() {
                    self.refused = Some(refused);
                } else if self.peers.refused(link, &why) {
                    warn!(why, "a node refuses this worker; it goes on trying");
                }
                why
            }
            Trouble::Unreachable(why) => why,
        };
        if was_admitted {
            warn!(why, "a node is gone; what it assigned goes on until its lease ends");
        } else {
            debug!(why, "a node was not reached");
        }
        self.tell_status(Some(why));
    }

    fn tell_status(&mut self, trouble: Option<String>) {
        let links: Vec<LinkId> = self.peers.admitted().map(|(link, _)| link).collect();
        let nodes =
            links.into_iter().filter_map(|link| self.peers.get_mut(link).map(|peer| peer.url.clone()));
        self.status.send_replace(Status { nodes: nodes.collect(), trouble });
    }

    fn tell(&mut self, reports: Vec<Report>) {
        // Output that was printed before an outcome goes before it.
        while let Ok(pending) = self.chunks.try_recv() {
            self.print(pending);
        }
        let now = Instant::now();
        for report in reports {
            match report {
                Report::Alive { attempts } => self.beat(&attempts, now),
                // What is free is reckoned here, for every node apart.
                Report::Lent { .. } | Report::Recall { .. } | Report::Load { .. } => {}
                report => {
                    let is_outcome = matches!(report, Report::Finished { .. });
                    if let Some((audience, report)) = self.book.says(report, now) {
                        self.route(audience, report);
                        if is_outcome {
                            hit(Point::WorkerOutcomeSent);
                        }
                    }
                }
            }
        }
    }

    fn beat(&mut self, in_hand: &[Key], now: Instant) {
        hit(Point::WorkerBeatBegun);
        self.book.reconcile(in_hand, now);
        for outbox in self.peers.take_welcomed(now) {
            let Settings { name, life, version, announcement, .. } = &*self.settings;
            outbox.announce(grpc::announcement(name, *life, version, announcement, in_hand));
        }
        self.beat += 1;
        self.beats.push_back((self.beat, now));
        if self.beats.len() > BEATS_MAX {
            self.beats.pop_front();
        }
        let load = self.gauge.read();
        for (_, outbox) in self.peers.admitted() {
            outbox.beat(self.beat, Report::Alive { attempts: in_hand.to_vec() });
            load.iter().for_each(|load| outbox.report(load.clone()));
        }
        hit(Point::WorkerBeatDone);
    }

    /// To whoever assigned it; if that node is not there, to everyone who is.
    fn route(&self, audience: Audience, report: Report) {
        if let Audience::Owner(owner) = audience
            && let Some(outbox) = self.peers.outbox(owner)
        {
            outbox.report(report);
            return;
        }
        for (_, outbox) in self.peers.admitted() {
            outbox.report(report.clone());
        }
    }

    fn print(&mut self, pending: Pending) {
        self.book.prints(pending.key());
        self.forward(pending);
        hit(Point::WorkerOutputSent);
    }

    /// Any node keeps output, whoever assigned its attempt.
    fn forward(&mut self, pending: Pending) {
        let owner = self.book.owner(pending.key()).and_then(|owner| self.peers.outbox(owner));
        match owner.or_else(|| self.peers.admitted().next().map(|(_, outbox)| outbox)) {
            Some(outbox) => outbox.log(pending),
            None => self.unsent.push_back(pending),
        }
    }

    fn lend(&mut self) {
        let idle = (self.settings.announcement.slots as usize).saturating_sub(self.book.busy());
        for (link, report) in self.lender.lend(idle, self.elapsed()) {
            if let Some(outbox) = self.peers.outbox(link) {
                outbox.report(report);
            }
        }
    }

    fn drain(&mut self) {
        info!(attempts = self.book.busy(), "this worker takes nothing more and finishes what it has");
        self.lender.drain();
        self.drain_until = Some(Instant::now() + self.settings.drain);
    }

    /// Whether everything that was to be finished is, or was given its time.
    fn is_done(&self) -> bool {
        let Some(until) = self.drain_until else { return false };
        let is_settled = self.book.is_empty() && self.lender.unused() == 0;
        is_settled || Instant::now() >= until
    }

    /// Stops what still runs, says good-bye, and hangs up.
    async fn part(&mut self) {
        hit(Point::WorkerLeaveBegun);
        self.worker.shut_down();
        loop {
            tokio::select! {
                biased;
                Some((link, event)) = self.events.recv() => self.hear(link, event).await,
                reports = self.reports.recv() => match reports {
                    Some(reports) => self.tell(reports),
                    None => break,
                },
            }
        }
        // There is no time left to wait for their output.
        for (audience, report) in self.book.held_since(Instant::now()) {
            self.route(audience, report);
        }
        let mut left: Vec<LinkId> = Vec::new();
        for (link, outbox) in self.peers.admitted() {
            outbox.leave();
            left.push(link);
        }
        let parting = async {
            while !left.is_empty()
                && let Some((link, event)) = self.events.recv().await
            {
                if matches!(event, Event::Gone(_)) {
                    left.retain(|waited| *waited != link);
                }
            }
        };
        if tokio::time::timeout(PARTING_MAX, parting).await.is_err() {
            debug!("a node did not hear the good-bye");
        }
        self.peers.stop_all();
        self.events.close();
        while self.links.join_next().await.is_some() {}
    }
}

#[cfg(test)]
mod tests;
