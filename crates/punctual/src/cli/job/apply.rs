//! `punctual job apply`: makes the jobs of the server equal to those of the files.
//!
//! All files are read and checked before anything is written. Jobs to prune are shown first, and deleted only
//! at the shown revision: a job that was edited meanwhile stays.

use clap::Args;
use punctual_core::command::Expect;
use punctual_wire::rest::{Code, Job, Made};

use super::files::{Files, Written};
use super::next_due;
use super::plan::{self, Action, Step};
use crate::cli::Session;
use crate::cli::confirm::confirm;
use crate::cli::failure::Failure;
use crate::cli::output::print;
use crate::cli::progress;

#[derive(Debug, Args)]
pub(crate) struct Apply {
    #[command(flatten)]
    files: Files,
    /// Only show what would change; the server checks the jobs and saves nothing
    #[arg(long)]
    dry_run: bool,
    /// Delete jobs that no file names, in the namespaces of the files
    #[arg(long)]
    prune: bool,
    /// Delete without asking
    #[arg(long, requires = "prune")]
    yes: bool,
}

impl Apply {
    pub(crate) async fn run(self, session: &Session) -> Result<(), Failure> {
        let written = self.files.read(&session.namespace)?;
        if self.dry_run {
            return self.say(session, &written).await;
        }
        let doomed = if self.prune { self.doomed(session, &written).await? } else { Vec::new() };
        let mut done = Done::default();
        let applied = done.apply(session, &written, &doomed).await;
        if applied.is_err() {
            // Earlier jobs stay applied, so say which.
            print(&done.said.join("\n"))?;
            return applied;
        }
        session.output.show(&done.jobs, |_| done.said.join("\n"))
    }

    async fn say(&self, session: &Session, written: &[Written]) -> Result<(), Failure> {
        for one in written {
            let checked = session.client.validate_job(&one.draft.namespace, &one.file()).await;
            let checked = checked.map_err(|error| of(one, error))?;
            for warning in checked.warnings {
                eprintln!("warning: {}: {}: {}", one.source, warning.field, warning.message);
            }
        }
        let steps = plan::plan(session, written, self.prune).await?;
        session.output.show(&steps, |output| {
            let lines: Vec<String> = steps.iter().map(|step| step.describe(output)).collect();
            lines.join("\n")
        })
    }

    /// The jobs to delete, after the user has confirmed.
    async fn doomed(&self, session: &Session, written: &[Written]) -> Result<Vec<Step>, Failure> {
        let mut steps = plan::plan(session, written, true).await?;
        steps.retain(|step| step.action == Action::Delete);
        if steps.is_empty() {
            return Ok(steps);
        }
        for step in &steps {
            eprintln!("{}", step.describe(session.output));
        }
        let jobs = if steps.len() == 1 { "this job" } else { "these jobs" };
        confirm(&format!("Delete {jobs} ({})?", steps.len()), self.yes)?;
        Ok(steps)
    }
}

/// What was done so far.
#[derive(Default)]
struct Done {
    jobs: Vec<Job>,
    said: Vec<String>,
}

impl Done {
    async fn apply(
        &mut self,
        session: &Session,
        written: &[Written],
        doomed: &[Step],
    ) -> Result<(), Failure> {
        let bar = progress::bar("applying", written.len() + doomed.len());
        for one in written {
            bar.inc(1);
            let (namespace, name) = (&one.draft.namespace, &one.draft.name);
            let put = session.client.put_job(namespace, name, &one.file(), Expect::Anything).await;
            let put = put.map_err(|error| of(one, error))?;
            let subject = format!("{} {namespace}/{name}", put.made.as_str());
            self.said.push(match put.made {
                Made::Unchanged => subject,
                Made::Created | Made::Changed => format!("{subject}, due next: {}", next_due(&put.job)),
            });
            self.jobs.push(put.job);
        }
        for step in doomed {
            bar.inc(1);
            let Step { namespace, name, .. } = step;
            let expect = step.revision.map_or(Expect::Anything, Expect::Revision);
            session.client.delete_job(namespace, name, expect).await?;
            self.said.push(format!("deleted {namespace}/{name}"));
        }
        bar.finish_and_clear();
        Ok(())
    }
}

/// The server's error about a job, with the name of its file and the place of the field in it. The line that the server
/// tells is that of the body, which has every default written out.
fn of(one: &Written, error: punctual_client::Error) -> Failure {
    let field = error.problem().filter(|problem| problem.code == Code::Invalid);
    let place = field.and_then(|problem| one.place_of(problem.field.as_deref()?));
    let place = place.map_or(String::new(), |place| format!(" {place}:"));
    Failure::from(error).about(format!("{}:{place} job `{}`", one.source, one.draft.name))
}
