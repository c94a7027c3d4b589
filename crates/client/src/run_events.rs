//! What happens to a run, live.

use punctual_core::ids::RunId;
use punctual_core::name::Namespace;
use punctual_wire::rest::{Event, LogEnd, ProgressEvent};
use serde::Serialize;

use crate::live::LiveStream;
use crate::{Client, Result};

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum RunEvent {
    Change(Event),
    Progress(ProgressEvent),
    /// Nothing follows.
    End(LogEnd),
}

/// Events as they arrive.
#[derive(Debug)]
pub struct RunEvents(LiveStream);

impl Client {
    /// The changes of a run; with `follow`, also those still to come and the progress, until the run has ended.
    pub async fn run_events(&self, namespace: &Namespace, run: RunId, follow: bool) -> Result<RunEvents> {
        let wanted = vec![("follow", follow.to_string())];
        LiveStream::open(self, namespace, format!("/runs/{run}/events"), wanted).await.map(RunEvents)
    }
}

impl RunEvents {
    /// The next event. Must not be called after the end.
    pub async fn next(&mut self) -> Result<RunEvent> {
        loop {
            let event = self.0.next().await?;
            match event.kind.as_str() {
                "change" => return self.0.decode(&event).map(RunEvent::Change),
                "progress" => return self.0.decode(&event).map(RunEvent::Progress),
                "end" => return self.0.decode(&event).map(RunEvent::End),
                // An event type of a newer server.
                _ => {}
            }
        }
    }
}
