//! What this door asks of the node behind it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use punctual_core::name::Namespace;
use punctual_core::queue::{Ask, Delivered, Message, MessageId, Place, QueueKey, QueueRecord, Said, Verb};
use punctual_node::Handle;
use punctual_node::handle::Failure;
use punctual_store::Session;

/// The node, or in tests something that says what a node would.
#[async_trait]
pub(super) trait Queues: Send + Sync + fmt::Debug {
    async fn queue(&self, ask: Ask) -> Result<Said, Failure>;

    /// Does the same to several messages, and says to how many it was done.
    async fn act(&self, namespace: &Namespace, verb: Verb, ids: Vec<MessageId>) -> Result<u64, Failure>;

    /// Takes messages, one of each queue in turn; `wait`: not at all, for ever, or so long. Whoever drops this takes
    /// nothing.
    async fn take(
        &self,
        queues: &[QueueKey],
        count: u32,
        wait: Option<Option<Duration>>,
    ) -> Result<Vec<(QueueKey, Delivered)>, Failure>;

    /// Looks at the first messages in a line, or at the last ones, beginning with the very last.
    async fn peek(&self, queue: &QueueKey, count: u32, newest: bool) -> Result<Vec<Delivered>, Failure>;

    /// Queues of a namespace, by name.
    async fn queues(
        &self,
        namespace: &Namespace,
        after: Option<&QueueKey>,
        limit: usize,
    ) -> Result<Vec<QueueRecord>, Failure>;

    /// Messages of a queue, whether in the line or not.
    async fn messages(
        &self,
        queue: &QueueKey,
        after: Option<Place>,
        limit: usize,
    ) -> Result<Vec<Arc<Message>>, Failure>;

    /// The nodes that live; none: this one is alone.
    fn members(&self) -> Vec<Session>;

    /// What the node is called that leads what this message belongs to; none: it is this one.
    fn leader_of(&self, message: MessageId) -> Option<Arc<str>>;
}

#[async_trait]
impl Queues for Handle {
    async fn queue(&self, ask: Ask) -> Result<Said, Failure> {
        Handle::queue(self, ask).await
    }

    async fn act(&self, namespace: &Namespace, verb: Verb, ids: Vec<MessageId>) -> Result<u64, Failure> {
        Handle::act(self, namespace, verb, ids).await
    }

    async fn take(
        &self,
        queues: &[QueueKey],
        count: u32,
        wait: Option<Option<Duration>>,
    ) -> Result<Vec<(QueueKey, Delivered)>, Failure> {
        Handle::take(self, queues, count, wait).await
    }

    async fn peek(&self, queue: &QueueKey, count: u32, newest: bool) -> Result<Vec<Delivered>, Failure> {
        Handle::peek(self, queue, count, newest).await
    }

    async fn queues(
        &self,
        namespace: &Namespace,
        after: Option<&QueueKey>,
        limit: usize,
    ) -> Result<Vec<QueueRecord>, Failure> {
        Ok(self.store().queues(Some(namespace), after, limit).await?)
    }

    async fn messages(
        &self,
        queue: &QueueKey,
        after: Option<Place>,
        limit: usize,
    ) -> Result<Vec<Arc<Message>>, Failure> {
        Ok(self.store().messages(queue, after, limit).await?)
    }

    fn members(&self) -> Vec<Session> {
        self.status().members
    }

    fn leader_of(&self, message: MessageId) -> Option<Arc<str>> {
        self.led_by(message.shard())
    }
}
