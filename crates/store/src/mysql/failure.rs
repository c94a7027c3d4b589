//! Translates errors of the server and the connection into the store's.
//!
//! The question is what may have been stored. Until COMMIT is sent, nothing: the transaction is known to be rolled
//! back, whatever the error. After that, only an answer of the server decides.

use crate::Error;
pub(super) use crate::sql::backend::Moment;

/// An error of the driver, a translated error, or a timeout.
#[derive(Debug)]
pub(super) enum Failure {
    Driver(mysql_async::Error),
    Store(Error),
    Timeout,
}

impl From<mysql_async::Error> for Failure {
    fn from(error: mysql_async::Error) -> Self {
        Failure::Driver(error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Store(error)
    }
}

/// What an error number of the server means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum About {
    /// Another transaction was in the way; this one was rolled back or can be.
    Contention,
    /// The row exists already.
    Duplicate,
    /// The values do not fit the columns.
    Value,
    Room,
    /// The connection was ended, or the server is going down.
    Ended,
    /// The address, the rights or the tables are wrong.
    Setup,
    Other,
}

fn about(code: u16, message: &str) -> About {
    match code {
        // Deadlock; lock wait timeout; record changed since last read; Galera certification failed.
        1213 | 1205 | 1020 | 1047 => About::Contention,
        1062 | 1586 => About::Duplicate,
        // Out of range, wrong value, null, too long, packet too large.
        1048 | 1264 | 1265 | 1292 | 1366 | 1406 | 1153 => About::Value,
        1021 | 1114 | 28 => About::Room,
        1030 | 1026 | 3 if message.contains("28") || message.contains("No space left") => About::Room,
        1053 | 1077 | 1079 | 1152 | 1158..=1161 | 1184 | 1317 | 1927 | 4031 => About::Ended,
        // Access denied, no such database, column or table, missing privilege.
        1044 | 1045 | 1049 | 1054 | 1142 | 1143 | 1146 | 1227 | 1698 => About::Setup,
        _ => About::Other,
    }
}

/// ER_LOCK_WAIT_TIMEOUT.
const LOCK_WAIT_TIMEOUT: u16 = 1205;

impl Failure {
    /// Whether the connection cannot be used any more.
    pub(super) fn ends_connection(&self) -> bool {
        match self {
            Failure::Driver(mysql_async::Error::Server(error)) => {
                about(error.code, &error.message) == About::Ended
            }
            Failure::Driver(_) | Failure::Timeout => true,
            Failure::Store(_) => false,
        }
    }

    /// Whether a row was refused, so that sending the rows one by one finds it.
    pub(super) fn is_about_rows(&self) -> bool {
        match self {
            Failure::Driver(mysql_async::Error::Server(error)) => {
                matches!(about(error.code, &error.message), About::Duplicate | About::Value)
            }
            Failure::Driver(_) | Failure::Timeout => false,
            Failure::Store(error) => matches!(error, Error::Refused { .. } | Error::Fenced { .. }),
        }
    }

    /// Whether a row stayed locked for longer than we wait. The transaction is still open.
    pub(super) fn is_lock_timeout(&self) -> bool {
        matches!(self, Failure::Driver(mysql_async::Error::Server(error)) if error.code == LOCK_WAIT_TIMEOUT)
    }

    /// The server's message about a duplicate key, which names the index. `None` means another error.
    pub(super) fn duplicate_of(&self) -> Option<&str> {
        match self {
            Failure::Driver(mysql_async::Error::Server(error))
                if about(error.code, &error.message) == About::Duplicate =>
            {
                Some(error.message.as_str())
            }
            _ => None,
        }
    }

    pub(super) fn judge(self, moment: Moment) -> Error {
        let (about, why) = match self {
            Failure::Store(error) => return error,
            Failure::Timeout => (About::Ended, "the database did not answer in time".to_owned()),
            Failure::Driver(mysql_async::Error::Server(error)) => {
                (about(error.code, &error.message), format!("{} ({})", error.message, error.code))
            }
            Failure::Driver(error) => (About::Ended, error.to_string()),
        };
        match (moment, about) {
            (_, About::Room) => Error::Full(why),
            (Moment::Connecting, About::Setup) => Error::Unusable(explained(&why)),
            (Moment::Connecting | Moment::Reading, _) => Error::Unreachable(why),
            (Moment::Committing, About::Contention) => Error::RolledBack(why),
            // The server says that the statement was not executed.
            (Moment::Committing, About::Value | About::Duplicate | About::Setup) => Error::Unreachable(why),
            (Moment::Committing, _) => Error::Unknown(why),
            (Moment::Writing, About::Contention | About::Ended) => Error::RolledBack(why),
            (Moment::Writing, _) => Error::Unreachable(why),
        }
    }
}

fn explained(why: &str) -> String {
    format!("the database cannot be used: {why}. Correct the address, or what its user may do")
}

#[cfg(test)]
mod tests {
    use mysql_async::ServerError;

    use super::*;

    fn said(code: u16, message: &str, moment: Moment) -> Error {
        let (message, state) = (message.to_owned(), "HY000".to_owned());
        let error = mysql_async::Error::Server(ServerError { code, message, state });
        Failure::Driver(error).judge(moment)
    }

    fn lost(moment: Moment) -> Error {
        Failure::Driver(mysql_async::DriverError::ConnectionClosed.into()).judge(moment)
    }

    #[test]
    fn a_lost_connection_leaves_only_a_commit_unknown() {
        assert!(matches!(lost(Moment::Writing), Error::RolledBack(_)));
        assert!(matches!(lost(Moment::Committing), Error::Unknown(_)));
        assert!(matches!(lost(Moment::Reading), Error::Unreachable(_)));
        assert!(matches!(Failure::Timeout.judge(Moment::Committing), Error::Unknown(_)));
    }

    #[test]
    fn a_deadlock_and_a_lock_timeout_are_rolled_back() {
        for code in [1213, 1205] {
            assert!(matches!(said(code, "", Moment::Writing), Error::RolledBack(_)));
        }
        assert!(matches!(said(1213, "", Moment::Committing), Error::RolledBack(_)));
        assert!(matches!(said(1180, "", Moment::Committing), Error::Unknown(_)));
    }

    #[test]
    fn a_full_disk_is_passing() {
        let no_space = "Got error 28 \"No space left on device\" from storage engine InnoDB";
        for (code, message) in [(1021, ""), (1114, "The table 'runs' is full"), (1030, no_space)] {
            assert!(matches!(said(code, message, Moment::Writing), Error::Full(_)), "{code}");
        }
        assert!(matches!(said(1030, "Got error 1", Moment::Writing), Error::Unreachable(_)));
    }

    #[test]
    fn a_killed_connection_is_not_used_again() {
        let killed = ServerError { code: 1927, message: String::new(), state: String::new() };
        assert!(Failure::Driver(mysql_async::Error::Server(killed)).ends_connection());
    }
}
