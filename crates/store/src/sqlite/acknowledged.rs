//! The number of acknowledged commits, in a file of its own, so that a store notices lost ones.
//!
//! SQLite reads a write-ahead log up to its first damaged page and treats the rest as unfinished. That is wrong for
//! commits that were acknowledged. So the number of commits is written to a file beside the database after each commit,
//! and a store that opens with fewer refuses to serve.
//!
//! The one surprise: the file is never synced. After kill -9 it is exact; after a power loss it may be too low, never
//! too high, so it raises no false alarm.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::folder::{FILE_MODE, Folder, unusable};
use crate::{Error, Result};

/// Two numbers of fixed width, each overwritten in place, which works on a full disk too.
const WIDTH: usize = 20;
const SIZE_AT: u64 = WIDTH as u64 + 1;

#[derive(Debug)]
pub(super) struct AcknowledgedFile(File);

/// The least that the store must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Acknowledged {
    /// Commits and acquisitions, over all shards.
    pub(super) commits: u64,
    /// The size of the database file; it never shrinks.
    pub(super) size: u64,
}

impl Acknowledged {
    /// `None` means the store is new, comes from a backup, or ran with relaxed durability.
    pub(super) fn read(folder: &Folder) -> Option<Acknowledged> {
        let text = fs::read_to_string(folder.acknowledged()).ok()?;
        let mut numbers = text.split_ascii_whitespace().map(str::parse);
        let (commits, size) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
        Some(Acknowledged { commits, size })
    }

    pub(super) fn check_size(self, folder: &Folder) -> Result<()> {
        let path = folder.state();
        let size = match fs::metadata(&path) {
            Ok(metadata) => metadata.len(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            Err(error) => return Err(unusable(&path, "cannot be looked at", &error)),
        };
        if size >= self.size {
            return Ok(());
        }
        let what = format!("it has {size} bytes and had {}", self.size);
        Err(lost(folder, &format!("`{}` was cut off: {what}", path.display())))
    }

    pub(super) fn check_commits(self, commits: u64, folder: &Folder) -> Result<()> {
        if commits >= self.commits {
            return Ok(());
        }
        let missing = self.commits - commits;
        let what = format!(
            "{missing} acknowledged commits are missing: the file `punctual.db-wal` is damaged or gone"
        );
        Err(lost(folder, &what))
    }
}

fn lost(folder: &Folder, what: &str) -> Error {
    let file = folder.acknowledged();
    Error::Unusable(format!(
        "the store has lost acknowledged work and will not be used ({what}). Restore a backup into an empty folder; \
         or, to go on without what is lost, remove `{}`",
        file.display()
    ))
}

impl AcknowledgedFile {
    pub(super) fn open(folder: &Folder, at_least: Acknowledged) -> Result<AcknowledgedFile> {
        let path = folder.acknowledged();
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(FILE_MODE);
        let file = options.open(&path).map_err(|error| unusable(&path, "cannot be opened", &error))?;
        let file = AcknowledgedFile(file);
        file.commits(at_least.commits);
        file.size(at_least.size);
        Ok(file)
    }

    pub(super) fn remove(folder: &Folder) -> Result<()> {
        match fs::remove_file(folder.acknowledged()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(unusable(&folder.acknowledged(), "cannot be removed", &error))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn commits(&self, commits: u64) {
        self.write(commits, 0);
    }

    pub(super) fn size(&self, size: u64) {
        self.write(size, SIZE_AT);
    }

    /// If writing fails, the number is only too low: the commit is valid anyway.
    fn write(&self, number: u64, at: u64) {
        let text = format!("{number:0WIDTH$}\n");
        if let Err(error) = self.0.write_all_at(text.as_bytes(), at) {
            tracing::warn!(%error, "the number of acknowledged commits could not be written");
        }
    }
}

/// Writes the final file size when everything else is closed.
#[derive(Debug)]
pub(super) struct SizeAtClose {
    pub(super) file: Option<Arc<AcknowledgedFile>>,
    pub(super) path: PathBuf,
}

impl Drop for SizeAtClose {
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            file.size(size_of(&self.path));
        }
    }
}

pub(super) fn size_of(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |metadata| metadata.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_reads_back_what_was_written_last() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::make(dir.path()).unwrap();
        assert_eq!(Acknowledged::read(&folder), None);
        let file = AcknowledgedFile::open(&folder, Acknowledged { commits: 7, size: 4096 }).unwrap();
        file.commits(u64::MAX);
        assert_eq!(Acknowledged::read(&folder), Some(Acknowledged { commits: u64::MAX, size: 4096 }));
        file.size(8192);
        assert_eq!(Acknowledged::read(&folder), Some(Acknowledged { commits: u64::MAX, size: 8192 }));
    }
}
