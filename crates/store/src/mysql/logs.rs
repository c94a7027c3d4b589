//! The output of attempts, on its own connection: state never waits for output.

use punctual_core::ids::RunId;
use punctual_core::log::{Chunk, Place};

use super::doors::rows_max;
use super::failure::{Failure, Moment};
use super::script::{Script, Shape, hex, int, put};
use super::{Mysql, queries, rows};
use crate::{Result, codec};

/// A chunk that is stored already stays as it is.
const INSERT: Shape = Shape {
    head: "INSERT IGNORE INTO chunks (run, token, number, made_at, stream, bytes) VALUES ",
    between: ", ",
    tail: "",
};

impl Mysql {
    pub(super) async fn append_chunks(&self, chunks: &[Chunk]) -> Result<()> {
        if chunks.is_empty() {
            return Ok(());
        }
        let mut script = Script::default();
        script.many_or_fewer(INSERT, chunks, |sql, chunk| {
            let numbers = [
                chunk.run.0,
                chunk.token.0.cast_signed(),
                i64::from(chunk.number),
                chunk.at.as_millis(),
                codec::stream_number(chunk.stream),
            ];
            put(sql, "(");
            for number in numbers {
                int(sql, number);
                put(sql, ", ");
            }
            hex(sql, &chunk.bytes);
            put(sql, ")");
            Ok(())
        })?;
        let mut held = self.logs.take().await?;
        let written = script.play(&mut held).await.map(|_| ());
        // Sending a chunk twice changes nothing, so after a lost answer the caller may simply send it again.
        held.finish(written, Moment::Reading).await
    }

    pub(super) async fn read_chunks(
        &self,
        run: RunId,
        after: Option<Place>,
        limit: usize,
    ) -> Result<Vec<Chunk>> {
        let (token, number) =
            after.map_or((i64::MIN, 0), |place| (place.token.0.cast_signed(), place.number));
        let mut held = self.door().await?;
        let found = held.rows(queries::chunks::LIST, (run.0, token, token, number, rows_max(limit))).await;
        let chunks = found.and_then(|found| found.iter().map(|row| rows::chunk(run, row)).collect());
        held.finish(chunks, Moment::Reading).await
    }

    pub(super) async fn count_log_bytes(&self, run: RunId) -> Result<u64> {
        let mut held = self.door().await?;
        let found = held.row(queries::chunks::BYTES, (run.0,)).await;
        let bytes = found.and_then(|row| row.map(|row| rows::int(&row, 0)).transpose());
        let bytes = held.finish(bytes, Moment::Reading).await?;
        Ok(u64::try_from(bytes.unwrap_or(0)).unwrap_or(0))
    }

    /// The next runs that have output, after the given one.
    pub(super) async fn logged_runs(&self, after: RunId, limit: usize) -> Result<Vec<RunId>> {
        let mut held = self.door().await?;
        let mut runs = Vec::new();
        let found = async {
            let mut last = after;
            while runs.len() < limit {
                let Some(row) = held.row(queries::chunks::NEXT_RUN, (last.0,)).await? else { break };
                last = RunId(rows::int(&row, 0)?);
                runs.push(last);
            }
            Ok::<(), Failure>(())
        }
        .await;
        held.finish(found, Moment::Reading).await?;
        Ok(runs)
    }

    /// Removes the output of runs, at most `limit` chunks.
    pub(super) async fn remove_chunks(&self, runs: &[RunId], limit: usize) -> Result<usize> {
        let mut held = self.logs.take().await?;
        let mut gone = 0;
        let removed = async {
            for run in runs {
                let rest = rows_max(limit - gone);
                let rows = held.execute(queries::chunks::DELETE, (run.0, rest)).await?;
                gone += usize::try_from(rows).unwrap_or(usize::MAX);
            }
            Ok::<(), Failure>(())
        }
        .await;
        held.finish(removed, Moment::Reading).await?;
        Ok(gone)
    }
}
