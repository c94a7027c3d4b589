//! Runs the shared statements on a connection of PostgreSQL.

use std::error::Error as StdError;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use punctual_core::change::Batch;
use punctual_core::ids::{Epoch, SessionId, ShardId};
use punctual_failpoint::Point;
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

use super::Postgres;
use super::connection::{Answer, Param, PgConnection, Request, request};
use super::failure::{Failure, Moment};
use super::queries;
use crate::definitions::Definitions;
use crate::sql::backend::{Backend, Facts, Purpose, Scope, Work};
use crate::sql::connection::{Ask, Connection, Key, Reading};
use crate::sql::dialect::Dialect;
use crate::sql::value::{Row, Value};
use crate::{Claim, Result, codec};

/// A connection in use. `BEGIN` is sent together with the first statements.
struct Session<'l> {
    connection: &'l mut PgConnection,
    definitions: &'l Arc<Mutex<Definitions>>,
    scope: Scope,
    reads: bool,
    has_begun: bool,
}

impl Session<'_> {
    /// Sends all requests at once and returns their answers in order.
    async fn answers(&mut self, mut requests: Vec<Request<'_>>) -> Result<Vec<Answer>> {
        if requests.is_empty() {
            return Ok(Vec::new());
        }
        let begin = match self.scope {
            Scope::Statement => None,
            Scope::Snapshot => Some(queries::BEGIN_READING),
            Scope::Transaction => Some(queries::BEGIN),
        };
        let begin = begin.filter(|_| !std::mem::replace(&mut self.has_begun, true));
        if let Some(begin) = begin {
            requests.insert(0, request!(begin));
            let prepared = self.connection.prepare(requests.iter().map(|request| request.sql)).await;
            prepared.map_err(Failure::reading)?;
            self.connection.is_busy = true;
        }
        let answers = self.connection.ask_all(requests).await.map_err(|failure| self.judge(&failure))?;
        let answers = answers.into_iter().skip(usize::from(begin.is_some()));
        answers.map(|answer| answer.map_err(|failure| self.judge(&failure))).collect()
    }

    fn judge(&self, failure: &Failure) -> crate::Error {
        failure.judge(match self.scope {
            _ if self.reads => Moment::Reading,
            // Each statement commits by itself: if the connection is lost, it may have.
            Scope::Statement if failure.is_lost() => Moment::Committing,
            _ => Moment::Writing,
        })
    }

    /// Ends the transaction and passes on its result. A session that is dropped instead closes its connection.
    async fn end<T>(self, result: Result<T>) -> Result<T> {
        if !self.has_begun {
            return result;
        }
        let end = if result.is_ok() { queries::COMMIT } else { queries::ROLLBACK };
        let ended = self.connection.ask(request!(end)).await;
        self.connection.is_busy = ended.is_err();
        match (result, ended) {
            (Ok(_), Err(failure)) if !self.reads => Err(failure.committing()),
            (result, _) => result,
        }
    }
}

fn translated<'a>(ask: &'a Ask<'_>) -> Request<'a> {
    let params = ask.values.iter().map(|value| Box::new(value) as Param<'a>);
    Request { sql: &Dialect::Postgres.statement(ask.sql).text, params: params.collect() }
}

#[async_trait]
impl Connection for Session<'_> {
    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    fn definitions(&self) -> Arc<Mutex<Definitions>> {
        Arc::clone(self.definitions)
    }

    async fn query(&mut self, asks: &[Ask<'_>], read: &mut Reading<'_>) -> Result<()> {
        let answers = self.answers(asks.iter().map(translated).collect()).await?;
        for (index, answer) in answers.iter().enumerate() {
            for row in &answer.rows {
                if !read(index, row)? {
                    break;
                }
            }
        }
        Ok(())
    }

    async fn find(&mut self, sql: &'static str, keys: &[Key<'_>], read: &mut Reading<'_>) -> Result<()> {
        let width = keys.first().map_or(0, Vec::len);
        let column =
            |index: usize| Box::new(keys.iter().map(|key| &key[index]).collect::<Vec<_>>()) as Param<'_>;
        let params = (0..width).map(column).collect();
        let answers =
            self.answers(vec![Request { sql: &Dialect::Postgres.statement(sql).text, params }]).await?;
        for row in answers.iter().flat_map(|answer| &answer.rows) {
            read(0, row)?;
        }
        Ok(())
    }

    async fn execute(&mut self, asks: &[Ask<'_>]) -> Result<usize> {
        let answers = self.answers(asks.iter().map(translated).collect()).await?;
        Ok(answers.iter().map(|answer| usize::try_from(answer.hits).unwrap_or(usize::MAX)).sum())
    }
}

impl Backend for Postgres {
    const FETCH: Scope = Scope::Snapshot;
    const PAGE: Scope = Scope::Statement;
    const RENEWING: Option<Point> = Some(Point::PostgresRenewUnderWay);
    const RELEASING: Option<Point> = Some(Point::PostgresReleaseUnderWay);

    fn facts(&self) -> &Facts {
        &self.facts
    }

    async fn run<T: Send + 'static>(&self, purpose: Purpose, scope: Scope, work: Work<T>) -> Result<T> {
        let pool = match purpose {
            Purpose::Lead => &self.leader,
            Purpose::List | Purpose::ReadOutput => &self.endpoints,
            Purpose::Leases | Purpose::Session => &self.session,
            Purpose::Change => &self.lease,
            Purpose::Mail | Purpose::Output | Purpose::Prune => &self.log,
        };
        let reads = matches!(purpose, Purpose::Leases | Purpose::Lead | Purpose::List | Purpose::ReadOutput);
        let mut connection = pool.take().await?;
        let definitions = &self.definitions;
        let mut session =
            Session { connection: &mut connection, definitions, scope, reads, has_begun: false };
        let result = work(&mut session).await;
        session.end(result).await
    }

    async fn acquire_shards(
        &self,
        by: Option<SessionId>,
        claims: Vec<Claim>,
    ) -> Result<Vec<(ShardId, Epoch)>> {
        self.take_shards(by, &claims).await
    }

    async fn commit_batches(&self, batches: Arc<Vec<Batch>>) -> Result<()> {
        // A connection commits one list of batches at a time.
        let Some(first) = batches.first() else { return Ok(()) };
        let mut connection = self.commits[usize::from(first.shard.0) % self.commits.len()].take().await?;
        connection.commit(&batches).await
    }
}

/// A number is sent as the type that the statement needs.
impl ToSql for Value<'_> {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn StdError + Sync + Send>> {
        match self {
            Value::Null => Ok(IsNull::Yes),
            Value::Int(number) => match *ty {
                Type::INT2 => i16::try_from(*number)?.to_sql(ty, out),
                Type::INT4 => i32::try_from(*number)?.to_sql(ty, out),
                _ => number.to_sql(ty, out),
            },
            Value::Text(text) => (&**text).to_sql(ty, out),
            Value::Bytes(bytes) => (&**bytes).to_sql(ty, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// A number of any width, or a boolean.
struct Number(i64);

impl<'a> FromSql<'a> for Number {
    fn from_sql(ty: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn StdError + Sync + Send>> {
        Ok(Number(match *ty {
            Type::BOOL => bool::from_sql(ty, raw)?.into(),
            Type::INT2 => i16::from_sql(ty, raw)?.into(),
            Type::INT4 => i32::from_sql(ty, raw)?.into(),
            _ => i64::from_sql(ty, raw)?,
        }))
    }

    fn accepts(ty: &Type) -> bool {
        [Type::BOOL, Type::INT2, Type::INT4, Type::INT8].contains(ty)
    }
}

/// Text or bytes.
struct Bytes<'a>(&'a [u8]);

impl<'a> FromSql<'a> for Bytes<'a> {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn StdError + Sync + Send>> {
        Ok(Bytes(raw))
    }

    fn accepts(ty: &Type) -> bool {
        [Type::TEXT, Type::BYTEA].contains(ty)
    }
}

impl Row for tokio_postgres::Row {
    fn int_or_none(&self, column: usize) -> Result<Option<i64>> {
        let number = self.try_get::<_, Option<Number>>(column).map_err(|error| codec::cannot_read(&error))?;
        Ok(number.map(|Number(number)| number))
    }

    fn bytes_or_none(&self, column: usize) -> Result<Option<&[u8]>> {
        let bytes =
            self.try_get::<_, Option<Bytes<'_>>>(column).map_err(|error| codec::cannot_read(&error))?;
        Ok(bytes.map(|Bytes(bytes)| bytes))
    }
}
