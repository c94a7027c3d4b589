//! The output of attempts, for every store in a database.

use async_trait::async_trait;
use punctual_core::ids::RunId;
use punctual_core::log::Chunk;

use super::backend::{Backend, Purpose, Scope};
use super::connection::{Ask, Connection, ask};
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
        self.run(Purpose::Output, scope, Box::new(move |c| Box::pin(append(c, chunks)))).await
    }

    async fn log_bytes(&self, run: RunId) -> Result<u64> {
        let bytes = self
            .run(
                Purpose::ReadOutput,
                Scope::Statement,
                Box::new(move |c| {
                    Box::pin(async move { c.one(ask!(queries::BYTES, run.0), |row| row.int(0)).await })
                }),
            )
            .await?;
        Ok(bytes.unwrap_or(0).max(0).cast_unsigned())
    }
}

async fn append(c: &mut dyn Connection, chunks: Vec<Chunk>) -> Result<()> {
    let asks: Vec<Ask<'_>> = chunks
        .iter()
        .map(|Chunk { run, token, number, at, stream, bytes }| {
            let stream = codec::stream_number(*stream);
            ask!(queries::INSERT, run.0, token.0, *number, *at, stream, bytes.as_slice())
        })
        .collect();
    c.execute(&asks).await.map(|_| ())
}
