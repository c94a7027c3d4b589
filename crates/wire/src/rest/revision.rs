//! The revisions of a job: when it was edited, what changed, and the definition before.

use punctual_core::change;
use punctual_core::job;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::JobState;
use crate::diff::{self, Difference};
use crate::job_file::JobFile;
use crate::text::{Instant, Text};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Revision {
    pub revision: u32,
    pub at: Instant,
    /// Whether the job fires under this revision: a pause and a resume are revisions too.
    pub state: JobState,
    /// The parts of the job file that this edit changed. `null` means there is no earlier revision to compare with.
    pub changed: Option<Vec<String>>,
}

/// The job file of one revision. It may be put back as it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RevisionFile {
    #[serde(flatten)]
    pub file: JobFile,
    pub revision: u32,
    pub updated_at: Instant,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Diff {
    pub from: u32,
    pub to: u32,
    pub changes: Vec<Difference>,
}

impl Revision {
    /// A revision of a job, compared with the one before it.
    pub fn of(job: &job::Job, this: &change::Revision, before: Option<&change::Revision>) -> Revision {
        let changed = before.map(|before| {
            let mut parts = Vec::new();
            for change in Diff::of(job, before, this).changes {
                if parts.last().is_none_or(|last| last != change.part()) {
                    parts.push(change.part().to_owned());
                }
            }
            parts
        });
        let state = if this.state == job::State::Paused { JobState::Paused } else { JobState::Active };
        Revision { revision: this.revision, at: Text(this.at), state, changed }
    }
}

impl RevisionFile {
    pub fn of(job: &job::Job, revision: &change::Revision) -> RevisionFile {
        let file = JobFile::of(&job.namespace, &job.name, &revision.definition);
        RevisionFile { file, revision: revision.revision, updated_at: Text(revision.at) }
    }
}

impl Diff {
    pub fn of(job: &job::Job, from: &change::Revision, to: &change::Revision) -> Diff {
        let file = |revision: &change::Revision| JobFile::of(&job.namespace, &job.name, &revision.definition);
        let changes = diff::of_files(&file(from), &file(to));
        Diff { from: from.revision, to: to.revision, changes }
    }
}
