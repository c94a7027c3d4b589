//! Errors for the command line: one sentence, a hint, and an exit code for scripts.

use std::fmt::Display;
use std::io;
use std::process::ExitCode;

use punctual_client::Error;
use punctual_wire::rest::{Code, Problem};

use super::{DEFAULT_SERVER, tls};

#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    messages: Vec<String>,
    hint: Option<String>,
}

/// Exit codes, which scripts rely on; `punctual --help` lists them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The reader of our output closed it: not an error.
    Quiet,
    Failed,
    Usage,
    NotFound,
    Refused,
    Unreachable,
    /// That of a command that this process has run.
    OfCommand(u8),
}

impl Exit {
    fn code(self) -> u8 {
        match self {
            Exit::Quiet => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::NotFound => 3,
            Exit::Refused => 4,
            Exit::Unreachable => 5,
            Exit::OfCommand(code) => code,
        }
    }
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Display) -> Self {
        Failure { exit, messages: vec![message.to_string()], hint: None }
    }

    /// Several errors at once, as a file can have them.
    pub(crate) fn all(exit: Exit, messages: Vec<String>) -> Self {
        Failure { exit, messages, hint: None }
    }

    /// Only an exit code, without a message.
    pub(crate) fn silent(exit: Exit) -> Self {
        Failure { exit, messages: Vec::new(), hint: None }
    }

    /// For `diff`, where exit code 1 means a difference: an error gets another code.
    #[must_use]
    pub(crate) fn unlike_a_difference(mut self) -> Self {
        if self.exit == Exit::Failed {
            self.exit = Exit::Usage;
        }
        self
    }

    /// Adds what was being done when the error happened.
    #[must_use]
    pub(crate) fn about(mut self, what: impl Display) -> Self {
        for message in &mut self.messages {
            *message = format!("{what}: {message}");
        }
        self
    }

    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn io(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::silent(Exit::Quiet),
            _ => Failure::new(Exit::Failed, error),
        }
    }

    pub(crate) fn report(&self) -> ExitCode {
        for message in &self.messages {
            eprintln!("error: {message}");
        }
        if let Some(hint) = &self.hint {
            eprintln!("hint: {hint}");
        }
        ExitCode::from(self.exit.code())
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match &error {
            Error::Problem(problem) => of_problem(problem),
            Error::Unreachable { server, source } => {
                let cause = cause_of(source);
                Failure::new(Exit::Unreachable, format!("{error}: {cause}")).hint(hint_for(server, &cause))
            }
            Error::BrokenOff { .. } => {
                Failure::new(Exit::Unreachable, &error).hint("the connection broke; try again")
            }
            Error::Strange { .. } => Failure::new(Exit::Unreachable, &error)
                .hint("set --server or PUNCTUAL_SERVER to the address of a Punctual server"),
        }
    }
}

/// A hint for servers that do not answer.
pub(crate) fn hint_for(server: &str, cause: &str) -> String {
    if cause == tls::AUTHORITY_AS_SERVER {
        return format!("make one for a server: `{}`", tls::OPENSSL);
    }
    if server == DEFAULT_SERVER {
        return "`punctual dev` starts a server here; --server or PUNCTUAL_SERVER names another".to_owned();
    }
    "start the server there, or name another one that runs; --server and PUNCTUAL_SERVER take several: a:7400,b:7400"
        .to_owned()
}

fn of_problem(problem: &Problem) -> Failure {
    let exit = match problem.status {
        404 => Exit::NotFound,
        503 => Exit::Unreachable,
        400..500 => Exit::Refused,
        _ => Exit::Failed,
    };
    let failure = Failure::new(exit, problem);
    match problem.code {
        Code::NoSuchJob => {
            failure.hint("`punctual job list` shows the jobs of the namespace; `-n` selects another namespace")
        }
        Code::NoSuchRun => {
            failure.hint("`punctual run list` shows recent runs; `-n` selects another namespace")
        }
        Code::Unauthenticated => failure.hint(
            "set PUNCTUAL_TOKEN or --token-file FILE; an administrator makes a token with `punctual token add`",
        ),
        Code::Forbidden => failure.hint("use a token with that role; `punctual token list` shows the tokens"),
        Code::NoSuchToken => failure.hint("`punctual token list` shows the tokens"),
        Code::TokenExists => failure.hint("choose another name, or remove the existing token with `punctual token remove`"),
        Code::NoSuchQueue => failure.hint(
            "`punctual queue list` shows the queues of a namespace, `-n` names another; a message makes a new one",
        ),
        Code::NoSuchMessage => failure.hint("it was acknowledged or deleted, or its time to live is over; `-n` selects another namespace"),
        Code::NoSuchLock => failure.hint("`punctual lock list` shows the locks that are held; `-n` selects another namespace"),
        Code::Locked => failure.hint("`punctual lock show NAME` shows who waits for it; a longer --wait waits too"),
        Code::QueuePaused => failure.hint("`punctual queue resume QUEUE` ends the pause"),
        Code::NoSuchRevision => failure.hint("`punctual job revisions JOB` shows the revisions"),
        Code::NotADeadLetter | Code::NoSuchDeadLetter => {
            failure.hint("`punctual dlq list` shows the dead letters")
        }
        Code::NoSuchCalendar => {
            failure.hint("`punctual calendar list` shows the calendars of the namespace; `-n` selects another namespace")
        }
        Code::NoSuchHold => failure.hint("`punctual hold` shows the holds that cover a namespace, `-n` names another"),
        Code::NoSuchDescriptor => failure
            .hint("`punctual descriptor list` shows the descriptors of the namespace; `-n` selects another namespace"),
        Code::Unavailable => failure.hint("the outcome is unknown; try again, with the same key if you gave one"),
        Code::Full => failure.hint("free space on the disk of the server, then try again"),
        _ => failure,
    }
}

/// Why there was no answer, in plain words.
pub(crate) fn cause_of(error: &dyn std::error::Error) -> String {
    let cause = innermost(error);
    tls::explain(&cause).unwrap_or(cause)
}

/// The innermost error says what happened; the outer ones only say where.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(code: Code, exit: Exit) {
        assert_eq!(Failure::from(Error::Problem(Box::new(Problem::new(code, "x")))).exit, exit, "{code:?}");
    }

    #[test]
    fn exit_codes_tell_scripts_what_to_do() {
        check(Code::NoSuchJob, Exit::NotFound);
        check(Code::NoSuchRun, Exit::NotFound);
        check(Code::NoSuchRevision, Exit::NotFound);
        check(Code::NoSuchQueue, Exit::NotFound);
        check(Code::NoSuchMessage, Exit::NotFound);
        check(Code::QueuePaused, Exit::Refused);
        check(Code::QueueTooLong, Exit::Refused);
        check(Code::NoSuchLock, Exit::NotFound);
        check(Code::Locked, Exit::Refused);
        check(Code::NoSuchDeadLetter, Exit::NotFound);
        check(Code::NoSuchCalendar, Exit::NotFound);
        check(Code::NoSuchDescriptor, Exit::NotFound);
        check(Code::NoSuchHold, Exit::NotFound);
        check(Code::Unauthenticated, Exit::Refused);
        check(Code::Forbidden, Exit::Refused);
        check(Code::NoSuchToken, Exit::NotFound);
        check(Code::CalendarInUse, Exit::Refused);
        check(Code::Invalid, Exit::Refused);
        check(Code::JobExists, Exit::Refused);
        check(Code::WrongRevision, Exit::Refused);
        check(Code::TooManyRuns, Exit::Refused);
        check(Code::Unavailable, Exit::Unreachable);
        check(Code::Full, Exit::Failed);
        check(Code::Internal, Exit::Failed);
    }
}
