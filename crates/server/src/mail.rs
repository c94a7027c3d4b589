//! Mail to peers: a node that cannot be dialled is asked through the store.
//!
//! ```text
//!  ask ──mail──▶ store ──▶ their `carry` ──▶ command_here
//!      ◀─mail─── store ◀──────── answer ◀────────┘
//! ```
//!
//! Each mail is received once. The asker waits until its deadline; a mail without an answer may or may not
//! have been carried out. The store is polled only while something can arrive: an answer or, on a node that
//! cannot be dialled, a request from another node.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prost::Message;
use punctual_core::command::{Answer, Command};
use punctual_core::ids::{RunId, SessionId, Token, WorkerId};
use punctual_node::peers::by_mail;
use punctual_node::{Failure, Handle, Peers};
use punctual_store::mail::MailPosition;
use punctual_store::{Error, Mail, Mailboxes, Session};
use punctual_wire::grpc::peer;
use punctual_wire::grpc::v1::mail_body::Said;
use punctual_wire::grpc::v1::{Answered, AskRequest, AskResponse, MailBody, WakeRequest};
use punctual_wire::rest::{Node, Worker};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};
use tracing::{debug, warn};

use crate::grpc::peer::{Dialled, heard, told};

/// How often the store is polled while something can arrive.
pub const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Mails read in one poll.
const PAGE: usize = 64;
/// Requests waiting for their answer. Further ones are refused.
const WAITING_MAX: usize = 1024;
/// Requests of other nodes that are being answered. Further ones wait in the store.
const ANSWERING_MAX: usize = 256;
/// A mail not received for this long is deleted: its receiver is gone.
const KEPT: Duration = Duration::from_secs(600);
/// How long sending the last answers may take at shutdown.
const PARTING_MAX: Duration = Duration::from_secs(1);

/// Reaches peers: those with an address are dialled, the others get mail.
#[derive(Debug, Clone)]
pub struct Post(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    me: SessionId,
    /// Whether this node announces no address, so that all requests to it come by mail.
    is_undialled: bool,
    store: Arc<dyn Mailboxes>,
    dialled: Dialled,
    last: AtomicI64,
    /// Where each answer goes, by the number of the mail that asked.
    waiting: Mutex<HashMap<i64, oneshot::Sender<AskResponse>>>,
    /// Wakes the polling loop when something can arrive.
    news: Notify,
}

impl Post {
    pub fn new(me: &Session, store: Arc<dyn Mailboxes>, dialled: Dialled) -> Post {
        Post(Arc::new(Inner {
            me: me.id,
            is_undialled: me.address.is_none(),
            store,
            dialled,
            last: AtomicI64::new(0),
            waiting: Mutex::default(),
            news: Notify::new(),
        }))
    }

    /// Has a node that can be dialled tell a worker of its own whether to take work. False means that it did not.
    pub async fn drain(&self, address: &str, worker: &str, on: bool) -> bool {
        self.0.dialled.drain(address, worker, on).await
    }

    /// The state of a node that can be dialled, and of its workers. `None` means that it did not answer in time.
    pub async fn look(&self, address: &str) -> Option<(Node, Vec<Worker>)> {
        self.0.dialled.look(address).await
    }

    /// Receives and answers mail until the node has stopped.
    pub async fn carry(self, handle: Handle) {
        let mut answering = JoinSet::new();
        let mut taken = Vec::new();
        let stopped = handle.wait_until(|_| false);
        tokio::pin!(stopped);
        loop {
            while answering.try_join_next().is_some() {}
            let is_full = tokio::select! {
                _ = &mut stopped => break,
                is_full = self.0.take(&mut taken, &handle, &mut answering) => is_full,
            };
            tokio::select! {
                _ = &mut stopped => break,
                () = self.0.rest(&handle, is_full) => {}
                Some(_) = answering.join_next(), if answering.len() >= ANSWERING_MAX => {}
            }
        }
        let parting = async { while answering.join_next().await.is_some() {} };
        if timeout(PARTING_MAX, parting).await.is_err() {
            debug!("an answer did not leave before the node stopped");
        }
    }
}

impl Inner {
    /// Whether mail for this node may be in the store.
    fn expects(&self, handle: &Handle) -> bool {
        !self.lock().is_empty() || (self.is_undialled && handle.status().members.len() > 1)
    }

    /// Waits until the next poll.
    async fn rest(&self, handle: &Handle, is_full: bool) {
        if is_full {
            return;
        }
        while !self.expects(handle) {
            tokio::select! {
                () = self.news.notified() => {}
                _ = handle.wait_until(|status| status.members.len() > 1), if self.is_undialled => {}
            }
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }

    /// Receives mail. `true` means that there may be more.
    async fn take(
        &self,
        taken: &mut Vec<MailPosition>,
        handle: &Handle,
        answering: &mut JoinSet<()>,
    ) -> bool {
        let room = ANSWERING_MAX.saturating_sub(answering.len()).min(PAGE);
        if room == 0 || (taken.is_empty() && !self.expects(handle)) {
            return false;
        }
        let mails = match self.store.receive_mail(self.me, taken, room).await {
            Ok(mails) => mails,
            Err(error) => {
                debug!(%error, "cannot receive mail; trying again");
                return false;
            }
        };
        // The next poll deletes these mails from the store; until then `taken` remembers that we have them.
        *taken = mails.iter().map(Mail::place).collect();
        let is_full = mails.len() == room;
        for Mail { from, number, body, .. } in mails {
            match MailBody::decode(&*body).map(|body| body.said) {
                Ok(Some(Said::Ask(ask))) => {
                    answering.spawn(answer(handle.clone(), ask, self.mail_to(from), number));
                }
                Ok(Some(Said::Answered(Answered { number, response: Some(response) }))) => {
                    if let Some(asker) = self.lock().remove(&number) {
                        // The asker may have reached its deadline just now.
                        drop(asker.send(response));
                    }
                }
                Ok(Some(Said::Wake(WakeRequest {}))) => handle.look_at_cluster(),
                Ok(_) => debug!(%from, "ignored a mail of a newer version"),
                Err(error) => warn!(%from, %error, "ignored a mail that cannot be decoded"),
            }
        }
        is_full
    }

    fn mail_to(&self, to: SessionId) -> Sending {
        let number = self.last.fetch_add(1, Relaxed) + 1;
        Sending { store: Arc::clone(&self.store), me: self.me, to, number }
    }

    async fn ask(
        &self,
        to: SessionId,
        command: &Command,
        deadline: Duration,
    ) -> Result<AskResponse, Failure> {
        let until = Instant::now() + deadline;
        let request = peer::request(command).map_err(|error| Failure::NotLed(error.to_string()))?;
        let sending = self.mail_to(to);
        let (reply, answer) = oneshot::channel();
        let asking = Asking { waiting: &self.waiting, number: sending.number };
        {
            let mut waiting = self.lock();
            if waiting.len() >= WAITING_MAX {
                let message = "too many requests wait for an answer by mail; try again";
                return Err(Failure::NotLed(message.to_owned()));
            }
            waiting.insert(asking.number, reply);
        }
        let late = || Failure::Unknown("the node that leads its shard did not answer in time".to_owned());
        match timeout_at(until, sending.send(Said::Ask(request))).await {
            Ok(Ok(())) => {}
            Ok(Err(Error::Unknown(why))) => return Err(Failure::Unknown(why)),
            Ok(Err(error)) => return Err(Failure::NotLed(error.to_string())),
            Err(_) => return Err(late()),
        }
        self.news.notify_one();
        match timeout_at(until, answer).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(_)) | Err(_) => Err(late()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<i64, oneshot::Sender<AskResponse>>> {
        // No code panics while it holds this lock.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A mail to be sent.
struct Sending {
    store: Arc<dyn Mailboxes>,
    me: SessionId,
    to: SessionId,
    number: i64,
}

impl Sending {
    async fn send(self, said: Said) -> Result<(), Error> {
        let body = MailBody { said: Some(said) }.encode_to_vec();
        let mail = Mail { to: self.to, from: self.me, number: self.number, body };
        self.store.send_mail(&[mail], KEPT).await
    }
}

/// A request waiting for its answer. Removed on drop, because the caller may give up first.
struct Asking<'a> {
    waiting: &'a Mutex<HashMap<i64, oneshot::Sender<AskResponse>>>,
    number: i64,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.number);
    }
}

async fn answer(handle: Handle, ask: AskRequest, sending: Sending, number: i64) {
    let result = match peer::command(&ask) {
        Ok(command) => handle.command_here(command).await.map_err(told),
        Err(error) => Err(peer::Failure::NotLed(error.to_string())),
    };
    let response = peer::response(&result).map_err(|error| warn!(%error, "an answer cannot be written")).ok();
    if let Err(error) = sending.send(Said::Answered(Answered { number, response })).await {
        warn!(%error, "an answer could not be sent");
    }
}

#[tonic::async_trait]
impl Peers for Post {
    async fn ask(&self, address: &str, command: &Command, deadline: Duration) -> Result<Answer, Failure> {
        let Some(to) = by_mail(address) else {
            return self.0.dialled.ask(address, command, deadline).await;
        };
        let response = self.0.ask(to, command, deadline).await?;
        match peer::result(&response) {
            Ok(result) => result.map_err(heard),
            Err(error) => Err(Failure::Unknown(error.to_string())),
        }
    }

    async fn refuses(&self, address: &str) -> bool {
        by_mail(address).is_none() && self.0.dialled.refuses(address).await
    }

    async fn wake(&self, address: &str) -> bool {
        let Some(to) = by_mail(address) else { return self.0.dialled.wake(address).await };
        let sent = self.0.mail_to(to).send(Said::Wake(WakeRequest {})).await;
        if let Err(error) = &sent {
            debug!(%error, "a peer was not woken; it looks by itself within a second");
        }
        sent.is_ok()
    }

    async fn distrust(&self, address: &str, worker: &WorkerId, attempts: &[(RunId, Token)]) {
        self.0.dialled.distrust(address, worker, attempts).await;
    }
}

#[cfg(test)]
mod tests;
