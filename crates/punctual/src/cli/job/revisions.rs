//! `punctual job revisions` and `rollback`: shows old revisions of a job, and restores one.

use clap::Args;
use punctual_core::command::Expect;
use punctual_core::name::Name;
use punctual_wire::rest::JobState;

use super::{next_due, plan};
use crate::cli::Session;
use crate::cli::failure::Failure;
use crate::cli::output::text;
use crate::cli::paging::{gather, say_if_more};
use crate::wiring;

#[derive(Debug, Args)]
pub(crate) struct Revisions {
    name: Name,
    /// The most to show
    #[arg(long, default_value_t = 50)]
    limit: usize,
    /// Show what this revision changed
    #[arg(long, value_name = "REVISION")]
    diff: Option<u32>,
    /// Compare with this revision [default: the previous one]
    #[arg(long, value_name = "REVISION", requires = "diff")]
    from: Option<u32>,
}

impl Revisions {
    pub(crate) async fn run(self, session: &Session) -> Result<(), Failure> {
        match self.diff {
            Some(to) => diff(session, &self.name, self.from, to).await,
            None => list(session, &self.name, self.limit).await,
        }
    }
}

async fn list(session: &Session, name: &Name, limit: usize) -> Result<(), Failure> {
    let (revisions, more) = gather(limit, async |after, size| {
        session.client.revisions(&session.namespace, name, after.as_deref(), size).await
    })
    .await?;
    session.output.show(&revisions, |output| {
        let now = wiring::now();
        let mut table = output.table(&["REVISION", "AT (UTC)", "CHANGED"]);
        for one in &revisions {
            let changed = match &one.changed {
                None if one.revision == 1 => "created".to_owned(),
                None => "-".to_owned(),
                Some(parts) if parts.is_empty() && one.state == JobState::Paused => "paused".to_owned(),
                Some(parts) if parts.is_empty() => "resumed".to_owned(),
                Some(parts) => parts.join(", "),
            };
            table.add_row([one.revision.to_string(), output.time(one.at.0, now), changed]);
        }
        text(table)
    })?;
    say_if_more(more);
    Ok(())
}

async fn diff(session: &Session, name: &Name, from: Option<u32>, to: u32) -> Result<(), Failure> {
    let diff = session.client.revision_diff(&session.namespace, name, from, to).await?;
    session.output.show(&diff, |output| {
        let lines: Vec<String> = diff.changes.iter().map(|change| plan::line(output, change)).collect();
        if lines.is_empty() {
            format!("revisions {} and {} say the same", diff.from, diff.to)
        } else {
            lines.join("\n")
        }
    })
}

/// Replaces only the revision that was read, so that a concurrent edit is not lost.
pub(super) async fn roll_back(session: &Session, name: &Name, to: u32) -> Result<(), Failure> {
    let Session { client, namespace, output } = session;
    let now = client.job(namespace, name).await?;
    let old = client.revision(namespace, name, to).await?;
    let put = client.put_job(namespace, name, &old.file, Expect::Revision(now.revision)).await?;
    output.show(&put.job, |_| {
        let (before, after) = (now.revision, put.job.revision);
        if before == after {
            return format!("unchanged {namespace}/{name}: revision {before} says the same as {to}");
        }
        let next = next_due(&put.job);
        format!("{namespace}/{name} is as it was in revision {to}, now revision {after}, due next: {next}")
    })
}
