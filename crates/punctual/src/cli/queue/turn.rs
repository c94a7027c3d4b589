//! The turn: a lease that only one of all `--single` workers of a queue can hold.
//!
//! The lease is itself a message, the only one of a second queue. The worker that has taken it works; the
//! others wait for it. The holder extends it with `working` and returns it at the end. A worker that dies
//! loses it after [`LEASE`]; a worker that cannot extend it gives up earlier, so that two never work at once.

use std::time::Duration;

use punctual_client::{Client, Error};
use punctual_core::limits::DURATION_MAX;
use punctual_core::name::Namespace;
use punctual_wire::rest::{ActOnMessages, AddMessage, MessageAction, Take};
use punctual_wire::text::Span;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::super::Session;

/// How long the lease lasts without an extension.
const LEASE: Duration = Duration::from_secs(15);
/// How often the lease is extended.
const KEEP_EVERY: Duration = Duration::from_secs(4);
/// Without an extension for this long a worker stops, so that its command is gone before the lease ends.
const GIVE_UP: Duration = Duration::from_secs(9);
/// How long one request waits for the lease.
const WAIT: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(super) struct Turn {
    client: Client,
    namespace: Namespace,
    id: String,
    lost: watch::Receiver<bool>,
    keeping: JoinHandle<()>,
}

impl Turn {
    /// Asks for the lease once. `None` means that another worker has it.
    pub(super) async fn ask(session: &Session, queue: &str) -> Result<Option<Turn>, Error> {
        let (client, namespace) = (session.client.clone(), session.namespace.clone());
        let place = format!("{queue}.turn");
        // The key makes sure that there is only one such message.
        let turn = AddMessage {
            retry: Some(Span(LEASE)),
            ttl: Some(Span(DURATION_MAX)),
            key: Some("turn".to_owned()),
            ..AddMessage::of(b"")
        };
        client.add_message(&namespace, &place, &turn).await?;
        let asked = Instant::now();
        let take = Take { count: Some(1), wait: Some(Span(WAIT)), ..Take::default() };
        let Some(taken) = client.take_messages(&namespace, &place, take).await?.items.pop() else {
            return Ok(None);
        };
        let (lost_in, lost) = watch::channel(false);
        let keeping =
            tokio::spawn(keep(client.clone(), namespace.clone(), taken.id.clone(), asked + WAIT, lost_in));
        Ok(Some(Turn { client, namespace, id: taken.id, lost, keeping }))
    }

    pub(super) fn is_lost(&self) -> bool {
        *self.lost.borrow()
    }

    /// Becomes true when the lease is lost.
    pub(super) fn lost(&self) -> watch::Receiver<bool> {
        self.lost.clone()
    }

    pub(super) async fn give_back(self) {
        self.keeping.abort();
        if self.is_lost() {
            return;
        }
        let act = ActOnMessages { action: MessageAction::Return, ids: vec![self.id.clone()], delay: None };
        // If this fails, the message returns by itself when the lease ends.
        drop(timeout(GIVE_UP, self.client.act_on_messages(&self.namespace, &act)).await);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.keeping.abort();
    }
}

/// Extends the lease as long as possible. Its time counts from when a successful request was sent.
async fn keep(client: Client, namespace: Namespace, id: String, heard: Instant, lost: watch::Sender<bool>) {
    let mut heard = heard;
    loop {
        sleep(KEEP_EVERY.min(GIVE_UP.saturating_sub(heard.elapsed()))).await;
        let asked = Instant::now();
        let left = GIVE_UP.saturating_sub(asked.saturating_duration_since(heard));
        // After too long a pause do not even ask: another worker may have the lease.
        if left.is_zero() {
            break;
        }
        match timeout(left, client.working(&namespace, &id)).await {
            Ok(Ok(_)) => heard = asked,
            // The error may be temporary, so try again while there is time.
            Ok(Err(_)) => sleep(Duration::from_millis(200)).await,
            Err(_) => break,
        }
    }
    lost.send_replace(true);
}
