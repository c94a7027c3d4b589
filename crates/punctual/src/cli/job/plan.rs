//! What an apply would do: compares every job of the files with the server.

use std::collections::{BTreeMap, BTreeSet};

use punctual_core::name::{Name, Namespace};
use punctual_wire::diff::{self, Difference};
use punctual_wire::job_file::JobFile;
use punctual_wire::rest::{Code, Job};
use serde::Serialize;

use super::files::Written;
use super::{schedules, task};
use crate::cli::Session;
use crate::cli::failure::Failure;
use crate::cli::output::{Output, Tone, one_line};
use crate::cli::paging::gather;

/// Characters of a value that a line shows.
const VALUE_MAX: usize = 100;

/// One job, and what an apply would do with it.
#[derive(Debug, Serialize)]
pub(super) struct Step {
    pub(super) namespace: Namespace,
    pub(super) name: Name,
    pub(super) action: Action,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) changes: Vec<Difference>,
    /// The revision on the server when it was read. `None` means that the job does not exist.
    #[serde(skip)]
    pub(super) revision: Option<u32>,
    #[serde(skip)]
    file: Option<JobFile>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Action {
    Create,
    Change,
    Nothing,
    Delete,
}

/// The steps of an apply, in the order of the files; deletions come last.
pub(super) async fn plan(session: &Session, written: &[Written], prune: bool) -> Result<Vec<Step>, Failure> {
    let mut known =
        if prune { all_jobs(session, written).await? } else { these_jobs(session, written).await? };
    let mut steps = Vec::new();
    for one in written {
        let (namespace, name) = (one.draft.namespace.clone(), one.draft.name.clone());
        let job = known.remove(&(namespace.clone(), name.clone()));
        let file = one.file();
        let changes = job.as_ref().map(|job| diff::of_files(&job.file, &file)).unwrap_or_default();
        let action = match (&job, changes.is_empty()) {
            (None, _) => Action::Create,
            (Some(_), true) => Action::Nothing,
            (Some(_), false) => Action::Change,
        };
        let revision = job.map(|job| job.revision);
        steps.push(Step { namespace, name, action, changes, revision, file: Some(file) });
    }
    if prune {
        steps.extend(known.into_iter().map(|((namespace, name), job)| Step {
            namespace,
            name,
            action: Action::Delete,
            changes: Vec::new(),
            revision: Some(job.revision),
            file: Some(job.file),
        }));
    }
    Ok(steps)
}

type Known = BTreeMap<(Namespace, Name), Job>;

/// The jobs that the files name, as far as they exist.
async fn these_jobs(session: &Session, written: &[Written]) -> Result<Known, Failure> {
    let mut known = BTreeMap::new();
    for one in written {
        let (namespace, name) = (&one.draft.namespace, &one.draft.name);
        match session.client.job(namespace, name).await {
            Ok(job) => drop(known.insert((namespace.clone(), name.clone()), job)),
            Err(error) if error.problem().is_some_and(|problem| problem.code == Code::NoSuchJob) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(known)
}

/// Every job of the namespaces that the files name. Other namespaces are not touched.
async fn all_jobs(session: &Session, written: &[Written]) -> Result<Known, Failure> {
    let namespaces: BTreeSet<&Namespace> = written.iter().map(|one| &one.draft.namespace).collect();
    let mut known = BTreeMap::new();
    for namespace in namespaces {
        let (jobs, _) = gather(usize::MAX, async |after, size| {
            session.client.jobs(namespace, after.as_deref(), size).await
        })
        .await?;
        for job in jobs {
            if let Some(name) = job.file.name.clone() {
                known.insert((namespace.clone(), name), job);
            }
        }
    }
    Ok(known)
}

impl Step {
    /// The step in words, with its changes below.
    pub(super) fn describe(&self, output: Output) -> String {
        let subject = format!("{}/{}", self.namespace, self.name);
        let file = self.file.as_ref();
        let what = || {
            let schedule = schedules(file.and_then(|file| file.schedule.as_ref()));
            one_line(&format!("{schedule}, {}", task(file.and_then(|file| file.task.as_ref()))), VALUE_MAX)
        };
        match self.action {
            Action::Create => output.paint(&format!("+ {subject}: {}", what()), Tone::Good),
            Action::Delete => output.paint(&format!("- {subject}: {}", what()), Tone::Bad),
            Action::Nothing => format!("  {subject}: unchanged"),
            Action::Change => {
                let mut lines = vec![output.paint(&format!("~ {subject}"), Tone::Odd)];
                lines.extend(self.changes.iter().map(|change| format!("    {}", line(output, change))));
                lines.join("\n")
            }
        }
    }
}

/// One difference on one line.
pub(super) fn line(output: Output, change: &Difference) -> String {
    let value = |value: &serde_json::Value| one_line(&value.to_string(), VALUE_MAX);
    let text = match (&change.before, &change.after) {
        (Some(before), Some(after)) => format!("{} -> {}", value(before), value(after)),
        (before, after) => before.as_ref().or(after.as_ref()).map(value).unwrap_or_default(),
    };
    let tone = match change.sign() {
        '+' => Tone::Good,
        '-' => Tone::Bad,
        _ => Tone::Odd,
    };
    output.paint(&format!("{} {}: {text}", change.sign(), change.path), tone)
}
