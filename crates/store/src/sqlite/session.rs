//! Runs the shared statements on a connection of SQLite. It never waits, so its futures are ready at once.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use punctual_core::change::{Batch, Found, TimerPage, TimerPosition, Want};
use punctual_core::ids::{Epoch, SessionId, ShardId};
use punctual_core::queue::{Message, MessagePosition, QueueKey, QueueNumber};
use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, Connection, params_from_iter};

use super::Sqlite;
use super::failure::{Failure, Health, Moment};
use super::message_log::Guard;
use super::reader::Reader;
use super::timers::due;
use super::worker_thread::Threads;
use crate::definitions::Definitions;
use crate::sql::backend::{Backend, Facts, Purpose, Scope, Work};
use crate::sql::connection::{self, Ask, Key, Reading};
use crate::sql::dialect::Dialect;
use crate::sql::messages::{self, Which};
use crate::sql::shard;
use crate::sql::value::{Row, Value};
use crate::{Claim, Error, Result, codec};

/// A connection during a transaction or a snapshot.
pub(super) struct Session<'c> {
    pub(super) connection: &'c mut Connection,
    pub(super) health: &'c Health,
    pub(super) moment: Moment,
    pub(super) definitions: &'c Arc<Mutex<Definitions>>,
}

impl Session<'_> {
    fn prepared(&self, sql: &'static str) -> rusqlite::Result<CachedStatement<'_>> {
        self.connection.prepare_cached(&Dialect::Sqlite.statement(sql).text)
    }

    /// Runs statements of SQLite itself.
    pub(super) fn own<T>(&self, work: impl FnOnce(&Connection) -> Result<T, Failure>) -> Result<T> {
        self.judged(work(self.connection))
    }

    pub(super) fn judged<T>(&self, result: Result<T, Failure>) -> Result<T> {
        result.map_err(|failure| self.health.judge(failure, self.moment))
    }
}

fn read_rows(
    statement: &mut CachedStatement<'_>,
    values: &[Value<'_>],
    index: usize,
    read: &mut Reading<'_>,
) -> Result<(), Failure> {
    let mut rows = statement.query(params_from_iter(values))?;
    while let Some(row) = rows.next()? {
        if !read(index, row)? {
            break;
        }
    }
    Ok(())
}

#[async_trait]
impl connection::Connection for Session<'_> {
    fn dialect(&self) -> Dialect {
        Dialect::Sqlite
    }

    fn definitions(&self) -> Arc<Mutex<Definitions>> {
        Arc::clone(self.definitions)
    }

    async fn query(&mut self, asks: &[Ask<'_>], read: &mut Reading<'_>) -> Result<()> {
        let each = |(index, ask): (usize, &Ask<'_>)| {
            read_rows(&mut self.prepared(ask.sql)?, &ask.values, index, read)
        };
        let done = asks.iter().enumerate().try_for_each(each);
        self.judged(done)
    }

    async fn find(&mut self, sql: &'static str, keys: &[Key<'_>], read: &mut Reading<'_>) -> Result<()> {
        let done = self.prepared(sql).map_err(Failure::from).and_then(|mut statement| {
            let mut keys = keys.iter().enumerate();
            keys.try_for_each(|(index, key)| read_rows(&mut statement, key, index, read))
        });
        self.judged(done)
    }

    async fn execute(&mut self, asks: &[Ask<'_>]) -> Result<usize> {
        let each =
            |hits, ask: &Ask<'_>| Ok(hits + self.prepared(ask.sql)?.execute(params_from_iter(&ask.values))?);
        let done = asks.iter().try_fold(0, each);
        self.judged(done)
    }
}

impl ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Value::Null => ValueRef::Null,
            Value::Int(number) => ValueRef::Integer(*number),
            Value::Text(text) => ValueRef::Text(text.as_bytes()),
            Value::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

impl Row for rusqlite::Row<'_> {
    fn int_or_none(&self, column: usize) -> Result<Option<i64>> {
        match self.get_ref(column) {
            Ok(ValueRef::Null) => Ok(None),
            Ok(ValueRef::Integer(number)) => Ok(Some(number)),
            other => Err(codec::cannot_read(&format!("column {column} is no number: {other:?}"))),
        }
    }

    fn bytes_or_none(&self, column: usize) -> Result<Option<&[u8]>> {
        match self.get_ref(column) {
            Ok(ValueRef::Null) => Ok(None),
            Ok(ValueRef::Text(bytes) | ValueRef::Blob(bytes)) => Ok(Some(bytes)),
            other => Err(codec::cannot_read(&format!("column {column} is no text: {other:?}"))),
        }
    }
}

impl Backend for Sqlite {
    const FETCH: Scope = Scope::Snapshot;
    const PAGE: Scope = Scope::Snapshot;

    fn facts(&self) -> &Facts {
        &self.facts
    }

    async fn run<T: Send + 'static>(&self, purpose: Purpose, _: Scope, work: Work<T>) -> Result<T> {
        match purpose {
            Purpose::Lead | Purpose::Leases => {
                self.leader.ask(move |reader| reader.read(|s| ready(work(s)))).await
            }
            Purpose::List => self.endpoints.ask(move |reader| reader.read(|s| ready(work(s)))).await,
            Purpose::ReadOutput => self.log_reader.ask(move |reader| reader.read(|s| ready(work(s)))).await,
            Purpose::Session | Purpose::Change | Purpose::Mail | Purpose::Prune => {
                self.writer.ask(move |writer| writer.transact(|s| ready(work(s)))).await
            }
            Purpose::Output => self.log_writer.ask(move |writer| writer.transact(|s| ready(work(s)))).await,
        }
    }

    fn is_in_process(&self) -> bool {
        true
    }

    async fn acquire_shards(
        &self,
        by: Option<SessionId>,
        claims: Vec<Claim>,
    ) -> Result<Vec<(ShardId, Epoch)>> {
        self.writer.ask(move |writer| writer.acquire(by, &claims)).await
    }

    async fn commit_batches(&self, batches: Arc<Vec<Batch>>) -> Result<()> {
        self.writer.ask_about(batches, |writer, batches| writer.commit(batches)).await
    }

    async fn timers(&self, shard: ShardId, after: TimerPosition, limit: usize) -> Result<TimerPage> {
        self.read_with_log(&self.leader, move |s, log| due(s, log, shard, after, limit)).await
    }

    async fn queued(
        &self,
        queue: (ShardId, QueueNumber),
        after: MessagePosition,
        limit: usize,
    ) -> Result<Vec<Arc<Message>>> {
        let which = Which::Queued { after };
        self.read_with_log(&self.leader, move |s, log| s.messages(log, queue, which, limit)).await
    }

    async fn fetch_rows(&self, wants: Vec<(ShardId, Want)>) -> Result<Found> {
        if !wants.iter().any(|(_, want)| matches!(want, Want::Message(_))) {
            let fetch = move |reader: &mut Reader| reader.read(|s| ready(Box::pin(shard::fetch(s, &wants))));
            return self.leader.ask(fetch).await;
        }
        self.read_with_log(&self.leader, move |s, log| fetch_with(s, log, wants)).await
    }

    async fn queue_messages(&self, queue: QueueKey, which: Which, limit: usize) -> Result<Vec<Arc<Message>>> {
        self.read_with_log(&self.endpoints, move |s, log| {
            match ready(Box::pin(messages::number_of(s, &queue)))? {
                Some(queue) => s.messages(log, queue, which, limit),
                None => Ok(Vec::new()),
            }
        })
        .await
    }
}

impl Sqlite {
    /// Reads messages, in the log and in rows, as of the same commit.
    async fn read_with_log<T: Send + 'static>(
        &self,
        readers: &Threads<Reader>,
        work: impl FnOnce(&mut Session<'_>, Guard<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let log = Arc::clone(&self.message_log);
        readers.ask(move |reader| reader.read_with(&log, work)).await
    }
}

/// Messages in the log are found there; everything else is a row.
fn fetch_with(s: &mut Session<'_>, log: Guard<'_>, wants: Vec<(ShardId, Want)>) -> Result<Found> {
    let (mut found, mut others) = (Vec::new(), Vec::new());
    for wanted in wants {
        let message = match &wanted.1 {
            Want::Message(id) => log.find(*id),
            _ => None,
        };
        match message {
            Some(message) => found.push(message),
            None => others.push(wanted),
        }
    }
    drop(log);
    let rows = ready(Box::pin(shard::fetch(s, &others)))?;
    found.extend(rows.messages);
    Ok(Found { messages: found, ..rows })
}

/// The result of a future that never waits.
pub(super) fn ready<T>(future: BoxFuture<'_, Result<T>>) -> Result<T> {
    let waited = || Err(Error::Unusable("a statement of SQLite waited, which is a bug".to_owned()));
    future.now_or_never().unwrap_or_else(waited)
}
