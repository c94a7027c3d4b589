//! Runs the shared statements on a connection of MySQL or MariaDB.
//!
//! One statement is prepared and gets its values as parameters. Several are sent in one packet, with their values as
//! part of the text (see `packets`), because the protocol cannot send a second statement before the first is answered.

use std::sync::Arc;

use async_trait::async_trait;
use mysql_async::Params;
use parking_lot::Mutex;
use punctual_core::change::Batch;
use punctual_core::ids::{Epoch, SessionId, ShardId};
use punctual_failpoint::Point;

use super::Mysql;
use super::connection::MysqlConnection;
use super::failure::{Failure, Moment};
use super::packets::{Packets, literal, put};
use crate::definitions::Definitions;
use crate::sql::backend::{Backend, Facts, Purpose, Scope, Work};
use crate::sql::connection::{Ask, Connection, Key, Reading};
use crate::sql::dialect::{Dialect, Statement};
use crate::sql::value::{Row, Value};
use crate::{Claim, Error, Result, codec};

/// Keys in one query: with more, the optimizer may choose another plan than the primary key.
const KEYS_MAX: usize = 500;

/// A connection in use.
struct Session<'c> {
    connection: &'c mut MysqlConnection,
    definitions: &'c Arc<Mutex<Definitions>>,
    /// Why the last statement failed: it decides whether the connection can be used again.
    failure: Option<Failure>,
}

impl Session<'_> {
    /// Keeps a failure until the end, where it is translated; the error given here only ends the work.
    fn noted<T>(&mut self, result: Result<T, Failure>) -> Result<T> {
        result.map_err(|failure| match failure {
            Failure::Store(error) => error,
            failure => {
                self.failure = Some(failure);
                Error::Unreachable("a statement failed".to_owned())
            }
        })
    }
}

/// Appends the statement with its values.
fn put_statement(sql: &mut Vec<u8>, statement: &Statement, values: &[Value<'_>]) {
    let mut order = statement.order.iter();
    for (index, part) in statement.text.split('?').enumerate() {
        if index > 0
            && let Some(value) = order.next()
        {
            literal(sql, &values[*value]);
        }
        put(sql, part);
    }
}

/// The statement with a condition on its keys.
fn with_keys(statement: &Statement, keys: &[Key<'_>]) -> Vec<u8> {
    let (at, columns) = statement.keys.as_ref().map_or((statement.text.len(), &[][..]), |(at, c)| (*at, c));
    let mut sql = statement.text.as_bytes()[..at].to_vec();
    put(&mut sql, "(");
    for (index, key) in keys.iter().enumerate() {
        put(&mut sql, if index == 0 { "(" } else { " OR (" });
        for (index, (column, value)) in columns.iter().zip(key).enumerate() {
            put(&mut sql, if index == 0 { "" } else { " AND " });
            put(&mut sql, column);
            put(&mut sql, " = ");
            literal(&mut sql, value);
        }
        put(&mut sql, ")");
    }
    put(&mut sql, ")");
    sql.extend_from_slice(&statement.text.as_bytes()[at..]);
    sql
}

fn params(statement: &Statement, values: &[Value<'_>]) -> Params {
    let value = |index: &usize| match &values[*index] {
        Value::Null => mysql_async::Value::NULL,
        Value::Int(number) => mysql_async::Value::Int(*number),
        Value::Text(text) => mysql_async::Value::Bytes(text.as_bytes().to_vec()),
        Value::Bytes(bytes) => mysql_async::Value::Bytes(bytes.to_vec()),
    };
    Params::Positional(statement.order.iter().map(value).collect())
}

#[async_trait]
impl Connection for Session<'_> {
    fn dialect(&self) -> Dialect {
        Dialect::Mysql
    }

    fn definitions(&self) -> Arc<Mutex<Definitions>> {
        Arc::clone(self.definitions)
    }

    async fn query(&mut self, asks: &[Ask<'_>], read: &mut Reading<'_>) -> Result<()> {
        let all = match asks {
            [] => return Ok(()),
            [ask] => {
                let statement = Dialect::Mysql.statement(ask.sql);
                let rows = self.connection.rows(&statement.text, params(statement, &ask.values)).await;
                rows.map(|rows| vec![rows])
            }
            _ => {
                let mut sql = Vec::new();
                for ask in asks {
                    put_statement(&mut sql, Dialect::Mysql.statement(ask.sql), &ask.values);
                    put(&mut sql, ";\n");
                }
                self.connection.texts(sql, asks.len()).await
            }
        };
        for (index, rows) in self.noted(all)?.iter().enumerate() {
            for row in rows {
                if !read(index, row)? {
                    break;
                }
            }
        }
        Ok(())
    }

    async fn find(&mut self, sql: &'static str, keys: &[Key<'_>], read: &mut Reading<'_>) -> Result<()> {
        for keys in keys.chunks(KEYS_MAX) {
            let found = self.connection.text(with_keys(Dialect::Mysql.statement(sql), keys)).await;
            for row in &self.noted(found)? {
                read(0, row)?;
            }
        }
        Ok(())
    }

    async fn execute(&mut self, asks: &[Ask<'_>]) -> Result<usize> {
        let hits = match asks {
            [] => return Ok(0),
            [ask] => {
                let statement = Dialect::Mysql.statement(ask.sql);
                self.connection.execute(statement.text.as_str(), params(statement, &ask.values)).await
            }
            _ => {
                let mut packets = Packets::default();
                for ask in asks {
                    let statement = Dialect::Mysql.statement(ask.sql);
                    packets.any(|sql| put_statement(sql, statement, &ask.values));
                }
                packets.send(self.connection).await.map(|sent| sent.hits)
            }
        };
        Ok(usize::try_from(self.noted(hits)?).unwrap_or(usize::MAX))
    }
}

impl Backend for Mysql {
    const FETCH: Scope = Scope::Statement;
    const PAGE: Scope = Scope::Snapshot;
    const RENEWING: Option<Point> = Some(Point::MysqlRenewUnderWay);
    const RELEASING: Option<Point> = Some(Point::MysqlReleaseWritten);

    fn facts(&self) -> &Facts {
        &self.facts
    }

    async fn run<T: Send + 'static>(&self, purpose: Purpose, scope: Scope, work: Work<T>) -> Result<T> {
        let mut connection = match purpose {
            Purpose::Lead => self.leader.take().await?,
            Purpose::List | Purpose::ReadOutput => self.endpoints.take().await?,
            Purpose::Leases | Purpose::Session => self.sessions.take().await?,
            Purpose::Change => self.changes.take().await?,
            Purpose::Mail | Purpose::Output => self.logs.take().await?,
            Purpose::Prune => self.pruner.take().await?,
        };
        let begun = match scope {
            Scope::Statement => Ok(()),
            Scope::Snapshot => connection.snapshot().await,
            Scope::Transaction => connection.step("START TRANSACTION").await,
        };
        let result = match begun {
            Ok(()) => {
                let definitions = &self.definitions;
                let mut session = Session { connection: &mut connection, definitions, failure: None };
                let result = work(&mut session).await;
                session.failure.map_or(result.map_err(Failure::Store), Err)
            }
            Err(failure) => Err(failure),
        };
        match (scope, purpose) {
            (Scope::Transaction, _) => connection.commit(result).await,
            (_, Purpose::Change) => connection.finish(result, Moment::Committing).await,
            // Mail and output that are sent twice change nothing, so after a lost answer they are simply sent again.
            _ => connection.finish(result, Moment::Reading).await,
        }
    }

    async fn acquire_shards(
        &self,
        by: Option<SessionId>,
        claims: Vec<Claim>,
    ) -> Result<Vec<(ShardId, Epoch)>> {
        self.acquire_claims(by, &claims).await
    }

    async fn commit_batches(&self, batches: Arc<Vec<Batch>>) -> Result<()> {
        self.write_batches(&batches).await
    }
}

impl Row for mysql_async::Row {
    fn int_or_none(&self, column: usize) -> Result<Option<i64>> {
        match self.get_opt(column) {
            Some(Ok(number)) => Ok(number),
            _ => Err(codec::cannot_read(&format!("column {column} is no number"))),
        }
    }

    fn bytes_or_none(&self, column: usize) -> Result<Option<&[u8]>> {
        match self.as_ref(column) {
            Some(mysql_async::Value::NULL) => Ok(None),
            Some(mysql_async::Value::Bytes(bytes)) => Ok(Some(bytes)),
            _ => Err(codec::cannot_read(&format!("column {column} is no text"))),
        }
    }
}
