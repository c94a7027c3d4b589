//! `punctual job diff`: what an apply would change.

use clap::Args;

use super::files::Files;
use super::plan::{self, Action, Step};
use crate::cli::Session;
use crate::cli::failure::Failure;

#[derive(Debug, Args)]
pub(crate) struct Diff {
    #[command(flatten)]
    files: Files,
    /// Include what `apply --prune` would delete
    #[arg(long)]
    prune: bool,
}

impl Diff {
    /// Whether something differs.
    pub(crate) async fn run(self, session: &Session) -> Result<bool, Failure> {
        let written = self.files.read(&session.namespace)?;
        let mut steps = plan::plan(session, &written, self.prune).await?;
        steps.retain(|step| step.action != Action::Nothing);
        session.output.show(&steps, |output| {
            let lines: Vec<String> = steps.iter().map(|step: &Step| step.describe(output)).collect();
            lines.join("\n")
        })?;
        Ok(!steps.is_empty())
    }
}
