//! Locks: who holds each, and who waits for it in which order.
//!
//! A lock ends when its holder has not renewed it for its `ttl`, measured in elapsed time: a clock that is set forward ends
//! no lock early. A load knows only the instant in the row. It adds an attempt lease, at most up to the whole `ttl`, so that
//! a holder whose leader was away can still renew its lock, and clocks that differ a little do no harm.
//!
//! Who waits is in memory only. After a takeover, those who wait ask the new leader. A place is kept for a moment after its
//! wait has ended, so that a caller that waits for long, in several requests, keeps its turn.
//!
//! intake ──acquire──▶ held ──release, end──▶ the first that waits

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::change::{Changes, Row, RowKey};
use punctual_core::command::Answer;
use punctual_core::ids::Fence;
use punctual_core::limits::{LOCK_WAITERS_MAX, LOCK_WAITERS_PER_SHARD_MAX, LOCKS_MAX, LOCKS_PER_SHARD_MAX};
use punctual_core::lock::{Acquire, Ask, Lock, LockKey, LockRefusal, LockView, Said, Waiting};
use punctual_core::planted::{Fault, is_planted};
use punctual_core::time::Elapsed;
use rustc_hash::FxHashMap;

use crate::Shard;
use crate::event::{Context, Ticket};
use crate::memory::Stored;

/// How long a place is kept after its wait has ended.
const PLACE_KEPT: Duration = Duration::from_secs(5);

type Reply = Result<Said, LockRefusal>;

/// The locks of a shard.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    /// Those that are held or waited for.
    all: FxHashMap<LockKey, Line>,
    /// When locks and waits end.
    timers: BTreeMap<(Elapsed, Timer), LockKey>,
    /// Rows that the next batch writes. `None` means that the row is deleted.
    unwritten: BTreeMap<Fence, (Option<Arc<Lock>>, Stored)>,
    waiting: usize,
    /// Whether an answer needs a commit although it changes no row: a holder stops its work when it hears that its fence is
    /// outdated, and only a commit shows that this node still leads the shard.
    needs_commit: bool,
}

/// One lock.
#[derive(Debug, Default)]
struct Line {
    /// `None` means that it is free; then only places whose wait has ended are left.
    held: Option<Held>,
    waiting: VecDeque<Place>,
}

#[derive(Debug)]
struct Held {
    lock: Arc<Lock>,
    ends: Elapsed,
    /// The number of the newest request that got it. `None` means that an earlier leader gave it.
    waiter: Option<u64>,
}

#[derive(Debug)]
struct Place {
    acquire: Acquire,
    since: Timestamp,
    /// `None` means that its wait has ended, and its place is kept.
    ticket: Option<Ticket>,
    until: Elapsed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    Held(Fence),
    Wait(u64),
}

impl Locks {
    /// When the next lock or wait ends.
    pub(crate) fn next(&self) -> Option<Elapsed> {
        self.timers.first_key_value().map(|((at, _), _)| *at)
    }

    pub(crate) fn dirty_rows(&self) -> usize {
        self.unwritten.len()
    }

    /// Whether the next batch is needed.
    pub(crate) fn is_dirty(&self) -> bool {
        self.needs_commit || !self.unwritten.is_empty()
    }

    /// Removes all that wait, and returns their tickets.
    pub(crate) fn dismiss(&mut self) -> Vec<Ticket> {
        let places = self.all.values_mut().flat_map(|line| line.waiting.drain(..));
        let tickets = places.filter_map(|place| place.ticket).collect();
        self.all.retain(|_, line| line.held.is_some());
        self.timers.retain(|(_, timer), _| matches!(timer, Timer::Held(_)));
        self.waiting = 0;
        tickets
    }

    pub(crate) fn seal(&mut self, changes: &mut Changes) {
        self.needs_commit = false;
        for (fence, change) in std::mem::take(&mut self.unwritten) {
            match change {
                (Some(lock), Stored::No) => changes.insert(Row::Lock(lock)),
                (Some(lock), Stored::Yes) => changes.update(Row::Lock(lock)),
                (None, _) => changes.delete(RowKey::Lock(fence)),
            }
        }
    }

    fn hold(&mut self, held: Held) {
        let key = held.lock.key.clone();
        self.timers.insert((held.ends, Timer::Held(held.lock.fence)), key.clone());
        self.all.entry(key).or_default().held = Some(held);
    }

    /// Begins the time of a held lock again.
    fn extend(&mut self, key: &LockKey, cx: &Context<'_>) -> Option<Arc<Lock>> {
        let held = self.all.get_mut(key)?.held.as_mut()?;
        let fence = held.lock.fence;
        self.timers.remove(&(held.ends, Timer::Held(fence)));
        let lock = Arc::make_mut(&mut held.lock);
        lock.expires_at = cx.now + lock.ttl;
        if !is_planted(Fault::RenewalIsForgotten) {
            held.ends = cx.elapsed + lock.ttl;
        }
        let lock = Arc::clone(&held.lock);
        self.timers.insert((held.ends, Timer::Held(fence)), key.clone());
        let row = self.unwritten.entry(fence).or_insert((None, Stored::Yes));
        row.0 = Some(Arc::clone(&lock));
        Some(lock)
    }

    /// Removes the holder of a lock and its row.
    fn end(&mut self, key: &LockKey) -> Option<Held> {
        let held = self.all.get_mut(key)?.held.take()?;
        let fence = held.lock.fence;
        self.timers.remove(&(held.ends, Timer::Held(fence)));
        match self.unwritten.remove(&fence) {
            Some((_, Stored::No)) => {}
            _ => _ = self.unwritten.insert(fence, (None, Stored::Yes)),
        }
        Some(held)
    }

    fn remove_place(&mut self, key: &LockKey, index: usize) -> Option<Place> {
        let place = self.all.get_mut(key)?.waiting.remove(index)?;
        self.timers.remove(&(place.until, Timer::Wait(place.acquire.waiter)));
        self.waiting -= 1;
        Some(place)
    }

    /// Lets an acquire wait: at its earlier place if it has one, else at the end. Returns the ticket of its earlier
    /// request.
    fn wait(&mut self, earlier: Option<usize>, place: Place) -> Option<Ticket> {
        let key = place.acquire.key.clone();
        self.timers.insert((place.until, Timer::Wait(place.acquire.waiter)), key.clone());
        let line = self.all.entry(key).or_default();
        let Some(old) = earlier.and_then(|index| line.waiting.get_mut(index)) else {
            self.waiting += 1;
            line.waiting.push_back(place);
            return None;
        };
        let old = std::mem::replace(old, place);
        self.timers.remove(&(old.until, Timer::Wait(old.acquire.waiter)));
        old.ticket
    }

    fn forget_if_unused(&mut self, key: &LockKey) {
        if self.all.get(key).is_some_and(|line| line.held.is_none() && line.waiting.is_empty()) {
            self.all.remove(key);
        }
    }

    /// Why an acquire does not get a held lock.
    fn locked(&self, key: &LockKey) -> LockRefusal {
        let held = self.all.get(key).and_then(|line| line.held.as_ref());
        let holder = held.map(|held| (held.lock.owner.clone(), held.lock.expires_at));
        let (owner, expires_at) = holder.unwrap_or_default();
        LockRefusal::Locked { name: key.name.clone(), owner, expires_at }
    }
}

impl Line {
    fn place_of(&self, is_it: impl Fn(&Place) -> bool) -> Option<usize> {
        self.waiting.iter().position(is_it)
    }
}

impl Shard {
    /// Removes and returns all that wait for a message, a flush or a lock: this shard will not answer them any more.
    pub fn dismiss(&mut self) -> Vec<Ticket> {
        let mut waiting = self.queues.dismiss();
        waiting.extend(self.locks.dismiss());
        waiting
    }

    pub(crate) fn load_locks(&mut self, locks: Vec<Arc<Lock>>, cx: &mut Context<'_>) {
        for lock in locks.into_iter().filter(|_| !is_planted(Fault::LockEndsAtTakeover)) {
            let left = lock.expires_at.since(cx.now) + self.settings.attempt_lease;
            let ends = cx.elapsed + left.min(lock.ttl);
            cx.pool.lock_began(&lock.key.namespace, self.id);
            self.locks.hold(Held { lock, ends, waiter: None });
        }
    }

    /// Carries out a command on a lock. An acquire may be answered later.
    pub(crate) fn lock(&mut self, ticket: Ticket, ask: Ask, cx: &mut Context<'_>) {
        self.end_lock_if_due(ask.key(), cx);
        let reply = match ask {
            Ask::Acquire(acquire) => match self.acquire_lock(ticket, acquire, cx) {
                Some(reply) => reply,
                None => return,
            },
            Ask::Renew { key, fence } => self.check_fence(&key, fence).and_then(|()| {
                let lock = self.locks.extend(&key, cx);
                lock.map(Said::Held).ok_or(LockRefusal::OutdatedFence { name: key.name, fence })
            }),
            Ask::Release { key, fence } => self.check_fence(&key, fence).map(|()| {
                self.end_lock(&key, cx);
                Said::Released
            }),
            Ask::Withdraw { key, waiter } => Ok(self.withdraw_acquire(&key, waiter, cx)),
            Ask::Show { key } => Ok(Said::Shown(self.show_lock(&key))),
        };
        if matches!(reply, Err(LockRefusal::OutdatedFence { .. })) {
            self.locks.needs_commit = true;
        }
        answer(ticket, reply, cx);
    }

    /// `None` means that it waits.
    fn acquire_lock(&mut self, ticket: Ticket, acquire: Acquire, cx: &mut Context<'_>) -> Option<Reply> {
        let is_same = |owner: &str, request: &str| owner == &*acquire.owner && request == &*acquire.request;
        let line = self.locks.all.get_mut(&acquire.key);
        let is_free = line.as_ref().is_none_or(|line| line.held.is_none());
        let earlier = line
            .as_ref()
            .and_then(|line| line.place_of(|place| is_same(&place.acquire.owner, &place.acquire.request)));
        if is_free || is_planted(Fault::LockIgnoresHolder) {
            if let Some(index) = earlier {
                self.locks.remove_place(&acquire.key, index);
            }
            return Some(self.give_lock(acquire, cx));
        }
        let line = line?;
        if let Some(held) = line.held.as_mut().filter(|held| is_same(&held.lock.owner, &held.lock.request)) {
            held.waiter = Some(acquire.waiter);
            return self.locks.extend(&acquire.key, cx).map(|lock| Ok(Said::Held(lock)));
        }
        if acquire.wait.is_zero() {
            return Some(Err(self.locks.locked(&acquire.key)));
        }
        let is_full =
            line.waiting.len() >= LOCK_WAITERS_MAX || self.locks.waiting >= LOCK_WAITERS_PER_SHARD_MAX;
        if earlier.is_none() && is_full {
            return Some(Err(LockRefusal::TooManyWaiters(acquire.key.name)));
        }
        let since = earlier.and_then(|index| line.waiting.get(index)).map_or(cx.now, |place| place.since);
        let (until, key) = (cx.elapsed + acquire.wait, acquire.key.clone());
        let before = self.locks.wait(earlier, Place { acquire, since, ticket: Some(ticket), until });
        if let Some(before) = before {
            answer(before, Err(self.locks.locked(&key)), cx);
        }
        None
    }

    /// Gives a free lock.
    fn give_lock(&mut self, acquire: Acquire, cx: &mut Context<'_>) -> Reply {
        let Acquire { key, owner, request, ttl, waiter, .. } = acquire;
        if cx.pool.locks(&key.namespace) >= LOCKS_MAX || self.locks.all.len() > LOCKS_PER_SHARD_MAX {
            self.locks.forget_if_unused(&key);
            return Err(LockRefusal::TooManyLocks(key.namespace));
        }
        cx.pool.lock_began(&key.namespace, self.id);
        let fence = Fence(self.ids.next(cx.now));
        let lock = Lock { fence, key, owner, request, since: cx.now, ttl, expires_at: cx.now + ttl };
        let lock = Arc::new(lock);
        self.locks.unwritten.insert(fence, (Some(Arc::clone(&lock)), Stored::No));
        self.locks.hold(Held { lock: Arc::clone(&lock), ends: cx.elapsed + ttl, waiter: Some(waiter) });
        Ok(Said::Held(lock))
    }

    fn check_fence(&self, key: &LockKey, fence: Fence) -> Result<(), LockRefusal> {
        let held = self.locks.all.get(key).and_then(|line| line.held.as_ref());
        let is_newest = held.is_some_and(|held| held.lock.fence == fence);
        is_newest.then_some(()).ok_or_else(|| LockRefusal::OutdatedFence { name: key.name.clone(), fence })
    }

    /// Ends a lock, and gives it to the first that waits for it.
    fn end_lock(&mut self, key: &LockKey, cx: &mut Context<'_>) {
        if self.locks.end(key).is_none() {
            return;
        }
        cx.pool.lock_ended(&key.namespace, self.id);
        while let Some(line) = self.locks.all.get(key)
            && line.held.is_none()
            && !is_planted(Fault::LockForgetsWaiter)
            && let Some(index) = line.place_of(|place| place.ticket.is_some())
            && let Some(Place { acquire, ticket: Some(ticket), .. }) = self.locks.remove_place(key, index)
        {
            let reply = self.give_lock(acquire, cx);
            answer(ticket, reply, cx);
        }
        self.locks.forget_if_unused(key);
    }

    fn end_lock_if_due(&mut self, key: &LockKey, cx: &mut Context<'_>) {
        let held = self.locks.all.get(key).and_then(|line| line.held.as_ref());
        if held.is_some_and(|held| held.ends <= cx.elapsed) {
            self.end_lock(key, cx);
        }
    }

    fn withdraw_acquire(&mut self, key: &LockKey, waiter: u64, cx: &mut Context<'_>) -> Said {
        let Some(line) = self.locks.all.get(key) else { return Said::Withdrawn };
        let place = line.place_of(|place| place.acquire.waiter == waiter);
        if line.held.as_ref().is_some_and(|held| held.waiter == Some(waiter)) {
            self.end_lock(key, cx);
        } else if let Some(place) = place.and_then(|index| self.locks.remove_place(key, index)) {
            if let Some(ticket) = place.ticket {
                answer(ticket, Err(self.locks.locked(key)), cx);
            }
            self.locks.forget_if_unused(key);
        }
        Said::Withdrawn
    }

    fn show_lock(&self, key: &LockKey) -> Option<LockView> {
        let line = self.locks.all.get(key)?;
        let waiting = line.waiting.iter().filter(|place| place.ticket.is_some());
        let waiting = waiting.map(|place| Waiting { owner: place.acquire.owner.clone(), since: place.since });
        Some(LockView { lock: Arc::clone(&line.held.as_ref()?.lock), waiting: waiting.collect() })
    }

    /// Handles the next lock or wait that has ended. False means that there is none.
    pub(crate) fn tick_locks(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(entry) = self.locks.timers.first_entry().filter(|entry| entry.key().0 <= cx.elapsed) else {
            return false;
        };
        let ((_, timer), key) = entry.remove_entry();
        match timer {
            Timer::Held(_) => self.end_lock(&key, cx),
            Timer::Wait(waiter) => self.wait_ended(&key, waiter, cx),
        }
        true
    }

    fn wait_ended(&mut self, key: &LockKey, waiter: u64, cx: &mut Context<'_>) {
        let Some(line) = self.locks.all.get_mut(key) else { return };
        let Some(index) = line.place_of(|place| place.acquire.waiter == waiter) else { return };
        let ticket = line.waiting.get_mut(index).and_then(|place| {
            place.until = cx.elapsed + PLACE_KEPT;
            place.ticket.take()
        });
        if let Some(ticket) = ticket {
            self.locks.timers.insert((cx.elapsed + PLACE_KEPT, Timer::Wait(waiter)), key.clone());
            answer(ticket, Err(self.locks.locked(key)), cx);
        } else {
            self.locks.remove_place(key, index);
            self.locks.forget_if_unused(key);
        }
    }
}

fn answer(ticket: Ticket, reply: Reply, cx: &mut Context<'_>) {
    cx.answer(ticket, reply.map(Answer::Lock).map_err(Into::into));
}
