//! A cache of the store's tokens.
//!
//! Every request needs them, so they are held in memory, but only for a second, so that a token removed
//! through another node stops working here too. A token that is not in the cache makes the node read again:
//! it may have been added through another node a moment ago.

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_store::Tokens;
use punctual_store::token::{Hash, Record};
use subtle::ConstantTimeEq;
use tokio::time::{Instant, timeout};
use tracing::warn;

/// The age after which the cache is read again.
const FRESH: Duration = Duration::from_secs(1);
/// How long a read may take.
const READ_MAX: Duration = Duration::from_secs(1);
/// The age up to which the cache is used while the store cannot be read; after that every token is refused.
/// Together with the failed read this stays below the five seconds after which a removed token must stop
/// working.
const OLD: Duration = Duration::from_secs(4);
/// The token was not used yet.
const NEVER: i64 = i64::MIN;

#[derive(Debug)]
pub(super) struct Known {
    store: Arc<dyn Tokens>,
    last: Mutex<Last>,
    /// Lets one task read; the others wait for its result.
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

/// The store cannot be read, and the cache is older than [`OLD`].
#[derive(Debug)]
pub(super) struct TooOld;

impl Known {
    pub(super) fn new(store: Arc<dyn Tokens>) -> Known {
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

    /// The tokens as of `since` or later, for a token that was not in the cache.
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

    /// The cached answer. `None` means that the store has to be read.
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

    /// Makes the next request read the store: this node has just changed the tokens.
    pub(super) fn forget(&self) {
        self.last().tried = None;
    }

    /// When this node last accepted the token. `None` means not since this node started.
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

/// The entry with this hash. Compares with all entries in constant time, so that timing reveals nothing.
pub(super) fn find<'a>(entries: &'a [Entry], hash: &Hash) -> Option<&'a Entry> {
    entries.iter().fold(None, |found, entry| {
        if bool::from(entry.record.hash[..].ct_eq(&hash[..])) { Some(entry) } else { found }
    })
}
