//! A sample of every command on a lock, and of every answer to one.

use punctual_core::ids::Fence;
use punctual_core::lock::{Acquire, Ask, Lock, LockKey, LockView, Said, Waiting};

use super::*;

const FENCE: Fence = Fence(i64::MAX);

fn a_lock() -> LockKey {
    LockKey { namespace: namespace(), name: name() }
}

pub(super) fn commands() -> Vec<Command> {
    let acquire = Acquire {
        key: a_lock(),
        owner: "größe@host".into(),
        request: "a key".into(),
        ttl: Duration::from_millis(100),
        wait: Duration::ZERO,
        waiter: u64::MAX,
    };
    let asks = [
        Ask::Acquire(acquire),
        Ask::Renew { key: a_lock(), fence: FENCE },
        Ask::Release { key: a_lock(), fence: FENCE },
        Ask::Withdraw { key: a_lock(), waiter: u64::MAX },
        Ask::Show { key: a_lock() },
    ];
    asks.map(Command::Lock).into()
}

pub(super) fn answers() -> Vec<Answer> {
    let lock = Arc::new(Lock {
        fence: FENCE,
        key: a_lock(),
        owner: "host".into(),
        request: "a key".into(),
        since: NOW,
        ttl: Duration::from_secs(30),
        expires_at: NOW,
    });
    let waiting = vec![Waiting { owner: "other".into(), since: NOW }];
    let view = LockView { lock: Arc::clone(&lock), waiting };
    [Said::Held(lock), Said::Released, Said::Withdrawn, Said::Shown(Some(view)), Said::Shown(None)]
        .map(Answer::Lock)
        .into()
}
