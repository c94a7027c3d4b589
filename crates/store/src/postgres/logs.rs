//! The output of attempts, on its own connection without waiting for a disk: state never waits for output.

use punctual_core::ids::RunId;
use punctual_core::log::{Chunk, Place};

use super::doors::rows_max;
use super::link::{Ask, ask};
use super::{Postgres, queries, rows};
use crate::{Result, codec};

/// Chunks in one statement: at most 8 MiB of output.
const STATEMENT_CHUNKS_MAX: usize = 128;

impl Postgres {
    pub(super) async fn write_chunks(&self, chunks: Vec<Chunk>) -> Result<()> {
        if chunks.is_empty() {
            return Ok(());
        }
        let inserts = chunks.chunks(STATEMENT_CHUNKS_MAX).map(insert).collect();
        self.log.take().await?.write(inserts).await?;
        Ok(())
    }

    pub(super) async fn read_chunks(
        &self,
        run: RunId,
        after: Option<Place>,
        limit: usize,
    ) -> Result<Vec<Chunk>> {
        let (token, number) =
            after.map_or((i64::MIN, 0), |place| (place.token.0.cast_signed(), i64::from(place.number)));
        let ask = ask!(queries::chunks::LIST, run.0, token, number, rows_max(limit));
        let found = self.doors.take().await?.read(ask).await?;
        found.iter().map(|row| rows::chunk(run, row)).collect()
    }

    pub(super) async fn count_log_bytes(&self, run: RunId) -> Result<u64> {
        let found = self.doors.take().await?.read(ask!(queries::chunks::BYTES, run.0)).await?;
        Ok(found.first().map(|row| rows::number(row, 0)).transpose()?.unwrap_or(0))
    }
}

fn insert(chunks: &[Chunk]) -> Ask {
    let stream = |chunk: &Chunk| i16::try_from(codec::stream_number(chunk.stream)).unwrap_or(i16::MAX);
    ask!(
        queries::chunks::INSERT,
        chunks.iter().map(|chunk| chunk.run.0).collect::<Vec<_>>(),
        chunks.iter().map(|chunk| chunk.token.0.cast_signed()).collect::<Vec<_>>(),
        chunks.iter().map(|chunk| i64::from(chunk.number)).collect::<Vec<_>>(),
        chunks.iter().map(|chunk| chunk.at.as_millis()).collect::<Vec<_>>(),
        chunks.iter().map(stream).collect::<Vec<_>>(),
        chunks.iter().map(|chunk| chunk.bytes.clone()).collect::<Vec<_>>(),
    )
}
