//! Job files from the command line: parses every job of every file, or reports all errors.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use punctual_core::name::Namespace;
use punctual_wire::Place;
use punctual_wire::job_file::{self, Draft, JobFile};
use punctual_wire::tree::Node;

use crate::cli::failure::{Exit, Failure};
use crate::cli::sources::sources;

#[derive(Debug, Args)]
pub(super) struct Files {
    /// Files or folders with jobs, `-` for stdin
    #[arg(value_name = "FILE", required_unless_present = "file")]
    files: Vec<PathBuf>,
    /// The same, as an option
    #[arg(short, long = "file", value_name = "FILE")]
    file: Vec<PathBuf>,
}

/// A job in a file.
#[derive(Debug)]
pub(super) struct Written {
    /// The name of the file.
    pub(super) source: String,
    pub(super) draft: Draft,
    /// The text of the file, and the number of the job in it, from 0.
    text: Arc<str>,
    number: usize,
}

impl Written {
    /// The job file with every default written out, as the server would have it.
    pub(super) fn file(&self) -> JobFile {
        JobFile::of(&self.draft.namespace, &self.draft.name, &self.draft.definition)
    }

    /// Where a field of the job is in the file.
    pub(super) fn place_of(&self, field: &str) -> Option<Place> {
        let jobs = Node::from_yaml(&self.text).ok()?;
        jobs.get(self.number)?.place_of(field)
    }
}

impl Files {
    pub(super) fn read(&self, namespace: &Namespace) -> Result<Vec<Written>, Failure> {
        let (mut written, mut mistakes) = (Vec::new(), Vec::new());
        let mut names = BTreeSet::new();
        for source in sources(self.files.iter().chain(&self.file))? {
            let text: Arc<str> = source.text()?.into();
            match job_file::read_all(&text, namespace) {
                Ok(drafts) => {
                    for (number, draft) in drafts.into_iter().enumerate() {
                        if !names.insert((draft.namespace.clone(), draft.name.clone())) {
                            mistakes.push(format!("{source}: job `{}` is given twice", draft.name));
                        }
                        let text = Arc::clone(&text);
                        written.push(Written { source: source.to_string(), draft, text, number });
                    }
                }
                Err(errors) => mistakes.extend(errors.iter().map(|error| format!("{source}: {error}"))),
            }
        }
        if mistakes.is_empty() && written.is_empty() {
            let named: Vec<String> =
                self.files.iter().chain(&self.file).map(|path| path.display().to_string()).collect();
            Err(Failure::new(Exit::Usage, format!("there is no job in {}", named.join(", ")))
                .hint("of a folder, files that end in .yaml, .yml or .json are read"))
        } else if mistakes.is_empty() {
            Ok(written)
        } else {
            Err(Failure::all(Exit::Refused, mistakes).hint("nothing was applied"))
        }
    }
}
