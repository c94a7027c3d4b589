//! One connection, for one purpose, that comes back by itself.
//!
//! Whoever needs it takes it, and gives it back when it is clean. A connection that is not given back (its user went
//! away in the middle, or it failed) is closed, which makes the server roll back what was open on it; the next user
//! gets a new one.
//!
//! The one surprise: a connection that can write holds a named lock of the server for as long as it lives. Whoever takes
//! a shard from its owner learns from the lock which connections are the owner's, and ends them. A number written down in
//! a table would outlive a restart of the server and then name a stranger's.

use std::future::Future;
use std::time::Duration;

use mysql_async::prelude::{Queryable, StatementLike};
use mysql_async::{Conn, Opts, Params, Row};
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::{Instant, sleep_until, timeout};

use super::failure::{Failure, Moment};
use super::rows;
use crate::{Error, Result};

/// How long a connection may take to come.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// Longest answer to anything that is asked: far beyond the longest wait for a lock.
pub(super) const ANSWER_MAX: Duration = Duration::from_secs(30);
/// What waits longer than this for a row's lock is rolled back. A former owner's transaction is ended before that.
const LOCK_WAIT_MAX_SECONDS: u32 = 5;
/// In a commit: all shards of a lane wait with the one whose rows somebody holds.
const LOCK_WAIT_IN_COMMIT_MAX_SECONDS: u32 = 1;
/// A transaction in which nothing is asked for so long is ended by the server, where it knows how: a stopped leader
/// holds nothing.
const IDLE_IN_TRANSACTION_MAX_SECONDS: u32 = 2;
/// A connection that rested longer is asked whether it lives before something depends on it.
const PING_AFTER: Duration = Duration::from_secs(1);
const PING_MAX: Duration = Duration::from_secs(1);
/// Between two attempts to connect.
const BACKOFF_MIN: Duration = Duration::from_millis(20);
const BACKOFF_MAX: Duration = Duration::from_secs(1);
/// How long the lock of a connection that was just ended may still be held.
const HOLD_WAIT_SECONDS: u32 = 2;
/// A farewell is polite, not necessary.
const QUIT_MAX: Duration = Duration::from_millis(100);
/// ER_NO_SUCH_THREAD: it has ended by itself.
const NO_SUCH_CONNECTION: u16 = 1094;

/// What a connection is for: it decides what it may see and how long it may rest in a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// READ COMMITTED, as all writing is.
    Write,
    /// The same, for a lane: it waits no longer for a lock than others can wait for it.
    Commit,
    /// A read of several statements sees one snapshot, which takes no locks.
    Read,
}

#[derive(Debug)]
pub(super) struct Link {
    opts: Opts,
    what_for: Use,
    /// The named lock that says whose connection it is; none: nobody will ever ask.
    hold: Option<String>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    idle: Option<(Conn, Instant)>,
    /// When the next attempt to connect may be made, and how long to wait after that one.
    retry: Option<(Instant, Duration)>,
}

/// The right to use a link, whether or not it is connected.
pub(super) struct Turn<'a> {
    link: &'a Link,
    state: MutexGuard<'a, State>,
}

/// A connection in use.
pub(super) struct Held<'a> {
    state: MutexGuard<'a, State>,
    conn: Conn,
    /// A snapshot is open and has to be closed.
    in_snapshot: bool,
}

impl Link {
    pub(super) fn new(opts: Opts, what_for: Use, hold: Option<String>) -> Link {
        Link { opts, what_for, hold, state: Mutex::new(State::default()) }
    }

    pub(super) async fn take(&self) -> Result<Held<'_>> {
        self.turn().await.connected().await
    }

    /// Waits until nobody else uses it.
    pub(super) async fn turn(&self) -> Turn<'_> {
        Turn { link: self, state: self.state.lock().await }
    }

    async fn connect(&self, state: &mut State) -> Result<Conn> {
        let backoff = match state.retry {
            Some((at, backoff)) => {
                sleep_until(at).await;
                (backoff * 2).min(BACKOFF_MAX)
            }
            None => BACKOFF_MIN,
        };
        let connected = match timeout(CONNECT_MAX, self.set_up()).await {
            Ok(connected) => connected,
            Err(_) => Err(Failure::Late),
        };
        match connected {
            Ok(conn) => {
                state.retry = None;
                Ok(conn)
            }
            Err(failure) => {
                state.retry = Some((Instant::now() + backoff, backoff));
                Err(failure.judge(Moment::Connecting))
            }
        }
    }

    async fn set_up(&self) -> Result<Conn, Failure> {
        let mut conn = Conn::new(self.opts.clone()).await?;
        let (isolation, lock_wait) = match self.what_for {
            Use::Write => ("READ COMMITTED", LOCK_WAIT_MAX_SECONDS),
            Use::Commit => ("READ COMMITTED", LOCK_WAIT_IN_COMMIT_MAX_SECONDS),
            Use::Read => ("REPEATABLE READ", LOCK_WAIT_MAX_SECONDS),
        };
        conn.query_drop(format!(
            "SET NAMES utf8mb4 COLLATE utf8mb4_bin; \
             SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'; \
             SET SESSION TRANSACTION ISOLATION LEVEL {isolation}; \
             SET SESSION innodb_lock_wait_timeout = {lock_wait}; \
             SET SESSION time_zone = '+00:00'; SET SESSION autocommit = 1"
        ))
        .await?;
        if self.what_for != Use::Read && is_mariadb(&mut conn).await? {
            let limit = format!("SET SESSION idle_transaction_timeout = {IDLE_IN_TRANSACTION_MAX_SECONDS}");
            conn.query_drop(limit).await?;
        }
        if let Some(name) = &self.hold {
            hold(&mut conn, name).await?;
        }
        Ok(conn)
    }
}

impl<'a> Turn<'a> {
    pub(super) async fn connected(self) -> Result<Held<'a>> {
        let Turn { link, mut state } = self;
        if let Some((mut conn, since)) = state.idle.take() {
            if since.elapsed() < PING_AFTER || matches!(timeout(PING_MAX, conn.ping()).await, Ok(Ok(()))) {
                return Ok(Held { state, conn, in_snapshot: false });
            }
            close(conn).await;
        }
        let conn = link.connect(&mut state).await?;
        Ok(Held { state, conn, in_snapshot: false })
    }
}

async fn is_mariadb(conn: &mut Conn) -> Result<bool, Failure> {
    let version: Option<String> = conn.query_first("SELECT VERSION()").await?;
    Ok(version.is_some_and(|version| version.contains("MariaDB")))
}

/// Takes the named lock. Only an earlier connection of this very purpose can have it: one that was lost here and that the
/// server does not know to be lost, with all it locked.
async fn hold(conn: &mut Conn, name: &str) -> Result<(), Failure> {
    if get_lock(conn, name, 0).await? {
        return Ok(());
    }
    end_holder(conn, name).await?;
    if get_lock(conn, name, HOLD_WAIT_SECONDS).await? {
        return Ok(());
    }
    let why = format!("an earlier connection still holds `{name}`");
    Err(Error::Unreachable(why).into())
}

async fn get_lock(conn: &mut Conn, name: &str, seconds: u32) -> Result<bool, Failure> {
    let got: Option<Row> = conn.exec_first("SELECT GET_LOCK(?, ?)", (name, seconds)).await?;
    match got {
        Some(row) => Ok(rows::int_or_none(&row, 0)? == Some(1)),
        None => Ok(false),
    }
}

/// Ends the connection that holds a named lock. True: there was one.
pub(super) async fn end_holder(conn: &mut Conn, name: &str) -> Result<bool, Failure> {
    let holder: Option<Row> = conn.exec_first("SELECT IS_USED_LOCK(?)", (name,)).await?;
    let Some(id) = holder.map(|row| rows::int_or_none(&row, 0)).transpose()?.flatten() else {
        return Ok(false);
    };
    match conn.query_drop(format!("KILL CONNECTION {id}")).await {
        Ok(()) => Ok(true),
        Err(mysql_async::Error::Server(error)) if error.code == NO_SUCH_CONNECTION => Ok(false),
        Err(error) => Err(error.into()),
    }
}

impl Held<'_> {
    pub(super) fn conn(&mut self) -> &mut Conn {
        &mut self.conn
    }

    /// What follows sees one instant of the store.
    pub(super) async fn snapshot(&mut self) -> Result<(), Failure> {
        self.in_snapshot = true;
        let begin = "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY";
        answered(self.conn.query_drop(begin)).await
    }

    pub(super) async fn rows<P: Into<Params> + Send>(
        &mut self,
        sql: &str,
        params: P,
    ) -> Result<Vec<Row>, Failure> {
        answered(self.conn.exec(sql, params)).await
    }

    pub(super) async fn row<P: Into<Params> + Send>(
        &mut self,
        sql: &str,
        params: P,
    ) -> Result<Option<Row>, Failure> {
        Ok(self.rows(sql, params).await?.into_iter().next())
    }

    /// A query that was put together, with its values in it as numbers and hex.
    pub(super) async fn text(&mut self, sql: Vec<u8>) -> Result<Vec<Row>, Failure> {
        answered(self.conn.query(sql)).await
    }

    /// How many rows it found.
    pub(super) async fn execute<S: StatementLike, P: Into<Params> + Send>(
        &mut self,
        sql: S,
        params: P,
    ) -> Result<u64, Failure> {
        answered(self.conn.exec_drop(sql, params)).await?;
        Ok(self.conn.affected_rows())
    }

    /// A statement without values.
    pub(super) async fn step(&mut self, sql: &str) -> Result<(), Failure> {
        answered(self.conn.query_drop(sql)).await
    }

    /// Commits what was written, or rolls it back, and gives the connection back.
    pub(super) async fn commit<T>(mut self, written: Result<T, Failure>) -> Result<T> {
        match written {
            Ok(value) => {
                let committed = self.step("COMMIT").await;
                self.finish(committed.map(|()| value), Moment::Committing).await
            }
            Err(Failure::Told(error)) => {
                let rolled_back = self.step("ROLLBACK").await;
                let told = rolled_back.and(Err(Failure::Told(error)));
                self.finish(told, Moment::Writing).await
            }
            // `finish` rolls back what is left of it.
            Err(failure) => self.finish(Err(failure), Moment::Writing).await,
        }
    }

    /// Gives the connection back if it is clean, and says what became of what it was taken for.
    pub(super) async fn finish<T>(mut self, result: Result<T, Failure>, moment: Moment) -> Result<T> {
        let clean = match &result {
            Ok(_) => !self.in_snapshot || self.step("COMMIT").await.is_ok(),
            // Known words of ours come after a rollback, or out of a snapshot, which is then closed.
            Err(Failure::Told(_)) => !self.in_snapshot || self.step("ROLLBACK").await.is_ok(),
            Err(failure) => !failure.ends_connection() && self.step("ROLLBACK").await.is_ok(),
        };
        let Held { mut state, conn, .. } = self;
        if clean {
            state.idle = Some((conn, Instant::now()));
        } else {
            close(conn).await;
        }
        result.map_err(|failure| failure.judge(moment))
    }
}

impl std::fmt::Debug for Held<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Held").field("connection", &self.conn.id()).finish_non_exhaustive()
    }
}

/// An answer, or that it did not come in time.
pub(super) async fn answered<T>(answer: impl Future<Output = mysql_async::Result<T>>) -> Result<T, Failure> {
    match timeout(ANSWER_MAX, answer).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(Failure::Late),
    }
}

/// Says farewell without waiting for what may still be on its way.
async fn close(conn: Conn) {
    // Whatever it says, the connection is closed when this returns.
    let _ = timeout(QUIT_MAX, conn.disconnect()).await;
}
