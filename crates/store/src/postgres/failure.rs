//! Translates PostgreSQL's errors into the store's.

use std::time::Duration;

use tokio_postgres::error::SqlState;

use crate::Error;
pub(super) use crate::sql::backend::Moment;

/// An error that is not translated yet.
#[derive(Debug)]
pub(super) enum Failure {
    Postgres(tokio_postgres::Error),
    /// There was no answer for this long.
    Timeout(Duration),
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        Failure::Postgres(error)
    }
}

impl Failure {
    /// `None` means the connection failed.
    fn state(&self) -> Option<&SqlState> {
        match self {
            Failure::Postgres(error) => error.code(),
            Failure::Timeout(_) => None,
        }
    }

    /// The connection is lost; the server may still be running.
    pub(super) fn is_lost(&self) -> bool {
        self.state().is_none()
    }

    /// The connection must be closed: it is lost, or its server became a standby.
    pub(super) fn ends_connection(&self) -> bool {
        self.is_lost() || self.state() == Some(&SqlState::READ_ONLY_SQL_TRANSACTION)
    }

    /// A statement did not hit every row it names (see `queries`).
    pub(super) fn is_miss(&self) -> bool {
        self.state() == Some(&SqlState::DIVISION_BY_ZERO)
    }

    /// The rows themselves were refused: sending them again would not help.
    pub(super) fn is_refusal(&self) -> bool {
        // Class 22 is data that cannot be stored, class 23 a violated constraint, class 54 an exceeded limit.
        self.state()
            .is_some_and(|state| ["22", "23", "54"].iter().any(|class| state.code().starts_with(class)))
    }

    pub(super) fn is_lock_timeout(&self) -> bool {
        self.state() == Some(&SqlState::LOCK_NOT_AVAILABLE)
    }

    /// The constraint that was violated.
    pub(super) fn constraint(&self) -> Option<&str> {
        match self {
            Failure::Postgres(error) => error.as_db_error()?.constraint(),
            Failure::Timeout(_) => None,
        }
    }

    pub(super) fn reading(self) -> Error {
        self.judge(Moment::Reading)
    }

    pub(super) fn writing(self) -> Error {
        self.judge(Moment::Writing)
    }

    pub(super) fn committing(self) -> Error {
        self.judge(Moment::Committing)
    }

    pub(super) fn judge(&self, moment: Moment) -> Error {
        let why = self.to_string();
        let state = self.state().map_or("", SqlState::code);
        match (moment, state) {
            // The transaction may have been committed, whichever error this is.
            (Moment::Committing, _) => Error::Unknown(why),
            (_, DISK_FULL) => Error::Full(why),
            (_, DATA_CORRUPTED | INDEX_CORRUPTED) => {
                Error::Unusable(format!("the database is damaged ({why}): restore a backup"))
            }
            // Missing rights, or tables that are not as expected.
            (_, state) if state.starts_with("42") || state.starts_with("3F") => {
                Error::Unusable(format!("the database cannot be used as it is: {why}"))
            }
            (Moment::Connecting | Moment::Reading, _) => Error::Unreachable(why),
            (Moment::Writing, _) => Error::RolledBack(why),
        }
    }
}

const DISK_FULL: &str = "53100";
const DATA_CORRUPTED: &str = "XX001";
const INDEX_CORRUPTED: &str = "XX002";

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Postgres(error) => match error.as_db_error() {
                Some(said) => write!(f, "{} ({})", said.message(), said.code().code()),
                None => match std::error::Error::source(error) {
                    Some(cause) => write!(f, "{error}: {cause}"),
                    None => error.fmt(f),
                },
            },
            Failure::Timeout(time) => write!(f, "the database has not answered for {time:?}"),
        }
    }
}
