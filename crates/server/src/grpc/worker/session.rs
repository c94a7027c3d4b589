//! One stream of one worker, from its welcome to its end.
//!
//! One loop handles one event at a time: a message from the worker, orders from the node, stored output, room
//! on the stream. Outgoing orders and notices are collected and sent as one message when there is room, so
//! that a worker that reads slowly is still heard. When the stream breaks, the worker gets no more orders at
//! once; it keeps its attempts until its lease ends.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use prost::Message;
use punctual_core::attempt::Order;
use punctual_core::ids::WorkerId;
use punctual_core::log::Chunk;
use punctual_failpoint::{Point, hit};
use punctual_node::{Handle, Link, Reporter};
use punctual_wire::grpc::{
    self, LOG_WINDOW_BYTES, MESSAGE_BYTES_FULL, Malformed, OrderWriter, WORKER_PROTOCOL, v1,
};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tonic::{Status, Streaming};
use tracing::{debug, info};

use super::Workers;
use super::names::{Asked, Names, Taken};
use super::output::{Keeper, Written};
use super::output_window::OutputWindow;

/// How long a worker may take to announce itself.
const ANNOUNCE_MAX: Duration = Duration::from_secs(10);
/// How long a refused worker may take to read the refusal.
const REFUSAL_MAX: Duration = Duration::from_secs(1);

pub(super) type Outgoing = mpsc::Sender<Result<v1::FromNode, Status>>;

pub(super) struct Session {
    pub(super) workers: Workers,
    pub(super) handle: Handle,
    pub(super) incoming: Streaming<v1::FromWorker>,
    pub(super) outgoing: Outgoing,
    pub(super) closing: watch::Receiver<bool>,
    pub(super) names: Arc<Names>,
    pub(super) is_near: bool,
}

impl Session {
    pub(super) async fn run(mut self) {
        let outgoing = self.outgoing.clone();
        let status = match self.greet().await {
            Ok(announce) => match self.admit(announce).await {
                Ok(admitted) => admitted.run().await,
                Err(status) => status,
            },
            Err(status) => status,
        };
        debug!(code = ?status.code(), why = status.message(), "a worker's stream ends");
        if status.code() != tonic::Code::Ok {
            // The worker may have hung up; then the status cannot be sent.
            drop(tokio::time::timeout(REFUSAL_MAX, outgoing.send(Err(status))).await);
        }
    }

    /// Sends the welcome and reads the worker's announcement.
    async fn greet(&mut self) -> Result<v1::Announce, Status> {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let welcome = v1::Welcome {
            node: self.workers.node.as_ref().to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            protocol: WORKER_PROTOCOL,
            heartbeat_ms: millis(self.workers.lease / 3),
            lease_ms: millis(self.workers.lease),
            log_window: LOG_WINDOW_BYTES as u64,
            nodes: Some(v1::Nodes { addresses: self.workers.nodes.borrow_and_update().clone() }),
        };
        let welcome = v1::FromNode { welcome: Some(welcome), ..v1::FromNode::default() };
        self.outgoing.send(Ok(welcome)).await.map_err(|_| gone())?;
        let first = tokio::select! {
            first = tokio::time::timeout(ANNOUNCE_MAX, self.incoming.message()) => first,
            () = closed(&mut self.closing) => return Err(stopping()),
        };
        let first = first.map_err(|_| {
            Status::deadline_exceeded("no announce message within ten seconds; send it first")
        })??;
        let first = first.ok_or_else(gone)?;
        first.announce.ok_or_else(|| Status::invalid_argument("announce: the first message must have it"))
    }

    async fn admit(mut self, announce: v1::Announce) -> Result<Admitted, Status> {
        if announce.protocol != WORKER_PROTOCOL {
            let (theirs, ours) = (announce.protocol, env!("CARGO_PKG_VERSION"));
            let why = format!(
                "the worker speaks protocol {theirs}, this node (version {ours}) speaks {WORKER_PROTOCOL}: \
                 use the same version for both"
            );
            return Err(Status::failed_precondition(why));
        }
        let (worker, mut announced, holding) =
            grpc::read_announcement(announce).map_err(|e| malformed(&e))?;
        announced.node_local = self.is_near;
        let name = tokio::select! {
            name = self.names.take(&worker, self.workers.lease) => name?,
            () = closed(&mut self.closing) => return Err(stopping()),
        };
        info!(%worker, slots = announced.slots, holding = holding.len(), "a worker joins");
        let (orders_in, orders) = mpsc::unbounded_channel();
        let link = Link { worker: worker.clone(), announced, holding, orders: orders_in };
        hit(Point::NodeWorkerAnnounced);
        let reporter = self.workers.links.link(link).await;
        hit(Point::NodeWorkerLinked);
        let (printed, to_keep) = mpsc::unbounded_channel();
        let (written_in, written) = mpsc::unbounded_channel();
        let keeper = Keeper {
            worker: worker.clone(),
            handle: self.handle,
            printed: to_keep,
            written: written_in,
            known: HashMap::new(),
        };
        let next = v1::FromNode { admitted: true, ..v1::FromNode::default() };
        Ok(Admitted {
            worker,
            name,
            window: OutputWindow::default(),
            reporter,
            incoming: self.incoming,
            outgoing: self.outgoing,
            orders,
            waiting: Vec::new().into_iter(),
            writer: OrderWriter::default(),
            printed,
            written,
            keeper: tokio::spawn(keeper.run()),
            nodes: self.workers.nodes,
            closing: self.closing,
            next,
        })
    }
}

/// A worker that joined the node.
struct Admitted {
    worker: WorkerId,
    name: Taken,
    window: OutputWindow,
    reporter: Reporter,
    incoming: Streaming<v1::FromWorker>,
    outgoing: Outgoing,
    orders: mpsc::UnboundedReceiver<Vec<Order>>,
    /// Orders that did not fit into the last message.
    waiting: std::vec::IntoIter<Order>,
    writer: OrderWriter,
    printed: mpsc::UnboundedSender<Chunk>,
    written: mpsc::UnboundedReceiver<Written>,
    keeper: JoinHandle<()>,
    nodes: watch::Receiver<Vec<String>>,
    closing: watch::Receiver<bool>,
    /// The next message, without its orders.
    next: v1::FromNode,
}

/// How a session ends.
enum End {
    /// The worker said good-bye: its attempts are lost at once.
    Departed,
    /// The stream broke, or had to be ended.
    Broken(Status),
}

impl Admitted {
    async fn run(mut self) -> Status {
        let end = loop {
            if let Err(end) = self.turn().await {
                break end;
            }
        };
        let Admitted { worker, reporter, printed, keeper, .. } = self;
        let status = match end {
            End::Departed => {
                info!(%worker, "a worker says good-bye");
                reporter.depart().await;
                Status::ok("")
            }
            End::Broken(status) => {
                info!(%worker, why = status.message(), "a worker's stream is gone: it gets nothing more");
                reporter.leave().await;
                status
            }
        };
        // Store the output that has arrived.
        drop(printed);
        if keeper.await.is_err() {
            tracing::error!(%worker, "keeping the output of a worker ended in a panic");
        }
        status
    }

    async fn turn(&mut self) -> Result<(), End> {
        let speaks = self.waiting.len() > 0 || self.next != v1::FromNode::default();
        tokio::select! {
            biased;
            () = closed(&mut self.closing) => Err(End::Broken(stopping())),
            permit = self.outgoing.clone().reserve_owned(), if speaks => {
                let permit = permit.map_err(|_| End::Broken(gone()))?;
                let message = self.message();
                permit.send(Ok(message));
                Ok(())
            }
            Some(written) = self.written.recv() => {
                self.window.acknowledged(written.bytes);
                self.next.log_acks.extend(written.acks);
                Ok(())
            }
            // While some orders wait for room, leave the others in the channel.
            orders = self.orders.recv(), if self.waiting.len() == 0 => match orders {
                Some(orders) => {
                    self.waiting = orders.into_iter();
                    Ok(())
                }
                None => Err(match self.reporter.refusal() {
                    Some(why) => refuse(why),
                    None => End::Broken(Status::aborted("the worker connected by another stream, or the node stopped; connect again")),
                }),
            },
            asked = self.name.asked() => match asked {
                Asked::DoYouLive(ask) => {
                    self.next.ask = ask;
                    Ok(())
                }
                Asked::Leave => Err(End::Broken(Status::aborted("another worker with this name has joined; give each worker its own --name"))),
            },
            Ok(()) = self.nodes.changed() => {
                let addresses = self.nodes.borrow_and_update().clone();
                self.next.nodes = Some(v1::Nodes { addresses });
                Ok(())
            }
            // Last in this biased select: a worker that sends much must not hold back its answers.
            message = self.incoming.message() => match message {
                Ok(Some(message)) => self.hear(message).await,
                Ok(None) => Err(End::Broken(gone())),
                Err(status) => Err(End::Broken(status)),
            },
        }
    }

    /// The next message, with as many orders as fit.
    fn message(&mut self) -> v1::FromNode {
        let mut message = std::mem::take(&mut self.next);
        let mut bytes = message.encoded_len();
        while bytes < MESSAGE_BYTES_FULL {
            let Some(order) = self.waiting.next() else {
                // Add the orders that have arrived since.
                match self.orders.try_recv() {
                    Ok(orders) => self.waiting = orders.into_iter(),
                    Err(_) => break,
                }
                continue;
            };
            let order = self.writer.write(order);
            bytes += order.encoded_len();
            message.orders.push(order);
        }
        message
    }

    async fn hear(&mut self, message: v1::FromWorker) -> Result<(), End> {
        let v1::FromWorker { announce, reports, logs, beat, leaving, answer } = message;
        if announce.is_some() {
            return Err(refuse("announce: only the first message may have it"));
        }
        for chunk in logs {
            let chunk = grpc::read_chunk(chunk).map_err(|error| End::Broken(malformed(&error)))?;
            self.window.arrived(&chunk).map_err(|why| refuse(&why))?;
            // The keeper lives as long as this session.
            drop(self.printed.send(chunk));
        }
        let mut said = Vec::with_capacity(reports.len());
        for report in reports {
            if let Some(report) = grpc::read_report(report).map_err(|error| End::Broken(malformed(&error)))? {
                said.push(report);
            }
        }
        hit(Point::NodeWorkerHeard);
        if !said.is_empty() && !self.reporter.send(said).await {
            return Err(End::Broken(stopping()));
        }
        hit(Point::NodeWorkerHandedOn);
        self.next.heard = self.next.heard.max(beat);
        self.name.answered(answer);
        if leaving { Err(End::Departed) } else { Ok(()) }
    }
}

fn malformed(error: &Malformed) -> Status {
    Status::invalid_argument(error.to_string())
}

fn refuse(why: &str) -> End {
    End::Broken(Status::invalid_argument(why))
}

fn gone() -> Status {
    Status::cancelled("the worker hung up")
}

fn stopping() -> Status {
    Status::unavailable("this node is stopping; connect again later or to another node")
}

async fn closed(closing: &mut watch::Receiver<bool>) {
    // An error means that the server is gone; that counts as closed too.
    drop(closing.wait_for(|closing| *closing).await);
}
