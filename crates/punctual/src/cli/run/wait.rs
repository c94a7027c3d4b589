//! Waits for the end of runs, and shows their progress meanwhile.

use std::time::Duration;

use clap::Args;
use punctual_core::ids::RunId;
use punctual_core::run::Status;
use punctual_wire::rest::Run;

use super::view::{describe, progress_words, table};
use crate::cli::failure::{Exit, Failure};
use crate::cli::time::duration;
use crate::cli::{Session, progress};
use crate::wiring;

/// How often a run is read again.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

#[derive(Debug, Args)]
pub(crate) struct Wait {
    #[arg(required = true, value_name = "ID")]
    ids: Vec<RunId>,
    /// Give up after this time; the runs go on
    #[arg(long, value_name = "SPAN", value_parser = duration)]
    timeout: Option<Duration>,
}

impl Wait {
    pub(super) async fn run(self, session: &Session) -> Result<(), Failure> {
        let line = progress::line();
        let all_ended = async {
            let mut runs = Vec::new();
            for id in self.ids {
                let run = session.client.run(&session.namespace, id, false).await?;
                runs.push(until_ended(session, run, &line).await?);
            }
            Ok::<_, Failure>(runs)
        };
        let runs = match self.timeout {
            None => all_ended.await?,
            Some(limit) => tokio::time::timeout(limit, all_ended)
                .await
                .map_err(|_| Failure::new(Exit::Failed, "not all runs have ended in time; they go on"))??,
        };
        line.finish_and_clear();
        match &runs[..] {
            [run] => session.output.show(run, |output| describe(output, run))?,
            runs => session.output.show(runs, |output| table(output, runs, wiring::now()))?,
        }
        judge(&runs)
    }
}

/// Waits until a run has ended, and prints it.
pub(super) async fn finish(session: &Session, run: Run) -> Result<(), Failure> {
    let line = progress::line();
    let run = until_ended(session, run, &line).await?;
    line.finish_and_clear();
    session.output.show(&run, |output| describe(output, &run))?;
    judge(&[run])
}

async fn until_ended(session: &Session, mut run: Run, line: &indicatif::ProgressBar) -> Result<Run, Failure> {
    if run.state.0.is_terminal() {
        return Ok(run);
    }
    while !run.state.0.is_terminal() {
        let far = progress_words(&run).map(|far| format!(", {far}")).unwrap_or_default();
        line.set_message(format!("run {} is {}{far}", run.id, run.state));
        tokio::time::sleep(LOOK_AGAIN).await;
        run = session.client.poll_run(&session.namespace, run.id.0).await?;
    }
    Ok(session.client.run(&session.namespace, run.id.0, false).await?)
}

/// Fails unless every run has succeeded.
fn judge(runs: &[Run]) -> Result<(), Failure> {
    let failed: Vec<&Run> = runs.iter().filter(|run| run.state.0 != Status::Succeeded).collect();
    match &failed[..] {
        [] => Ok(()),
        [run] => Err(Failure::new(Exit::Failed, format!("run {} ended as {}", run.id, run.state))),
        _ => Err(Failure::new(
            Exit::Failed,
            format!("{} of {} runs did not succeed", failed.len(), runs.len()),
        )),
    }
}
