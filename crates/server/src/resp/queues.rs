//! The requests of this endpoint to the node.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use punctual_core::name::Namespace;
use punctual_core::queue::{
    Ask, Delivered, Message, MessageId, MessagePosition, QueueKey, QueueRecord, Said, Verb, Wait,
};
use punctual_node::Failure;
use punctual_node::Handle;
use punctual_store::Session;

/// The node, or a fake of it in tests.
#[async_trait]
pub(super) trait Queues: Send + Sync + fmt::Debug {
    async fn queue(&self, ask: Ask) -> Result<Said, Failure>;

    /// Applies a verb to several messages, and returns to how many it applied.
    async fn act(&self, namespace: &Namespace, verb: Verb, ids: Vec<MessageId>) -> Result<u64, Failure>;

    /// Takes messages, one of each queue in turn. A caller that drops the future takes nothing.
    async fn take(
        &self,
        queues: &[QueueKey],
        count: u32,
        wait: Wait,
    ) -> Result<Vec<(QueueKey, Delivered)>, Failure>;

    /// Reads the first messages of a queue, or the last ones, newest first.
    async fn peek(&self, queue: &QueueKey, count: u32, newest: bool) -> Result<Vec<Delivered>, Failure>;

    /// Queues of a namespace, by name.
    async fn queues(
        &self,
        namespace: &Namespace,
        after: Option<&QueueKey>,
        limit: usize,
    ) -> Result<Vec<QueueRecord>, Failure>;

    /// Messages of a queue, queued or not.
    async fn messages(
        &self,
        queue: &QueueKey,
        after: Option<MessagePosition>,
        limit: usize,
    ) -> Result<Vec<Arc<Message>>, Failure>;

    /// The live nodes. Empty means that this node is alone.
    fn members(&self) -> Vec<Session>;

    /// The name of the node that leads this message's shard. `None` means this node.
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
        wait: Wait,
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
        Ok(self.reads().queues(Some(namespace), after, limit).await?)
    }

    async fn messages(
        &self,
        queue: &QueueKey,
        after: Option<MessagePosition>,
        limit: usize,
    ) -> Result<Vec<Arc<Message>>, Failure> {
        Ok(self.reads().messages(queue, after, limit).await?)
    }

    fn members(&self) -> Vec<Session> {
        self.status().members
    }

    fn leader_of(&self, message: MessageId) -> Option<Arc<str>> {
        self.led_by(message.shard())
    }
}
