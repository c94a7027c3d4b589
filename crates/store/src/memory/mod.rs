//! The reference implementation of the store, in plain Rust.
//!
//! One ordered map of rows behind a mutex: every backend has to behave as this one does. No call waits, so a future is
//! ready the first time it is polled; the simulator depends on that.
//!
//! The one surprise: a batch is applied in place and undone row by row when it is refused, because copying all rows for
//! each commit would make the simulator slow.

mod tables;
mod shards;
mod tokens;
mod logs;
mod reads;
mod queues;
mod upkeep;
mod calendars;
mod descriptors;
mod membership;
mod mail;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use parking_lot::Mutex;
use punctual_core::Timestamp;
use punctual_core::ids::{SHARDS_MAX, SessionId};
use punctual_core::time::Clock;
use tokio::sync::watch;

use self::tables::Tables;
use crate::{Member, Result, Session, Sessions};

pub struct Memory {
    shards: u16,
    clock: Arc<dyn Clock>,
    tables: Mutex<Tables>,
    written: watch::Sender<u64>,
}

impl Memory {
    /// An empty store that uses the machine's clock.
    pub fn new(shards: u16) -> Self {
        Memory::with_clock(shards, Arc::new(Machine))
    }

    pub fn with_clock(shards: u16, clock: Arc<dyn Clock>) -> Self {
        assert!((1..=SHARDS_MAX).contains(&shards), "a store has 1 to {SHARDS_MAX} shards");
        let (tables, written) = (Mutex::new(Tables::new(shards)), watch::Sender::new(0));
        Memory { shards, clock, tables, written }
    }

    /// Changes with every commit and every settled calendar: wakes tasks that wait for new writes.
    pub fn written(&self) -> watch::Receiver<u64> {
        self.written.subscribe()
    }
}

#[derive(Debug)]
struct Machine;

impl Clock for Machine {
    #[expect(clippy::disallowed_methods, reason = "a store has a clock of its own, and this is all of it")]
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Timestamp::MIN + since
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("shards", &self.shards).finish_non_exhaustive()
    }
}

#[async_trait]
impl Sessions for Memory {
    async fn renew(&self, session: &Session, ttl: Duration) -> Result<Vec<Member>> {
        Ok(self.tables.lock().renew(session, ttl, self.clock.now()))
    }

    async fn leave(&self, session: SessionId) -> Result<()> {
        self.tables.lock().sessions.remove(&session);
        Ok(())
    }
}
