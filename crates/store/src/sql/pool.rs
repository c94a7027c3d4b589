//! A few connections to a server for one purpose, opened on first use, and again after they are lost.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use crate::{Error, Result};

/// After a failed connect: the first and the longest pause. Requests in that time get the same error again, so a
/// database that is back may be reported unreachable for that long.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_millis(250);

/// A connection that a pool can keep.
pub(crate) trait Pooled: Sized + Send {
    /// What is needed to open one.
    type Settings: Send + Sync;

    fn open(settings: &Self::Settings) -> impl Future<Output = Result<Self>> + Send;

    /// Whether the next user may have it: it is open, and its last user has left nothing unfinished on it.
    fn is_clean(&self) -> bool;

    /// The connection for its next user. `None` means it was lost while it was idle.
    fn reused(self) -> impl Future<Output = Option<Self>> + Send {
        async { Some(self) }
    }
}

pub(crate) struct Pool<C: Pooled> {
    settings: C::Settings,
    /// One permit for each connection that may be in use.
    places: Semaphore,
    idle: Mutex<Vec<C>>,
    outage: Mutex<Option<Outage>>,
}

/// Why the last connect failed, and when the next may be tried.
#[derive(Debug)]
struct Outage {
    why: String,
    pause: Duration,
    until: Instant,
}

impl<C: Pooled> Pool<C> {
    pub(crate) fn new(settings: C::Settings, connections: usize) -> Pool<C> {
        let (idle, outage) = (Mutex::new(Vec::new()), Mutex::new(None));
        Pool { settings, places: Semaphore::new(connections), idle, outage }
    }

    /// Waits for a free connection. It returns to the pool when it is dropped, if it is clean.
    pub(crate) async fn take(&self) -> Result<Taken<'_, C>> {
        let place = self.places.acquire().await;
        let place = place.map_err(|_| Error::Unusable("the store is closed".to_owned()))?;
        let connection = match self.idle().await {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        Ok(Taken { pool: self, connection: Some(connection), _place: place })
    }

    async fn idle(&self) -> Option<C> {
        let idle = {
            let mut idle = self.idle.lock();
            idle.retain(C::is_clean);
            idle.pop()
        };
        idle?.reused().await
    }

    async fn connect(&self) -> Result<C> {
        let pause = match &*self.outage.lock() {
            Some(outage) if Instant::now() < outage.until => {
                return Err(Error::Unreachable(outage.why.clone()));
            }
            outage => pause_after(outage.as_ref().map(|outage| outage.pause)),
        };
        let connected = C::open(&self.settings).await;
        *self.outage.lock() = match &connected {
            Ok(_) => None,
            Err(error) => Some(Outage { why: why(error), pause, until: Instant::now() + pause }),
        };
        connected
    }
}

impl<C: Pooled> fmt::Debug for Pool<C> {
    /// Leaves out the settings, which may have a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("outage", &self.outage).finish_non_exhaustive()
    }
}

/// The next pause, given the one before.
fn pause_after(before: Option<Duration>) -> Duration {
    before.map_or(PAUSE_MIN, |before| (before * 2).min(PAUSE_MAX))
}

fn why(error: &Error) -> String {
    match error {
        Error::Unreachable(why) => why.clone(),
        other => other.to_string(),
    }
}

/// A connection in use.
pub(crate) struct Taken<'p, C: Pooled> {
    pool: &'p Pool<C>,
    /// `None` only while it is dropped.
    connection: Option<C>,
    _place: SemaphorePermit<'p>,
}

impl<C: Pooled> Taken<'_, C> {
    /// Takes the connection out of the pool, to close it.
    pub(crate) fn remove(mut self) -> Option<C> {
        self.connection.take()
    }
}

impl<C: Pooled> Deref for Taken<'_, C> {
    type Target = C;

    fn deref(&self) -> &C {
        self.connection.as_ref().expect("it is given back only when dropped")
    }
}

impl<C: Pooled> DerefMut for Taken<'_, C> {
    fn deref_mut(&mut self) -> &mut C {
        self.connection.as_mut().expect("it is given back only when dropped")
    }
}

impl<C: Pooled> Drop for Taken<'_, C> {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take().filter(C::is_clean) {
            self.pool.idle.lock().push(connection);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_that_is_back_is_tried_within_a_quarter_second() {
        let mut pause = None;
        for _ in 0..100 {
            pause = Some(pause_after(pause));
        }
        assert!(pause.is_some_and(|pause| pause <= Duration::from_millis(250)), "{pause:?}");
    }
}
