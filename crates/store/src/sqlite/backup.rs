//! Backup of a store, in use or not, and restore from a backup.
//!
//! Each file is copied from one snapshot, so the writer goes on meanwhile; only the write-ahead log cannot restart
//! until the copy is done. A copy is checked before it gets its final name: every page, its schema version, and that it
//! has every commit that was acknowledged before the backup began. A backup deliberately has no file with the number of
//! acknowledged commits.
//!
//! The one surprise: a restore raises the epoch of every shard far ahead. The lost store may have issued fencing tokens
//! after the backup, and none of them may equal a token of the restored store.

use std::fs;
use std::path::Path;

use punctual_core::Timestamp;
use punctual_core::ids::Epoch;
use rusqlite::backup::{Backup, StepResult};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::acknowledged::Acknowledged;
use super::connection::explain;
use super::failure::Failure;
use super::folder::{Folder, make_private, sync_entry, unusable};
use super::open::commits;
use super::queries;
use super::schema::{self, Schema};
use crate::{Error, Result};

/// What a copy contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copied {
    pub jobs: u64,
    pub bytes: u64,
}

/// Copies the store in a folder into another folder, which must be new or empty.
pub fn backup(from: &Path, to: &Path) -> Result<Copied> {
    let from = Folder::find(from)?;
    // Read before the copy begins: commits acknowledged during the copy may be missing in it.
    let acknowledged = Acknowledged::read(&from).unwrap_or_default();
    copy(&from, to, |connection, path| {
        let had = commits(connection).map_err(|failure| explain(path, failure))?;
        acknowledged.check_commits(had, &from)
    })
}

/// Makes a store from a backup, in a folder that must be new or empty.
pub fn restore(from: &Path, to: &Path, now: Timestamp) -> Result<Copied> {
    copy(&Folder::find(from)?, to, |connection, path| {
        outdate_tokens(connection, now).map_err(|failure| explain(path, failure))
    })
}

fn outdate_tokens(connection: &Connection, now: Timestamp) -> Result<(), Failure> {
    let mut statement = connection.prepare(queries::shards::EPOCHS)?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    for (shard, epoch) in rows.collect::<rusqlite::Result<Vec<(u16, u32)>>>()? {
        let Epoch(restored) = Epoch(epoch).after_restore(now);
        connection.execute(queries::shards::RESTORE, (shard, restored))?;
    }
    Ok(())
}

/// Copies both files; `finish` checks or changes the copy of the state before it gets its final name.
fn copy(from: &Folder, to: &Path, finish: impl FnOnce(&Connection, &Path) -> Result<()>) -> Result<Copied> {
    let made = !to.exists();
    let to = Folder::make(to)?;
    if !made {
        check_empty(to.path())?;
    }
    let copied = copy_files(from, &to, finish);
    if copied.is_err() {
        clear(&to, made);
    }
    copied
}

fn copy_files(
    from: &Folder,
    to: &Folder,
    finish: impl FnOnce(&Connection, &Path) -> Result<()>,
) -> Result<Copied> {
    // Output is not state, and its file may have been moved away.
    if from.logs().exists() {
        copy_file(&from.logs(), &to.logs(), &schema::LOGS, |_, _| Ok(()))?;
    }
    // The state comes last: a folder without it is not taken for a store.
    let mut jobs = 0;
    copy_file(&from.state(), &to.state(), &schema::STATE, |connection, path| {
        let counted = connection.query_row(queries::shards::JOBS, [], |row| row.get::<_, i64>(0));
        jobs = counted.map_err(|error| explain(path, error.into()))?.unsigned_abs();
        finish(connection, path)
    })?;
    let size = |path: &Path| fs::metadata(path).map_or(0, |metadata| metadata.len());
    Ok(Copied { jobs, bytes: size(&to.logs()) + size(&to.state()) })
}

fn check_empty(folder: &Path) -> Result<()> {
    let entries = fs::read_dir(folder).and_then(|mut entries| entries.next().transpose());
    match entries.map_err(|error| unusable(folder, "cannot be read", &error))? {
        None => Ok(()),
        Some(_) => Err(Error::Unusable(format!(
            "`{}` is not empty: a backup or a restore never writes over anything, name another folder",
            folder.display()
        ))),
    }
}

/// Removes what a failed copy has left; the folder was empty before.
fn clear(to: &Folder, made: bool) {
    for file in [to.logs(), to.state()] {
        // Some files do not exist yet.
        let _ = fs::remove_file(file.with_extension("unfinished"));
        let _ = fs::remove_file(file);
    }
    if made {
        let _ = fs::remove_dir(to.path());
    }
}

fn copy_file(
    from: &Path,
    to: &Path,
    schema: &Schema,
    finish: impl FnOnce(&Connection, &Path) -> Result<()>,
) -> Result<()> {
    let unfinished = to.with_extension("unfinished");
    make_private(&unfinished)?;
    copy_pages(from, &unfinished).map_err(|failure| explain(from, failure))?;
    let connection = checked(&unfinished, schema).map_err(|failure| explain(from, failure))?;
    finish(&connection, from)?;
    drop(connection);
    fs::rename(&unfinished, to)
        .and_then(|()| sync_entry(to))
        .map_err(|error| unusable(to, "cannot be written", &error))
}

/// Copies all pages in one step: a copy in several steps would restart with every commit between them.
fn copy_pages(from: &Path, to: &Path) -> Result<(), Failure> {
    let source = open(from)?;
    // Leave the write-ahead log of the source in place: a node may use it, or it may hold the last commits.
    source.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    let mut target = Connection::open(to)?;
    let copied = Backup::new(&source, &mut target)?.step(-1)?;
    match copied {
        StepResult::Done => Ok(()),
        other => {
            Err(Error::Unreachable(format!("the copy could not be finished ({other:?}): try again")).into())
        }
    }
}

/// Opens a copy as one file without a log, and checks all of it.
fn checked(copy: &Path, schema: &Schema) -> Result<Connection, Failure> {
    let connection = open(copy)?;
    connection.pragma_update_and_check(None, "journal_mode", "DELETE", |_| Ok(()))?;
    schema.check_file(&connection)?;
    let found: String = connection.pragma_query_value(None, "integrity_check", |row| row.get(0))?;
    if found != "ok" {
        return Err(Error::Unusable(format!("the copy is damaged: {found}")).into());
    }
    Ok(connection)
}

fn open(path: &Path) -> Result<Connection, Failure> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(super::connection::BUSY_MAX)?;
    Ok(connection)
}
