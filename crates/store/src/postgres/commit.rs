//! Commits: fences, changes and `COMMIT` in one round trip; if that is refused, again one change at a time.
//!
//! The fast way sends everything without waiting and learns only that something was refused. To find the row and the
//! shard, the same changes are sent one by one. They may succeed that way: only there is a job's new definition that
//! came without its revision told apart from a fire.

use punctual_core::change::{Batch, Change, Row, RowKey};
use punctual_failpoint::{Point, hit, midway};

use super::connection::{PgConnection, Request, request};
use super::failure::{Failure, Moment};
use super::queries;
use super::writes::{fence, requests};
use crate::sql::batches::{Sorted, in_groups};
use crate::sql::tables::{Values, edited_job, write_of};
use crate::sql::value::Row as Columns;
use crate::{Error, Result, refusal};

/// The constraint that makes the name of a job unique.
const JOB_NAME: &str = "jobs_name";

impl PgConnection {
    pub(super) async fn commit(&mut self, batches: &[Batch]) -> Result<()> {
        let groups = in_groups(batches)?;
        let mut all = Vec::new();
        for (batches, sorted) in &groups {
            all.push(fence(batches));
            all.extend(requests(sorted));
        }
        hit(Point::PostgresCommitBegun);
        match midway(Point::PostgresCommitUnderWay, self.transact(all)).await {
            Ok(_) => {
                hit(Point::PostgresCommitCommitted);
                Ok(())
            }
            Err((Moment::Writing, failure)) if failure.is_refusal() => {
                self.commit_with_care(batches, None).await
            }
            // Find the blocked shard, so that the others need not wait with it.
            Err((Moment::Writing, failure)) if failure.is_lock_timeout() => match batches {
                [batch] => Err(Error::Blocked { shard: batch.shard }),
                _ => self.commit_with_care(batches, Some(queries::WAIT_BRIEFLY)).await,
            },
            Err((moment, failure)) => Err(failure.judge(moment)),
        }
    }

    async fn commit_with_care(&mut self, batches: &[Batch], setting: Option<&'static str>) -> Result<()> {
        // Busy until the transaction ends: if this future is dropped, the connection must not be used again.
        self.is_busy = true;
        self.step(request!(queries::BEGIN)).await?;
        if let Some(setting) = setting {
            self.step(request!(setting)).await?;
        }
        let written = self.write_one_by_one(batches).await;
        let end = if written.is_ok() { queries::COMMIT } else { queries::ROLLBACK };
        let ended = self.ask(request!(end)).await;
        self.is_busy = ended.is_err();
        written?;
        ended.map(|_| ()).map_err(Failure::committing)
    }

    async fn write_one_by_one(&mut self, batches: &[Batch]) -> Result<()> {
        for batch in batches {
            let Batch { shard, epoch, .. } = *batch;
            self.ask(fence(&[batch])).await.map_err(|failure| match failure.is_miss() {
                true => Error::Fenced { shard, epoch },
                false if failure.is_lock_timeout() => Error::Blocked { shard },
                false => failure.judge(Moment::Writing),
            })?;
        }
        for batch in batches {
            for (key, change) in batch.changes.iter() {
                self.write_one(batch, key, change).await?;
            }
        }
        Ok(())
    }

    async fn write_one(&mut self, batch: &Batch, key: &RowKey, change: &Change) -> Result<()> {
        let mut values = Values::new();
        let mut write = write_of(batch, key, change, &mut values)?;
        if let Change::Update(Row::Job(job)) = change {
            let position = self.step(request!(queries::JOB_POSITION, job.id.0)).await?;
            let row: &dyn Columns = position.first().ok_or_else(|| refusal::missing(batch.shard, key))?;
            if row.instant(1)? > job.cursor.fired_through {
                return Err(refusal::cursor_back(batch.shard, job.id));
            }
            if row.number::<u32>(0)? != job.revision {
                values.clear();
                write = edited_job(batch, job, &mut values)?;
            }
        }
        for request in requests(&Sorted::one(write, values)) {
            self.ask(request).await.map_err(|failure| refused(batch, key, &failure))?;
        }
        Ok(())
    }

    async fn step(&mut self, request: Request<'_>) -> Result<Vec<tokio_postgres::Row>> {
        let answer = self.ask(request).await.map_err(Failure::writing)?;
        Ok(answer.rows)
    }
}

fn refused(batch: &Batch, key: &RowKey, failure: &Failure) -> Error {
    let shard = batch.shard;
    if failure.is_miss() {
        return refusal::missing(shard, key);
    }
    match failure.constraint() {
        Some(JOB_NAME) => refusal::name_taken(shard, key),
        Some(_) => refusal::exists(shard, key),
        None if failure.is_lock_timeout() => Error::Blocked { shard },
        None if failure.is_refusal() => Error::Refused { shard, what: failure.to_string() },
        None => failure.judge(Moment::Writing),
    }
}
