//! What the shared code asks of a database.

use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;

use super::dialect::Dialect;
use super::value::{Row, Value};
use crate::Result;
use crate::definitions::Definitions;

/// A statement in the syntax of `dialect`, and its parameters.
#[derive(Debug)]
pub(crate) struct Ask<'a> {
    pub(crate) sql: &'static str,
    pub(crate) values: Vec<Value<'a>>,
}

macro_rules! ask {
    ($sql:expr $(, $value:expr)* $(,)?) => {
        $crate::sql::connection::Ask { sql: $sql, values: vec![$($crate::sql::value::Value::from($value)),*] }
    };
}
pub(crate) use ask;

/// The values of the columns that a row is found by.
pub(crate) type Key<'a> = Vec<Value<'a>>;

/// Called with the index of an ask and one of its rows. Returns false if it needs no more rows of that ask.
pub(crate) type Reading<'r> = dyn FnMut(usize, &dyn Row) -> Result<bool> + Send + 'r;

/// A connection in use, and the transaction or snapshot on it.
#[async_trait]
pub(crate) trait Connection: Send {
    fn dialect(&self) -> Dialect;

    fn definitions(&self) -> Arc<Mutex<Definitions>>;

    /// Reads with several statements, which are sent together.
    async fn query(&mut self, asks: &[Ask<'_>], read: &mut Reading<'_>) -> Result<()>;

    /// Reads the rows with these keys; `sql` has a part `{keys ...}`. The index of a row has no meaning.
    async fn find(&mut self, sql: &'static str, keys: &[Key<'_>], read: &mut Reading<'_>) -> Result<()>;

    /// Writes with several statements, which are sent together. Returns how many rows they hit.
    async fn execute(&mut self, asks: &[Ask<'_>]) -> Result<usize>;
}

impl dyn Connection + '_ {
    /// All rows of one statement.
    pub(crate) async fn all<T: Send>(
        &mut self,
        ask: Ask<'_>,
        mut read: impl FnMut(&dyn Row) -> Result<T> + Send,
    ) -> Result<Vec<T>> {
        let mut all = Vec::new();
        self.query(&[ask], &mut |_, row| {
            all.push(read(row)?);
            Ok(true)
        })
        .await?;
        Ok(all)
    }

    /// The first row of one statement.
    pub(crate) async fn one<T: Send>(
        &mut self,
        ask: Ask<'_>,
        mut read: impl FnMut(&dyn Row) -> Result<T> + Send,
    ) -> Result<Option<T>> {
        let mut one = None;
        self.query(&[ask], &mut |_, row| {
            one = Some(read(row)?);
            Ok(false)
        })
        .await?;
        Ok(one)
    }

    /// All rows with these keys.
    pub(crate) async fn by_keys<T: Send>(
        &mut self,
        sql: &'static str,
        keys: Vec<Key<'_>>,
        mut read: impl FnMut(&dyn Row) -> Result<T> + Send,
    ) -> Result<Vec<T>> {
        let mut all = Vec::with_capacity(keys.len());
        if keys.is_empty() {
            return Ok(all);
        }
        self.find(sql, &keys, &mut |_, row| {
            all.push(read(row)?);
            Ok(true)
        })
        .await?;
        Ok(all)
    }
}
