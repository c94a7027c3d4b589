//! Peers by mail: a node that cannot be dialled is asked through the store.
//!
//! ```text
//!  ask ──letter──▶ store ──▶ their `carry` ──▶ command_here
//!      ◀─letter─── store ◀──────── answer ◀────────┘
//! ```
//!
//! A letter is taken once. Whoever asked waits within its patience; a letter that nobody answers may have been carried out
//! or not. The store is looked at only while there is something to wait for: an answer, or, for a node that cannot be
//! dialled, somebody else who might ask.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prost::Message;
use punctual_core::command::{Answer, Command};
use punctual_core::ids::SessionId;
use punctual_node::peers::by_mail;
use punctual_node::{Failure, Handle, Peers};
use punctual_store::mail::Place;
use punctual_store::{Error, Mail, Session, Store};
use punctual_wire::grpc::peer;
use punctual_wire::grpc::v1::letter::Said;
use punctual_wire::grpc::v1::{Answered, AskRequest, AskResponse, Letter, WakeRequest};
use punctual_wire::rest::{Node, Worker};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};
use tracing::{debug, warn};

use crate::grpc::peer::{Dialled, heard, told};

/// How often the store is looked at while something is open.
pub const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Letters that are read at once.
const PAGE: usize = 64;
/// Questions that wait for their answer. Beyond it, whoever asks is turned away.
const WAITING_MAX: usize = 1024;
/// Questions of others that are being answered. Beyond it, the next ones wait in the store.
const ANSWERING_MAX: usize = 256;
/// A letter that nobody took for so long was for somebody who is gone.
const KEPT: Duration = Duration::from_secs(600);
/// How long the last answers may take to leave.
const PARTING_MAX: Duration = Duration::from_secs(1);

/// The way to peers: those with an address are dialled, the others get mail.
#[derive(Debug, Clone)]
pub struct Post(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    me: SessionId,
    /// Nobody dials us: whatever others want of us comes by mail.
    is_undialled: bool,
    store: Arc<dyn Store>,
    dialled: Dialled,
    last: AtomicI64,
    /// By the number of the letter that asked.
    waiting: Mutex<HashMap<i64, oneshot::Sender<AskResponse>>>,
    /// There is something to wait for.
    news: Notify,
}

impl Post {
    pub fn new(me: &Session, store: Arc<dyn Store>, dialled: Dialled) -> Post {
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

    /// How a node that can be dialled and the workers that it knows are; none: it does not say so in time.
    pub async fn look(&self, address: &str) -> Option<(Node, Vec<Worker>)> {
        self.0.dialled.look(address).await
    }

    /// Takes letters and answers them until the node has stopped.
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
    /// Whether somebody may have written to us.
    fn expects(&self, handle: &Handle) -> bool {
        !self.lock().is_empty() || (self.is_undialled && handle.status().members.len() > 1)
    }

    /// Until the next look.
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

    /// Takes what there is. True: there may be more.
    async fn take(&self, taken: &mut Vec<Place>, handle: &Handle, answering: &mut JoinSet<()>) -> bool {
        let room = ANSWERING_MAX.saturating_sub(answering.len()).min(PAGE);
        if room == 0 || (taken.is_empty() && !self.expects(handle)) {
            return false;
        }
        let letters = match self.store.receive_mail(self.me, taken, room).await {
            Ok(letters) => letters,
            Err(error) => {
                debug!(%error, "the mail could not be looked at");
                return false;
            }
        };
        // Removed they are with the next look; until then it is we who know that we have them.
        *taken = letters.iter().map(Mail::place).collect();
        let is_full = letters.len() == room;
        for Mail { from, number, body, .. } in letters {
            match Letter::decode(&*body).map(|letter| letter.said) {
                Ok(Some(Said::Ask(ask))) => {
                    answering.spawn(answer(handle.clone(), ask, self.letter_to(from), number));
                }
                Ok(Some(Said::Answered(Answered { number, response: Some(response) }))) => {
                    if let Some(asker) = self.lock().remove(&number) {
                        // Its patience may just have ended.
                        drop(asker.send(response));
                    }
                }
                Ok(Some(Said::Wake(WakeRequest {}))) => handle.look_at_cluster(),
                Ok(_) => debug!(%from, "a letter of a newer version"),
                Err(error) => warn!(%from, %error, "a letter cannot be read"),
            }
        }
        is_full
    }

    fn letter_to(&self, to: SessionId) -> Sending {
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
        let sending = self.letter_to(to);
        let (reply, answer) = oneshot::channel();
        let asking = Asking { waiting: &self.waiting, number: sending.number };
        {
            let mut waiting = self.lock();
            if waiting.len() >= WAITING_MAX {
                let message = "as much as may be is being asked by mail; try again";
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
        // Nothing in here panics half-way.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A letter on its way.
struct Sending {
    store: Arc<dyn Store>,
    me: SessionId,
    to: SessionId,
    number: i64,
}

impl Sending {
    async fn send(self, said: Said) -> Result<(), Error> {
        let body = Letter { said: Some(said) }.encode_to_vec();
        let mail = Mail { to: self.to, from: self.me, number: self.number, body };
        self.store.send_mail(&[mail], KEPT).await
    }
}

/// Whoever asked may go away before the answer comes.
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
        let sent = self.0.letter_to(to).send(Said::Wake(WakeRequest {})).await;
        if let Err(error) = &sent {
            debug!(%error, "a peer was not woken; it looks by itself within a second");
        }
        sent.is_ok()
    }
}

#[cfg(test)]
mod tests;
