//! Locks for endpoints, whichever node leads them.
//!
//! A caller that waits for a lock waits at its leader. If the leader changes, it asks the new one under the same key, so
//! that it gets the lock that the former leader may have given to it. If the caller goes, its wait ends, and a lock that
//! was given meanwhile is released.

use std::sync::Arc;
use std::time::Duration;

use punctual_core::command::{Answer, Command, Refusal};
use punctual_core::ids::Fence;
use punctual_core::lock::{Acquire, Ask, Lock, LockKey, LockView, Said};
use tokio::time::Instant;

use crate::failure::{Failure, no_leader};
use crate::forward;
use crate::handle::Handle;
use crate::leaders::{self, Leader};

/// What a caller wants to hold.
#[derive(Debug, Clone)]
pub struct NewLock {
    pub key: LockKey,
    pub owner: Box<str>,
    /// The idempotency key. `None` means that the caller does not repeat the request.
    pub request: Option<Arc<str>>,
    pub ttl: Duration,
    pub wait: Duration,
}

impl Handle {
    /// Acquires a lock, and waits for it if it is held. If the future is dropped, the lock is not acquired.
    pub async fn acquire_lock(&self, new: NewLock) -> Result<Arc<Lock>, Failure> {
        let NewLock { key, owner, request, ttl, wait } = new;
        let waiter = self.waiter();
        let request = request.unwrap_or_else(|| format!("{waiter:x}").into());
        let acquire = Acquire { key, owner, request, ttl, wait, waiter };
        acquire.check().map_err(Refusal::from)?;
        let subject = Command::Lock(Ask::Acquire(acquire.clone())).subject();
        let answer = self.wait_for_lock(acquire).await.map_err(|failure| failure.about(&subject))?;
        held(said(answer)?)
    }

    pub async fn renew_lock(&self, key: LockKey, fence: Fence) -> Result<Arc<Lock>, Failure> {
        held(self.lock(Ask::Renew { key, fence }).await?)
    }

    pub async fn release_lock(&self, key: LockKey, fence: Fence) -> Result<(), Failure> {
        self.lock(Ask::Release { key, fence }).await.map(|_| ())
    }

    /// The lock and who waits for it. `None` means that it is free.
    pub async fn show_lock(&self, key: LockKey) -> Result<Option<LockView>, Failure> {
        match self.lock(Ask::Show { key }).await? {
            Said::Shown(view) => Ok(view),
            other => Err(unexpected(&Answer::Lock(other))),
        }
    }

    /// Ends the wait of a caller that has gone, and releases the lock if it got it.
    pub fn withdraw_lock(&self, key: LockKey, waiter: u64) {
        let handle = self.clone();
        let withdrawn = self.background.run(async move {
            let withdraw = Command::Lock(Ask::Withdraw { key, waiter });
            if let Err(error) = handle.ask_about(&withdraw).await {
                tracing::warn!(%error, "the caller of a lock has gone; if it got the lock, that ends with its ttl");
            }
        });
        if !withdrawn {
            tracing::warn!("too many background tasks: locks whose caller has gone end with their ttl");
        }
    }

    /// Carries out an acquire that a peer forwarded. If the future is dropped, the caller has gone.
    pub(crate) async fn acquire_for_peer(&self, acquire: Acquire) -> Result<Answer, Failure> {
        let mut guard = Withdrawal::new(self, &acquire);
        let answer = self.carry_out(Command::Lock(Ask::Acquire(acquire))).await;
        guard.waiter = None;
        answer
    }

    async fn lock(&self, ask: Ask) -> Result<Said, Failure> {
        said(self.command(Command::Lock(ask)).await?)
    }

    async fn wait_for_lock(&self, mut acquire: Acquire) -> Result<Answer, Failure> {
        let shard = acquire.key.shard(self.store.shards());
        let until = Instant::now() + acquire.wait;
        let mut guard = Withdrawal::new(self, &acquire);
        let mut leaders = self.leaders.clone();
        loop {
            let leader = leaders.borrow_and_update().of(shard).clone();
            acquire.wait = until.saturating_duration_since(Instant::now());
            let command = Command::Lock(Ask::Acquire(acquire.clone()));
            let deadline = Instant::now() + acquire.wait + self.patience;
            let answer = tokio::select! {
                answer = self.ask(&leader, &command, deadline) => answer,
                () = leaders::moved(self.leaders.clone(), shard, &leader) => Err(no_leader()),
            };
            let why = match answer {
                Err(Failure::NotLed(why) | Failure::Unknown(why)) => why,
                answer => {
                    guard.waiter = None;
                    return answer;
                }
            };
            let is_led = leader != Leader::Nobody;
            if self.asks.is_closed() || !forward::wait(&mut leaders, is_led, until + self.patience).await {
                return Err(Failure::Unavailable(why));
            }
            // From here on the former request can no longer withdraw what this one gets.
            acquire.waiter = self.waiter();
            guard.waiter = Some(acquire.waiter);
        }
    }
}

/// Withdraws an acquire when it is dropped.
struct Withdrawal<'a> {
    handle: &'a Handle,
    key: LockKey,
    /// `None` means that the acquire was answered.
    waiter: Option<u64>,
}

impl Withdrawal<'_> {
    fn new<'a>(handle: &'a Handle, acquire: &Acquire) -> Withdrawal<'a> {
        Withdrawal { handle, key: acquire.key.clone(), waiter: Some(acquire.waiter) }
    }
}

impl Drop for Withdrawal<'_> {
    fn drop(&mut self) {
        if let Some(waiter) = self.waiter {
            self.handle.withdraw_lock(self.key.clone(), waiter);
        }
    }
}

fn said(answer: Answer) -> Result<Said, Failure> {
    match answer {
        Answer::Lock(said) => Ok(said),
        other => Err(unexpected(&other)),
    }
}

fn held(said: Said) -> Result<Arc<Lock>, Failure> {
    match said {
        Said::Held(lock) => Ok(lock),
        other => Err(unexpected(&Answer::Lock(other))),
    }
}

fn unexpected(answer: &Answer) -> Failure {
    Failure::Unknown(format!("unexpected answer about a lock: {answer:?}; update all nodes to one version"))
}
