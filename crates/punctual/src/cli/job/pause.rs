//! `punctual job pause`, and how a pause is shown.

use clap::Args;
use punctual_core::Timestamp;
use punctual_core::name::Name;
use punctual_wire::Text;
use punctual_wire::rest::{Job, PauseJob};

use crate::cli::Session;
use crate::cli::failure::Failure;
use crate::cli::output::one_line;

#[derive(Debug, Args)]
pub(crate) struct Pause {
    name: Name,
    /// Why; it is recorded with your token's name
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
    /// When the job is resumed by itself [default: never]
    #[arg(long, value_name = "INSTANT")]
    until: Option<Timestamp>,
}

impl Pause {
    pub(super) async fn run(self, session: &Session) -> Result<(), Failure> {
        let Session { client, namespace, output } = session;
        let pause = PauseJob { reason: self.reason, until: self.until.map(Text) };
        let job = client.pause_job(namespace, &self.name, &pause).await?;
        output.show(&job, |_| {
            let told = told(&job).map_or(String::new(), |told| format!(" {told}"));
            format!("paused {namespace}/{}{told}", self.name)
        })
    }
}

/// Who paused a job, why and until when. `None` means that the job is not paused, or nothing is known.
pub(super) fn told(job: &Job) -> Option<String> {
    job.pause.as_ref().map(punctual_wire::rest::Pause::told).filter(|told| !told.is_empty())
}

/// The state of a job on one line; of a paused one with the reason.
pub(super) fn state(job: &Job) -> String {
    let reason = job.pause.as_ref().map(|pause| pause.reason.as_str()).filter(|reason| !reason.is_empty());
    match reason {
        Some(reason) => format!("{}: {}", job.state.as_str(), one_line(reason, 40)),
        None => job.state.as_str().to_owned(),
    }
}
