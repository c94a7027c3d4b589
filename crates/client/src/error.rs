//! Errors of requests, grouped by what the caller can do about them.

use punctual_wire::rest::Problem;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server answered and says what is wrong.
    #[error("{0}")]
    Problem(Box<Problem>),
    /// No answer, or a part of one: whether a change happened is unknown.
    #[error("no answer from {server}")]
    Unreachable { server: String, source: reqwest::Error },
    /// A streamed answer ended too early.
    #[error("{server} broke off in the middle of its answer")]
    BrokenOff { server: String },
    /// Something answers at this address, but it is not Punctual.
    #[error("{server} answered {status}, but not as Punctual does")]
    Strange { server: String, status: u16 },
}

impl Error {
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Error::Problem(problem) => Some(problem),
            _ => None,
        }
    }
}
