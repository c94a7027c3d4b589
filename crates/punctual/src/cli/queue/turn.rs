//! Whose turn it is, among all workers that take one message of a queue at a time.
//!
//! The turn is itself a message, the only one of a queue beside the one that is worked on. Who has taken it works;
//! the others wait for it. A worker keeps it by asking for more time, and gives it back when it ends. One that
//! dies loses it after [`LEASE`], and one that cannot ask any more gives up before that, so that never two work.

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

/// How long a turn is kept for a worker that says nothing.
const LEASE: Duration = Duration::from_secs(15);
/// Between two times that it says something.
const KEEP_EVERY: Duration = Duration::from_secs(4);
/// A worker that was not heard for this long stops: it has until the lease ends to see its command gone.
const GIVE_UP: Duration = Duration::from_secs(9);
/// How long one ask waits for the turn.
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
    /// Asks for the turn once; none: another worker has it.
    pub(super) async fn ask(session: &Session, queue: &str) -> Result<Option<Turn>, Error> {
        let (client, namespace) = (session.client.clone(), session.namespace.clone());
        let place = format!("{queue}.turn");
        // Under a key, so that there is one however many workers ask.
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

    /// Says when the turn is not ours any longer.
    pub(super) fn lost(&self) -> watch::Receiver<bool> {
        self.lost.clone()
    }

    pub(super) async fn give_back(self) {
        self.keeping.abort();
        if self.is_lost() {
            return;
        }
        let act = ActOnMessages { action: MessageAction::Return, ids: vec![self.id.clone()], delay: None };
        // Unheard, it comes back by itself when the lease ends.
        drop(timeout(GIVE_UP, self.client.act_on_messages(&self.namespace, &act)).await);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.keeping.abort();
    }
}

/// Keeps the turn until it cannot be kept. What counts is when an ask that was heard was sent.
async fn keep(client: Client, namespace: Namespace, id: String, heard: Instant, lost: watch::Sender<bool>) {
    let mut heard = heard;
    loop {
        sleep(KEEP_EVERY.min(GIVE_UP.saturating_sub(heard.elapsed()))).await;
        let asked = Instant::now();
        let left = GIVE_UP.saturating_sub(asked.saturating_duration_since(heard));
        // One that stood still for longer must not even ask: another may have it by now.
        if left.is_zero() {
            break;
        }
        match timeout(left, client.working(&namespace, &id)).await {
            Ok(Ok(_)) => heard = asked,
            // Whatever is wrong may pass, as long as there is time.
            Ok(Err(_)) => sleep(Duration::from_millis(200)).await,
            Err(_) => break,
        }
    }
    lost.send_replace(true);
}
