//! What a driver takes and what it asks its caller to do.

use std::sync::Arc;
use std::time::Duration;

use punctual_core::attempt::{Order, Report};
use punctual_core::change::{Batch, Found, Loaded, TimerPage, TimerPosition, Want};
use punctual_core::command::{Answer, Command};
use punctual_core::cross_shard::CrossShardRequest;
use punctual_core::ids::{Epoch, RunId, SessionId, ShardId, Token, WorkerId};
use punctual_core::queue::{Message, MessagePosition, QueueNumber};
use punctual_core::worker::Announcement;
use punctual_engine::Ticket;
use punctual_store::{Claim, Error, Session};

use super::View;
use crate::failure::Failure;

/// An event for the driver.
#[derive(Debug)]
pub enum Input {
    Command {
        ticket: Ticket,
        command: Command,
    },
    Joined {
        worker: WorkerId,
        announced: Announcement,
        holding: Vec<(RunId, Token)>,
    },
    Left {
        worker: WorkerId,
    },
    /// The worker left and will not finish its attempts.
    Departed {
        worker: WorkerId,
    },
    Reports {
        worker: WorkerId,
        reports: Vec<Report>,
    },
    /// The members and leases that were read with a renewal.
    Renewed {
        result: Result<View, Error>,
    },
    /// The release of shards ended, successfully or not.
    Released,
    /// The cluster changed and should be read again, for example because a shard was released to this node.
    ClusterChanged,
    /// Load of this node in percent.
    Load(u8),
    /// The node is stopping: hand every shard over.
    Stop,
    Acquired {
        claims: Vec<Claim>,
        result: Result<Vec<(ShardId, Epoch)>, Error>,
    },
    Loaded {
        shard: ShardId,
        result: Result<Loaded, Error>,
    },
    Committed {
        lane: usize,
        result: Result<(), Error>,
    },
    Fetched {
        read: u64,
        result: Result<Found, Error>,
    },
    Paged {
        read: u64,
        shard: ShardId,
        result: Result<TimerPage, Error>,
    },
    /// A page of a queue's waiting messages was read.
    MessagesRead {
        read: u64,
        shard: ShardId,
        result: Result<Vec<Arc<Message>>, Error>,
    },
    /// Only time has passed.
    Wake,
}

/// An action for the caller of the driver.
#[derive(Debug)]
pub enum Output {
    /// Renew our session; read the members and the leases.
    Renew {
        session: Session,
        ttl: Duration,
    },
    /// Release these shards and wake the heir.
    Release {
        shards: Vec<(ShardId, Epoch)>,
        heir: Option<SessionId>,
    },
    /// End the session of an earlier process of this node. Its result is not awaited.
    EndSession {
        session: SessionId,
    },
    Acquire {
        by: Option<SessionId>,
        claims: Vec<Claim>,
    },
    Load {
        shard: ShardId,
        epoch: Epoch,
    },
    Commit {
        lane: usize,
        batches: Arc<Vec<Batch>>,
    },
    Fetch {
        read: u64,
        wants: Vec<(ShardId, Want)>,
    },
    Page {
        read: u64,
        shard: ShardId,
        after: TimerPosition,
        limit: usize,
    },
    /// Read a page of a queue's waiting messages.
    ReadMessages {
        read: u64,
        shard: ShardId,
        queue: QueueNumber,
        after: MessagePosition,
        limit: usize,
    },
    Answer {
        ticket: Ticket,
        answer: Result<Answer, Failure>,
    },
    Order {
        worker: WorkerId,
        order: Order,
    },
    /// The worker told something impossible: end its connection, and tell it why.
    Refuse {
        worker: WorkerId,
        why: String,
    },
    /// Deliver a notice between a run and a queue; repeat until it has arrived.
    CrossShard(CrossShardRequest),
    /// The store cannot be used any more, so the node must stop.
    Fail {
        why: String,
    },
}
