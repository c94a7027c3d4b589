//! Any history of a lock, compared with a list of those who want it.

use std::time::Duration;

use proptest::prelude::*;
use punctual_core::Timestamp;
use punctual_core::ids::Fence;
use punctual_core::lock::{Acquire, Ask};
use punctual_engine::{Settings, Ticket};

use super::{acquire, begin, fence, key, release, renew, show};
use crate::support::Rig;

const TTL: Duration = Duration::from_secs(10);
const OWNERS: u64 = 4;

#[derive(Debug, Clone)]
enum Step {
    Acquire {
        owner: u64,
        wait: u64,
    },
    Renew,
    Release,
    /// The newest request of an owner has no caller any more.
    Withdraw(u64),
    Outdated,
    Pass(u64),
    Reload,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1..=OWNERS, 0..8u64).prop_map(|(owner, wait)| Step::Acquire { owner, wait }),
        2 => Just(Step::Renew),
        3 => Just(Step::Release),
        1 => (1..=OWNERS).prop_map(Step::Withdraw),
        1 => Just(Step::Outdated),
        4 => (1..6u64).prop_map(Step::Pass),
        1 => Just(Step::Reload),
    ]
}

/// An owner that waits, and where its newest request is answered.
#[derive(Debug)]
struct Want {
    owner: u64,
    waiter: u64,
    /// `None` means that its wait has ended.
    ticket: Option<Ticket>,
    until: Timestamp,
}

#[derive(Debug)]
struct Holder {
    owner: u64,
    /// The number of its newest request. `None` after a load.
    waiter: Option<u64>,
    fence: Fence,
    ends: Timestamp,
}

#[derive(Debug, Default)]
struct Model {
    holder: Option<Holder>,
    line: Vec<Want>,
    last: Option<Fence>,
}

impl Model {
    /// Time has passed: ends what has ended, at its own instant.
    fn due(&mut self, rig: &Rig) {
        loop {
            let ends = self.holder.as_ref().map(|holder| holder.ends);
            let waits = self.line.iter().map(|want| want.until);
            let Some(next) = ends.into_iter().chain(waits).min().filter(|next| *next <= rig.now) else {
                return;
            };
            if ends == Some(next) {
                self.holder = None;
                self.serve(rig, next);
            } else if let Some(place) = self.line.iter().position(|want| want.until == next) {
                match self.line[place].ticket.take() {
                    Some(ticket) => {
                        assert!(matches!(fence(rig, ticket), Some(Err(_))), "its wait has ended");
                        self.line[place].until = next + Duration::from_secs(5);
                    }
                    None => drop(self.line.remove(place)),
                }
            }
        }
    }

    /// The lock is free since this instant.
    fn serve(&mut self, rig: &Rig, at: Timestamp) {
        let Some(place) = self.line.iter().position(|want| want.ticket.is_some()) else { return };
        let want = self.line.remove(place);
        let got = want.ticket.and_then(|ticket| fence(rig, ticket));
        let got = got.expect("the first that waits is served").expect("the lock");
        self.give(want.owner, want.waiter, got, at);
    }

    fn give(&mut self, owner: u64, waiter: u64, fence: Fence, at: Timestamp) {
        assert!(self.holder.is_none(), "one holder");
        assert!(self.last < Some(fence), "fences grow");
        self.last = Some(fence);
        self.holder = Some(Holder { owner, waiter: Some(waiter), fence, ends: at + TTL });
    }

    fn acquire(&mut self, rig: &mut Rig, owner: u64, wait: u64, waiter: u64) {
        let wait = Duration::from_secs(wait);
        let ticket = begin(rig, Acquire { ttl: TTL, wait, waiter, ..acquire(owner, "0s") });
        let answer = fence(rig, ticket);
        let place = self.line.iter().position(|want| want.owner == owner);
        match &mut self.holder {
            None => {
                place.map(|place| self.line.remove(place));
                self.give(owner, waiter, answer.expect("an answer").expect("the lock"), rig.now);
            }
            Some(holder) if holder.owner == owner => {
                assert_eq!(answer, Some(Ok(holder.fence)), "its own lock");
                (holder.waiter, holder.ends) = (Some(waiter), rig.now + TTL);
            }
            Some(_) if wait.is_zero() => assert!(matches!(answer, Some(Err(_))), "it is held"),
            Some(_) => {
                assert_eq!(answer, None, "it waits");
                let want = Want { owner, waiter, ticket: Some(ticket), until: rig.now + wait };
                match place {
                    Some(place) => self.line[place] = want,
                    None => self.line.push(want),
                }
            }
        }
    }

    fn withdraw(&mut self, rig: &mut Rig, owner: u64, waiter: u64) {
        drop(super::ask(rig, Ask::Withdraw { key: key(), waiter }));
        if self.holder.as_ref().is_some_and(|holder| holder.waiter == Some(waiter)) {
            self.holder = None;
            self.serve(rig, rig.now);
        }
        self.line.retain(|want| want.owner != owner || want.waiter != waiter);
    }
}

fn check(steps: Vec<Step>) {
    let settings = Settings::default();
    let mut rig = Rig::with(1, 0, settings);
    let mut model = Model::default();
    let mut waiters = 0;
    let mut newest = [0; OWNERS as usize + 1];
    for step in steps {
        let now = rig.now;
        match step {
            Step::Acquire { owner, wait } => {
                waiters += 1;
                newest[owner as usize] = waiters;
                model.acquire(&mut rig, owner, wait, waiters);
            }
            Step::Renew => {
                if let Some(holder) = &mut model.holder {
                    assert!(renew(&mut rig, holder.fence).is_ok());
                    holder.ends = now + TTL;
                }
            }
            Step::Release => {
                if let Some(holder) = model.holder.take() {
                    assert!(release(&mut rig, holder.fence).is_ok());
                    model.serve(&rig, now);
                }
            }
            Step::Withdraw(owner) => model.withdraw(&mut rig, owner, newest[owner as usize]),
            Step::Outdated => {
                let outdated = Fence(model.last.map_or(1, |last| last.0) - 1);
                assert!(renew(&mut rig, outdated).is_err() && release(&mut rig, outdated).is_err());
            }
            Step::Pass(seconds) => {
                rig.advance_by(Duration::from_secs(seconds));
                rig.settle();
                model.due(&rig);
            }
            Step::Reload => {
                rig.reload();
                model.line.clear();
                if let Some(holder) = &mut model.holder {
                    let left = holder.ends.since(rig.now) + settings.attempt_lease;
                    (holder.waiter, holder.ends) = (None, rig.now + left.min(TTL));
                }
            }
        }
        let view = show(&mut rig);
        assert_eq!(
            view.as_ref().map(|view| view.lock.fence),
            model.holder.as_ref().map(|holder| holder.fence)
        );
        let present = model.line.iter().filter(|want| want.ticket.is_some());
        let expected: Vec<_> = present.map(|want| format!("host-{}", want.owner)).collect();
        let shown: Vec<_> = view.into_iter().flat_map(|view| view.waiting).map(|place| place.owner).collect();
        assert_eq!(shown.iter().map(|owner| &**owner).collect::<Vec<_>>(), expected);
    }
}

proptest! {
    #[test]
    fn any_history_of_a_lock_is_that_of_a_list(steps in prop::collection::vec(step(), 1..60)) {
        check(steps);
    }
}
