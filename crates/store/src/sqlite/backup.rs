//! A copy of the store, taken while it is in use.
//!
//! Each file is copied out of one snapshot, so the writer goes on meanwhile; only the write-ahead log cannot begin anew
//! until the copy is done. The copy has no mark of what was acknowledged: what came later is not in it, on purpose.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};
use tokio::sync::oneshot;

use super::connection::explain;
use super::failure::Failure;
use super::folder::{Folder, make_private, sync_entry, unusable};
use crate::{Error, Result};

/// On a thread of its own: a large store takes its time.
pub(super) async fn start(from: Folder, to: PathBuf) -> Result<()> {
    let (answer, answered) = oneshot::channel();
    let thread = thread::Builder::new().name("store-backup".to_owned());
    thread
        .spawn(move || answer.send(copy(&from, &to)))
        .map_err(|error| Error::Unusable(format!("cannot start a thread: {error}")))?;
    answered.await.unwrap_or_else(|_| Err(Error::Unreachable("the backup broke off".to_owned())))
}

fn copy(from: &Folder, to: &Path) -> Result<()> {
    let to = Folder::make(to)?;
    for path in [to.state(), to.logs()] {
        if path.exists() {
            let what = "a backup never writes over a store: name another folder";
            return Err(Error::Unusable(format!("`{}` exists already; {what}", path.display())));
        }
    }
    // The state last: a folder without it is plainly no store.
    copy_file(&from.logs(), &to.logs())?;
    copy_file(&from.state(), &to.state())
}

fn copy_file(from: &Path, to: &Path) -> Result<()> {
    let unfinished = to.with_extension("unfinished");
    make_private(&unfinished)?;
    copy_pages(from, &unfinished).map_err(|failure| explain(from, failure))?;
    fs::rename(&unfinished, to)
        .and_then(|()| sync_entry(to))
        .map_err(|error| unusable(to, "cannot be written", &error))
}

/// All pages in one step: a copy in several would begin again with every commit between them.
fn copy_pages(from: &Path, to: &Path) -> Result<(), Failure> {
    let source = Connection::open(from)?;
    let mut target = Connection::open(to)?;
    let copied = Backup::new(&source, &mut target)?.step(-1)?;
    match copied {
        StepResult::Done => Ok(()),
        other => {
            Err(Error::Unreachable(format!("the copy could not be finished ({other:?}): try again")).into())
        }
    }
}
