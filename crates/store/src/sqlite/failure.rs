//! Translates SQLite's errors into the store's.
//!
//! The one surprise: after an I/O error the store writes no more, even if the next write would succeed. A failed fsync
//! may have dropped the pages it could not write, and a second fsync would report success. Only a restart reads what
//! the disk really holds.

use std::sync::OnceLock;

use rusqlite::ErrorCode;
use rusqlite::ffi::SQLITE_IOERR_SHMSIZE;

pub(super) use crate::sql::backend::Moment;
use crate::{Error, Result};

/// An error of SQLite, or a translated error.
#[derive(Debug)]
pub(super) enum Failure {
    Sqlite(rusqlite::Error),
    Store(Error),
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Failure::Sqlite(error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Store(error)
    }
}

/// Whether the store may still be written to.
#[derive(Debug, Default)]
pub(super) struct Health(OnceLock<String>);

impl Health {
    pub(super) fn check(&self) -> Result<()> {
        match self.0.get() {
            Some(why) => Err(Error::Unusable(format!("the store has failed and must be restarted: {why}"))),
            None => Ok(()),
        }
    }

    /// Keeps only the first reason.
    pub(super) fn fail(&self, why: &str) {
        if self.0.set(why.to_owned()).is_ok() {
            tracing::error!(why, "the store has failed, nothing more is written");
        }
    }

    pub(super) fn judge(&self, failure: Failure, moment: Moment) -> Error {
        let error = match failure {
            Failure::Store(error) => return error,
            Failure::Sqlite(error) => error,
        };
        let why = error.to_string();
        let Some(code) = error.sqlite_error() else {
            return Error::Unusable(format!("the store holds a row that cannot be read: {why}"));
        };
        match code.code {
            ErrorCode::DiskFull => Error::Full(why),
            // The shared-memory file could not grow, which only a full disk causes.
            ErrorCode::SystemIoFailure if code.extended_code == SQLITE_IOERR_SHMSIZE => Error::Full(why),
            ErrorCode::SystemIoFailure => self.after_io_error(why, moment),
            ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => {
                self.fail(&why);
                Error::Unusable(damaged(&why))
            }
            ErrorCode::ReadOnly | ErrorCode::PermissionDenied => {
                Error::Unusable(format!("the store cannot be written: {why}"))
            }
            _ if moment == Moment::Reading => Error::Unreachable(why),
            _ => Error::RolledBack(why),
        }
    }

    fn after_io_error(&self, why: String, moment: Moment) -> Error {
        match moment {
            Moment::Connecting | Moment::Reading => Error::Unreachable(why),
            Moment::Writing => {
                self.fail(&why);
                Error::Unusable(format!("the store has failed and must be restarted: {why}"))
            }
            Moment::Committing => {
                self.fail(&why);
                Error::Unknown(why)
            }
        }
    }
}

fn damaged(why: &str) -> String {
    format!("the store is damaged and will not be used ({why}): restore a backup into an empty folder")
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi;

    use super::*;

    fn judge(health: &Health, code: std::ffi::c_int, moment: Moment) -> Error {
        let error = rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
        health.judge(Failure::Sqlite(error), moment)
    }

    #[test]
    fn a_failed_fsync_leaves_the_commit_unknown_and_ends_all_writing() {
        let health = Health::default();
        assert!(health.check().is_ok());
        let error = judge(&health, ffi::SQLITE_IOERR_FSYNC, Moment::Committing);
        assert!(matches!(error, Error::Unknown(_)), "{error}");
        let later = health.check().expect_err("the store wrote on after a failed fsync");
        assert!(later.to_string().contains("must be restarted"), "{later}");
    }

    #[test]
    fn a_full_disk_is_passing() {
        let health = Health::default();
        for code in [ffi::SQLITE_FULL, ffi::SQLITE_IOERR_SHMSIZE] {
            assert!(matches!(judge(&health, code, Moment::Committing), Error::Full(_)));
        }
        assert!(health.check().is_ok());
    }

    #[test]
    fn a_held_lock_is_known_to_be_rolled_back() {
        let health = Health::default();
        assert!(matches!(judge(&health, ffi::SQLITE_BUSY, Moment::Writing), Error::RolledBack(_)));
        assert!(matches!(judge(&health, ffi::SQLITE_BUSY, Moment::Reading), Error::Unreachable(_)));
        assert!(health.check().is_ok());
    }
}
