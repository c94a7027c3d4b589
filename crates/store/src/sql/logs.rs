//! The output of attempts, for every store in a database.

use async_trait::async_trait;
use punctual_core::ids::RunId;
use punctual_core::log::Chunk;

use super::backend::{Backend, Purpose, Scope, work};
use super::connection::{Ask, ask};
use super::queries::chunks as queries;
use crate::{Logs, Result, codec};

#[async_trait]
impl<B: Backend> Logs for B {
    async fn append_logs(&self, chunks: Vec<Chunk>) -> Result<()> {
        if chunks.is_empty() {
            return Ok(());
        }
        // Several chunks are synced once.
        let scope = if chunks.len() == 1 { Scope::Statement } else { Scope::Transaction };
        let insert = |Chunk { run, token, number, at, stream, bytes }| {
            ask!(queries::INSERT, run.0, token.0, number, at, codec::stream_number(stream), bytes)
        };
        let inserts: Vec<Ask<'static>> = chunks.into_iter().map(insert).collect();
        self.run(Purpose::Output, scope, work!(|c| c.execute(&inserts).await.map(|_| ()))).await
    }

    async fn log_bytes(&self, run: RunId) -> Result<u64> {
        let count = work!(|c| c.one(ask!(queries::BYTES, run.0), |row| row.int(0)).await);
        let bytes = self.run(Purpose::ReadOutput, Scope::Statement, count).await?;
        Ok(bytes.unwrap_or(0).max(0).cast_unsigned())
    }
}
