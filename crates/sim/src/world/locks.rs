//! Owners of locks. Each acquires a lock, waits for it if it is held, renews it, and releases it, or vanishes. It asks any
//! endpoint, and repeats what was not answered under the same key.
//!
//! An owner counts its time from the moment at which it sent the last request that succeeded, as `client::hold` does.

use std::time::Duration;

use punctual_core::command::{Answer, Command, Refusal};
use punctual_core::ids::Fence;
use punctual_core::lock::{Acquire, Ask, LockKey, LockRefusal, Said};
use punctual_core::name::Namespace;

use super::World;
use super::events::{Asker, Happening};
use super::node::ATTEMPT_LEASE;
use super::queues::Heard;
use crate::dice::Dice;

const OWNERS: usize = 5;
const LOCKS: u64 = 2;
/// The pause before a request that was not answered is repeated.
const AGAIN: u64 = 300;
const TRIES: u32 = 8;

/// The owners of a world. They have random numbers of their own.
#[derive(Debug)]
pub(super) struct Owners {
    dice: Dice,
    is_open: bool,
    /// The last key of a request.
    last: u64,
    /// The longest `ttl`. A clock that is set forward while a lock moves to another leader leaves it at least one lease, so
    /// longer locks may end early then.
    ttl_max: u64,
    /// Owners that have gone while they waited.
    gone: Vec<u64>,
}

/// An owner, and the lock that it wants or holds.
#[derive(Debug, Clone)]
pub(super) struct Owner {
    index: usize,
    key: LockKey,
    /// Its idempotency key.
    request: u64,
    ttl: u64,
    /// Until when it waits for the lock.
    until: u64,
    /// When it sent its last request.
    sent: u64,
    tries: u32,
}

/// What an owner asks for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Wish {
    Acquire,
    Renew(Fence),
    Release(Fence),
}

/// An event of an owner.
#[derive(Debug)]
pub(super) enum LockTurn {
    /// An owner wants a lock.
    Begin(usize),
    Ask(Owner, Wish),
    /// The endpoint of a waiting owner notices that it has gone.
    Withdraw(Ask),
}

impl Owners {
    pub(super) fn new(dice: Dice, clock_is_set: bool) -> Owners {
        let lease = u64::try_from(ATTEMPT_LEASE.as_millis()).unwrap_or(0);
        let ttl_max = if clock_is_set { lease } else { 2 * lease };
        Owners { dice, is_open: false, last: 0, ttl_max, gone: Vec::new() }
    }
}

impl World {
    pub(super) fn begin_locks(&mut self) {
        self.owners.is_open = true;
        for index in 0..OWNERS {
            self.later(100, Happening::Lock(LockTurn::Begin(index)));
        }
    }

    /// No owner wants another lock.
    pub(crate) fn close_locks(&mut self) {
        self.owners.is_open = false;
    }

    pub(super) fn take_lock_turn(&mut self, turn: LockTurn) {
        match turn {
            LockTurn::Begin(index) => self.want_lock(index),
            LockTurn::Ask(owner, wish) => self.ask_lock(owner, wish),
            LockTurn::Withdraw(ask) => self.ask_any(Command::Lock(ask), Asker::Client(TRIES)),
        }
    }

    fn want_lock(&mut self, index: usize) {
        let Owners { dice, is_open: true, last, ttl_max, .. } = &mut self.owners else { return };
        *last += 1;
        let name = format!("lock-{}", dice.below(LOCKS)).parse().expect("the name of a lock is a name");
        let wait = if dice.one_in(3) { 0 } else { 1 + dice.below(9_000) };
        let owner = Owner {
            index,
            key: LockKey { namespace: Namespace::default(), name },
            request: *last,
            ttl: 1_000 + dice.below(*ttl_max),
            until: self.time + wait,
            sent: 0,
            tries: TRIES,
        };
        self.ask_lock(owner, Wish::Acquire);
    }

    fn ask_lock(&mut self, mut owner: Owner, wish: Wish) {
        owner.sent = self.time;
        let key = owner.key.clone();
        let ask = match wish {
            Wish::Acquire => {
                let wait = owner.until.saturating_sub(self.time);
                let waiter = self.endpoints.waiter();
                if wait > 0 && self.stormy && self.owners.dice.one_in(12) {
                    self.owners.gone.push(owner.request);
                    let after = self.owners.dice.below(wait);
                    let withdraw = Ask::Withdraw { key: key.clone(), waiter };
                    self.later(after, Happening::Lock(LockTurn::Withdraw(withdraw)));
                }
                Ask::Acquire(Acquire {
                    key,
                    owner: format!("owner-{}", owner.index).into(),
                    request: owner.request.to_string().into(),
                    ttl: Duration::from_millis(owner.ttl),
                    wait: Duration::from_millis(wait),
                    waiter,
                })
            }
            Wish::Renew(fence) => Ask::Renew { key, fence },
            Wish::Release(fence) => {
                // From here on it no longer relies on the lock.
                self.witness.locks.gives_up(&owner.key, owner.request);
                Ask::Release { key, fence }
            }
        };
        self.ask_any(Command::Lock(ask), Asker::Owner(owner, wish));
    }

    /// Sends a command to any running node.
    fn ask_any(&mut self, command: Command, asker: Asker) {
        let there = self.nodes_up();
        match self.owners.dice.pick(&there).copied() {
            Some(endpoint) => self.ask_at(endpoint, command, asker),
            None => self.hears(command, asker, &Heard::Nothing),
        }
    }

    pub(super) fn owner_hears(&mut self, owner: Owner, wish: Wish, heard: &Heard<'_>) {
        if let Some(place) = self.owners.gone.iter().position(|gone| *gone == owner.request) {
            self.owners.gone.swap_remove(place);
            return self.rest_without_lock(&owner);
        }
        match (wish, heard) {
            (Wish::Acquire | Wish::Renew(_), Heard::Said(Answer::Lock(Said::Held(lock)))) => {
                self.holds_lock(owner, wish, lock.fence);
            }
            (Wish::Release(_), Heard::Said(_) | Heard::Refused(_)) => self.rest_without_lock(&owner),
            // It stops relying on the lock, whatever the reason.
            (Wish::Renew(_), Heard::Refused(_)) => {
                let verdict = self.witness.locks.may_be_outdated(&owner.key, owner.request, self.time);
                self.witnessed(verdict);
                self.witness.locks.gives_up(&owner.key, owner.request);
                self.rest_without_lock(&owner);
            }
            (Wish::Acquire, Heard::Refused(Refusal::Lock(LockRefusal::Locked { .. }))) => {
                if !self.stormy {
                    let verdict = self.witness.locks.may_be_refused(&owner.key, self.time);
                    self.witnessed(verdict);
                }
                if self.time < owner.until {
                    self.later(1, Happening::Lock(LockTurn::Ask(owner, wish)));
                } else {
                    self.rest_without_lock(&owner);
                }
            }
            _ if owner.tries > 0 => {
                let owner = Owner { tries: owner.tries - 1, ..owner };
                self.later(AGAIN, Happening::Lock(LockTurn::Ask(owner, wish)));
            }
            _ => self.rest_without_lock(&owner),
        }
    }

    fn holds_lock(&mut self, owner: Owner, wish: Wish, fence: Fence) {
        let owner = Owner { tries: TRIES, ..owner };
        let until = owner.sent + owner.ttl * 9 / 10;
        let (time, is_new) = (self.time, matches!(wish, Wish::Acquire));
        self.witness.seen.locks += u64::from(is_new);
        self.witness.seen.locks_renewed += u64::from(!is_new);
        if until > time {
            let verdict = self.witness.locks.holds(&owner.key, owner.request, fence, (time, until));
            self.witnessed(verdict);
        }
        self.witness.seen.lock_waits += u64::from(is_new && time > owner.sent + 100);
        let stormy = self.stormy;
        let dice = &mut self.owners.dice;
        let next = match dice.below(8) {
            // It vanishes.
            0 if stormy => return self.rest_without_lock(&owner),
            _ if until <= time => Some((0, Wish::Renew(fence))),
            1..=3 => Some((dice.below(owner.ttl), Wish::Renew(fence))),
            _ => Some((dice.below(2_000), Wish::Release(fence))),
        };
        if let Some((after, wish)) = next {
            self.later(after, Happening::Lock(LockTurn::Ask(owner, wish)));
        }
    }

    fn rest_without_lock(&mut self, owner: &Owner) {
        let rest = self.owners.dice.below(1_500);
        self.later(rest, Happening::Lock(LockTurn::Begin(owner.index)));
    }
}
