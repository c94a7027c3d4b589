//! Output of attempts as it is written.

use std::fmt;

use async_trait::async_trait;
use punctual_core::ids::RunId;
use punctual_core::log;

use crate::Result;

/// Writes the output of attempts.
#[async_trait]
pub trait Logs: Send + Sync + fmt::Debug {
    /// Adds output of attempts, apart from the hot rows: output and commits do not wait for each other. A crash may
    /// lose the last second of output, never a state. A chunk that is stored already stays as it is.
    async fn append_logs(&self, chunks: Vec<log::Chunk>) -> Result<()>;

    /// How many bytes of output a run has, over all attempts and without Punctual's own remarks.
    async fn log_bytes(&self, run: RunId) -> Result<u64>;
}
