//! The output of a run, live.

use punctual_core::ids::RunId;
use punctual_core::name::Namespace;
use punctual_wire::rest::{LogChunk, LogEnd};

use crate::live::LiveStream;
use crate::{Client, Result};

#[derive(Debug, Clone, Copy, Default)]
pub struct LogQuery {
    /// Continue until the run has ended.
    pub follow: bool,
    /// Only the output of this attempt, counted from 1. `None` means all attempts.
    pub attempt: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogEvent {
    Output(LogChunk),
    /// There is no more output.
    End(LogEnd),
}

/// Output as it arrives.
#[derive(Debug)]
pub struct Logs(LiveStream);

impl Client {
    /// The output of a run's attempts; with `follow`, also the output still to come.
    pub async fn logs(&self, namespace: &Namespace, run: RunId, query: LogQuery) -> Result<Logs> {
        let mut wanted = vec![("follow", query.follow.to_string())];
        wanted.extend(query.attempt.map(|attempt| ("attempt", attempt.to_string())));
        LiveStream::open(self, namespace, format!("/runs/{run}/logs"), wanted).await.map(Logs)
    }
}

impl Logs {
    /// The next output, or the end. Must not be called after the end.
    pub async fn next(&mut self) -> Result<LogEvent> {
        loop {
            let event = self.0.next().await?;
            match event.kind.as_str() {
                "output" => return self.0.decode(&event).map(LogEvent::Output),
                "end" => return self.0.decode(&event).map(LogEvent::End),
                // An event type of a newer server.
                _ => {}
            }
        }
    }
}
