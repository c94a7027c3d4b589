//! The events of a world, and what they carry. `world` keeps them in the order of their time and gives each to the file
//! that handles it.

use std::sync::Arc;
use std::time::Duration;

use punctual_core::attempt::{End, Order, Report};
use punctual_core::change::Batch;
use punctual_core::command::Command;
use punctual_core::cross_shard::CrossShardRequest;
use punctual_core::ids::{RunId, SessionId, Token};
use punctual_core::queue::{Ask, MessageId};
use punctual_engine::Ticket;
use punctual_node::{Input, Output};
use punctual_store::{Leases, Member, Session};

use super::courier::Running;
use super::locks::{LockTurn, Owner, Wish as LockWish};
use crate::traffic::{What, Wish};
use crate::witness::Life;

/// An event of the simulation.
#[derive(Debug)]
pub(super) enum Happening {
    Ask,
    AskAfterOutage,
    /// An operator holds or releases.
    Hold,
    /// A command without an answer is sent again unmodified.
    Repeat(Command),
    Fault(Fault),
    Start(usize),
    Resume(usize),
    ResumeWorker(usize),
    /// A commit reaches the store after its node has stopped waiting for it.
    Late(Life, Arc<Vec<Batch>>),
    /// A store call takes effect now; its result arrives later.
    Call(Life, Output),
    Look(Life, Look),
    /// A store call takes effect, and its result is lost.
    Unheard(Life, Unheard),
    /// An event for one process of a node; a later process of the node ignores it.
    Node(Life, Told),
    /// The same for a worker.
    Worker(Life, Word),
    /// The courier of a node starts an exchange anew.
    Exchange(Life, Box<CrossShardRequest>),
    Queue(Turn),
    Lock(LockTurn),
}

/// A kind of fault.
#[derive(Debug, Clone, Copy)]
pub(super) enum Fault {
    Crash,
    Pause,
    Leave,
    StepClock,
    StealShard,
    DeleteSessions,
    Prune,
    CutLink,
    CutStore,
    Outage,
    CutPeers,
    HurtWorker,
}

/// An event for a node.
#[derive(Debug)]
pub(super) enum Told {
    Wake,
    Result(Input),
    Looked(Seen),
    Stop,
    /// A shard was released to it, or another node has left.
    News,
    /// A command from a client at its endpoint.
    Asked(Request),
    /// A command that another node forwarded.
    Forwarded(Request),
    /// The consumer with this ticket has waited long enough.
    WaitedEnough(Ticket, Ask),
    Join {
        worker: Life,
        link: u64,
        holding: Vec<(RunId, Token)>,
    },
    Reports {
        worker: Life,
        link: u64,
        reports: Vec<Report>,
        /// The number of a heartbeat, and when it was sent.
        beat: Option<(u64, u64)>,
    },
    Gone {
        worker: Life,
        link: u64,
    },
}

/// An event for a worker.
#[derive(Debug)]
pub(super) enum Word {
    /// A node has admitted the worker.
    Admitted {
        node: usize,
        link: u64,
    },
    Order {
        node: usize,
        link: u64,
        order: Order,
    },
    /// A node has received a heartbeat, and names the members of the cluster.
    Heard {
        node: usize,
        link: u64,
        beat: u64,
        members: Vec<String>,
    },
    Lost {
        node: usize,
        link: u64,
    },
    /// An attempt reports a checkpoint.
    Checkpoint(RunId, Token),
    /// A node drains the worker, or ends that.
    Drain(bool),
    End(RunId, Token, End),
    Wake,
    Pulse,
}

/// A store call that takes effect and whose result is lost.
#[derive(Debug)]
pub(super) enum Unheard {
    Call(Output),
    Look(Look),
}

/// A look in progress.
#[derive(Debug)]
pub(super) struct Look {
    pub(super) session: Session,
    pub(super) ttl: Duration,
    /// The node's monotonic time when the look began.
    pub(super) asked: Duration,
    /// Whether the session was renewed, which also reads the members.
    pub(super) is_renewed: bool,
    /// `None` means they were not read, or the session service did not answer.
    pub(super) members: Option<Vec<Member>>,
    /// Whether the members were read after the leases.
    pub(super) is_newer_than_leases: bool,
    /// `None` means they were not read yet.
    pub(super) leases: Option<Leases>,
}

impl Look {
    pub(super) fn new(session: Session, ttl: Duration, asked: Duration) -> Self {
        Look {
            session,
            ttl,
            asked,
            is_renewed: false,
            members: None,
            is_newer_than_leases: false,
            leases: None,
        }
    }
}

/// The result of a look, on its way back to the node.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) asked: Duration,
    /// `None` means the session service did not answer.
    pub(super) members: Option<Vec<Member>>,
    pub(super) leases: Leases,
    pub(super) refusing: Vec<SessionId>,
}

/// A command on its way.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) command: Command,
    /// The ticket of its effects. `None` means a node has accepted the command with that ticket.
    pub(super) ticket: Option<Ticket>,
    pub(super) endpoint: Life,
    pub(super) until: u64,
    pub(super) asker: Asker,
}

/// The sender of a command.
#[derive(Debug)]
pub(super) enum Asker {
    /// A user. Commands that may be repeated are repeated until there is an answer.
    People,
    Taker(Taker),
    /// The courier of a node.
    Courier(Box<Running>),
    /// A producer, or a consumer that acts on its message; with the number of tries left.
    Client(u32),
    /// An owner of a lock.
    Owner(Owner, LockWish),
}

/// A consumer that takes messages.
#[derive(Debug, Clone)]
pub(super) struct Taker {
    pub(super) index: usize,
    pub(super) wish: Wish,
    pub(super) until: u64,
}

/// An event of a producer or consumer.
#[derive(Debug)]
pub(super) enum Turn {
    Produce,
    /// Add a plain message, and this many after it.
    Add(u32),
    Consume(usize),
    /// A consumer asks for messages, or continues to wait.
    Take(Taker),
    Do(MessageId, What),
    Ask(Ask, u32),
    Look,
}
