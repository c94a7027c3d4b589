//! Checks locks: one holder at a time, as committed and as the holders count their time; no lock ends early; fences grow;
//! nobody waits for a lock that is free.

use std::collections::BTreeMap;

use punctual_core::change::{Batch, Change, Row, RowKey};
use punctual_core::ids::Fence;
use punctual_core::lock::LockKey;

use super::Verdict;

/// How long a lock may be free while a caller waits for it, once all faults have ended: a commit takes this long.
const SERVED_WITHIN: u64 = 5_000;

#[derive(Debug, Default)]
pub(crate) struct Locks {
    all: BTreeMap<LockKey, History>,
}

#[derive(Debug, Default)]
struct History {
    /// The fence of its row.
    row: Option<Fence>,
    /// The newest fence so far.
    last: Option<Fence>,
    free_since: u64,
    holder: Option<Holder>,
}

/// An owner that relies on the lock.
#[derive(Debug)]
struct Holder {
    request: u64,
    fence: Fence,
    until: u64,
}

impl History {
    /// The lock of an owner that relies on it must not end before its time.
    fn keeps(&self, key: &LockKey, now: u64) -> Verdict {
        match self.holder.as_ref().filter(|holder| holder.until > now) {
            Some(Holder { fence, until, .. }) => {
                Err(format!("lock: fence {fence} of {} ended {} ms early", key.name, until - now))
            }
            None => Ok(()),
        }
    }
}

impl Locks {
    pub(super) fn landed(&mut self, batch: &Batch, time: u64) -> Verdict {
        for (key, change) in batch.changes.iter() {
            match (key, change) {
                (RowKey::Lock(fence), Change::Delete) => {
                    let ended = self.all.iter_mut().find(|(_, history)| history.row == Some(*fence));
                    let Some((key, history)) = ended else { continue };
                    (history.row, history.free_since) = (None, time);
                    if history.holder.as_ref().is_some_and(|holder| holder.fence == *fence) {
                        history.keeps(key, time)?;
                    }
                }
                (_, Change::Insert(Row::Lock(lock))) => {
                    let history = self.all.entry(lock.key.clone()).or_default();
                    if let Some(other) = history.row.replace(lock.fence) {
                        return Err(format!(
                            "lock: {} is held under fence {other} and under {}",
                            lock.key.name, lock.fence
                        ));
                    }
                    if history.last.replace(lock.fence) >= Some(lock.fence) {
                        return Err(format!("lock: fence {} of {} did not grow", lock.fence, lock.key.name));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// An owner relies on a lock from now on, until a moment of true time.
    pub(crate) fn holds(
        &mut self,
        key: &LockKey,
        request: u64,
        fence: Fence,
        (now, until): (u64, u64),
    ) -> Verdict {
        let name = &key.name;
        let history = self.all.entry(key.clone()).or_default();
        if history.last < Some(fence) {
            return Err(format!("lock: {name} was given under fence {fence} before that was committed"));
        }
        if let Some(other) =
            history.holder.as_ref().filter(|other| other.request != request && other.until > now)
        {
            return Err(format!("lock: requests {} and {request} hold {name} at once", other.request));
        }
        history.holder = Some(Holder { request, fence, until });
        Ok(())
    }

    /// The renewal of a lock was refused to the owner that relied on it.
    pub(crate) fn may_be_outdated(&self, key: &LockKey, request: u64, now: u64) -> Verdict {
        let history = self.all.get(key);
        let relies = |holder: &Holder| holder.request == request;
        match history.filter(|history| history.holder.as_ref().is_some_and(relies)) {
            Some(history) => history.keeps(key, now),
            None => Ok(()),
        }
    }

    /// An owner no longer relies on a lock.
    pub(crate) fn gives_up(&mut self, key: &LockKey, request: u64) {
        if let Some(history) = self.all.get_mut(key) {
            history.holder.take_if(|holder| holder.request == request);
        }
    }

    /// An acquire was refused because the lock is held.
    pub(crate) fn may_be_refused(&self, key: &LockKey, now: u64) -> Verdict {
        match self.all.get(key).filter(|history| history.row.is_none()) {
            Some(history) if history.free_since + SERVED_WITHIN < now => Err(format!(
                "lock: a caller waits for {}, which is free since {} ms",
                key.name,
                now - history.free_since
            )),
            _ => Ok(()),
        }
    }

    /// Every owner has gone, and every lock has ended.
    pub(super) fn at_rest(&self) -> Verdict {
        match self.all.iter().find(|(_, history)| history.row.is_some()) {
            Some((key, _)) => Err(format!("lock: {} is still held", key.name)),
            None => Ok(()),
        }
    }
}
