//! `punctual event`: what starts jobs without a clock.

use clap::Subcommand;
use punctual_core::name::Name;
use punctual_wire::rest::SendEvent;

use super::Session;
use super::failure::Failure;
use super::job::Params;

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Send an event: it starts the jobs that listen to its name
    #[command(after_help = "\
Examples:
  punctual event send order-paid --key order-7 --params '{\"amount\": 120}'
  punctual event send catalogue-changed

Events with the same key have one effect within a day. The event is stored when the command answers.")]
    Send {
        name: Name,
        /// Makes a repetition within a day harmless
        #[arg(long)]
        key: Option<String>,
        /// Parameters of the runs that it starts, as a JSON object
        #[arg(long)]
        params: Option<Params>,
    },
}

impl Verb {
    pub(crate) async fn run(self, session: &Session) -> Result<(), Failure> {
        let Verb::Send { name, key, params } = self;
        let event = SendEvent { key, params: params.map(|params| params.0) };
        let sent = session.client.send_event(&session.namespace, &name, &event).await?;
        session.output.show(&sent, |_| format!("event {} is stored", sent.id.0))
    }
}
