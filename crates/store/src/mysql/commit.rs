//! Commits: everything in one or two packets, then COMMIT, if every statement hit the rows it must.
//!
//! The fast way assumes that every statement hits its rows. If not (a fence misses, a row exists already or is
//! missing), it is rolled back, and the careful way sends the same changes one by one, which finds the shard and the
//! row. If the careful way succeeds, it is committed.

use punctual_core::change::{Batch, Change, Row, RowKey};
use punctual_failpoint::{Point, hit, midway};

use super::connection::MysqlConnection;
use super::failure::{Failure, Moment};
use super::packets::Packets;
use super::{Mysql, writes};
use crate::sql::batches::{Sorted, in_groups};
use crate::sql::tables::{Values, edited_job, write_of};
use crate::{Error, Result, refusal};

impl Mysql {
    pub(super) async fn write_batches(&self, batches: &[Batch]) -> Result<()> {
        let Some(first) = batches.first() else { return Ok(()) };
        let mut connection = self.commits[usize::from(first.shard.0) % self.commits.len()].take().await?;
        hit(Point::MysqlCommitBegun);
        let written = write(&mut connection, batches).await;
        hit(Point::MysqlCommitWritten);
        let committed = midway(Point::MysqlCommitUnderWay, connection.commit(written)).await;
        hit(Point::MysqlCommitCommitted);
        committed
    }
}

async fn write(connection: &mut MysqlConnection, batches: &[Batch]) -> Result<(), Failure> {
    match fast(batches)?.send(connection).await {
        Ok(sent) if sent.as_expected => return Ok(()),
        Ok(_) => {}
        Err(failure) if failure.is_about_rows() => {}
        // Find the blocked shard, so that the others need not wait with it.
        Err(failure) if failure.is_lock_timeout() && batches.len() > 1 => {}
        Err(failure) => return Err(blocked(&batches[0], failure)),
    }
    connection.step("ROLLBACK").await?;
    connection.step("START TRANSACTION").await?;
    for batch in batches {
        carefully(connection, batch).await.map_err(|failure| blocked(batch, failure))?;
    }
    Ok(())
}

/// Turns a lock timeout into `Blocked` with the batch's shard.
fn blocked(batch: &Batch, failure: Failure) -> Failure {
    if failure.is_lock_timeout() { Error::Blocked { shard: batch.shard }.into() } else { failure }
}

/// All batches in as few statements as possible.
fn fast(batches: &[Batch]) -> Result<Packets> {
    let mut packets = Packets::default();
    packets.any(|sql| sql.extend_from_slice(b"START TRANSACTION"));
    for (group, sorted) in in_groups(batches)? {
        writes::fences(&mut packets, &group);
        writes::write(&mut packets, &sorted);
    }
    Ok(packets)
}

async fn carefully(connection: &mut MysqlConnection, batch: &Batch) -> Result<(), Failure> {
    let mut fence = Packets::default();
    writes::fences(&mut fence, &[batch]);
    if !fence.send(connection).await?.as_expected {
        return Err(Error::Fenced { shard: batch.shard, epoch: batch.epoch }.into());
    }
    for (key, change) in batch.changes.iter() {
        let mut values = Values::new();
        let write = write_of(batch, key, change, &mut values)?;
        if !hits(connection, Sorted::one(write, values), batch, key).await? {
            missed(connection, batch, key, change).await?;
        }
    }
    Ok(())
}

async fn hits(
    connection: &mut MysqlConnection,
    row: Sorted<'_>,
    batch: &Batch,
    key: &RowKey,
) -> Result<bool, Failure> {
    let mut packets = Packets::default();
    writes::write(&mut packets, &row);
    match packets.send(connection).await {
        Ok(sent) => Ok(sent.as_expected),
        Err(failure) => Err(refused(batch, key, failure)),
    }
}

fn refused(batch: &Batch, key: &RowKey, failure: Failure) -> Failure {
    match failure.duplicate_of() {
        Some(index) if index.contains("jobs_name") => refusal::name_taken(batch.shard, key).into(),
        Some(_) => refusal::exists(batch.shard, key).into(),
        None if failure.is_about_rows() => {
            let what = failure.judge(Moment::Writing).to_string();
            Error::Refused { shard: batch.shard, what }.into()
        }
        None => failure,
    }
}

/// Called when an update or delete hit no row. A job may have another revision: then all its columns are written.
/// Anything else is refused.
async fn missed(
    connection: &mut MysqlConnection,
    batch: &Batch,
    key: &RowKey,
    change: &Change,
) -> Result<(), Failure> {
    if let Change::Update(Row::Job(job)) = change {
        let mut values = Values::new();
        let write = edited_job(batch, job, &mut values)?;
        if hits(connection, Sorted::one(write, values), batch, key).await? {
            return Ok(());
        }
        if connection.row("SELECT 1 FROM jobs WHERE id = ?", (job.id.0,)).await?.is_some() {
            return Err(refusal::cursor_back(batch.shard, job.id).into());
        }
    }
    Err(refusal::missing(batch.shard, key).into())
}
