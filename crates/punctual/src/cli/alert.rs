//! `punctual alert`: the channels that notifications go to.

use clap::Subcommand;
use punctual_core::name::Name;

use super::Session;
use super::failure::Failure;
use super::output::{print, text};

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// List the channels of the server's settings
    #[command(after_help = "Example:\n  punctual alert channels")]
    Channels,
    /// Send a test notification through a channel
    #[command(after_help = "Example:\n  punctual alert test ops")]
    Test { channel: Name },
}

impl Verb {
    pub(crate) async fn run(self, session: &Session) -> Result<(), Failure> {
        let Session { client, output, .. } = session;
        match self {
            Verb::Channels => {
                let channels = client.channels().await?.items;
                output.show(&channels, |output| {
                    let mut table = output.table(&["NAME", "DEFAULT"]);
                    for channel in &channels {
                        let default = if channel.default { "yes" } else { "no" };
                        table.add_row([channel.name.to_string(), default.to_owned()]);
                    }
                    text(table)
                })
            }
            Verb::Test { channel } => {
                client.test_channel(&channel).await?;
                print(&format!("channel {channel} took a test notification"))
            }
        }
    }
}
