//! A lock has one holder at a time, and those who wait get it in their order.

mod any_history;

use punctual_core::change::Row;
use punctual_core::command::{Answer, Command, Refusal};
use punctual_core::ids::Fence;
use punctual_core::limits::{LOCK_WAITERS_MAX, LOCKS_MAX};
use punctual_core::lock::{Acquire, Ask, Lock, LockKey, LockRefusal, LockView, Said};
use punctual_core::name::Namespace;
use punctual_engine::Ticket;

use crate::support::{Rig, name, span};

/// The time a lock of these tests is held.
const TTL: &str = "60s";

fn key() -> LockKey {
    LockKey { namespace: Namespace::default(), name: name("backup") }
}

/// An acquire whose idempotency key and number are the owner's.
fn acquire(owner: u64, wait: &str) -> Acquire {
    Acquire {
        key: key(),
        owner: format!("host-{owner}").into(),
        request: format!("request-{owner}").into(),
        ttl: span(TTL),
        wait: span(wait),
        waiter: owner,
    }
}

fn lock(ask: Ask) -> Command {
    Command::Lock(ask)
}

fn begin(rig: &mut Rig, acquire: Acquire) -> Ticket {
    let ticket = rig.begin(lock(Ask::Acquire(acquire)));
    rig.settle();
    ticket
}

fn ask(rig: &mut Rig, ask: Ask) -> Result<Said, LockRefusal> {
    said(rig.ask(lock(ask)))
}

fn said(answer: Result<Answer, Refusal>) -> Result<Said, LockRefusal> {
    match answer {
        Ok(Answer::Lock(said)) => Ok(said),
        Err(Refusal::Lock(refusal)) => Err(refusal),
        other => panic!("not an answer about a lock: {other:?}"),
    }
}

/// The fence under which an acquire was answered. `None` means that it still waits.
fn fence(rig: &Rig, ticket: Ticket) -> Option<Result<Fence, LockRefusal>> {
    rig.answer(ticket).map(|answer| {
        said(answer).map(|said| match said {
            Said::Held(lock) => lock.fence,
            other => panic!("not a lock: {other:?}"),
        })
    })
}

fn got(rig: &Rig, ticket: Ticket) -> Fence {
    fence(rig, ticket).expect("an answer").expect("the lock")
}

fn renew(rig: &mut Rig, fence: Fence) -> Result<Said, LockRefusal> {
    ask(rig, Ask::Renew { key: key(), fence })
}

fn release(rig: &mut Rig, fence: Fence) -> Result<Said, LockRefusal> {
    ask(rig, Ask::Release { key: key(), fence })
}

fn show(rig: &mut Rig) -> Option<LockView> {
    match ask(rig, Ask::Show { key: key() }) {
        Ok(Said::Shown(view)) => view,
        other => panic!("not a view: {other:?}"),
    }
}

fn rows(rig: &Rig) -> Vec<&Lock> {
    let locks = rig.rows.all().filter_map(|row| match row {
        Row::Lock(lock) => Some(&**lock),
        _ => None,
    });
    locks.collect()
}

#[test]
fn a_held_lock_is_refused_with_its_owner() {
    let mut rig = Rig::new(0);
    let first = begin(&mut rig, acquire(1, "0s"));
    let held = got(&rig, first);
    let second = begin(&mut rig, acquire(2, "0s"));
    let expires_at = rig.now + span(TTL);
    let locked = LockRefusal::Locked { name: name("backup"), owner: "host-1".into(), expires_at };
    assert_eq!(fence(&rig, second), Some(Err(locked)));
    assert_eq!(rows(&rig).iter().map(|lock| lock.fence).collect::<Vec<_>>(), [held]);
    assert_eq!(release(&mut rig, held), Ok(Said::Released));
    assert!(rows(&rig).is_empty(), "a free lock has no row");
}

#[test]
fn waiting_callers_get_the_lock_in_their_order() {
    let mut rig = Rig::new(0);
    let mut waiting: Vec<Ticket> = (1..=4).map(|owner| begin(&mut rig, acquire(owner, "30s"))).collect();
    let owners: Vec<_> = show(&mut rig).unwrap().waiting.into_iter().map(|place| place.owner).collect();
    assert_eq!(owners, ["host-2", "host-3", "host-4"].map(Box::from));
    let mut last = Fence(0);
    while !waiting.is_empty() {
        let held = got(&rig, waiting.remove(0));
        assert!(held > last, "fences grow");
        assert!(waiting.iter().all(|ticket| fence(&rig, *ticket).is_none()), "one holder");
        assert_eq!(release(&mut rig, held), Ok(Said::Released));
        last = held;
    }
}

#[test]
fn a_lock_that_is_not_renewed_goes_to_the_next() {
    let mut rig = Rig::new(0);
    let first = begin(&mut rig, acquire(1, "0s"));
    let old = got(&rig, first);
    rig.advance("40s");
    assert!(renew(&mut rig, old).is_ok());
    rig.advance("40s");
    let next = begin(&mut rig, acquire(2, "30s"));
    rig.advance("19999ms");
    assert_eq!(fence(&rig, next), None, "it was renewed");
    rig.advance("1ms");
    let new = got(&rig, next);
    let outdated = Err(LockRefusal::OutdatedFence { name: name("backup"), fence: old });
    assert_eq!(renew(&mut rig, old), outdated);
    assert_eq!(release(&mut rig, old), outdated);
    assert_eq!(rows(&rig).iter().map(|lock| lock.fence).collect::<Vec<_>>(), [new]);
}

/// A holder stops its work when it hears this, so a node that has lost the shard must not say it.
#[test]
fn a_refused_renewal_is_answered_after_a_commit() {
    let mut rig = Rig::new(0);
    let first = begin(&mut rig, acquire(1, "0s"));
    let fence = got(&rig, first);
    assert_eq!(release(&mut rig, fence), Ok(Said::Released));
    let before = rig.batches.len();
    assert!(renew(&mut rig, fence).is_err());
    assert_eq!(rig.batches.len(), before + 1);
    assert!(rig.batches[before].changes.is_empty());
}

#[test]
fn a_repeated_acquire_gets_its_own_lock() {
    let mut rig = Rig::new(0);
    let first = begin(&mut rig, acquire(1, "0s"));
    let held = got(&rig, first);
    rig.advance("40s");
    let again = begin(&mut rig, Acquire { waiter: 7, ..acquire(1, "0s") });
    assert_eq!(got(&rig, again), held, "under the same key");
    assert_eq!(show(&mut rig).unwrap().lock.expires_at, rig.now + span(TTL), "its time begins again");
    let other = begin(&mut rig, Acquire { request: "other".into(), ..acquire(1, "0s") });
    assert!(matches!(fence(&rig, other), Some(Err(LockRefusal::Locked { .. }))), "under another key");
}

#[test]
fn a_wait_ends_and_keeps_its_place_for_a_moment() {
    let mut rig = Rig::new(0);
    let first = begin(&mut rig, acquire(1, "0s"));
    let held = got(&rig, first);
    let (second, third) = (begin(&mut rig, acquire(2, "10s")), begin(&mut rig, acquire(3, "30s")));
    rig.advance("10s");
    assert!(matches!(fence(&rig, second), Some(Err(LockRefusal::Locked { .. }))), "its wait has ended");
    rig.advance("4s");
    let again = begin(&mut rig, Acquire { waiter: 22, ..acquire(2, "10s") });
    assert_eq!(release(&mut rig, held), Ok(Said::Released));
    let held = got(&rig, again);
    assert_eq!(fence(&rig, third), None, "it came later");
    assert_eq!(release(&mut rig, held), Ok(Said::Released));
    let held = got(&rig, third);

    begin(&mut rig, acquire(4, "10s"));
    rig.advance("11s");
    assert_eq!(release(&mut rig, held), Ok(Said::Released));
    assert!(show(&mut rig).is_none(), "no caller listens at the kept place");
    rig.advance("5s");
    let late = begin(&mut rig, acquire(5, "0s"));
    assert!(got(&rig, late) > held);
}

#[test]
fn a_caller_that_has_gone_holds_nothing() {
    let mut rig = Rig::new(0);
    let (first, second) = (begin(&mut rig, acquire(1, "0s")), begin(&mut rig, acquire(2, "30s")));
    let third = begin(&mut rig, acquire(3, "30s"));
    got(&rig, first);
    assert_eq!(ask(&mut rig, Ask::Withdraw { key: key(), waiter: 2 }), Ok(Said::Withdrawn));
    assert!(matches!(fence(&rig, second), Some(Err(LockRefusal::Locked { .. }))));
    assert_eq!(ask(&mut rig, Ask::Withdraw { key: key(), waiter: 1 }), Ok(Said::Withdrawn));
    let held = got(&rig, third);
    // The caller of the third has asked again since, so its first request withdraws nothing.
    begin(&mut rig, Acquire { waiter: 33, ..acquire(3, "30s") });
    assert_eq!(ask(&mut rig, Ask::Withdraw { key: key(), waiter: 3 }), Ok(Said::Withdrawn));
    assert_eq!(show(&mut rig).unwrap().lock.fence, held);
}

#[test]
fn a_lock_outlives_the_absence_of_its_leader() {
    let mut rig = Rig::new(0);
    let first = begin(&mut rig, acquire(1, "0s"));
    let held = got(&rig, first);
    rig.pass("59s");
    rig.reload();
    let next = begin(&mut rig, acquire(2, "30s"));
    rig.advance("15s");
    assert_eq!(fence(&rig, next), None, "an attempt lease was added");
    assert!(renew(&mut rig, held).is_ok());
    rig.pass("10m");
    rig.reload();
    assert!(renew(&mut rig, held).is_ok(), "also after its end, because no other has got it");
    rig.reload();
    rig.advance("60s");
    assert!(renew(&mut rig, held).is_err(), "a load does not add more than its ttl");
}

#[test]
fn fences_grow_over_a_takeover_with_a_clock_set_back() {
    let mut rig = Rig::new(0);
    let first = begin(&mut rig, acquire(1, "0s"));
    let before = got(&rig, first);
    assert_eq!(release(&mut rig, before), Ok(Said::Released));
    rig.now = rig.now.before(span("1h"));
    rig.reload();
    let second = begin(&mut rig, acquire(2, "0s"));
    assert!(got(&rig, second) > before);
}

#[test]
fn locks_and_those_who_wait_are_bounded() {
    let mut rig = Rig::new(0);
    for number in 0..=LOCKS_MAX as u64 {
        let key = LockKey { name: name(&format!("lock-{number}")), ..key() };
        let ticket = rig.begin(lock(Ask::Acquire(Acquire { key, ..acquire(number, "0s") })));
        rig.commit();
        let full = Err(LockRefusal::TooManyLocks(Namespace::default()));
        assert_eq!(fence(&rig, ticket) == Some(full), number == LOCKS_MAX as u64, "{number}");
        rig.effects.clear();
    }
    let key = LockKey { namespace: "other".parse().unwrap(), ..key() };
    for number in 0..=LOCK_WAITERS_MAX as u64 + 1 {
        let wait = Acquire { key: key.clone(), ..acquire(number, "30s") };
        let ticket = rig.begin(lock(Ask::Acquire(wait)));
        rig.commit();
        let full = Err(LockRefusal::TooManyWaiters(name("backup")));
        assert_eq!(fence(&rig, ticket) == Some(full), number > LOCK_WAITERS_MAX as u64, "{number}");
        rig.effects.clear();
    }
}
