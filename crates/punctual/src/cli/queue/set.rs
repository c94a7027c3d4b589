//! The settings of a queue.

use std::time::Duration;

use clap::Args;
use punctual_core::queue::QueueName;
use punctual_wire::Text;
use punctual_wire::job_file::Starts;
use punctual_wire::rest::QueueSettings;
use punctual_wire::text::Span;

use super::super::Session;
use super::super::failure::Failure;
use super::super::time::duration;
use super::describe_queue;

#[derive(Debug, Args)]
pub(crate) struct Setting {
    /// The name of the queue; it is created if it does not exist
    queue: QueueName,
    #[command(flatten)]
    settings: Settings,
}

/// At least one of them must be given, so that no queue loses its settings by mistake.
#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
struct Settings {
    /// The largest number of unacknowledged messages; 1: one message at a time, in order, over all consumers
    #[arg(long, value_name = "N")]
    running: Option<u32>,
    /// The largest number of deliveries in a span of time, such as 100/m or 5/10s
    #[arg(long)]
    rate: Option<Starts>,
    /// How long a new message waits before it can be taken, 100ms to 1d. A message that is then first for as
    /// long goes to the end
    #[arg(long, value_name = "SPAN", value_parser = duration)]
    hold: Option<Duration>,
    /// Deliveries without an acknowledgement, after which a message goes to the dead-letter queue; needs
    /// --dead-letter
    #[arg(long, value_name = "N")]
    max_deliveries: Option<u32>,
    /// The queue for messages that were delivered too often, or that expire
    #[arg(long, value_name = "QUEUE")]
    dead_letter: Option<QueueName>,
    /// Remove all settings
    #[arg(long, conflicts_with_all = ["running", "rate", "hold", "max_deliveries", "dead_letter"])]
    none: bool,
}

impl Setting {
    pub(super) async fn run(self, session: &Session) -> Result<(), Failure> {
        let Session { client, namespace, output } = session;
        let Settings { running, rate, hold, max_deliveries, dead_letter, .. } = self.settings;
        let settings = QueueSettings {
            running,
            rate: rate.map(Text),
            hold: hold.map(Span),
            max_deliveries,
            dead_letter: dead_letter.map(|name| name.to_string()),
        };
        let queue = client.set_queue(namespace, self.queue.as_str(), &settings).await?;
        output.show(&queue, |_| describe_queue(&queue))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::Setting;

    #[derive(Debug, Parser)]
    struct Set {
        #[command(flatten)]
        _setting: Setting,
    }

    #[test]
    fn settings_are_removed_only_by_name() {
        assert!(Set::try_parse_from(["set", "mail"]).is_err());
        assert!(Set::try_parse_from(["set", "mail", "--none"]).is_ok());
        assert!(Set::try_parse_from(["set", "mail", "--none", "--running", "1"]).is_err());
    }
}
