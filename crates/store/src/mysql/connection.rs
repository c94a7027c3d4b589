//! One connection, with its settings and its statements.
//!
//! It goes back to its pool when its user has finished cleanly. Otherwise (its user was cancelled, or it failed) it is
//! closed, so that the server rolls back what was open on it.
//!
//! The one surprise: a connection that can write holds a named lock of the server while it lives. A node that takes
//! over a shard finds the former owner's connections by these locks, and ends them. A connection id stored in a table
//! would outlive a restart of the server and could then name the connection of another program.

use std::future::Future;
use std::time::Duration;

use mysql_async::prelude::{Queryable, StatementLike};
use mysql_async::{Conn, Opts, Params, Row};
use tokio::time::{Instant, timeout};

use super::failure::{Failure, Moment};
use crate::sql::pool::{Pooled, Taken};
use crate::sql::value::Row as Columns;
use crate::{Error, Result};

/// How long connecting may take.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// How long any answer may take: far longer than the longest wait for a lock.
pub(super) const ANSWER_MAX: Duration = Duration::from_secs(30);
/// A transaction that waits longer for a row lock is rolled back. A takeover ends a former owner's transaction before
/// that.
const LOCK_WAIT_MAX_SECONDS: u32 = 5;
/// Shorter in a commit: all shards of a commit wait together with the one whose rows are locked.
const LOCK_WAIT_IN_COMMIT_MAX_SECONDS: u32 = 1;
/// The server ends a transaction that is idle for this long, if it supports that, so that a stopped leader holds no
/// locks.
const IDLE_IN_TRANSACTION_MAX_SECONDS: u32 = 2;
/// A connection that was idle for longer is pinged before it is used.
const PING_AFTER: Duration = Duration::from_secs(1);
const PING_MAX: Duration = Duration::from_secs(1);
/// How long the lock of a connection that was just ended may still be connection.
const LOCK_FREED_MAX_SECONDS: u32 = 2;
/// How long a clean disconnect may take; it is optional.
const QUIT_MAX: Duration = Duration::from_millis(100);
/// ER_NO_SUCH_THREAD: the connection has already ended.
const NO_SUCH_CONNECTION: u16 = 1094;

/// What a connection is for: it decides its isolation level and its lock timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// READ COMMITTED, as for all writes.
    Write,
    /// Like `Write`, for commits, with a shorter lock timeout.
    Commit,
    /// Several statements read one snapshot, without locks.
    Read,
}

/// What is needed to open a connection.
pub(super) struct Settings {
    pub(super) opts: Opts,
    pub(super) what_for: Use,
    /// The named lock that identifies the owner of the connection. `None` means the connection takes no lock.
    pub(super) lock: Option<String>,
}

pub(super) struct MysqlConnection {
    pub(super) conn: Conn,
    /// A snapshot is open and has to be closed.
    in_snapshot: bool,
    /// Since when it has been idle. `None` means it is in use, or was left in the middle of something.
    idle_since: Option<Instant>,
}

impl Pooled for MysqlConnection {
    type Settings = Settings;

    async fn open(settings: &Settings) -> Result<MysqlConnection> {
        match timeout(CONNECT_MAX, settings.connect()).await.unwrap_or(Err(Failure::Timeout)) {
            Ok(conn) => Ok(MysqlConnection { conn, in_snapshot: false, idle_since: None }),
            Err(failure) => Err(failure.judge(Moment::Connecting)),
        }
    }

    fn is_clean(&self) -> bool {
        self.idle_since.is_some()
    }

    async fn reused(mut self) -> Option<MysqlConnection> {
        let since = self.idle_since.take()?;
        if since.elapsed() < PING_AFTER || matches!(timeout(PING_MAX, self.conn.ping()).await, Ok(Ok(()))) {
            return Some(self);
        }
        self.close().await;
        None
    }
}

impl Settings {
    async fn connect(&self) -> Result<Conn, Failure> {
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
        if let Some(name) = &self.lock {
            take_lock(&mut conn, name).await?;
        }
        Ok(conn)
    }
}

async fn is_mariadb(conn: &mut Conn) -> Result<bool, Failure> {
    let version: Option<String> = conn.query_first("SELECT VERSION()").await?;
    Ok(version.is_some_and(|version| version.contains("MariaDB")))
}

/// Takes the named lock. Only an earlier connection for the same purpose can hold it: it was lost here, but the server
/// has not noticed and keeps its locks.
async fn take_lock(conn: &mut Conn, name: &str) -> Result<(), Failure> {
    if get_lock(conn, name, 0).await? {
        return Ok(());
    }
    end_holder(conn, name).await?;
    if get_lock(conn, name, LOCK_FREED_MAX_SECONDS).await? {
        return Ok(());
    }
    let why = format!("an earlier connection still holds `{name}`");
    Err(Error::Unreachable(why).into())
}

async fn get_lock(conn: &mut Conn, name: &str, seconds: u32) -> Result<bool, Failure> {
    let got: Option<Row> = conn.exec_first("SELECT GET_LOCK(?, ?)", (name, seconds)).await?;
    match got {
        Some(row) => Ok(row.int_or_none(0)? == Some(1)),
        None => Ok(false),
    }
}

/// Ends the connection that holds a named lock. Returns false if there is none.
pub(super) async fn end_holder(conn: &mut Conn, name: &str) -> Result<bool, Failure> {
    let holder: Option<Row> = conn.exec_first("SELECT IS_USED_LOCK(?)", (name,)).await?;
    let Some(id) = holder.map(|row| row.int_or_none(0)).transpose()?.flatten() else {
        return Ok(false);
    };
    match conn.query_drop(format!("KILL CONNECTION {id}")).await {
        Ok(()) => Ok(true),
        Err(mysql_async::Error::Server(error)) if error.code == NO_SUCH_CONNECTION => Ok(false),
        Err(error) => Err(error.into()),
    }
}

impl MysqlConnection {
    /// Opens a snapshot for the reads that follow.
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

    /// Runs a composed query that contains its values as numbers and hex.
    pub(super) async fn text(&mut self, sql: Vec<u8>) -> Result<Vec<Row>, Failure> {
        answered(self.conn.query(sql)).await
    }

    /// Runs several composed queries that are sent together, and returns the rows of each.
    pub(super) async fn texts(&mut self, sql: Vec<u8>, queries: usize) -> Result<Vec<Vec<Row>>, Failure> {
        let conn = &mut self.conn;
        answered(async {
            let mut result = conn.query_iter(sql).await?;
            let mut all = Vec::with_capacity(queries);
            for _ in 0..queries {
                all.push(result.collect().await?);
            }
            result.drop_result().await?;
            Ok(all)
        })
        .await
    }

    /// Returns how many rows it found.
    pub(super) async fn execute<S: StatementLike, P: Into<Params> + Send>(
        &mut self,
        sql: S,
        params: P,
    ) -> Result<u64, Failure> {
        answered(self.conn.exec_drop(sql, params)).await?;
        Ok(self.conn.affected_rows())
    }

    /// Executes a statement without parameters.
    pub(super) async fn step(&mut self, sql: &str) -> Result<(), Failure> {
        answered(self.conn.query_drop(sql)).await
    }

    /// Closes the connection without waiting for pending answers.
    async fn close(self) {
        // The connection is closed when this returns, whatever the result.
        let _ = timeout(QUIT_MAX, self.conn.disconnect()).await;
    }
}

impl Taken<'_, MysqlConnection> {
    /// Commits or rolls back, and returns the connection.
    pub(super) async fn commit<T>(mut self, written: Result<T, Failure>) -> Result<T> {
        match written {
            Ok(value) => {
                let committed = self.step("COMMIT").await;
                self.finish(committed.map(|()| value), Moment::Committing).await
            }
            Err(Failure::Store(error)) => {
                let rolled_back = self.step("ROLLBACK").await;
                let refused = rolled_back.and(Err(Failure::Store(error)));
                self.finish(refused, Moment::Writing).await
            }
            // `finish` rolls back.
            Err(failure) => self.finish(Err(failure), Moment::Writing).await,
        }
    }

    /// Returns the connection if it is clean, else closes it, and translates the result.
    pub(super) async fn finish<T>(mut self, result: Result<T, Failure>, moment: Moment) -> Result<T> {
        let clean = match &result {
            Ok(_) => !self.in_snapshot || self.step("COMMIT").await.is_ok(),
            // An error of our own comes after a rollback, or from a snapshot, which is closed here.
            Err(Failure::Store(_)) => !self.in_snapshot || self.step("ROLLBACK").await.is_ok(),
            Err(failure) => !failure.ends_connection() && self.step("ROLLBACK").await.is_ok(),
        };
        if clean {
            (self.in_snapshot, self.idle_since) = (false, Some(Instant::now()));
        } else if let Some(connection) = self.remove() {
            connection.close().await;
        }
        result.map_err(|failure| failure.judge(moment))
    }
}

/// Waits for an answer, or fails after `ANSWER_MAX`.
pub(super) async fn answered<T>(answer: impl Future<Output = mysql_async::Result<T>>) -> Result<T, Failure> {
    match timeout(ANSWER_MAX, answer).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(Failure::Timeout),
    }
}
