//! One connection: statements are prepared once, requests are pipelined.
//!
//! The one surprise: a connection that was left in the middle of a request or a transaction, by an error or a cancelled
//! caller, is never used again. Closing it is the rollback.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::TryStreamExt;
use futures_util::future::maybe_done;
use rustc_hash::FxHashMap;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row, Statement};

use super::connect::{Connector, Role};
use super::failure::{Failure, Moment};
use super::queries;
use crate::Result;
use crate::sql::pool::Pooled;

/// After this long without an answer the connection is given up. Longer than any timeout of the server.
const ANSWER_MAX: Duration = Duration::from_secs(40);

pub(super) type Param<'a> = Box<dyn ToSql + Sync + Send + 'a>;

/// A statement of PostgreSQL and its parameters.
#[derive(Debug)]
pub(super) struct Request<'a> {
    pub(super) sql: &'static str,
    pub(super) params: Vec<Param<'a>>,
}

macro_rules! request {
    ($sql:expr $(, $param:expr)* $(,)?) => {
        $crate::postgres::connection::Request { sql: $sql, params: vec![$(Box::new($param)),*] }
    };
}
pub(super) use request;

#[derive(Debug)]
pub(super) struct Answer {
    pub(super) rows: Vec<Row>,
    /// How many rows were written.
    pub(super) hits: u64,
}

#[derive(Debug)]
pub(super) struct PgConnection {
    client: Client,
    statements: FxHashMap<&'static str, Statement>,
    task: JoinHandle<()>,
    /// A request has not been fully answered, or a transaction is open.
    pub(super) is_busy: bool,
}

impl Pooled for PgConnection {
    type Settings = (Arc<Connector>, Role);

    async fn open((connector, role): &(Arc<Connector>, Role)) -> Result<PgConnection> {
        connector.connect(*role).await
    }

    fn is_clean(&self) -> bool {
        !self.is_busy && !self.client.is_closed()
    }
}

impl PgConnection {
    pub(super) fn new(client: Client, task: JoinHandle<()>) -> PgConnection {
        PgConnection { client, statements: FxHashMap::default(), task, is_busy: false }
    }

    /// Executes several statements without parameters.
    pub(super) async fn batch(&mut self, sql: &str) -> Result<(), Failure> {
        self.is_busy = true;
        limited(async { Ok(self.client.batch_execute(sql).await?) }).await?;
        self.is_busy = false;
        Ok(())
    }

    pub(super) async fn prepare(
        &mut self,
        all: impl IntoIterator<Item = &'static str>,
    ) -> Result<(), Failure> {
        let mut missing: Vec<&'static str> =
            all.into_iter().filter(|sql| !self.statements.contains_key(sql)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        missing.sort_unstable();
        missing.dedup();
        let was_busy = std::mem::replace(&mut self.is_busy, true);
        let preparing = in_order(missing.iter().map(|sql| self.client.prepare(sql)));
        let prepared = limited(async { Ok(preparing.await) }).await?;
        for (sql, statement) in missing.into_iter().zip(prepared) {
            self.statements.insert(sql, statement?);
        }
        self.is_busy = was_busy;
        Ok(())
    }

    /// Sends all requests at once. The answers come in the same order; those after the first failure only repeat that the
    /// transaction failed.
    pub(super) async fn ask_all(
        &mut self,
        requests: Vec<Request<'_>>,
    ) -> Result<Vec<Result<Answer, Failure>>, Failure> {
        self.prepare(requests.iter().map(|request| request.sql)).await?;
        let was_busy = std::mem::replace(&mut self.is_busy, true);
        let (client, statements) = (&self.client, &self.statements);
        let asked = requests.into_iter().map(|request| async move {
            let statement = &statements[request.sql];
            let mut rows = pin!(client.query_raw(statement, request.params).await?);
            let mut answer = Answer { rows: Vec::new(), hits: 0 };
            while let Some(row) = rows.try_next().await? {
                answer.rows.push(row);
            }
            answer.hits = rows.rows_affected().unwrap_or(0);
            Ok(answer)
        });
        let answers: Vec<Result<Answer, Failure>> = limited(async { Ok(in_order(asked).await) }).await?;
        let is_over = answers.iter().any(|answer| answer.as_ref().is_err_and(Failure::ends_connection));
        self.is_busy = was_busy || is_over;
        Ok(answers)
    }

    pub(super) async fn ask(&mut self, request: Request<'_>) -> Result<Answer, Failure> {
        let mut answers = self.ask_all(vec![request]).await?;
        match answers.pop() {
            Some(answer) => answer,
            None => Ok(Answer { rows: Vec::new(), hits: 0 }),
        }
    }

    /// Sends one transaction with its `COMMIT` at once. Returns the answers of the requests.
    pub(super) async fn transact(
        &mut self,
        requests: Vec<Request<'_>>,
    ) -> Result<Vec<Answer>, (Moment, Failure)> {
        self.prepare(requests.iter().map(|request| request.sql))
            .await
            .map_err(|failure| (Moment::Writing, failure))?;
        let mut all = Vec::with_capacity(requests.len() + 2);
        all.push(request!(queries::BEGIN));
        all.extend(requests);
        all.push(request!(queries::COMMIT));
        let commit = all.len() - 1;
        let answers = self.ask_all(all).await.map_err(|failure| (Moment::Committing, failure))?;
        let mut answered = Vec::with_capacity(answers.len());
        for (index, answer) in answers.into_iter().enumerate() {
            // If the server refused a statement before the `COMMIT`, it has rolled back; if it is lost, it may have
            // committed.
            answered.push(answer.map_err(|failure| match failure.is_lost() || index == commit {
                true => (Moment::Committing, failure),
                false => (Moment::Writing, failure),
            })?);
        }
        answered.pop();
        Ok(answered.into_iter().skip(1).collect())
    }
}

impl Drop for PgConnection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn limited<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    timeout(ANSWER_MAX, work).await.unwrap_or(Err(Failure::Timeout(ANSWER_MAX)))
}

/// Starts all futures in order, which is the order of sending, and waits for all.
async fn in_order<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut all: Vec<_> = futures.into_iter().map(|future| Box::pin(maybe_done(future))).collect();
    let mut has_begun = false;
    poll_fn(|cx| {
        let mut is_done = true;
        for future in &mut all {
            is_done &= future.as_mut().poll(cx).is_ready();
            // Answers come in the order of the requests: none after this one can be ready.
            if has_begun && !is_done {
                break;
            }
        }
        has_begun = true;
        if is_done { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    all.iter_mut().filter_map(|future| future.as_mut().take_output()).collect()
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[tokio::test]
    async fn what_is_begun_in_order_is_answered_in_order() {
        let begun = RefCell::new(Vec::new());
        let answers = in_order((0..100).map(|n| {
            let begun = &begun;
            async move {
                begun.borrow_mut().push(n);
                for _ in 0..n % 3 {
                    tokio::task::yield_now().await;
                }
                n
            }
        }))
        .await;
        let expected: Vec<i32> = (0..100).collect();
        assert_eq!((&answers, &*begun.borrow()), (&expected, &expected));
    }
}
