//! The data folder: its files, and the lock that lets only one process use it.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::{Error, Result};

/// Only the owner may read the store: it contains payloads and output.
const FOLDER_MODE: u32 = 0o700;
pub(super) const FILE_MODE: u32 = 0o600;

#[derive(Debug, Clone)]
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn make(path: &Path) -> Result<Folder> {
        if !path.exists() {
            fs::create_dir_all(path).map_err(|error| unusable(path, "cannot be made", &error))?;
            fs::set_permissions(path, Permissions::from_mode(FOLDER_MODE))
                .and_then(|()| sync_entry(path))
                .map_err(|error| unusable(path, "cannot be made safely", &error))?;
        }
        Ok(Folder(path.to_owned()))
    }

    /// Finds an existing store.
    pub(super) fn find(path: &Path) -> Result<Folder> {
        let folder = Folder(path.to_owned());
        if folder.state().exists() {
            return Ok(folder);
        }
        Err(Error::Unusable(format!("`{}` has no store in it: there is no `punctual.db`", path.display())))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// All rows.
    pub(super) fn state(&self) -> PathBuf {
        self.0.join("punctual.db")
    }

    /// The output of attempts.
    pub(super) fn logs(&self) -> PathBuf {
        self.0.join("logs.db")
    }

    /// The number of acknowledged commits; see `acknowledged`.
    pub(super) fn acknowledged(&self) -> PathBuf {
        self.0.join("acknowledged")
    }

    fn lock(&self) -> PathBuf {
        self.0.join("lock")
    }
}

/// Makes an empty file that only the owner may read; SQLite would make it readable by others.
pub(super) fn make_private(path: &Path) -> Result<()> {
    let made = OpenOptions::new().append(true).create(true).mode(FILE_MODE).open(path);
    made.map(|_| ()).map_err(|error| unusable(path, "cannot be opened for writing", &error))
}

/// Syncs the parent folder, so that the new name survives a power loss.
pub(super) fn sync_entry(path: &Path) -> std::io::Result<()> {
    match path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        Some(parent) => File::open(parent)?.sync_all(),
        None => File::open(".")?.sync_all(),
    }
}

pub(super) fn unusable(path: &Path, what: &str, error: &dyn std::fmt::Display) -> Error {
    Error::Unusable(format!("`{}` {what}: {error}", path.display()))
}

/// Held while the store is open; the operating system releases it however the process ends.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

impl Lock {
    pub(super) fn take(folder: &Folder) -> Result<Lock> {
        let path = folder.lock();
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(FILE_MODE);
        let mut file = options.open(&path).map_err(|error| unusable(&path, "cannot be opened", &error))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(in_use(folder, &mut file)),
            Err(error) => return Err(unusable(&path, "cannot be locked", &error)),
        }
        write_pid(&mut file).map_err(|error| unusable(&path, "cannot be written", &error))?;
        Ok(Lock { _file: file })
    }
}

/// The number is only for people: `flock` is the lock.
fn write_pid(file: &mut File) -> std::io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

fn in_use(folder: &Folder, file: &mut File) -> Error {
    let mut pid = String::new();
    let holder = match file.read_to_string(&mut pid) {
        Ok(_) if !pid.trim().is_empty() => format!("process {}", pid.trim()),
        _ => "another process".to_owned(),
    };
    let path = folder.path().display();
    Error::Unusable(format!(
        "the data folder `{path}` is in use by {holder}: stop it, or name another folder"
    ))
}
