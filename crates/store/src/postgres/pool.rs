//! A few connections of one role, opened on first use, and again after they are lost.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use super::connect::{Connector, Role};
use super::link::Link;
use crate::{Error, Result};

/// After a failed connect: the first and the longest pause. Requests in that time get the same error again, so a
/// database that is back may be reported unreachable for that long.
const REST_MIN: Duration = Duration::from_millis(50);
const REST_MAX: Duration = Duration::from_millis(250);

#[derive(Debug)]
pub(super) struct Pool {
    connector: Arc<Connector>,
    role: Role,
    /// One permit for each connection that may be in use.
    places: Semaphore,
    idle: Mutex<Vec<Link>>,
    trouble: Mutex<Option<Trouble>>,
}

/// Why the last connect failed, and when the next may be tried.
#[derive(Debug)]
struct Trouble {
    why: String,
    rest: Duration,
    until: Instant,
}

impl Pool {
    pub(super) fn new(connector: &Arc<Connector>, role: Role, connections: usize) -> Pool {
        Pool {
            connector: Arc::clone(connector),
            role,
            places: Semaphore::new(connections),
            idle: Mutex::new(Vec::new()),
            trouble: Mutex::new(None),
        }
    }

    /// Waits for a free connection. It returns to the pool when dropped.
    pub(super) async fn take(&self) -> Result<Taken<'_>> {
        let place = self.places.acquire().await;
        let place = place.map_err(|_| Error::Unusable("the store is closed".to_owned()))?;
        let idle = {
            let mut idle = self.idle.lock();
            idle.retain(Link::is_good);
            idle.pop()
        };
        let link = match idle {
            Some(link) => link,
            None => self.connect().await?,
        };
        Ok(Taken { pool: self, link: Some(link), _place: place })
    }

    async fn connect(&self) -> Result<Link> {
        let rest = {
            let trouble = self.trouble.lock();
            match &*trouble {
                Some(trouble) if Instant::now() < trouble.until => {
                    return Err(Error::Unreachable(trouble.why.clone()));
                }
                trouble => rest_after(trouble.as_ref().map(|trouble| trouble.rest)),
            }
        };
        let connected = self.connector.connect(self.role).await;
        *self.trouble.lock() = match &connected {
            Ok(_) => None,
            Err(error) => Some(Trouble { why: why(error), rest, until: Instant::now() + rest }),
        };
        connected
    }
}

/// The next pause, given the one before.
fn rest_after(before: Option<Duration>) -> Duration {
    before.map_or(REST_MIN, |before| (before * 2).min(REST_MAX))
}

fn why(error: &Error) -> String {
    match error {
        Error::Unreachable(why) => why.clone(),
        other => other.to_string(),
    }
}

/// A connection in use.
#[derive(Debug)]
pub(super) struct Taken<'p> {
    pool: &'p Pool,
    link: Option<Link>,
    _place: SemaphorePermit<'p>,
}

impl Deref for Taken<'_> {
    type Target = Link;

    fn deref(&self) -> &Link {
        self.link.as_ref().expect("it is given back only when dropped")
    }
}

impl DerefMut for Taken<'_> {
    fn deref_mut(&mut self) -> &mut Link {
        self.link.as_mut().expect("it is given back only when dropped")
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if let Some(link) = self.link.take().filter(Link::is_good) {
            self.pool.idle.lock().push(link);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_that_is_back_is_tried_within_a_quarter_second() {
        let mut rest = None;
        for _ in 0..100 {
            rest = Some(rest_after(rest));
        }
        assert!(rest.is_some_and(|rest| rest <= Duration::from_millis(250)), "{rest:?}");
    }
}
