//! `punctual run events`: what happens to a run, one line for each event, live with `--follow`.

use clap::Args;
use punctual_client::RunEvent;
use punctual_core::ids::RunId;

use super::line;
use super::view::how_far;
use crate::cli::Session;
use crate::cli::failure::Failure;
use crate::cli::output::print;

#[derive(Debug, Args)]
pub(crate) struct Events {
    id: RunId,
    /// Follow the run until it has ended, with its progress
    #[arg(short, long)]
    follow: bool,
}

impl Events {
    pub(super) async fn run(self, session: &Session) -> Result<(), Failure> {
        let mut events = session.client.run_events(&session.namespace, self.id, self.follow).await?;
        loop {
            let event = events.next().await?;
            print(&line(session.output.format(), &event, || words(&event))?)?;
            if matches!(event, RunEvent::End(_)) {
                return Ok(());
            }
        }
    }
}

/// One line about an event. The end says nothing that the last change does not say.
fn words(event: &RunEvent) -> String {
    match event {
        RunEvent::Change(change) => {
            let what = change.what.replace('_', " ");
            let by_hand = change.by_hand.as_ref().map(|by_hand| format!(" {}", by_hand.told()));
            format!("{}  {:9}  {what}{}", change.at, change.to.to_string(), by_hand.unwrap_or_default())
        }
        RunEvent::Progress(progress) => {
            let far = how_far(progress.percent, progress.message.as_deref());
            let checkpoint = progress.checkpoint.as_ref().map(|kept| format!("checkpoint {}", kept.value));
            let said: Vec<String> = [far, checkpoint].into_iter().flatten().collect();
            format!("{}  {:9}  {}", progress.at, "progress", said.join(", "))
        }
        RunEvent::End(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use punctual_wire::rest::{Event, ProgressEvent};
    use serde_json::json;

    use super::*;

    #[test]
    fn every_event_is_one_readable_line() {
        let change: Event = serde_json::from_value(json!({
            "run": "7", "seq": 2, "from": "ready", "to": "running", "what": "assigned",
            "at": "2027-01-15T08:00:00Z", "node": null, "token": "4294967297",
        }))
        .unwrap();
        assert_eq!(words(&RunEvent::Change(change)), "2027-01-15T08:00:00.000Z  running    assigned");
        let paused: Event = serde_json::from_value(json!({
            "run": "7", "seq": 3, "from": "running", "to": "running", "what": "paused",
            "at": "2027-01-15T08:00:00Z", "node": null, "token": null,
            "by_hand": { "by": "ops", "at": "2027-01-15T08:00:00Z", "comment": "too slow" },
        }))
        .unwrap();
        assert_eq!(
            words(&RunEvent::Change(paused)),
            "2027-01-15T08:00:00.000Z  running    paused by ops: too slow"
        );
        let progress: ProgressEvent = serde_json::from_value(json!({
            "percent": 40, "message": "row 400", "at": "2027-01-15T08:00:01Z",
            "checkpoint": { "value": { "row": 400 }, "at": "2027-01-15T08:00:01Z", "attempt": 1 },
        }))
        .unwrap();
        assert_eq!(
            words(&RunEvent::Progress(progress)),
            "2027-01-15T08:00:01.000Z  progress   ████░░░░░░ 40%, row 400, checkpoint {\"row\":400}"
        );
    }
}
