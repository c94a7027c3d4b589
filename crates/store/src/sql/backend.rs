//! What a store in a database is, beyond its connections.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use punctual_core::change::{Batch, Found, TimerPage, TimerPosition, Want};
use punctual_core::ids::{Epoch, SessionId, ShardId};
use punctual_core::queue::{Message, MessagePosition, QueueKey, QueueNumber};
use punctual_failpoint::{Point, hit};

use super::connection::{Ask, Connection};
use super::messages::{self, Which};
use super::prune::Positions;
use super::shard;
use crate::{Claim, Durability, Result};

/// What a connection is used for: a backend may have separate ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Reads of a leader.
    Lead,
    /// Reads of the endpoints.
    List,
    /// Reads of the output of attempts.
    ReadOutput,
    /// Reads of the leases and the clock.
    Leases,
    /// Renewals and the end of a session.
    Session,
    /// Changes that must be durable and are seldom, such as calendars and tokens.
    Change,
    /// Writes that a crash may lose.
    Mail,
    Output,
    Prune,
}

/// The phase in which a statement failed: it decides what may have been stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    Connecting,
    Reading,
    /// `COMMIT` was not sent, or the database refused a statement before it.
    Writing,
    /// `COMMIT` may have been sent.
    Committing,
}

/// How far the statements of a use belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Each statement may see its own snapshot, and commits by itself.
    Statement,
    /// All statements see one snapshot.
    Snapshot,
    /// All statements are one transaction.
    Transaction,
}

/// What is done with a connection. SQLite does it on another thread, so it owns its data.
pub(crate) type Work<T> =
    Box<dyn for<'c> FnOnce(&'c mut (dyn Connection + 'c)) -> BoxFuture<'c, Result<T>> + Send>;

/// Makes a [`Work`] of an expression that uses the connection.
macro_rules! work {
    (|$c:ident| $body:expr) => {{
        let work: $crate::sql::backend::Work<_> = Box::new(move |$c| Box::pin(async move { $body }));
        work
    }};
}
pub(crate) use work;

/// What every store in a database knows of itself.
#[derive(Debug)]
pub(crate) struct Facts {
    /// How many shards the store was created with.
    pub(crate) shards: u16,
    pub(crate) durability: Durability,
    /// Where pruning continues.
    pub(crate) pruned: Positions,
}

impl Facts {
    /// `asked` is the number of shards that a new store would have got.
    pub(crate) fn new(shards: u16, asked: u16, durability: Durability) -> Facts {
        if shards != asked {
            tracing::warn!(shards, asked, "the number of shards cannot be changed, the store keeps its own");
        }
        Facts { shards, durability, pruned: Positions::default() }
    }
}

/// A store in a database: what it implements itself, to get the parts of a store that are shared.
pub(crate) trait Backend: Send + Sync + fmt::Debug {
    /// How far the reads of one fetch belong together.
    const FETCH: Scope;
    /// How far the reads of one page of messages belong together.
    const PAGE: Scope;
    /// Where a process that renews its session, or releases shards, can be told to die.
    const RENEWING: Option<Point> = None;
    const RELEASING: Option<Point> = None;

    fn facts(&self) -> &Facts;

    /// Whether a call waits only for threads of the store, never for a socket.
    fn is_in_process(&self) -> bool {
        false
    }

    fn run<T: Send + 'static>(
        &self,
        purpose: Purpose,
        scope: Scope,
        work: Work<T>,
    ) -> impl Future<Output = Result<T>> + Send;

    /// Reads of the endpoints, of which each is one statement.
    fn list<T: Send + 'static>(&self, work: Work<T>) -> impl Future<Output = Result<T>> + Send {
        self.run(Purpose::List, Scope::Statement, work)
    }

    /// Executes one statement by itself. Returns how many rows it hit.
    fn execute(&self, purpose: Purpose, ask: Ask<'static>) -> impl Future<Output = Result<usize>> + Send {
        self.run(purpose, Scope::Statement, work!(|c| c.execute(&[ask]).await))
    }

    /// See [`crate::Shards::acquire`]. The claims are for shards that exist, in their order.
    fn acquire_shards(
        &self,
        by: Option<SessionId>,
        claims: Vec<Claim>,
    ) -> impl Future<Output = Result<Vec<(ShardId, Epoch)>>> + Send;

    /// See [`crate::Shards::release`].
    fn release_shards(
        &self,
        shards: Vec<(ShardId, Epoch)>,
        heir: Option<SessionId>,
    ) -> impl Future<Output = Result<()>> + Send {
        let release = work!(|c| {
            let released = shard::release(c, shards, heir).await;
            Self::RELEASING.into_iter().for_each(hit);
            released
        });
        self.run(Purpose::Change, Scope::Transaction, release)
    }

    /// See [`crate::Shards::commit`]. Every row belongs to the shard of its batch.
    fn commit_batches(&self, batches: Arc<Vec<Batch>>) -> impl Future<Output = Result<()>> + Send;

    /// See [`crate::Shards::due`].
    fn timers(
        &self,
        shard: ShardId,
        after: TimerPosition,
        limit: usize,
    ) -> impl Future<Output = Result<TimerPage>> + Send {
        self.run(Purpose::Lead, Scope::Snapshot, work!(|c| shard::due(c, shard, after, limit).await))
    }

    /// See [`crate::Shards::backlog`].
    fn queued(
        &self,
        queue: (ShardId, QueueNumber),
        after: MessagePosition,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Arc<Message>>>> + Send {
        let which = Which::Queued { after };
        self.run(Purpose::Lead, Self::PAGE, work!(|c| messages::of_queue(c, queue, which, limit).await))
    }

    fn fetch_rows(&self, wants: Vec<(ShardId, Want)>) -> impl Future<Output = Result<Found>> + Send {
        self.run(Purpose::Lead, Self::FETCH, work!(|c| shard::fetch(c, &wants).await))
    }

    /// Messages of a queue. The answer is empty if there is no such queue.
    fn queue_messages(
        &self,
        queue: QueueKey,
        which: Which,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Arc<Message>>>> + Send {
        let read = work!(|c| match messages::number_of(c, &queue).await? {
            Some(number) => messages::of_queue(c, number, which, limit).await,
            None => Ok(Vec::new()),
        });
        self.run(Purpose::List, Self::PAGE, read)
    }
}
