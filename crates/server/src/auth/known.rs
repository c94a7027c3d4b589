//! The tokens of the store, as this node last read them.
//!
//! Every request asks, so they are held in memory; but not for long, so that a token which was removed through another
//! node stops working here too. They are read when someone comes and they are older than a second, and when someone
//! brings one that is not among them: it may have been added through another node a moment ago.

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_store::Store;
use punctual_store::token::{Hash, Record};
use subtle::ConstantTimeEq;
use tokio::time::{Instant, timeout};
use tracing::warn;

/// How old what we know may be before it is read again.
const FRESH: Duration = Duration::from_secs(1);
/// How long a read may take.
const READ_MAX: Duration = Duration::from_secs(1);
/// How old it may be when the store cannot be read: then nobody is let in. With the read that fails this is below the
/// five seconds in which a removed token has to stop working.
const OLD: Duration = Duration::from_secs(4);
/// No token was let in yet.
const NEVER: i64 = i64::MIN;

#[derive(Debug)]
pub(super) struct Known {
    store: Arc<dyn Store>,
    last: Mutex<Last>,
    /// One reads, the others wait for what it finds.
    reading: tokio::sync::Mutex<()>,
}

/// The last read, and the last try to read.
#[derive(Debug, Default)]
struct Last {
    seen: Option<(Instant, Arc<Vec<Entry>>)>,
    tried: Option<Instant>,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) record: Record,
    used: Arc<AtomicI64>,
}

/// The store cannot be asked, and what it said last is too old.
#[derive(Debug)]
pub(super) struct TooOld;

impl Known {
    pub(super) fn new(store: Arc<dyn Store>) -> Known {
        Known { store, last: Mutex::default(), reading: tokio::sync::Mutex::default() }
    }

    pub(super) async fn all(&self) -> Result<Arc<Vec<Entry>>, TooOld> {
        if let Some(answer) = self.at_hand() {
            return answer;
        }
        let _turn = self.reading.lock().await;
        if let Some(answer) = self.at_hand() {
            return answer;
        }
        self.read().await
    }

    /// As they are at `since` or later, for someone whose token was not among those at hand.
    pub(super) async fn all_since(&self, since: Instant) -> Result<Arc<Vec<Entry>>, TooOld> {
        let _turn = self.reading.lock().await;
        if let Some((at, entries)) = &self.last().seen
            && *at >= since
        {
            return Ok(Arc::clone(entries));
        }
        self.read().await
    }

    async fn read(&self) -> Result<Arc<Vec<Entry>>, TooOld> {
        let asked = Instant::now();
        let read = timeout(READ_MAX, self.store.tokens()).await;
        self.note(asked, read.unwrap_or_else(|_| Err(punctual_store::Error::Unreachable("no answer".into()))))
    }

    /// What can be said without asking the store; none: it is time to ask.
    fn at_hand(&self) -> Option<Result<Arc<Vec<Entry>>, TooOld>> {
        let last = self.last();
        last.tried.filter(|tried| tried.elapsed() < FRESH).map(|_| last.answer())
    }

    fn note(
        &self,
        asked: Instant,
        read: punctual_store::Result<Vec<Record>>,
    ) -> Result<Arc<Vec<Entry>>, TooOld> {
        let mut last = self.last();
        match read {
            Ok(records) => {
                let before = last.seen.take().map(|(_, entries)| entries).unwrap_or_default();
                let entry = |record: Record| {
                    let known = before.iter().find(|entry| entry.record.hash == record.hash);
                    let used = known
                        .map_or_else(|| Arc::new(AtomicI64::new(NEVER)), |known| Arc::clone(&known.used));
                    Entry { record, used }
                };
                last.seen = Some((asked, Arc::new(records.into_iter().map(entry).collect())));
            }
            Err(error) => warn!(%error, "the tokens cannot be read"),
        }
        last.tried = Some(Instant::now());
        last.answer()
    }

    /// The next who comes reads anew: we have just changed something ourselves.
    pub(super) fn forget(&self) {
        self.last().tried = None;
    }

    /// When a token was last let in here.
    pub(super) fn last_used(&self, hash: &Hash) -> Option<Timestamp> {
        let last = self.last();
        let (_, entries) = last.seen.as_ref()?;
        let used = entries.iter().find(|entry| entry.record.hash == *hash)?.used.load(Relaxed);
        (used != NEVER).then(|| Timestamp::from_millis(used))
    }

    fn last(&self) -> std::sync::MutexGuard<'_, Last> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Last {
    fn answer(&self) -> Result<Arc<Vec<Entry>>, TooOld> {
        match &self.seen {
            Some((at, entries)) if at.elapsed() < OLD => Ok(Arc::clone(entries)),
            _ => Err(TooOld),
        }
    }
}

impl Entry {
    pub(super) fn used_at(&self, now: Timestamp) {
        self.used.store(now.as_millis(), Relaxed);
    }
}

/// The entry with this hash. All are looked at, each in the same time, so that how long it takes tells nothing.
pub(super) fn find<'a>(entries: &'a [Entry], hash: &Hash) -> Option<&'a Entry> {
    entries.iter().fold(None, |found, entry| {
        if bool::from(entry.record.hash[..].ct_eq(&hash[..])) { Some(entry) } else { found }
    })
}
