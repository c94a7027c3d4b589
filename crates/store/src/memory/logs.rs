//! Output of attempts.

use async_trait::async_trait;
use punctual_core::ids::RunId;
use punctual_core::log;

use super::Memory;
use crate::{Logs, Result};

#[async_trait]
impl Logs for Memory {
    async fn append_logs(&self, chunks: Vec<log::Chunk>) -> Result<()> {
        let mut tables = self.tables.lock();
        for chunk in chunks {
            tables.logs.entry((chunk.run, chunk.place())).or_insert(chunk);
        }
        Ok(())
    }

    async fn log_bytes(&self, run: RunId) -> Result<u64> {
        let tables = self.tables.lock();
        let own =
            tables.logs.iter().filter(|((of, _), chunk)| *of == run && chunk.stream != log::Stream::Note);
        Ok(own.map(|(_, chunk)| chunk.bytes.len() as u64).sum())
    }
}
